"""ALBERT (arXiv 1909.11942), and its weights from a BERT teacher of the same width and depth."""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AlbertConfig, PretrainedConfig, PreTrainedModel

from common.errors import UserError
from common.output_layer import output_layer
from students.activations import Activations
from students.mapping import ALBERT_LAYER
from students.presets import SHARED_PARTS, StudentConfig
from students.weights import check_same_width, copy_layer, copy_mean, same_head

VOCABULARY_SHARE = 0.1
"""Weight, beside the text, of the whole vocabulary taken evenly: pieces that the text lacks must not be lost."""


def configuration(config: StudentConfig, teacher: PretrainedConfig, **head: Any) -> AlbertConfig:
    """The transformers configuration; vocabulary, positions, activation, dropouts are the teacher's.

    transformers shares whole blocks only. Where one part of them is shared, every layer is a group, and the entry
    `shared_part` says for `share` what they have in common.
    """
    if config.sharing in SHARED_PARTS:
        head = head | {"shared_part": config.sharing}
    head_dropout = teacher.classifier_dropout if teacher.classifier_dropout is not None else teacher.hidden_dropout_prob
    return AlbertConfig(
        vocab_size=teacher.vocab_size,
        max_position_embeddings=teacher.max_position_embeddings,
        type_vocab_size=teacher.type_vocab_size,
        embedding_size=cast(int, config.embedding),
        hidden_size=config.hidden,
        num_hidden_layers=config.layers,
        num_hidden_groups=config.blocks,
        inner_group_num=1,
        num_attention_heads=config.heads,
        intermediate_size=config.ffn,
        hidden_act=teacher.hidden_act,
        hidden_dropout_prob=teacher.hidden_dropout_prob,
        attention_probs_dropout_prob=teacher.attention_probs_dropout_prob,
        classifier_dropout_prob=head_dropout,
        layer_norm_eps=teacher.layer_norm_eps,
        pad_token_id=teacher.pad_token_id,
        bos_token_id=teacher.bos_token_id,
        eos_token_id=teacher.eos_token_id,
        **head,
    )


PART_MODULES = {"attention": ("attention",), "ffn": ("ffn", "ffn_output", "full_layer_layer_norm")}
"""Mode of SHARED_PARTS to the modules of an ALBERT layer that belong to it."""


def share(model: PreTrainedModel) -> PreTrainedModel:
    """Let all layers of an ALBERT have one attention or one feed-forward part, where its configuration says so.

    In place. For a model that is new, or read from a folder, which holds the shared part once a layer. Other models are
    left as they are.
    """
    albert: Any = model.base_model
    for name in PART_MODULES.get(getattr(model.config, "shared_part", ""), ()):
        groups = albert.encoder.albert_layer_groups
        for group in groups:
            setattr(group.albert_layers[0], name, getattr(groups[0].albert_layers[0], name))
    return model


def sharing_note(config: StudentConfig) -> str:
    """What a model card must say of a student that shares a part of its blocks; empty for others."""
    if config.sharing not in SHARED_PARTS:
        return ""
    part = {"attention": "attention", "ffn": "feed-forward part"}[str(config.sharing)]
    return (
        f"All {config.layers} layers have one {part}. transformers' ALBERT cannot say so, hence the weights file holds "
        "it once a layer, is larger than the parameters need, and fine-tuning with transformers alone lets the copies "
        "drift apart."
    )


@torch.no_grad()
def factorise(
    student: PreTrainedModel, teacher: PreTrainedModel, config: StudentConfig, activations: Activations | None
) -> None:
    """Fill the student, in place: factorised embeddings, blocks, pooler and (where the labels agree) classifier.

    Block g is the mean of its share of `config.teacher_layers`, which are dealt out in order: all layers for the mean,
    one layer for a copy of it. A part that all blocks share is the mean of all of them.

    Raises:
        UserError: another width or FFN than the teacher's, or E over the width.
    """
    check_factorised(config, teacher.config)
    ours: Any = student.base_model
    theirs: Any = teacher.base_model
    factorise_embeddings(ours, theirs, activations)
    chosen = config.teacher_layers or ()
    share = len(chosen) // config.blocks
    for group, block in enumerate(ours.encoder.albert_layer_groups):
        sources = [theirs.encoder.layer[index] for index in chosen[group * share : (group + 1) * share]]
        copy_layer(block.albert_layers[0], sources, ALBERT_LAYER)
    _fill_shared_part(ours, [theirs.encoder.layer[index] for index in chosen])
    if theirs.pooler is not None and ours.pooler is not None:
        copy_mean(ours.pooler, [theirs.pooler.dense])
    if same_head(student, teacher):
        copy_mean(output_layer(student), [output_layer(teacher)])


