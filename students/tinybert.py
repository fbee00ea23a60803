"""TinyBERT's shape (arXiv 1909.10351), and its weights cut out of a wider and deeper BERT teacher.

What is kept is what is most active on text, as Minitron does for language models (arXiv 2407.14679). What is dropped is
predicted from what is kept, by least squares over the same text, and folded into the layer that reads it.
"""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import BertConfig, PretrainedConfig, PreTrainedModel

from common.errors import UserError
from common.output_layer import output_layer
from students.activations import Activations, weight_norms
from students.presets import StudentConfig
from students.weights import same_head

RIDGE = 1e-3
"""Added to the diagonal of the least squares, as a share of its mean: keeps rarely active units from extrapolating."""


def configuration(config: StudentConfig, teacher: PretrainedConfig, **head: Any) -> BertConfig:
    """The transformers configuration; everything but the shape is the teacher's."""
    return BertConfig(
        vocab_size=teacher.vocab_size,
        max_position_embeddings=teacher.max_position_embeddings,
        type_vocab_size=teacher.type_vocab_size,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        hidden_size=config.hidden,
        intermediate_size=config.ffn,
        hidden_act=teacher.hidden_act,
        hidden_dropout_prob=teacher.hidden_dropout_prob,
        attention_probs_dropout_prob=teacher.attention_probs_dropout_prob,
        classifier_dropout=teacher.classifier_dropout,
        layer_norm_eps=teacher.layer_norm_eps,
        pad_token_id=teacher.pad_token_id,
        bos_token_id=teacher.bos_token_id,
        eos_token_id=teacher.eos_token_id,
        **head,
    )


@torch.no_grad()
def prune(
    student: PreTrainedModel, teacher: PreTrainedModel, config: StudentConfig, activations: Activations | None
) -> None:
    """Fill the student, in place, with the most active parts of the teacher's `config.teacher_layers`.

    One set of channels serves the whole network, since its layers add to one stream. Without `activations` the sizes of
    the weights stand for activity, and what is dropped is not predicted.

    Raises:
        UserError: a student that is larger than its teacher somewhere, or activations of another teacher.
    """
    check_smaller(config, teacher.config)
    layers = config.teacher_layers or ()
    bert: Any = teacher.base_model
    small: Any = student.base_model
    cut = _cut(teacher, config, activations)
    for table in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        source = getattr(bert.embeddings, table).weight.float().cpu()
        getattr(small.embeddings, table).weight.copy_(source[:, cut.channels])
    cut.norm(small.embeddings.LayerNorm, bert.embeddings.LayerNorm)
    for layer, index in zip(small.encoder.layer, layers, strict=True):
        cut.attention(layer.attention, bert.encoder.layer[index].attention, index)
        cut.feed_forward(layer, bert.encoder.layer[index], index)
    _cut_head(student, teacher, cut)


def prune_masked_head(
    student: Any, teacher: PreTrainedModel, config: StudentConfig, activations: Activations | None
) -> None:
    """Fill the student's masked-language head, in place, with the teacher's at the channels that `prune` kept.

    The table of pieces that it ends in is tied to the student's own.
    """
    cut, ours, theirs = _cut(teacher, config, activations), student.cls.predictions, cast(Any, teacher).cls.predictions
    read = cut.reading(_last(teacher.config), cut.channels)
    cut.linear(ours.transform.dense, theirs.transform.dense, cut.channels, read)
    cut.norm(ours.transform.LayerNorm, theirs.transform.LayerNorm)
    ours.bias.copy_(theirs.bias)


def _last(teacher: PretrainedConfig) -> str:
    return f"{teacher.num_hidden_layers - 1}.output"


def _cut(teacher: PreTrainedModel, config: StudentConfig, activations: Activations | None) -> "_Cut":
    activity = activations.mean_absolute if activations else weight_norms(teacher.base_model)
    _check_activity(activity, teacher.config)
    moments = activations.moments if activations else {}
    return _Cut(activity, moments, config.teacher_layers or (), config, teacher.config)


def _cut_head(student: Any, teacher: Any, cut: "_Cut") -> None:
    read = cut.reading(_last(teacher.config), cut.channels)
    pooled = student.base_model.pooler is not None
    if pooled:
        if teacher.base_model.pooler is None:
            return
        cut.linear(student.base_model.pooler.dense, teacher.base_model.pooler.dense, cut.channels, read)
    if not same_head(student, teacher):
        return
    ours, theirs = output_layer(student), output_layer(teacher)
    if pooled:
        ours.weight.copy_(theirs.weight.float().cpu()[:, cut.channels])
        ours.bias.copy_(theirs.bias)
    else:
        # It reads the last layer's states, as a pooler does.
        cut.linear(ours, theirs, torch.arange(theirs.out_features), read)


