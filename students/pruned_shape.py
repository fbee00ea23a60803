"""The shape of an encoder whose layers may differ, what it costs, and the configuration that says it."""

import copy
import dataclasses
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from common.heads import SPANS, TOKENS, head_of_model
from common.uneven import plain_class, uneven
from students.anatomy import anatomy


@dataclass(frozen=True, kw_only=True)
class EncoderShape:
    """Sizes of an encoder with a head."""

    hidden: int
    head_dim: int
    heads: tuple[int, ...]
    """Of each layer."""
    ffn: tuple[int, ...]
    """Units of each layer."""
    rows: int
    """Of all look-up tables together: pieces, positions, segments."""
    labels: int
    pooled: bool
    """There is a layer of width x width between the last states and the head."""
    everywhere: bool = False
    """The head reads every position, not one state of a text."""
    embedding: int | None = None
    """Width of the look-up tables where a map, as ELECTRA's, leads from them to the layers; None: that of the layers,
    without a map."""

    @property
    def even(self) -> bool:
        """What a family's own class can be: layers alike, the width that of the heads, a map where widths differ."""
        alike = len(set(self.heads)) == len(set(self.ffn)) == 1
        return alike and self.hidden == self.heads[0] * self.head_dim != self.embedding

    def layer_parameters(self, heads: int, ffn: int) -> int:
        """Of one layer: 4 H h d + 3 h d + H in the attention, 2 H F + F + H behind it, 4 H in two LayerNorms."""
        width = heads * self.head_dim
        return 4 * self.hidden * width + 3 * width + 2 * self.hidden * ffn + ffn + 6 * self.hidden

    @property
    def encoder_parameters(self) -> int:
        """All but the look-up tables, which pruning heads, units and layers leave as they are."""
        layers = sum(self.layer_parameters(*sizes) for sizes in zip(self.heads, self.ffn, strict=True))
        pooler = (self.hidden + 1) * self.hidden if self.pooled else 0
        start = 2 * self.hidden if self.embedding is None else (self.embedding + 1) * self.hidden + 2 * self.embedding
        return layers + start + pooler + (self.hidden + 1) * self.labels

    @property
    def unit_costs(self) -> dict[str, float]:
        """Parameters that go with one head, one unit and one channel, tables left out."""
        widths = sum(heads * self.head_dim for heads in self.heads)
        start = 2 if self.embedding is None else self.embedding + 1
        ends = start + 2 * self.hidden * self.pooled + self.labels
        channel = 4 * widths + 2 * sum(self.ffn) + 6 * len(self.ffn) + ends
        return {
            "heads": self.head_dim * (4 * self.hidden + 3),
            "ffn": 2 * self.hidden + 1,
            "hidden": channel,
        }

    @property
    def parameters(self) -> int:
        return self.encoder_parameters + self.rows * (self.embedding or self.hidden)

    def flops(self, length: int = 128) -> int:
        """Of one text, a multiply-add counted as 2: 8 L H h d + 4 L H F + 4 L^2 h d a layer, and those before and
        after.
        """
        total = 2 * self.hidden * self.labels * (length if self.everywhere else 1)
        total += 2 * self.hidden**2 if self.pooled else 0
        total += 2 * length * self.hidden * (self.embedding or 0)
        for heads, ffn in zip(self.heads, self.ffn, strict=True):
            width = heads * self.head_dim
            total += 8 * length * self.hidden * width + 4 * length * self.hidden * ffn + 4 * length**2 * width
        return total


def shape_of(model: PreTrainedModel) -> EncoderShape:
    """The shape of a model with a head, of a family that can be pruned."""
    parts = anatomy(model)
    attention: Any = parts.layers[0].projections[0]
    config: Any = model.config
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    tables = [module for module in model.base_model.modules() if isinstance(module, nn.Embedding)]
    return EncoderShape(
        hidden=attention.in_features,
        head_dim=int(head_dim),
        heads=tuple(layer.projections[0].out_features // head_dim for layer in parts.layers),
        ffn=tuple(layer.ffn_in.out_features for layer in parts.layers),
        rows=sum(table.num_embeddings for table in tables),
        labels=parts.head.out_features,
        pooled=parts.pooler is not None,
        everywhere=head_of_model(model) in (TOKENS, SPANS),
        embedding=None if parts.projection is None else parts.projection.in_features,
    )


_NOT_SETTINGS = (
    "model_type",
    "architectures",
    "heads",
    "head_dim",
    "intermediate_sizes",
    "projected",
    "transformers_version",
)


def model_in_shape(model: PreTrainedModel, shape: EncoderShape) -> PreTrainedModel:
    """A model like `model` in another shape, of random weights: of its family's own class where the shape is even."""
    names, plain = anatomy(model).names, plain_class(model)
    settings = copy.deepcopy(model.config.to_dict())
    settings = {name: value for name, value in settings.items() if name not in _NOT_SETTINGS}
    settings |= {
        names.hidden: shape.hidden,
        names.heads: max(shape.heads),
        names.ffn: max(shape.ffn),
        names.depth: len(shape.heads),
    }
    if "embedding_size" in settings:
        settings["embedding_size"] = shape.embedding or shape.hidden
        settings |= {} if shape.even else {"projected": shape.embedding is not None}
    kind: Any = plain if shape.even else uneven(plain)
    own: dict[str, Any] = {
        "heads": list(shape.heads),
        "head_dim": shape.head_dim,
        "intermediate_sizes": list(shape.ffn),
    }
    made: PreTrainedModel = kind(kind.config_class(**settings, **({} if shape.even else own)))
    return made.eval()


def in_words(shape: EncoderShape) -> str:
    """For tables: "6 layers of 384, 72 heads, 9,216 units"."""
    return (
        f"{len(shape.heads)} layer{'s' * (len(shape.heads) > 1)} of {shape.hidden}, {sum(shape.heads):,} heads of "
        f"{shape.head_dim}, {sum(shape.ffn):,} units"
    )


def with_sizes(shape: EncoderShape, *, hidden: int, heads: tuple[int, ...], ffn: tuple[int, ...]) -> EncoderShape:
    """The same model with these sizes; one entry a layer that stays."""
    return dataclasses.replace(shape, hidden=hidden, heads=heads, ffn=ffn)
