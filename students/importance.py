"""How much each head, feed-forward unit, channel and layer of an encoder matters.

First-order Taylor: put a gate xi = 1 on a unit's output x; then dL/dxi = sum x dL/dx is, to first order, what the loss
changes by without the unit. Its square, averaged over training examples, is the unit's importance (Molchanov et al.
2019, arXiv 1906.10771, equation 6, with gates). Squares of many small units that are about independent add up to that
of all of them, so that a head compares with as many feed-forward units as cost the same; absolute values (Michel et
al. 2019, arXiv 1905.10650, equation 2) would make the units look several times more important.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch_pruning
from torch import Tensor, nn
from transformers import PreTrainedModel

from common.errors import UserError
from students.anatomy import Anatomy, anatomy
from students.pruned_shape import shape_of

Loss = Callable[[Mapping[str, Tensor]], Tensor]
"""From a batch to the task's loss of the model on it, a mean over examples."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Importance of every unit; comparable within a kind and between kinds."""

    heads: tuple[Tensor, ...]
    """Of each layer, (heads,)."""
    ffn: tuple[Tensor, ...]
    """Of each layer, (units,)."""
    hidden: Tensor
    """(channels,)."""
    layers: Tensor
    """(layers,)."""
    pooler: Tensor
    """Of the units before the classifier, (channels,); they are no channels, but as many."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a pass over training batches showed."""

    scores: Scores
    moments: Mapping[nn.Module, Tensor] = field(default_factory=dict)
    """Linear layer to the mean of [x, 1] [x, 1]^T over its inputs x at real tokens, (in + 1, in + 1)."""


def taylor(model: PreTrainedModel, batches: Sequence[Mapping[str, Tensor]], loss: Loss) -> Seen:
    """Scores by first-order Taylor, and the moments of what every prunable unit is read by.

    The model is used in evaluation mode; its mode and gradients are left as they were.

    Raises:
        UserError: no batches, or a family that cannot be pruned.
    """
    if not batches:
        raise UserError("no batch to see importance on: give one or more")
    parts, training = anatomy(model), model.training
    gates = _Gates(parts, shape_of(model).head_dim)
    model.eval()
    try:
        with gates.watching(), _differentiated(parts.norm) as first:
            for batch in batches:
                gates.start(batch["attention_mask"].bool())
                # Every gate lies between this weight and the loss; no gradient of another weight is computed.
                torch.autograd.grad(loss(batch), first)
    finally:
        model.train(training)
    return Seen(scores=gates.scores(), moments=gates.means())


@contextlib.contextmanager
def _differentiated(norm: nn.Module) -> Iterator[nn.Parameter]:
    """The weight of the norm, which gradients go to within the block, also where the model is frozen."""
    weight = next(norm.parameters())
    before = weight.requires_grad
    weight.requires_grad_(True)
    try:
        yield weight
    finally:
        weight.requires_grad_(before)


