"""Which parts of a model lose most by being quantised, and which to leave so that the loss stays within a budget."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from common.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which parts stay in fp32."""

    excluded: tuple[str, ...]
    """The parts that stay as they are, the most sensitive first."""
    before: float
    """Score of the fp32 model, which drops are counted from."""
    score: float
    """Score with all other parts quantised."""
    drops: dict[str, float]
    """What each part loses if it alone is quantised; empty where all of them could be."""
    within: bool
    """Whether the drop is within the budget."""


def choose_parts(
    names: Sequence[str],
    score: Callable[[Collection[str]], float],
    *,
    max_drop: float,
    before: float | None = None,
) -> Choice:
    """Quantise everything; where that loses more than `max_drop`, leave out the most sensitive parts, one by one.

    `score` is of the model with these parts excluded, higher is better. `before` is what drops are counted from; None:
    the score with all of them excluded. Every part is quantised alone only where quantising all of them loses too much,
    since that takes a score a part.
    """
    whole, after = score(names), score(())
    before = whole if before is None else before
    if before - after <= max_drop:
        return Choice(excluded=(), before=before, score=after, drops={}, within=True)
    with Progress("sensitivity", total=len(names), unit="part") as bar:
        drops = {}
        for name in names:
            drops[name] = whole - score([other for other in names if other != name])
            bar.advance(note=f"{name} {drops[name]:+.4f}")
    order = sorted(names, key=lambda name: -drops[name])
    for count in range(1, len(order) + 1):
        after = score(order[:count]) if count < len(order) else whole
        if before - after <= max_drop:
            break
    return Choice(
        excluded=tuple(order[:count]), before=before, score=after, drops=drops, within=before - after <= max_drop
    )
