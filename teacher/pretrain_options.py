"""Groups of options of the pretraining command: shape, schedule, and what it goes on from."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from teacher.tokenizer import POSITIONS

SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
"""Layers and hidden width; heads are hidden / 64 and the feed-forward part is 4 x hidden wide."""


@dataclass(frozen=True, kw_only=True)
class ShapeOptions:
    """The shape, where it is not to be that of --size."""

    layers: int | None = None
    """Layers. None: those of --size."""
    hidden: int | None = None
    """Width of the hidden states. None: that of --size."""
    heads: int | None = None
    """Attention heads, which divide the width. None: one for each 64 of it."""
    ffn: int | None = None
    """Units of the feed-forward part. None: four times the width."""

    @property
    def given(self) -> list[str]:
        """The options that are set, by flag."""
        return [f"--{name}" for name, value in vars(self).items() if value is not None]

    def resolved(self, layers: int, hidden: int) -> tuple[int, int, int, int]:
        """Layers, width, heads and feed-forward width, of a size with so many layers and such a width."""
        hidden = self.hidden or hidden
        return self.layers or layers, hidden, self.heads or hidden // 64, self.ffn or 4 * hidden

    def problems(self, hidden: int) -> list[str]:
        """What is wrong with them, for a size of that width."""
        sizes = {name: size for name, size in vars(self).items() if size is not None}
        found = [f"--{name} {size}: expected 1 or more" for name, size in sizes.items() if size < 1]
        if found:
            return found
        hidden = self.hidden or hidden
        if self.heads is None and hidden % 64:
            return [f"--hidden {hidden}: no multiple of 64, so give --heads too (a number that divides it)"]
        if self.heads is not None and hidden % self.heads:
            return [f"--heads {self.heads}: does not divide the width {hidden}"]
        return []


@dataclass(frozen=True, kw_only=True)
class ScheduleOptions:
    """The course of the training."""

    warmup: float = 0.1
    """Share of the steps in which the rate rises from 0."""
    long_length: int | None = None
    """Longest input of a second phase, which ends the training (BERT: 512 after 128). Its batches hold as many pieces
    as those before, so fewer inputs; the learning rate runs on through both. None: there is one phase."""
    long_share: float = 0.1
    """Of all steps, how many belong to the second phase."""
    evaluate_every: int | None = None
    """Steps between evaluations on held-out text, whose figures go to history.jsonl. Where an earlier one was better
    than the last, its weights are written too, to OUT/best. None: only at the end."""
    activation_checkpointing: bool = False
    """Keep only the inputs of layers, and compute the rest again on the way back: larger batches fit into memory, for
    about a third more time. The result is the same."""
    tensorboard: Path | None = None
    """Folder for the curves as TensorBoard scalars, outside OUT; needs the package tensorboard."""

    def problems(self, length: int) -> list[str]:
        """What is wrong with them, for a first phase of that length."""
        found = []
        if not 0 <= self.warmup < 1:
            found.append(f"--warmup {self.warmup}: expected a share from 0 to below 1")
        if self.long_length is not None and not length < self.long_length <= POSITIONS:
            found.append(f"--long-length {self.long_length}: expected more than --length {length}, up to {POSITIONS}")
        if not 0 < self.long_share < 1:
            found.append(f"--long-share {self.long_share}: expected a share between 0 and 1")
        elif self.long_length is None and self.long_share != type(self).long_share:
            found.append("--long-share is about the second phase: give --long-length too, or leave it out")
        if self.evaluate_every is not None and self.evaluate_every < 1:
            found.append(f"--evaluate-every {self.evaluate_every}: expected at least 1 step")
        return found


@dataclass(frozen=True, kw_only=True)
class StartOptions:
    """An encoder to go on from, instead of random weights."""

    source: Annotated[str | None, tyro.conf.arg(name="from")] = None
    """A model folder, a hub id, or minilm: BERT, RoBERTa, XLM-R, ELECTRA, ALBERT or DistilBERT. Its shape and its
    tokenizer are kept; a head for masked pieces that it lacks is new. Needs --objective mlm."""
    extend_vocabulary: int | None = None
    """Add so many words of the text, those whose pieces are the most in all, to the tokenizer of --from, which must be
    a WordPiece one. New rows start as the mean of the pieces they replace."""

    def problems(self) -> list[str]:
        """What is wrong with them."""
        if self.extend_vocabulary is None:
            return []
        if self.source is None:
            return ["--extend-vocabulary: there is nothing to extend without --from. Use --vocabulary"]
        if self.extend_vocabulary < 1:
            return [f"--extend-vocabulary {self.extend_vocabulary}: expected at least 1"]
        return []


_WITHOUT_EFFECT = ("activation_checkpointing", "tensorboard")
"""On what is learned."""


def changed(*groups: StartOptions | ShapeOptions | ScheduleOptions) -> dict[str, Any]:
    """What of them decides the weights and is not at its default: folders from before there were any stay valid."""
    return {
        "from" if entry.name == "source" else entry.name: getattr(group, entry.name)
        for group in groups
        for entry in dataclasses.fields(group)
        if entry.name not in _WITHOUT_EFFECT and getattr(group, entry.name) != entry.default
    }
