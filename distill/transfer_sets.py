"""Sets of examples without labels in a run folder: written whole or not at all, and reused where nothing changed."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common.files import new_folder, write_json
from common.keys import short_key
from distill.augment import Augmented
from reports.record import AugmentedText, TransferCard
from teacher.data import Example
from teacher.prepare import Prepared

EXAMPLES, SUMMARY, LOGITS = "examples.jsonl", "set.json", "logits.npy"
PREVIEWED, VERSIONS, LONGEST_SHOWN = 6, 3, 400


@dataclass(frozen=True, kw_only=True)
class TransferSet:
    """Examples that only losses against a teacher can use."""

    folder: Path
    key: str
    """Equal for equal contents."""
    card: TransferCard

    @property
    def name(self) -> str:
        return self.card.name


def read_examples(folder: Path) -> list[Example]:
    """The examples of a set, in order; their labels are 0 and mean nothing."""
    with (folder / EXAMPLES).open(encoding="utf-8") as stream:
        return [Example(row["text"], row["pair"], 0) for row in map(json.loads, stream)]


def stored_set(folder: Path, key: str) -> TransferSet | None:
    """What an earlier sitting left in `folder`, if it is whole and has this key."""
    try:
        value = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if value.get("key") != key or not (folder / EXAMPLES).is_file():
        return None
    card = dict(value["card"])
    preview = tuple(
        AugmentedText(text=row["text"], pair=row["pair"], versions=tuple(row["versions"]))
        for row in card.pop("preview")
    )
    return TransferSet(folder=folder, key=key, card=TransferCard(**card, preview=preview))


def write_set(folder: Path, key: str, rows: Iterable[Augmented], *, name: str, origin: str) -> TransferSet:
    """Write a set, with its first texts and their versions for the report."""
    shown: dict[int, list[Augmented]] = {}
    count = 0
    with new_folder(folder) as target:
        with (target / EXAMPLES).open("w", encoding="utf-8") as stream:
            for row in rows:
                count += 1
                stream.write(json.dumps(row._asdict(), ensure_ascii=False) + "\n")
                if len(shown) < PREVIEWED or row.source in shown:
                    shown.setdefault(row.source, []).append(row)
        card = TransferCard(name=name, rows=count, origin=origin, preview=_preview(shown.values()))
        write_json(target / SUMMARY, {"key": key, "card": asdict(card)})
    return TransferSet(folder=folder, key=key, card=card)


def _preview(groups: Iterable[Sequence[Augmented]]) -> tuple[AugmentedText, ...]:
    """Originals with a few of their versions; of a pair the side that changed."""
    found = []
    for first, *others in groups:
        versions = tuple(row.text if row.text != first.text else str(row.pair) for row in others[:VERSIONS])
        if versions:
            pair = None if first.pair is None else _short(first.pair)
            found.append(AugmentedText(text=_short(first.text), pair=pair, versions=tuple(map(_short, versions))))
    return tuple(found)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"


def with_sets(prepared: Prepared, folders: Mapping[str, Path]) -> Prepared:
    """`prepared` with each set tokenised as a further split of its name."""
    splits = dict(prepared.splits)
    for name, folder in folders.items():
        splits[name] = prepared.task.encode(read_examples(folder), prepared.tokenizer, prepared.max_length)
    return Prepared(task=prepared.task, tokenizer=prepared.tokenizer, splits=splits, max_length=prepared.max_length)


def stored_logits(folder: Path, rows: int, *, key: str, compute: Callable[[], np.ndarray]) -> Path:
    """The file of a teacher's logits on `rows` examples, computed once a run; `key` is equal where both are."""
    if not _whole(folder, key, rows):
        logits = compute()
        with new_folder(folder) as target:
            np.save(target / LOGITS, logits)
            write_json(target / SUMMARY, {"key": key})
    return folder / LOGITS


def _whole(folder: Path, key: str, rows: int) -> bool:
    """Whether logits are there, readable, of this key, with a row for every example."""
    try:
        stored = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))["key"]
        return stored == key and len(np.load(folder / LOGITS, mmap_mode="r")) == rows
    except (OSError, ValueError, EOFError, KeyError):
        return False


def key_of(*parts: Any) -> str:
    """Sixteen hex digits over values that JSON has."""
    return short_key(parts, 16)


def file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def weights_digest(where: str) -> str:
    """Equal for equal weights of a model folder; a hub id stands for itself."""
    files = sorted(Path(where).glob("*.safetensors")) if Path(where).is_dir() else []
    return key_of([file_digest(file) for file in files]) if files else where