def _fill_shared_part(albert: Any, sources: list[nn.Module]) -> None:
    modules = PART_MODULES.get(getattr(albert.config, "shared_part", ""), ())
    names = {theirs: ours for theirs, ours in ALBERT_LAYER.items() if ours.split(".")[0] in modules}
    copy_layer(albert.encoder.albert_layer_groups[0].albert_layers[0], sources, names)


@torch.no_grad()
def factorise_embeddings(albert: Any, bert: Any, activations: Activations | None) -> None:
    """E tables and the map E -> H for which ALBERT's projected embedding output is near BERT's embedding output.

    BERT gives g * n(x) + b, with x the sum of three rows, and n centring it and dividing it by its deviation. ALBERT
    gives M n(z) + m, z in E. Let V be the leading E - 1 right singular vectors of g * n(x) over the text: V V^T is the
    best view of that rank, and all it needs of x is Q^T x, Q an orthonormal basis of the centred columns of g * V. Laid
    into the E - 1 dimensions in which n's own centring changes nothing, that is z. Its length is that of the centred x
    but for what lies outside Q, so n(z) has the right proportions. M and m follow by least squares over the text:
    `activations.places`, or without them every piece of the vocabulary once.
    """
    tables = {name: getattr(bert.embeddings, name).weight.float().cpu() for name in TABLES}
    gain, offset = (getattr(bert.embeddings.LayerNorm, name).float().cpu() for name in ("weight", "bias"))
    centred = {name: table - table.mean(1, keepdim=True) for name, table in tables.items()}
    size, epsilon = albert.config.embedding_size, bert.config.layer_norm_eps
    places, weights = _weighted_places(tables, activations)
    wanted = gain * F.layer_norm(_rows(centred, places), gain.shape, eps=epsilon)
    _, vectors = torch.linalg.eigh((wanted.T * weights @ wanted).double())
    reads = gain[:, None].double() * vectors[:, -(size - 1) :]
    basis = _centred_basis(size)
    inward = torch.linalg.qr(reads - reads.mean(0)).Q.float() @ basis.T
    small = {name: table @ inward for name, table in centred.items()}
    # Within the basis: n(z) has no part outside it, and a free direction would come out as anything, however large.
    seen = F.layer_norm(_rows(small, places), (size,), eps=epsilon) @ basis
    outward, shift = _regress(seen, wanted + offset, weights)
    for name, table in small.items():
        getattr(albert.embeddings, name).weight.copy_(table)
    nn.init.ones_(albert.embeddings.LayerNorm.weight)
    nn.init.zeros_(albert.embeddings.LayerNorm.bias)
    albert.encoder.embedding_hidden_mapping_in.weight.copy_((basis @ outward).T)
    albert.encoder.embedding_hidden_mapping_in.bias.copy_(shift)


TABLES = ("word_embeddings", "token_type_embeddings", "position_embeddings")
"""In the order of the columns of `Activations.places`."""


def _rows(tables: dict[str, Tensor], places: Tensor) -> Tensor:
    return sum((table[places[:, column]] for column, table in enumerate(tables.values())), torch.zeros(()))


def _weighted_places(tables: dict[str, Tensor], activations: Activations | None) -> tuple[Tensor, Tensor]:
    """(token, segment, position) of the samples, and their weights, which sum to 1."""
    vocabulary, positions = len(tables["word_embeddings"]), min(64, len(tables["position_embeddings"]))
    tokens = torch.arange(vocabulary)
    sweep = torch.stack([tokens, torch.zeros_like(tokens), tokens % positions], dim=1)
    even = torch.full((vocabulary,), 1.0 / vocabulary)
    if activations is None:
        return sweep, even
    text = activations.counts / activations.counts.sum()
    return torch.cat([activations.places, sweep]), torch.cat([text * (1 - VOCABULARY_SHARE), even * VOCABULARY_SHARE])


def _regress(inputs: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted least squares: the matrix and the constant for which inputs @ matrix + constant is near the targets."""
    inputs = F.pad(inputs, (0, 1), value=1.0).double()
    square = inputs.T * weights @ inputs
    # The ridge only decides where there are fewer samples than dimensions.
    square.diagonal().add_(1e-9 * square.diagonal().mean())
    solution = torch.linalg.solve(square, inputs.T * weights @ targets.double()).float()
    return solution[:-1], solution[-1]


def _centred_basis(size: int) -> Tensor:
    """Orthonormal columns that each sum to 0, shape (size, size - 1)."""
    start = torch.cat([torch.ones(size, 1), torch.eye(size)[:, : size - 1]], dim=1)
    return torch.linalg.qr(start.double()).Q[:, 1:].float()


def check_factorised(config: StudentConfig, teacher: PretrainedConfig) -> None:
    """Raise UserError unless an ALBERT of this shape can start from this teacher."""
    check_same_width(config, teacher)
    if config.embedding is not None and config.embedding > config.hidden:
        raise UserError(
            f"student {config.name!r} cannot start from its teacher: embedding {config.embedding} is over the width "
            f"{config.hidden}. Choose a smaller one, or --start random"
        )
