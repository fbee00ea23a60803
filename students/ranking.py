"""In which order the parts of an encoder go: bundles of units, the least important for their cost first."""

import dataclasses
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from common.errors import UserError, unknown_name
from students.importance import Scores
from students.pruned_shape import EncoderShape, with_sizes

PARTS = ("heads", "ffn", "hidden", "layers")
BUNDLE = 8
"""Units and channels go by so many at once, since products of such sizes are fast; fewer in small models."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What stays, as rising indices into the model before pruning."""

    layers: tuple[int, ...]
    heads: tuple[tuple[int, ...], ...]
    """Of every layer, of those that go too."""
    ffn: tuple[tuple[int, ...], ...]
    hidden: tuple[int, ...]

    def shape(self, before: EncoderShape) -> EncoderShape:
        return with_sizes(
            before,
            hidden=len(self.hidden),
            heads=tuple(len(self.heads[layer]) for layer in self.layers),
            ffn=tuple(len(self.ffn[layer]) for layer in self.layers),
        )


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """Units that go together: (kind of PARTS, layer, index) each; layer 0 where the kind has none."""

    units: tuple[tuple[str, int, int], ...]
    importance: float
    cost: float
    """Parameters that go with it."""

    @property
    def density(self) -> float:
        """Importance of a parameter."""
        return self.importance / self.cost


def check_parts(parts: Collection[str]) -> None:
    """Raise UserError for a part that does not exist, or none at all."""
    for name in parts:
        if name not in PARTS:
            raise unknown_name("part to prune", name, PARTS)
    if not parts:
        raise UserError(f"--prune-parts: expected one or more of {', '.join(PARTS)}")


def ranked(shape: EncoderShape, scores: Scores, parts: Collection[str], *, even: bool) -> list[Bundle]:
    """Bundles of all units that may go, in the order in which they should: one ranking for all layers and kinds.

    Every layer keeps its best head and its best bundle of units, the stream its best channels; one layer stays. With
    `even` all layers lose alike: the least important heads of all layers are one bundle, and where both heads and
    channels go, a head's width of channels goes with them, so that the width stays that of the heads.
    """
    check_parts(parts)
    costs = shape.unit_costs
    heads = [_by_layer("heads", layer, row, 1, costs["heads"]) for layer, row in enumerate(scores.heads)]
    size = _bundle(min(shape.ffn))
    ffn = [_by_layer("ffn", layer, row, size, costs["ffn"]) for layer, row in enumerate(scores.ffn)]
    together = even and {"heads", "hidden"} <= set(parts)
    hidden = _by_layer(
        "hidden", 0, scores.hidden, shape.head_dim if together else _bundle(shape.hidden), costs["hidden"]
    )
    rows = {"heads": heads, "ffn": ffn, "hidden": [hidden]}
    if together:
        rows["heads"], rows["hidden"] = [*heads, hidden], []
    found: list[Bundle] = [_layer(shape, scores, layer) for layer in _all_but_best(scores.layers)] * ("layers" in parts)
    for kind in ("heads", "ffn", "hidden"):
        if kind in parts:
            found += _across(rows[kind]) if even else itertools.chain.from_iterable(rows[kind])
    return sorted(found, key=lambda bundle: bundle.density)


def _bundle(units: int) -> int:
    return BUNDLE if units >= 8 * BUNDLE and units % BUNDLE == 0 else 1


def _by_layer(kind: str, layer: int, scores: Tensor, size: int, cost: float) -> list[Bundle]:
    """The units of one place in bundles, the least important first; the best bundle is left out, it stays."""
    order = torch.sort(scores, stable=True).indices.tolist()
    bundles = [order[start : start + size] for start in range(0, len(order), size)]
    return [
        Bundle(
            units=tuple((kind, layer, index) for index in sorted(members)),
            importance=float(scores[members].sum()),
            cost=cost * len(members),
        )
        for members in bundles[:-1]
    ]


def _across(rows: Sequence[Sequence[Bundle]]) -> list[Bundle]:
    """The bundles of equal rank in all places as one."""
    return [
        Bundle(
            units=tuple(itertools.chain.from_iterable(bundle.units for bundle in bundles)),
            importance=sum(bundle.importance for bundle in bundles),
            cost=sum(bundle.cost for bundle in bundles),
        )
        for bundles in zip(*rows, strict=False)
    ]


def _all_but_best(scores: Tensor) -> list[int]:
    return torch.sort(scores, stable=True).indices.tolist()[:-1]


def _layer(shape: EncoderShape, scores: Scores, layer: int) -> Bundle:
    cost = shape.layer_parameters(shape.heads[layer], shape.ffn[layer])
    return Bundle(units=(("layers", layer, layer),), importance=float(scores.layers[layer]), cost=float(cost))


def everything(shape: EncoderShape) -> Kept:
    """Nothing pruned."""
    return Kept(
        layers=tuple(range(len(shape.heads))),
        heads=tuple(tuple(range(count)) for count in shape.heads),
        ffn=tuple(tuple(range(count)) for count in shape.ffn),
        hidden=tuple(range(shape.hidden)),
    )


def without(shape: EncoderShape, bundles: Sequence[Bundle]) -> Kept:
    """What stays when these bundles go."""
    gone = {unit for bundle in bundles for unit in bundle.units}
    kept = everything(shape)

    def left(kind: str, layer: int, units: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(unit for unit in units if (kind, layer, unit) not in gone)

    return dataclasses.replace(
        kept,
        layers=tuple(layer for layer in kept.layers if ("layers", layer, layer) not in gone),
        heads=tuple(left("heads", layer, units) for layer, units in enumerate(kept.heads)),
        ffn=tuple(left("ffn", layer, units) for layer, units in enumerate(kept.ffn)),
        hidden=left("hidden", 0, kept.hidden),
    )


def to_cost(shape: EncoderShape, bundles: Sequence[Bundle], cost: Callable[[EncoderShape], float], most: float) -> Kept:
    """The least that has to go, in the order of `bundles`, for a cost of at most `most`; found by halving.

    Raises:
        UserError: all of them together are not enough.
    """
    smallest = without(shape, bundles).shape(shape)
    if cost(smallest) > most:
        share = 1 - cost(smallest) / cost(shape)
        raise UserError(
            f"--prune: at most {share:.0%} can go with these parts (one head and some units stay in every layer): "
            "prune less, or give more --prune-parts (heads, ffn, hidden, layers)"
        )
    low, high = 0, len(bundles)
    while low < high:
        middle = (low + high) // 2
        if cost(without(shape, bundles[:middle]).shape(shape)) <= most:
            high = middle
        else:
            low = middle + 1
    return without(shape, bundles[:low])
