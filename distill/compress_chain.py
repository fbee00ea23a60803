"""A chain of steps from a model to what is shipped: each step makes one artifact out of the one before it."""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.files import write_json
from common.progress import say

DONE = "step.json"
"""What a finished step leaves beside its artifact."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """Something that can be shipped: a folder, and what runs it."""

    folder: Path
    kind: str = "torch"
    """A key of distill.runtimes.RUNTIMES."""
    notes: tuple[str, ...] = ()
    """What a reader of the table should know of how it was made, in words."""
    source: Path | None = None
    """The torch folder that an exported one was made of."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a chain."""

    name: str
    """Its folder's name: "prune", "int8"."""
    title: str
    """Its row's name: "pruned 50 %"."""
    apply: Callable[[Artifact, Path], Artifact]
    """From the artifact before and the step's own folder, which may be there from an earlier sitting, to its
    artifact."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a step came to."""

    title: str
    artifact: Artifact
    seconds: float
    """That it took, in the sitting that finished it."""


def run_chain(start: Artifact, steps: Sequence[Step], folder: Path) -> list[Made]:
    """Apply the steps one after another, each in a folder of its own under `folder`.

    A finished step is not done again. The caller sees to it that the folder belongs to the same start, steps and data.

    Raises:
        UserError: what a step raises; what was finished before stays.
    """
    made: list[Made] = []
    current = start
    for number, step in enumerate(steps, start=1):
        own = folder / f"{number}-{step.name}"
        finished = _finished(own, step.title)
        if finished is None:
            say(f"step {number} of {len(steps)}: {step.title}")
            started = time.monotonic()
            artifact = step.apply(current, own)
            finished = Made(title=step.title, artifact=artifact, seconds=time.monotonic() - started)
            _remember(own, finished)
        else:
            say(f"step {number} of {len(steps)}: {step.title}: done before")
        made.append(finished)
        current = finished.artifact
    return made


def _remember(own: Path, made: Made) -> None:
    artifact = made.artifact
    value = {
        "folder": str(artifact.folder.relative_to(own)),
        "kind": artifact.kind,
        "notes": list(artifact.notes),
        "source": None if artifact.source is None else os.path.relpath(artifact.source, own),
        "seconds": made.seconds,
    }
    write_json(own / DONE, value)


def _finished(own: Path, title: str) -> Made | None:
    path = own / DONE
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        source = value.get("source")
        artifact = Artifact(
            folder=own / value["folder"],
            kind=value["kind"],
            notes=tuple(value["notes"]),
            source=None if source is None else Path(os.path.normpath(own / source)),
        )
        seconds = float(value["seconds"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}): remove {own}, and the step is done again") from error
    return Made(title=title, artifact=artifact, seconds=seconds)
