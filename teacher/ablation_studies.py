"""The studies of pretraining: which encoders each compares, in what they differ, and what a reader must know."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.words import counted
from teacher.features import WEIGHTED
from teacher.pretrain_config import SIZES
from teacher.pretrain_options import ShapeOptions


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One row of a study."""

    name: str
    description: str
    """What is done, in words."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Options of its pretraining that are not the study's common ones."""
    view: str | None = None
    """A key of teacher.features.VIEWS: how its frozen states are read. None: it is fine-tuned."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A study before it is done; all its variants are compared with the first."""

    name: str
    title: str
    question: str
    variants: tuple[Variant, ...]
    notes: tuple[str, ...] = ()


_LAST_PIECE = (
    "Left to right, [CLS] sees only itself: there the classifier reads the state of the last piece, which has seen the "
    "whole text, with BERT's pooler and output layer. No BiLSTM is put on top, which the paper tries in a row of its "
    "own."
)
_FROZEN = (
    "Frozen: a text is the mean of its states over its pieces, each entry standardised by the training texts, and a "
    "linear layer learns the task on that. The paper reads the features with a BiLSTM."
)


def _objective(size: str, depths: Sequence[int]) -> Plan:
    """BERT, arXiv 1810.04805, section 5.1 and table 5."""
    return Plan(
        name="objective",
        title="Objective",
        question="What is the next sentence worth, and what is it worth to see both directions? (BERT, table 5)",
        variants=(
            Variant(name="MLM + NSP", description="masked pieces and next sentence, on pairs"),
            Variant(name="MLM, no NSP", description="masked pieces, on packed sentences", changes={"objective": "mlm"}),
            Variant(
                name="left to right, no NSP",
                description="next pieces, causal attention, on packed sentences",
                changes={"objective": "ltr"},
            ),
        ),
        notes=(
            _LAST_PIECE,
            "The pooler comes from next-sentence prediction; where there is none it is new.",
            "Masked pieces and next pieces are different questions: the losses of the two don't compare.",
        ),
    )


def _depth(size: str, depths: Sequence[int]) -> Plan:
    """BERT, arXiv 1810.04805, section 5.2 and table 6."""
    layers, hidden = SIZES[size]
    return Plan(
        name="depth",
        title="Depth",
        question="Is deeper better? (BERT, table 6)",
        variants=tuple(
            Variant(
                name=counted(depth, "layer"),
                description=f"{counted(depth, 'layer')} of {hidden}",
                # As deep as the size itself, an encoder is that of the other studies.
                changes={} if depth == layers else {"shape": ShapeOptions(layers=depth)},
            )
            for depth in depths
        ),
        notes=("The learning rate is the same for all depths; deeper ones may want less.",),
    )


def _masking(size: str, depths: Sequence[int]) -> Plan:
    """RoBERTa, arXiv 1907.11692, table 1, for static masks; whole words and n-grams as in later BERTs and ALBERT."""
    return Plan(
        name="masking",
        title="Masking",
        question="What should be hidden, and should it be drawn anew each time?",
        variants=(
            Variant(name="pieces, dynamic", description="any pieces, drawn anew each time"),
            Variant(
                name="whole words, dynamic",
                description="all pieces of a word, drawn anew each time",
                changes={"masking": "whole-word"},
            ),
            Variant(
                name="n-grams, dynamic",
                description="one to three words in a row, drawn anew each time",
                changes={"masking": "ngram"},
            ),
            Variant(name="pieces, static", description="any pieces, drawn once", changes={"masks": "static"}),
        ),
        notes=(
            "Held-out figures are with pieces hidden at random, for all rows alike.",
            (
                "Static masks matter once a run passes over the same example twice: tokens against the text's size say "
                "whether it did."
            ),
        ),
    )


def _features(size: str, depths: Sequence[int]) -> Plan:
    """BERT, arXiv 1810.04805, section 5.3 and table 7."""
    layers, _ = SIZES[size]
    count = min(4, layers)
    last = f"last {('', 'one', 'two', 'three', 'four')[count]}"
    several = (
        Variant(name=f"{last}, concatenated", description="frozen", view="concatenated"),
        Variant(name=f"{last}, summed", description="frozen", view="summed"),
    )
    return Plan(
        name="features",
        title="Features",
        question="How near do frozen states come to fine-tuning? (BERT, table 7)",
        variants=(
            Variant(name="fine-tuned", description="all weights learn the task"),
            Variant(name="embeddings", description="frozen, before the first layer", view="embeddings"),
            Variant(name="last layer", description="frozen", view="last"),
            *(several if count > 1 else ()),
            Variant(name="all layers, weighted", description="frozen, the weights are learned", view=WEIGHTED),
        ),
        notes=(
            _FROZEN,
            "All rows are the same pretrained encoder.",
        ),
    )


STUDIES: dict[str, Callable[[str, Sequence[int]], Plan]] = {
    "objective": _objective,
    "depth": _depth,
    "masking": _masking,
    "features": _features,
}
"""Name to what plans it, for a size and the depths asked for."""
