"""Task examples: what every source of them becomes, and the door through which they come in."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from common.errors import UserError, unknown_name
from common.words import counted
from teacher import hub, pydocs
from teacher.columns import Asked
from teacher.formats import EXTENSIONS
from teacher.glue import GLUE, glue_name
from teacher.labels import SEVERAL, TEXTS, label_reader, settle_labels
from teacher.local import load_path
from teacher.raw import RawTask
from teacher.splits import cap_rows, remove_leaks, resolve_splits


@dataclass(frozen=True, slots=True)
class Example:
    """One row.

    `label` is a class index for classification, a number for regression, and as its kind has it for other tasks, which
    may also have a `detail`.
    """

    text: str
    pair: str | None
    label: Any
    detail: Any = None
    group: str | None = None
    """Rows of one group are about one thing, as questions on one article, and are held out together; None: alone."""


def text_columns(examples: Sequence[Example]) -> tuple[list[str], list[str] | None]:
    """Texts, and second texts where there are any, as tokenizers take them."""
    paired = any(example.pair is not None for example in examples)
    return [example.text for example in examples], [example.pair or "" for example in examples] if paired else None


@dataclass(frozen=True, kw_only=True)
class TaskData:
    """A task with its examples, checked: every label known, no empty text, no example in two splits."""

    name: str
    """Short, fit for a folder name: "pydocs", "sst2", or the file's or folder's stem."""
    kind: str
    """A key of teacher.tasks.TASKS."""
    labels: tuple[str, ...]
    """Names of classes or tags in index order; empty where labels are none."""
    metric: str
    """The metric that selects checkpoints, among those that the task computes: "accuracy", "f1", ..."""
    splits: Mapping[str, tuple[Example, ...]]
    """ "train" is learned from, "select" chooses among checkpoints, "evaluate" is only ever reported on."""
    origins: Mapping[str, str]
    """Split to where it came from, in words."""
    fingerprint: str
    """sha256 over kind, labels and all rows in order (and package versions for pydocs), first 16 hex digits."""
    sources: Mapping[str, str]
    """File to its sha256, or package to its version."""
    notes: tuple[str, ...] = field(default=())
    """What loading did that a reader should know."""
    stride: int | None = None
    """Pieces that neighbouring windows of a long context share; None: as many as the kind of task takes."""
    long: str = "truncate"
    """What becomes of texts that are too long: one of teacher.tasks.long_texts.WAYS."""

    @property
    def paired(self) -> bool:
        """Whether a text is two, such as a question and its context."""
        return any(example.pair is not None for example in self.splits["train"])


KINDS = ("auto", "classification", "regression", "multilabel")
"""What --kind can be."""
BUILT_IN = {"pydocs": pydocs.load_pydocs, "pydocs-pair": pydocs.load_pydocs_pair}
_HUB_ID = re.compile(r"[\w-][\w.-]*(?:/[\w.-]+){1,2}")


def load_task(
    task: str,
    *,
    rows: int | Literal["all"] | None = None,
    data_dir: Path | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    kind: str = "auto",
    seed: int = 0,
) -> TaskData:
    """Load a task, check it, and split it.

    Labels that are words are classes, and so are whole numbers, "0.0" among them, of up to 30 different values.
    Numbers are a regression when some have a fraction or when there are more than 30 different ones; a label among
    them that is none (at most one in 20 rows, else all are classes) is then an error. GLUE tasks have what GLUE says.
    To have classes where the labels are such numbers, write them as words: "c17" for "17".

    Args:
        task: "pydocs", "pydocs-pair", a GLUE name, a path, or a hub id ("org/name", "name/config", "hub:name").
        rows: training rows at most, drawn by class; None: the task's own default (12,000 for pydocs, else all).
        data_dir: folder of the GLUE files: it, or a folder in it, is named like the task.
        text_column: name of the column; "1", "2", ... in files without a header.
        pair_column: likewise, of a second text.
        label_column: likewise; several with commas between are labels of which a row has some (1) and others not (0).
        kind: "auto" as said, "classification" or "regression" of such labels, or "multilabel": several labels a row.
        seed: of every draw.

    Raises:
        UserError: the task is not found, or a fault in its data; names file and line.
    """
    if isinstance(rows, int) and rows < 1:
        raise UserError(f"--rows {rows}: a number above 0 or 'all' was expected")
    if kind not in KINDS:
        raise unknown_name("--kind", kind, KINDS)
    asked = Asked(text=text_column, pair=pair_column, label=label_column, kind=kind)
    if task in BUILT_IN:
        _refuse_places(task, "is built in", asked, data_dir)
        raw = BUILT_IN[task](rows=rows, seed=seed)
        _settle_kind(raw, kind)
        return _finish(raw)
    raw = _find(task, data_dir, asked)
    _settle_kind(raw, kind)
    settle_labels(raw)
    resolve_splits(raw, seed)
    remove_leaks(raw)
    cap_rows(raw, rows, seed)
    return _finish(raw)


def _refuse_places(task: str, why: str, asked: Asked, data_dir: Path | None = None) -> None:
    """Refuse what says where a user's data is, where it is not read."""
    given = {
        "--data-dir": data_dir,
        "--text-column": asked.text,
        "--pair-column": asked.pair,
        "--label-column": asked.label,
    }
    for flag, value in given.items():
        if value is not None:
            raise UserError(f"{flag} {value}: {task} {why}: leave it out, or give your data with --task FILE")


def _settle_kind(raw: RawTask, kind: str) -> None:
    """Take the kind that the user named; raises UserError where the data is of another."""
    if kind == "auto":
        return
    if (raw.kind or kind) != kind or (raw.kind is None and kind == "multilabel"):
        found = f"a {raw.kind} task" if raw.kind else "a task with one label a row"
        raise UserError(f"--kind {kind}: {raw.name} is {found}: leave --kind out, or give other data")
    raw.kind = kind