class _Cut:
    """Which channels, head dimensions and FFN units stay, and how modules are cut down to them."""

    def __init__(
        self,
        activity: Mapping[str, Tensor],
        moments: Mapping[str, Tensor],
        layers: tuple[int, ...],
        config: StudentConfig,
        teacher: PretrainedConfig,
    ) -> None:
        self.activity, self.moments, self.config, self.teacher = activity, moments, config, teacher
        stream = ["embeddings", *(f"{index}.{part}" for index in layers for part in ("attention", "output"))]
        self.channels = largest(torch.stack([activity[site] for site in stream]).sum(0), config.hidden)

    def attention(self, target: Any, source: Any, index: int) -> None:
        """Queries, keys, values and output.

        Scores are q.k / sqrt(d). The kept dimensions stand for all of q.k, so the student's division by sqrt(d_new)
        must become the teacher's by sqrt(d_old): queries times sqrt(d_new / d_old).
        """
        read = self.reading("embeddings" if index == 0 else f"{index - 1}.output", self.channels)
        pairs = self.activity[f"{index}.query"] * self.activity[f"{index}.key"]
        values = self.activity[f"{index}.context"]
        scores_dims, value_dims = self.head_dimensions(pairs, values)
        old, new = self.teacher.hidden_size // self.teacher.num_attention_heads, self.config.hidden // self.config.heads
        ours, theirs = target.self, source.self
        self.linear(ours.query, theirs.query, scores_dims, read, scale=(new / old) ** 0.5)
        self.linear(ours.key, theirs.key, scores_dims, read)
        self.linear(ours.value, theirs.value, value_dims, read)
        context = self.reading(f"{index}.context", value_dims)
        self.linear(target.output.dense, source.output.dense, self.channels, context)
        self.norm(target.output.LayerNorm, source.output.LayerNorm)

    def feed_forward(self, target: Any, source: Any, index: int) -> None:
        units = largest(self.activity[f"{index}.ffn"], self.config.ffn)
        read = self.reading(f"{index}.attention", self.channels)
        self.linear(target.intermediate.dense, source.intermediate.dense, units, read)
        self.linear(target.output.dense, source.output.dense, self.channels, self.reading(f"{index}.ffn", units))
        self.norm(target.output.LayerNorm, source.output.LayerNorm)

    def head_dimensions(self, pairs: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Indices that stay, head by head: of queries and keys together, and of values. The most active heads stay."""
        old_heads, size = self.teacher.num_attention_heads, self.config.hidden // self.config.heads
        pairs, values = pairs.view(old_heads, -1), values.view(old_heads, -1)
        heads = largest(values.sum(1), self.config.heads).tolist()
        width = values.shape[1]
        return (
            torch.cat([largest(pairs[head], size) + head * width for head in heads]),
            torch.cat([largest(values[head], size) + head * width for head in heads]),
        )

    def reading(self, site: str, kept: Tensor) -> Tensor:
        """How to see all units of `site` through the kept ones: `restore(...)` with what is known about the site."""
        return restore(self.moments.get(site), kept, len(self.activity[site]))

    @staticmethod
    def linear(target: nn.Linear, source: nn.Linear, rows: Tensor, read: Tensor, *, scale: float = 1.0) -> None:
        """Rows `rows` of a layer that now reads the kept units only. `read` comes from `reading`."""
        whole = torch.cat([source.weight, source.bias[:, None]], dim=1).float().cpu()[rows] @ read * scale
        target.weight.copy_(whole[:, :-1])
        target.bias.copy_(whole[:, -1])

    def norm(self, target: nn.LayerNorm, source: nn.LayerNorm) -> None:
        target.weight.copy_(source.weight.float().cpu()[self.channels])
        target.bias.copy_(source.bias.float().cpu()[self.channels])


def largest(values: Tensor, count: int) -> Tensor:
    """Indices of the `count` largest values, rising; of equal ones the first.

    >>> largest(torch.tensor([0.1, 0.9, 0.5, 0.9]), 2)
    tensor([1, 3])
    """
    return torch.sort(values, descending=True, stable=True).indices[:count].sort().values


def restore(moments: Tensor | None, kept: Tensor, width: int) -> Tensor:
    """The matrix M, (width + 1, kept + 1), for which [x, 1] is about M [x_kept, 1].

    Kept units and the 1 are passed through. Dropped ones are their least-squares prediction from `moments` = mean of
    [x, 1][x, 1]^T, or 0 where that is None.
    """
    matrix = torch.zeros(width + 1, len(kept) + 1)
    matrix[kept, torch.arange(len(kept))] = 1.0
    matrix[-1, -1] = 1.0
    dropped = torch.ones(width, dtype=torch.bool)
    dropped[kept] = False
    if moments is None or not dropped.any():
        return matrix
    known = torch.cat([kept, torch.tensor([width])])
    square = moments[known][:, known].double()
    square.diagonal()[:-1].add_(RIDGE * square.diagonal()[:-1].mean() + 1e-12)
    matrix[:-1][dropped] = torch.linalg.solve(square, moments[:-1][dropped][:, known].double().T).T.float()
    return matrix


def check_smaller(config: StudentConfig, teacher: PretrainedConfig) -> None:
    """Raise UserError unless a student of this shape can be cut out of this teacher."""
    limits = {
        "hidden": (config.hidden, teacher.hidden_size),
        "heads": (config.heads, teacher.num_attention_heads),
        "a head": (config.hidden // config.heads, teacher.hidden_size // teacher.num_attention_heads),
        "ffn": (config.ffn, teacher.intermediate_size),
    }
    problems = [f"{name} {ours} of {theirs}" for name, (ours, theirs) in limits.items() if ours > theirs]
    if problems:
        raise UserError(
            f"student {config.name!r} cannot be cut out of this teacher: {', '.join(problems)}. "
            "Choose a smaller student, or --start random"
        )


def _check_activity(activity: Mapping[str, Tensor], teacher: PretrainedConfig) -> None:
    found = activity.get(_last(teacher))
    if found is None or len(found) != teacher.hidden_size or f"{teacher.num_hidden_layers}.output" in activity:
        raise UserError("the activations come from a teacher of another shape: gather them from this one")
