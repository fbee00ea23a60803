"""Two phases of a run, each with batches of its own: short texts for most of the steps, long ones for the last."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from teacher.batches import Batches


@dataclass(frozen=True, kw_only=True)
class Phases(Batches):
    """The first `switch` batches of a run are those of `first`, the others those of `second` from its beginning.

    An index counts through the examples of both. An epoch, where one is asked for, is one of `first`.
    """

    first: Batches
    second: Batches
    switch: int

    @property
    def steps_per_epoch(self) -> int:
        return self.first.steps_per_epoch

    def plan(self, epoch: int) -> list[np.ndarray]:
        return self.first.plan(epoch)

    def from_batch(self, start: int) -> Iterator[np.ndarray]:
        if start < self.switch:
            yield from itertools.islice(self.first.from_batch(start), self.switch - start)
        offset = len(self.first.lengths)
        for batch in self.second.from_batch(max(0, start - self.switch)):
            yield batch + offset


def in_phases(first: Batches, second: Batches, switch: int) -> Phases:
    """Batches that turn from `first` to `second` at batch number `switch`."""
    offset = len(first.lengths)

    def collate(indices: Sequence[int], number: int) -> dict[str, Tensor]:
        if indices[0] < offset:
            return first.collate(indices, number)
        return second.collate([index - offset for index in indices], number)

    return Phases(
        lengths=np.concatenate([first.lengths, second.lengths]),
        batch_size=first.batch_size,
        seed=first.seed,
        collate=collate,
        first=first,
        second=second,
        switch=switch,
    )


def by_pieces(batches: Batches, pieces: int) -> Batches:
    """The same examples in batches of about so many pieces, whatever their length: of comparable memory."""
    return dataclasses.replace(batches, tokens=pieces)