def describe(task: TaskData) -> list[str]:
    """A few lines for people: what the task is, its rows, its largest class, and what loading did."""
    pairs = "pairs" if task.paired else "single texts"
    lines = [f"task {task.name}: {task.kind} of {pairs}, {_outputs(task)}, metric {task.metric}"]
    lines += [
        f"  {split:9}{counted(len(rows), 'row'):>14}  {task.origins[split]}" for split, rows in task.splits.items()
    ]
    lines.append(f"  {_labels(task)}")
    return lines + [f"  note: {note}" for note in task.notes]


def _outputs(task: TaskData) -> str:
    if task.kind in TEXTS:
        return "stretches of the second text"
    names = {"tags": ("tag", "tags"), "multilabel": ("label", "labels")}.get(task.kind, ("class", "classes"))
    return counted(len(task.labels), *names) if task.labels else "numbers"


def _labels(task: TaskData) -> str:
    """What the training labels are like."""
    labels = [row.label for row in task.splits["train"]]
    if task.kind in TEXTS:
        words = sorted(len(label.split()) for label in labels if label)
        nothing = len(labels) - len(words)
        lacks = f", {counted(nothing, 'question')} without one" if nothing else ""
        return f"answers of {words[len(words) // 2]} words (median), {words[-1]} at most{lacks}"
    if task.kind in SEVERAL:
        given = Counter(label for several in labels for label in several)
        return "most frequent: " + ", ".join(f"{task.labels[tag]} {n:,}" for tag, n in given.most_common(4))
    if not task.labels:
        return f"labels from {min(labels):g} to {max(labels):g}, mean {sum(labels) / len(labels):.3g}"
    label, count = Counter(labels).most_common(1)[0]
    share = sum(row.label == label for row in task.splits["evaluate"]) / len(task.splits["evaluate"])
    return f"largest class {task.labels[int(label)]!r}: {count:,} training rows, {share:.1%} of evaluate"


def _find(task: str, data_dir: Path | None, asked: Asked) -> RawTask:
    """Where a task that is not built in comes from: a path, a GLUE name, the hub."""
    glue = glue_name(task)
    if task.startswith(hub.PREFIX):
        return hub.load_hub(task.removeprefix(hub.PREFIX), asked)
    if data_dir is not None:
        return load_path(_glue_folder(task, data_dir), asked)
    path = Path(task).expanduser()
    if path.exists():
        return load_path(path, asked)
    if glue:
        _refuse_places(task, "comes from the hub with its own columns", asked)
        return hub.load_glue(glue)
    looks_like_path = path.suffix.lower() in (*EXTENSIONS, ".gz") or task.startswith((".", "/", "~"))
    if not looks_like_path and _HUB_ID.fullmatch(task) and not path.parent.exists():
        return hub.load_hub(task, asked)
    if "/" in task or looks_like_path:
        return load_path(path, asked)
    known = unknown_name("task", task, [*BUILT_IN, *GLUE])
    raise UserError(
        f"{known}. There is no file or folder {task!r} here either; a hub id is written org/name, or hub:name"
    )


def _glue_folder(task: str, data_dir: Path) -> Path:
    """The folder of a GLUE task below `data_dir`, in any spelling of its name, or `data_dir` itself."""
    name = glue_name(task)
    if name is None:
        path = next((path for path in (Path(task), data_dir / task) if path.exists()), Path(task))
        if path.exists() or path.suffix.lower() in (*EXTENSIONS, ".gz"):
            raise UserError(f"--data-dir is for GLUE tasks only: leave it out and give --task {path}")
        raise UserError(f"--data-dir is for GLUE tasks only: {unknown_name('GLUE task', task, GLUE)}")
    if not data_dir.is_dir():
        raise UserError(f"--data-dir {data_dir} is not a folder")
    for folder in sorted(data_dir.iterdir()):
        if folder.is_dir() and glue_name(folder.name) == name:
            return folder
    if glue_name(data_dir.resolve().name) == name or any(data_dir.glob("train.*")):
        return data_dir
    found = ", ".join(sorted(entry.name for entry in data_dir.iterdir())) or "nothing"
    raise UserError(f"--data-dir {data_dir} holds neither a folder {name} nor train.tsv: found {found}")


def _finish(raw: RawTask) -> TaskData:
    """Rows with names of classes as examples with indices."""
    labels, kind = raw.labels or (), raw.kind or "classification"
    label = label_reader(kind, labels)
    splits = {
        split: tuple(Example(row.text, row.pair, label(row), row.detail, raw.group and raw.group(row)) for row in part)
        for split, part in raw.parts.items()
    }
    return TaskData(
        name=raw.name,
        kind=kind,
        labels=labels,
        metric=raw.metric or "accuracy",
        splits=splits,
        origins=raw.origins,
        fingerprint=_fingerprint(kind, labels, splits, raw.sources if raw.name in BUILT_IN else {}),
        sources=raw.sources,
        notes=tuple(raw.notes),
    )


def _fingerprint(
    kind: str, labels: Sequence[str], splits: Mapping[str, Sequence[Example]], versions: Mapping[str, str]
) -> str:
    digest = hashlib.sha256(repr((kind, tuple(labels), sorted(versions.items()))).encode())
    for split, rows in splits.items():
        digest.update(f"\n{split}\n".encode())
        # A detail counts where there is one: what was made of other tasks before there were details stays valid.
        digest.update("\n".join(repr(_content(row)) for row in rows).encode())
    return digest.hexdigest()[:16]


def _content(row: Example) -> tuple[Any, ...]:
    content = (row.text, row.pair, row.label)
    return content if row.detail is None else (*content, row.detail)
