"""The families of encoders that a teacher may be of, and what can be seen inside each."""

from collections.abc import Mapping
from dataclasses import dataclass

from transformers import PretrainedConfig

from common.errors import UserError
from common.pooled import family_type, plain_type


@dataclass(frozen=True, kw_only=True)
class Family:
    """What sets the encoders of one model type apart from BERT."""

    title: str
    """For people."""
    offset: bool = False
    """Positions count from the padding's id + 1 on, as fairseq counts them."""
    positions: bool = True
    """It has a table of positions, which limits the length of inputs; else they are relative or rotary."""
    segments: int | None = None
    """Segments of a pair that its tokenizer tells apart; None: as many as its configuration says."""
    scores: bool = True
    """Its attention scores are products of queries and keys; disentangled attention adds terms of the positions."""


FAMILIES: Mapping[str, Family] = {
    "bert": Family(title="BERT"),
    "roberta": Family(title="RoBERTa", offset=True),
    "xlm-roberta": Family(title="XLM-R", offset=True),
    "camembert": Family(title="CamemBERT", offset=True),
    "electra": Family(title="ELECTRA"),
    "distilbert": Family(title="DistilBERT", segments=1),
    "albert": Family(title="ALBERT"),
    "deberta": Family(title="DeBERTa", positions=False, segments=2, scores=False),
    "deberta-v2": Family(title="DeBERTa v2/v3", positions=False, segments=2, scores=False),
    "modernbert": Family(title="ModernBERT", positions=False, segments=1),
}
"""By model_type."""


def family_of(config: PretrainedConfig) -> Family:
    """The family of a teacher.

    Raises:
        UserError: none that is known, or a decoder.
    """
    if plain_type(config) not in FAMILIES:
        raise UserError(
            f"the teacher's model_type is {config.model_type!r}: teachers are of {', '.join(FAMILIES)}; choose another "
            "--teacher"
        )
    if getattr(config, "is_decoder", False):
        raise UserError("the teacher is a decoder (is_decoder is true): students are made from encoders only")
    return FAMILIES[plain_type(config)]


def max_length(config: PretrainedConfig) -> int:
    """The longest sequence that a model takes, in pieces; RoBERTa's positions begin after the padding index."""
    positions = int(config.max_position_embeddings)
    family = FAMILIES.get(family_type(config))
    return positions - int(config.pad_token_id or 0) - 1 if family is not None and family.offset else positions


def local_layers(config: PretrainedConfig, length: int) -> tuple[int, ...]:
    """Layers, counted from 1, whose pieces do not see all others in texts of `length` pieces: ModernBERT's local ones.

    There `sliding_window` is how far a piece sees to either side.
    """
    kinds = getattr(config, "layer_types", None) or ()
    if length <= int(getattr(config, "sliding_window", 0) or 0) + 1:
        return ()
    return tuple(layer for layer, kind in enumerate(kinds, start=1) if kind == "sliding_attention")


def scored_layers(config: PretrainedConfig, length: int) -> frozenset[int]:
    """Layers, counted from 1, whose attention over texts of `length` pieces is that of all their queries and keys.

    None of DeBERTa's, and not ModernBERT's local ones where texts reach beyond what these see.
    """
    family = FAMILIES.get(plain_type(config))
    if family is not None and not family.scores:
        return frozenset()
    return frozenset(range(1, config.num_hidden_layers + 1)) - set(local_layers(config, length))
