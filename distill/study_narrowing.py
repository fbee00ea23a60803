"""A study's space as the user wants it: parts fixed or narrowed on the command line or in a file."""

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.errors import UserError, unknown_name
from distill.named_numbers import named_texts
from distill.study_space import Part, Space, Value


def narrowed(space: Space, fix: str, ranges: str, file: Path | None) -> Space:
    """The space with parts fixed or narrowed: by a file, then by --range, then by --fix.

    A part that is only there where it is asked for, and was not, is fixed at its default.

    Raises:
        UserError: an unknown part, or a value that it cannot have.
    """
    wanted: dict[str, tuple[str, Any]] = {}
    for name, value in (_read(file) if file else {}).items():
        wanted[name] = (f"{file}: {name}", value)
    for option, text in (("--range", ranges), ("--fix", fix)):
        for name, value in named_texts(option, text, space).items():
            if value is None:
                raise UserError(f"{option} {text}: expected NAME=VALUE, separated by commas")
            where = f"{option} {name}={value}"
            wanted[name] = (where, _ends(space[name], value, where) if option == "--range" else value)
    for name, (where, value) in wanted.items():
        if name not in space:
            raise UserError(f"{where}: {unknown_name('part of the space', name, space)}")
        space = space | {name: _narrow(space[name], value, where)}
    quiet = {name: part for name, part in space.items() if part.asked and name not in wanted}
    return _even(space | {name: dataclasses.replace(part, choices=(part.default,)) for name, part in quiet.items()})


def _read(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise UserError(f"--space {path} cannot be read: {error}. Expected toml or json of NAME = VALUE") from error
    if not isinstance(value, dict):
        raise UserError(f"--space {path}: expected names with values")
    return value


def _ends(part: Part, text: str, where: str) -> Sequence[Value]:
    """The ends of a range or several choices; a range over choices is those of them that are in it."""
    if "|" in text and not part.choices:
        raise UserError(f"{where}: {part.name} is a range of numbers: give its two ends as in 2..4, or --fix one value")
    if ".." not in text or isinstance(part.default, str):
        return text.split("|")
    ends = text.split("..")
    if not part.choices or len(ends) != 2:
        return ends
    low, high = (_as_of(part, end, where) for end in ends)
    inside = [choice for choice in part.choices if low <= choice <= high]  # type: ignore[operator]
    if not inside:
        raise UserError(f"{where}: none of {part.words} is in there; choices of your own are given as in 1|2")
    return inside


def _narrow(part: Part, value: Any, where: str) -> Part:
    """One value fixes a part; two bound a number; several are choices."""
    found = [_as_of(part, entry, where) for entry in (value if isinstance(value, list) else [value])]
    if not found:
        raise UserError(f"{where}: no value is left, expected {part.words}")
    if isinstance(part.default, str) and not all(entry in part.choices for entry in found):
        raise UserError(f"{where}: expected of {part.words}")
    if part.choices:
        return dataclasses.replace(part, choices=tuple(dict.fromkeys(found)))
    ends = [float(entry) for entry in found]
    if len(ends) > 2 or ends[0] > ends[-1] or ends[0] <= 0:
        raise UserError(f"{where}: expected a number above 0, or two as in 2..4")
    return dataclasses.replace(part, low=ends[0], high=ends[-1])


def _as_of(part: Part, value: Any, where: str) -> Value:
    try:
        kind = type(part.default)
        result = kind(value)
    except (TypeError, ValueError, OverflowError):
        result = math.nan
    # int() of a number with a fraction is another number.
    changed = isinstance(value, float) and not isinstance(result, str) and result != value
    if changed or isinstance(value, bool) or (isinstance(result, float) and not math.isfinite(result)):
        raise UserError(f"{where}: expected {part.words}")
    assert isinstance(result, (int, float, str))
    return result


def _even(space: Space) -> Space:
    """With widths that every head count divides."""
    if "hidden" not in space:
        return space
    hidden, heads = space["hidden"], space["heads"]
    if any(int(count) < 1 for count in heads.choices):
        raise UserError(f"heads={heads.words}: expected 1 or more")
    step = math.lcm(*(int(count) for count in heads.choices))
    low, high = math.ceil(hidden.low / step) * step, math.floor(hidden.high / step) * step
    if low > high:
        raise UserError(f"hidden={hidden.words}: none of these is a multiple of heads {heads.words}")
    return space | {"hidden": dataclasses.replace(hidden, low=low, high=high, step=step)}
