"""Structured pruning: whole heads, feed-forward units, channels and layers leave the model, which is smaller for it.

torch-pruning's dependency graph (Fang et al. 2023, arXiv 2301.12900) says which weights go with a unit and cuts them.
What a layer read of units that go is predicted from those that stay, by least squares over training text, as in
students.tinybert.
"""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
import torch_pruning
from torch import Tensor, nn
from transformers import PreTrainedModel

from common.errors import UserError, unknown_name
from common.heads import CHOICE, head_of_model
from students.anatomy import Anatomy, anatomy
from students.importance import Loss, Seen, at_random, magnitude, taylor
from students.pruned_shape import EncoderShape, model_in_shape, shape_of
from students.ranking import Kept, ranked, to_cost
from students.tinybert import largest, restore

IMPORTANCE = ("taylor", "magnitude", "random")


def pruned(
    model: PreTrainedModel,
    batches: Sequence[Mapping[str, Tensor]],
    loss: Loss,
    *,
    parts: Collection[str],
    cost: Callable[[EncoderShape], float],
    most: float,
    importance: str = "taylor",
    even: bool = False,
    seed: int = 0,
) -> tuple[PreTrainedModel, Kept]:
    """A smaller copy of `model` of cost `most` or less, in evaluation mode on the CPU, and what of the model it is.

    Args:
        model: of a family of students.anatomy.NAMES with any head, plain or pruned before, whatever it pools.
        batches: of training examples, for importance and for the prediction of what goes.
        loss: of `model` on a batch.
        parts: of students.ranking.PARTS.
        cost: of a shape, falling as it shrinks: parameters, FLOPs, milliseconds.
        most: what it may be.
        importance: a name of IMPORTANCE.
        even: all layers lose alike (see students.ranking.ranked).
        seed: of the random control.

    Raises:
        UserError: unknown names, another family, or a target that cannot be reached.
    """
    if importance not in IMPORTANCE:
        raise unknown_name("importance", importance, IMPORTANCE)
    shape = shape_of(model)
    graph = dependency_graph(model)
    seen = taylor(model, batches, loss)
    if importance == "magnitude":
        seen = Seen(scores=magnitude(model, graph), moments=seen.moments)
    if importance == "random":
        seen = Seen(scores=at_random(model, seed), moments=seen.moments)
    kept = to_cost(shape, ranked(shape, seen.scores, parts, even=even), cost, most)
    return cut(model, kept, seen), kept


def dependency_graph(model: PreTrainedModel) -> Any:
    """torch-pruning's graph of which weights hang together."""
    ones = torch.ones((1, 1, 4) if head_of_model(model) == CHOICE else (1, 4), dtype=torch.long, device=model.device)
    inputs = dict.fromkeys(("input_ids", "attention_mask"), ones)
    gradients = [parameter.requires_grad for parameter in model.parameters()]
    try:
        # The graph is read off autograd's.
        model.requires_grad_(True)
        return torch_pruning.DependencyGraph().build_dependency(model, example_inputs=inputs)
    finally:
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.requires_grad_(gradient)


def cut(model: PreTrainedModel, kept: Kept, seen: Seen) -> PreTrainedModel:
    """The copy of `model` that has what is `kept`, in a class and a configuration that say its shape."""
    shape = shape_of(model)
    _check(kept, shape)
    whole = copy.deepcopy(model).cpu().eval()
    moments = dict(
        zip(_readers(anatomy(whole)), (seen.moments.get(layer) for layer in _readers(anatomy(model))), strict=True)
    )
    parts = anatomy(whole)
    pooler = largest(seen.scores.pooler, len(kept.hidden)).tolist() if parts.pooler is not None else []
    _predict(parts, kept, moments, shape.head_dim, pooler)
    _remove(whole, parts, kept, shape, pooler)
    smaller = model_in_shape(model, kept.shape(shape))
    smaller.load_state_dict(_renumbered(whole, parts, kept.layers))
    return smaller.eval()


