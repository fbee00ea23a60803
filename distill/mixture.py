"""Several sets of examples as one, and how many of each are drawn an epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from teacher.batches import Batches
from teacher.tasks.base import Encoded, Task


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Sets one after the other: an example's index counts through all of them."""

    encoded: Encoded
    labeled: np.ndarray
    """(n,) bool: whether the example's label means anything."""
    sizes: tuple[int, ...]
    """Examples of each set, in order."""
    shares: tuple[float, ...]
    """Of an epoch's draws, adding up to 1."""

    def draws(self, seed: int, epoch: int) -> np.ndarray:
        """(n,) indices of one epoch, set by set: as many as there are examples, the sets in their shares.

        Each set is dealt out like a deck of cards, shuffled anew whenever it is used up, from one epoch to the next: no
        example comes twice before all others of its set came once. A pure function of seed and epoch.
        """
        counts = apportion(sum(self.sizes), self.shares)
        starts = np.cumsum([0, *self.sizes[:-1]])
        parts = [
            start + _dealt(size, epoch * count, count, seed=(seed, place))
            for place, (start, size, count) in enumerate(zip(starts, self.sizes, counts, strict=True))
        ]
        return np.concatenate(parts)


def mixture(parts: Mapping[str, Encoded], shares: Mapping[str, float | None]) -> Mixture:
    """The sets of `parts` as one, "labeled" being the one with labels; a share of None is as large as its set."""
    sets = list(parts.values())
    sizes = tuple(map(len, sets))
    return Mixture(
        encoded=Encoded(
            input_ids=[ids for encoded in sets for ids in encoded.input_ids],
            token_types=[types for encoded in sets for types in encoded.token_types],
            labels=np.concatenate([encoded.labels for encoded in sets]),
            max_length=max(encoded.max_length for encoded in sets),
            truncated=sum(encoded.truncated for encoded in sets),
        ),
        labeled=np.repeat([name == "labeled" for name in parts], sizes),
        sizes=sizes,
        shares=shares_of_an_epoch(dict(zip(parts, sizes, strict=True)), shares),
    )


def shares_of_an_epoch(sizes: Mapping[str, int], shares: Mapping[str, float | None]) -> tuple[float, ...]:
    """What of an epoch's draws comes from each set of `sizes`, adding up to 1; a share of None is as large as its set.

    >>> shares_of_an_epoch({"labeled": 100, "unlabeled": 300}, {"labeled": None, "unlabeled": None})
    (0.25, 0.75)
    """
    raw = [float(size) if (share := shares.get(name)) is None else share for name, size in sizes.items()]
    return tuple(share / sum(raw) for share in raw)


def apportion(total: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers that add up to `total`, nearest to the shares by largest remainder, the first first among equals.

    >>> apportion(10, [0.25, 0.75]), apportion(4, [0.5, 0.25, 0.25]), apportion(5, [1 / 3, 1 / 3, 1 / 3])
    ([3, 7], [2, 1, 1], [2, 2, 1])
    """
    exact = [total * share for share in shares]
    # A share such as 3/7 of 7 is a little below 3 in floating point.
    counts = [int(value + 1e-9) for value in exact]
    order = sorted(range(len(shares)), key=lambda place: (round(counts[place] - exact[place], 9), place))
    for place in order[: total - sum(counts)]:
        counts[place] += 1
    return counts


def _dealt(size: int, start: int, count: int, *, seed: tuple[int, int]) -> np.ndarray:
    """`count` cards from place `start` on of endless decks of `size`, each shuffled by seed and deck."""
    parts = []
    while count > 0:
        deck, place = divmod(start, size)
        cards = np.random.default_rng((*seed, deck)).permutation(size)[place : place + count]
        parts.append(cards)
        start, count = start + len(cards), count - len(cards)
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class MixedBatches(Batches):
    """Batches of an epoch's draws, by number of examples; the bucketing is that of `Batches`."""

    mixed: Mixture

    def __post_init__(self) -> None:
        if self.tokens is not None:
            raise ValueError("epochs of a mixture differ in pieces: its batches are counted in examples")

    def plan(self, epoch: int) -> list[np.ndarray]:
        drawn = self.mixed.draws(self.seed, epoch)
        of_draws = Batches(
            lengths=self.lengths[drawn], batch_size=self.batch_size, seed=self.seed, collate=self.collate
        )
        return [drawn[places] for places in of_draws.plan(epoch)]


def mixed_batches(mixed: Mixture, task: Task, pad: int, *, batch_size: int, seed: int) -> MixedBatches:
    """Training batches: the task's tensors, and `index` (b,) into the mixture."""

    def collate(indices: Sequence[int], step: int) -> dict[str, Tensor]:
        rows = torch.as_tensor(np.asarray(indices))
        return task.collate(mixed.encoded, indices, pad) | {"index": rows}

    return MixedBatches(lengths=mixed.encoded.lengths, batch_size=batch_size, seed=seed, collate=collate, mixed=mixed)
