"""Which examples make a batch: a pure function of seed and epoch, so that a resumed run sees the same ones."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torch.nn import functional


def bucketed(lengths: np.ndarray, batch_size: int, *, seed: int, epoch: int, pool: int = 50) -> list[np.ndarray]:
    """Batches of similar length in random order.

    Shuffles, sorts pools of `pool` batches by length, cuts, and shuffles the batches: every example once an epoch.
    """
    generator = np.random.default_rng((seed, epoch))
    order = generator.permutation(len(lengths))
    span = batch_size * pool
    batches: list[np.ndarray] = []
    for start in range(0, len(order), span):
        chunk = order[start : start + span]
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        batches += [chunk[cut : cut + batch_size] for cut in range(0, len(chunk), batch_size)]
    return [batches[index] for index in generator.permutation(len(batches))]


def token_batches(lengths: np.ndarray, tokens: int, *, seed: int, epoch: int, pool: int = 50) -> list[np.ndarray]:
    """Batches of similar length that hold about `tokens` pieces each, padding counted, in random order.

    A step of 32 short texts is mostly overhead. Pools of `pool` batches are sorted by length and cut where the sum of
    pieces has grown by an equal part, so the number of batches is the same in every epoch.
    """
    costs = rounded_up(lengths)
    span = max(1, round(pool * tokens / float(costs.mean())))
    generator = np.random.default_rng((seed, epoch))
    order = generator.permutation(len(lengths))
    batches: list[np.ndarray] = []
    for start in range(0, len(order), span):
        chunk = order[start : start + span]
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        parts = _parts(len(chunk), span, pool)
        ends = np.cumsum(costs[chunk])
        cuts = np.searchsorted(ends, ends[-1] * np.arange(1, parts) / parts)
        # A text as long as a whole part would leave an empty batch beside it: no batch is empty, none is dropped.
        before = np.arange(parts - 1)
        cuts = np.maximum.accumulate(cuts - before) + before
        batches += np.split(chunk, np.clip(cuts, before + 1, len(chunk) - parts + 1 + before))
    return [batches[index] for index in generator.permutation(len(batches))]


def token_batch_count(lengths: np.ndarray, tokens: int, *, pool: int = 50) -> int:
    """How many batches `token_batches` makes of an epoch."""
    span = max(1, round(pool * tokens / mean_padded(lengths)))
    whole, rest = divmod(len(lengths), span)
    return whole * _parts(span, span, pool) + (_parts(rest, span, pool) if rest else 0)


def _parts(count: int, span: int, pool: int) -> int:
    """Batches that `count` examples of a pool of `span` give; never more than examples."""
    return min(count, max(1, round(pool * count / span)))


def rounded_up(lengths: np.ndarray, multiple: int = 8) -> np.ndarray:
    """Lengths as they will be padded at least."""
    return -(-lengths // multiple) * multiple


def mean_padded(lengths: np.ndarray) -> float:
    """Pieces that a text of a batch takes, on average and with the least padding."""
    return float(rounded_up(lengths).mean())


def padded_length(lengths: Iterable[int], *, limit: int, multiple: int = 8) -> int:
    """The length to pad a batch to: the longest, rounded up, but not over `limit` (the model's positions).

    Kernels are compiled and kept for every shape that occurs; with all lengths from 10 to 128 that took gigabytes.

    >>> padded_length([3, 11], limit=64), padded_length([8], limit=64), padded_length([9], limit=10)
    (16, 8, 10)
    """
    return min(-(-max(lengths) // multiple) * multiple, limit)


def on_full_rows(function: Callable[[Tensor], Tensor], states: Tensor, multiple: int = 64) -> Tensor:
    """`function` of the rows of `states` (n, d), which it sees filled up with zeros to a multiple; its first n rows.

    For numbers of rows that are never twice the same, such as masked pieces, and functions of a row alone: kernels are
    compiled and kept for every shape.
    """
    missing = -len(states) % multiple
    return function(functional.pad(states, (0, 0, 0, missing)))[: len(states)]


def padded(rows: Sequence[np.ndarray], length: int, fill: int) -> np.ndarray:
    """Ragged rows as one int64 array (rows, length), filled up with `fill`.

    >>> padded([np.array([1, 2]), np.array([3])], 3, 0).tolist()
    [[1, 2, 0], [3, 0, 0]]
    """
    array = np.full((len(rows), length), fill, dtype=np.int64)
    for place, row in zip(array, rows, strict=True):
        place[: len(row)] = row
    return array


def attention_mask(rows: Sequence[np.ndarray], length: int) -> np.ndarray:
    """1 where a row padded to `length` has a piece, 0 in the padding, (rows, length) int64."""
    return (np.arange(length) < np.array([[len(row)] for row in rows])).astype(np.int64)


def sorted_batches(lengths: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Batches for evaluation: sorted by length, so that padding is least."""
    order = np.argsort(lengths, kind="stable")
    return [order[cut : cut + batch_size] for cut in range(0, len(order), batch_size)]


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What the loop draws from."""

    lengths: np.ndarray
    """Pieces of each example."""
    batch_size: int
    """Examples of a batch."""
    seed: int
    collate: Callable[[Sequence[int], int], dict[str, Tensor]]
    """(example indices, step) to tensors; the step seeds whatever is drawn anew each time (dynamic masking)."""
    tokens: int | None = None
    """Pieces of a batch instead of examples."""

    @property
    def steps_per_epoch(self) -> int:
        if self.tokens is not None:
            return token_batch_count(self.lengths, self.tokens)
        return -(-len(self.lengths) // self.batch_size)

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The batches of one epoch, in order."""
        if self.tokens is not None:
            return token_batches(self.lengths, self.tokens, seed=self.seed, epoch=epoch)
        return bucketed(self.lengths, self.batch_size, seed=self.seed, epoch=epoch)

    def from_batch(self, start: int) -> Iterator[np.ndarray]:
        """The batches of a run from number `start` on, one epoch after the other, without end."""
        epoch, position = divmod(start, self.steps_per_epoch)
        while True:
            yield from self.plan(epoch)[position:]
            epoch, position = epoch + 1, 0