def _check(kept: Kept, shape: EncoderShape) -> None:
    if not kept.layers or not kept.hidden or not all(kept.heads) or not all(kept.ffn):
        raise UserError("pruning everything of a kind leaves no model: at least one head, unit, channel and layer stay")
    if max(kept.hidden) >= shape.hidden or len(kept.heads) != len(shape.heads):
        raise UserError("what is to be kept belongs to a model of another shape")


def _readers(parts: Anatomy) -> list[nn.Linear]:
    """The linear layers that read units, in one order for models of one shape."""
    found = [parts.head] if parts.pooler is None else [parts.pooler, parts.head]
    for layer in parts.layers:
        found += [*layer.projections, layer.attention_output, layer.ffn_in, layer.ffn_out]
    return found


def _dims(heads: Sequence[int], head_dim: int) -> list[int]:
    return [head * head_dim + dim for head in heads for dim in range(head_dim)]


def _predict(
    parts: Anatomy, kept: Kept, moments: Mapping[nn.Linear, Tensor | None], head_dim: int, pooler: list[int]
) -> None:
    """In place: readers see what will go as its prediction from what stays."""
    for index, layer in enumerate(parts.layers):
        stream = moments[layer.projections[0]]
        for projection in layer.projections:
            _fold(projection, kept.hidden, stream)
        _fold(layer.ffn_in, kept.hidden, moments[layer.ffn_in])
        _fold(layer.attention_output, _dims(kept.heads[index], head_dim), moments[layer.attention_output])
        _fold(layer.ffn_out, kept.ffn[index], moments[layer.ffn_out])
    if parts.pooler is not None:
        _fold(parts.pooler, kept.hidden, moments[parts.pooler])
    _fold(parts.head, kept.hidden if parts.pooler is None else pooler, moments[parts.head])


@torch.no_grad()
def _fold(reader: nn.Linear, kept: Sequence[int], moments: Tensor | None) -> None:
    if moments is None or len(kept) == reader.in_features:
        return
    indices = torch.tensor(list(kept))
    whole = torch.cat([reader.weight, reader.bias[:, None]], dim=1).float()
    seen = whole @ restore(moments, indices, reader.in_features)
    reader.weight[:, indices] = seen[:, :-1]
    reader.bias.copy_(seen[:, -1])


def _remove(model: PreTrainedModel, parts: Anatomy, kept: Kept, shape: EncoderShape, pooler: list[int]) -> None:
    """In place, by torch-pruning: everything that goes with units that are not kept."""
    graph = dependency_graph(model)
    for index, layer in enumerate(parts.layers):
        _prune(graph, layer.projections[0], _dims(kept.heads[index], shape.head_dim))
        _prune(graph, layer.ffn_in, kept.ffn[index])
    _prune(graph, parts.layers[0].ffn_out, kept.hidden)
    if parts.pooler is not None:
        _prune(graph, parts.pooler, pooler)


def _prune(graph: Any, layer: nn.Linear, kept: Sequence[int]) -> None:
    gone = sorted(set(range(layer.out_features)) - set(kept))
    if gone:
        graph.get_pruning_group(layer, torch_pruning.prune_linear_out_channels, idxs=gone).prune()


def _renumbered(model: PreTrainedModel, parts: Anatomy, layers: Sequence[int]) -> dict[str, Tensor]:
    """The tensors of a model that keeps these layers, numbered anew."""
    prefix = f"{model.base_model_prefix}.{parts.names.layers}."
    places = {str(old): str(new) for new, old in enumerate(layers)}
    found = {}
    for name, tensor in model.state_dict().items():
        if not name.startswith(prefix):
            found[name] = tensor
            continue
        number, _, rest = name.removeprefix(prefix).partition(".")
        if number in places:
            found[f"{prefix}{places[number]}.{rest}"] = tensor
    return found
