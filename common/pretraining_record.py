"""What a finished pretraining left in its folder, for a page: pretraining.json, and the curves of history.jsonl.

`teacher.pretrain` writes both, `reports` shows them; neither imports the other.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.ablation_record import Series
from common.errors import UserError
from common.files import read_object

FILE, HISTORY = "pretraining.json", "history.jsonl"

HELD_OUT = "held-out "
"""What the names of held-out figures begin with in a history."""

_NEEDED = {
    "settings": dict,
    "steps": int,
    "tokens": int,
    "seconds": float | int,
    "parameters": int,
    "held_out": dict,
    "unigram_loss": float | int,
    "corpus": str,
}
"""What every finished pretraining writes, and as what."""


@dataclass(frozen=True, kw_only=True)
class PretrainingRecord:
    """One pretraining."""

    name: str
    """Of its folder."""
    settings: Mapping[str, Any]
    facts: Mapping[str, Any]
    """All else that pretraining.json says: steps, tokens, seconds, parameters, unigram_loss, held_out, notes, ..."""
    held_out: tuple[Series, ...]
    """Figures on held-out text over the steps, where they were asked for: "mlm_accuracy", "nsp_accuracy", ..."""
    training: tuple[Series, ...]
    """Everything else in the history: loss terms, "loss", "gradient norm", "learning rate"."""

    @classmethod
    def load(cls, path: Path) -> "PretrainingRecord":
        """From the pretraining.json at `path` and the history beside it; a folder without one has no curves.

        Raises:
            UserError: a file that is damaged or has less in it than a finished pretraining writes.
        """
        facts = read_object(path, advice="pretrain again, or move its folder away")
        _check(facts, path)
        held_out: dict[str, list[tuple[int, float]]] = {}
        training: dict[str, list[tuple[int, float]]] = {}
        for step, name, value in _points(path.with_name(HISTORY)):
            if name.startswith(HELD_OUT):
                held_out.setdefault(name.removeprefix(HELD_OUT).replace(" ", "_"), []).append((step, value))
            else:
                training.setdefault(name, []).append((step, value))
        return cls(
            name=path.parent.name,
            settings=facts.pop("settings"),
            facts=facts,
            held_out=_series(held_out),
            training=_series(training),
        )


def _check(facts: Mapping[str, Any], path: Path) -> None:
    missing = [name for name in _NEEDED if name not in facts]
    if missing:
        raise UserError(f"{path} has no {', '.join(missing)}: it is not of a finished pretraining")
    for name, kind in _NEEDED.items():
        if not isinstance(facts[name], kind) or isinstance(facts[name], bool):
            raise UserError(f"{path}: {name} is {str(facts[name])[:40]!r}: pretrain again, or move its folder away")
    for name, value in facts["held_out"].items():
        if not isinstance(value, float | int):
            raise UserError(f"{path}: {name} of held_out is {str(value)[:40]!r}, no number: pretrain again")


def _points(path: Path) -> Iterator[tuple[int, str, float]]:
    """Step, name and value of all rows."""
    if not path.exists():
        return
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not readable as a history: {error}") from error
    for number, line in enumerate(lines, start=1):
        try:
            values = json.loads(line)
            step = int(values.pop("step"))
            yield from ((step, str(name), float(value)) for name, value in values.items())
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UserError(f"{path}, line {number}, is no row of a history: {error}") from error


def _series(points: Mapping[str, list[tuple[int, float]]]) -> tuple[Series, ...]:
    return tuple(
        Series(name=name, steps=tuple(step for step, _ in line), values=tuple(value for _, value in line))
        for name, line in points.items()
    )