class _Gates:
    """Sums of (dL/dxi)^2 over examples, site by site, and of [x, 1] [x, 1]^T over real tokens."""

    def __init__(self, parts: Anatomy, head_dim: int) -> None:
        self.parts, self.head_dim = parts, head_dim
        self.mask = torch.zeros(0)
        self.batch = self.examples = 0
        self.sums: dict[tuple[str, int], Tensor] = {}
        self.moments: dict[nn.Module, Tensor] = {}
        self.tokens: dict[nn.Module, int] = {}

    def start(self, mask: Tensor) -> None:
        """Before a batch with this mask, (examples, length) or (examples, choices, length)."""
        self.batch = len(mask)
        self.examples += self.batch
        self.mask = mask.flatten(0, -2)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        parts = self.parts
        handles = [parts.norm.register_forward_hook(self._output("stream", 0))]
        for index, layer in enumerate(parts.layers):
            handles += [
                layer.attention_output.register_forward_pre_hook(self._input("heads", index)),
                layer.ffn_out.register_forward_pre_hook(self._input("ffn", index)),
                layer.attention_norm.register_forward_hook(self._output("stream", 2 * index + 1)),
                layer.ffn_norm.register_forward_hook(self._output("stream", 2 * index + 2)),
                layer.whole.register_forward_hook(self._whole(index)),
                layer.projections[0].register_forward_pre_hook(self._reads),
                layer.ffn_in.register_forward_pre_hook(self._reads),
            ]
        handles.append(parts.head.register_forward_pre_hook(self._input("pooler", 0)))
        if parts.pooler is not None:
            handles.append(parts.pooler.register_forward_pre_hook(self._reads))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _input(self, site: str, index: int) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            self._reads(module, inputs)
            self._gate(site, index, inputs[0], inputs[0].detach())

        return hook

    def _output(self, site: str, index: int) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        return lambda module, inputs, output: self._gate(site, index, output, output.detach())

    def _whole(self, index: int) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        """A layer without effect hands its input on: its gate is on the difference."""
        return lambda module, inputs, output: self._gate("layers", index, output, (output - inputs[0]).detach())

    def _gate(self, site: str, index: int, at: Tensor, part: Tensor) -> None:
        """Once the gradient of `at` is there: the product with `part`, summed over all but examples and units."""
        if not at.requires_grad:
            return

        def add(gradient: Tensor) -> None:
            # The loss is a mean over the examples of the batch; the choices of one stand in rows of their own.
            product = (gradient * part * self.batch).float()
            product = product.reshape(self.batch, -1, product.shape[-1]).sum(1)
            if site == "heads":
                product = product.unflatten(1, (-1, self.head_dim)).sum(-1)
            if site == "layers":
                product = product.sum(1, keepdim=True)
            self.sums[site, index] = self.sums.get((site, index), 0) + product.square().sum(0)

        at.register_hook(add)

    def _reads(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x = inputs[0].detach().float()
        x = x[self.mask] if x.dim() == 3 else x
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        self.moments[module] = self.moments.get(module, 0) + x.T @ x
        self.tokens[module] = self.tokens.get(module, 0) + len(x)

    def scores(self) -> Scores:
        count = len(self.parts.layers)
        of = {key: total.cpu() / self.examples for key, total in self.sums.items()}
        return Scores(
            heads=tuple(of["heads", index] for index in range(count)),
            ffn=tuple(of["ffn", index] for index in range(count)),
            hidden=torch.stack([of["stream", index] for index in range(2 * count + 1)]).sum(0),
            layers=torch.cat([of["layers", index] for index in range(count)]),
            pooler=of["pooler", 0],
        )

    def means(self) -> dict[nn.Module, Tensor]:
        return {module: (total / self.tokens[module]).cpu() for module, total in self.moments.items()}


def magnitude(model: PreTrainedModel, graph: Any) -> Scores:
    """Scores by size: the sum of squares of all weights of linear layers that go with a unit.

    `graph` is the torch_pruning.DependencyGraph of the model, whose groups say which weights those are.
    """
    parts, head_dim = anatomy(model), shape_of(model).head_dim
    measure = torch_pruning.importance.GroupMagnitudeImportance(
        p=2, group_reduction="sum", normalizer=None, target_types=[nn.Linear]
    )

    def score(layer: nn.Linear) -> Tensor:
        group = graph.get_pruning_group(
            layer, torch_pruning.prune_linear_out_channels, idxs=list(range(layer.out_features))
        )
        return measure(group).detach().cpu()

    hidden = score(parts.layers[-1].ffn_out)
    return Scores(
        heads=tuple(score(layer.projections[0]).view(-1, head_dim).sum(1) for layer in parts.layers),
        ffn=tuple(score(layer.ffn_in) for layer in parts.layers),
        hidden=hidden,
        layers=torch.stack([_squares(layer.whole) for layer in parts.layers]),
        pooler=hidden if parts.pooler is None else score(parts.pooler),
    )


def _squares(module: nn.Module) -> Tensor:
    layers = [part for part in module.modules() if isinstance(part, nn.Linear)]
    return torch.stack([layer.weight.detach().float().square().sum() for layer in layers]).sum().cpu()


def at_random(model: PreTrainedModel, seed: int) -> Scores:
    """A control: for what it costs, every unit is as important as a number drawn evenly from [0, 1) says."""
    shape, generator = shape_of(model), torch.Generator().manual_seed(seed)
    costs = shape.unit_costs

    def draw(count: int, kind: str) -> Tensor:
        return torch.rand(count, generator=generator) * costs[kind]

    layers = [shape.layer_parameters(*sizes) for sizes in zip(shape.heads, shape.ffn, strict=True)]
    return Scores(
        heads=tuple(draw(count, "heads") for count in shape.heads),
        ffn=tuple(draw(count, "ffn") for count in shape.ffn),
        hidden=draw(shape.hidden, "hidden"),
        layers=torch.rand(len(layers), generator=generator) * torch.tensor(layers),
        pooler=draw(shape.hidden, "hidden"),
    )
