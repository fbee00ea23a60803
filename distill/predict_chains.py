"""Which of the models in a folder of `distill.compress` is the one that it shipped. Imports no torch."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from distill.compress_chain import DONE

_NUMBERED = re.compile(r"(\d+)-\w+")


def shipped(folder: Path) -> Path | None:
    """The last artifact of a whole chain, or of one finished step of it; None for other folders, and for a chain whose
    last step was begun and not finished.

    Raises:
        UserError: what a step left is damaged.
    """
    if (folder / DONE).is_file():
        return _artifact(folder)
    steps = _steps(folder)
    return _artifact(steps[-1]) if steps and all((step / DONE).is_file() for step in steps) else None


def without_steps(models: Sequence[Path], root: Path) -> list[Path]:
    """`models`, folders below `root`, with only the last one of each chain: neither the steps before it nor the
    baselines beside them.
    """
    found: dict[Path, None] = {}
    for model in models:
        above = [parent for parent in model.parents if parent == root or root in parent.parents]
        chain = next((parent for parent in reversed(above) if _steps(parent) and shipped(parent) is not None), None)
        found[model if chain is None else shipped(chain) or model] = None
    return list(found)


def _steps(folder: Path) -> list[Path]:
    """The folders of a chain's steps, in order."""
    numbered = ((_NUMBERED.fullmatch(path.name), path) for path in folder.iterdir() if path.is_dir())
    return [path for _, path in sorted((int(match[1]), path) for match, path in numbered if match)]


def _artifact(step: Path) -> Path:
    path = step / DONE
    try:
        return step / str(json.loads(path.read_text(encoding="utf-8"))["folder"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}): give the folder of one model in it") from error
