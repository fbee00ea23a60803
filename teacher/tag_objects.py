"""Words and tags in json lines: lists of tokens and tags, or a text with spans of characters."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.errors import UserError
from teacher.columns import Asked
from teacher.cutting import words_of
from teacher.decoding import Oddities, read_text
from teacher.raw import RawTask
from teacher.readers import first_object
from teacher.schemes import OUTSIDE
from teacher.tagged import Sentence, tagged_task

WORDS = ("tokens", "words")
TAGS = ("tags", "ner_tags", "labels", "pos_tags")
SPANS = ("spans", "entities")


def matches(file: Path) -> bool:
    """Whether the first line is an object with words and tags, or a text with spans."""
    first = first_object(file)
    if first is None:
        return False
    listed = isinstance(_entry(first, WORDS), list) and isinstance(_entry(first, TAGS), list)
    return listed or (isinstance(first.get("text"), str) and isinstance(_entry(first, SPANS), list))


def load(name: str, files: Mapping[str, Path], asked: Asked) -> RawTask:
    """The sentences of each part.

    Spans of characters have "start", "end" (the character after the last) and "label"; words are runs of letters and
    digits, and single other signs, and spans must not end within one.

    Raises:
        UserError: a line that is not such an object, lists of different lengths, overlapping spans, or ones that cut a
            word; names file and line.
    """
    if asked.names():
        raise UserError(
            f"{next(iter(files.values())).name}: words with tags are found by their names ({'/'.join(WORDS)} and "
            f"{'/'.join(TAGS)}, or text and {'/'.join(SPANS)}): leave --text-column, --pair-column, --label-column out"
        )
    oddities = Oddities()
    parts, sources = {}, {}
    bare = [part for part, file in files.items() if part != "train" and first_object(file) and not matches(file)]
    for part, file in files.items():
        if part in bare:
            continue
        text, raw = read_text(file, oddities)
        sources[file.name] = hashlib.sha256(raw).hexdigest()
        numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        parts[part] = [_sentence(file, number, line) for number, line in numbered]
    kept = {part: [sentence for sentence in found if sentence.words] for part, found in parts.items()}
    notes = [f"{files[part].name} has no tags, so it is not used" for part in bare] + oddities.notes()
    return tagged_task(name, kept, {part: files[part].name for part in parts}, sources, notes)


def _entry(value: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((value[name] for name in names if name in value), None)


def _sentence(file: Path, number: int, line: str) -> Sentence:
    where = f"{file}:{number}"
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not json ({error}): an object on each line was expected") from error
    words, tags = (_entry(value, names) if isinstance(value, dict) else None for names in (WORDS, TAGS))
    if isinstance(words, list) and isinstance(tags, list):
        if len(words) != len(tags):
            raise UserError(f"{where} has {len(words)} words and {len(tags)} tags: a tag for each word was expected")
        listed = [*words, *tags]
        if any(not isinstance(entry, str) or not entry.strip() or " " in entry for entry in listed) or any(
            len(tag.split()) > 1 for tag in tags
        ):
            raise UserError(
                f"{where}: words and tags must be texts without spaces (numbers of tags have no names here)"
            )
        return Sentence.of(words, tags, file.name, number)
    spans = _entry(value, SPANS) if isinstance(value, dict) else None
    if not isinstance(spans, list) or not isinstance(value.get("text"), str):
        raise UserError(f'{where}: an object with "tokens" and "tags", or "text" and "spans", was expected')
    return _from_spans(where, file.name, number, value["text"], spans)


def _from_spans(where: str, file: str, number: int, text: str, spans: list[Any]) -> Sentence:
    places = words_of(text, "letters")
    tags = [OUTSIDE] * len(places)
    for start, end, label in (_span(where, text, span) for span in spans):
        inside = [index for index, (first, last) in enumerate(places) if first < end and last > start]
        if not inside or places[inside[0]][0] < start or places[inside[-1]][1] > end:
            raise UserError(
                f"{where}: the span {start} to {end} ({text[start:end]!r}) does not begin and end with a word"
            )
        if any(tags[index] != OUTSIDE for index in inside):
            raise UserError(f"{where}: the span {start} to {end} ({text[start:end]!r}) overlaps another")
        for index in inside:
            tags[index] = f"{'B' if index == inside[0] else 'I'}-{label}"
    words = tuple(text[first:last] for first, last in places)
    return Sentence(words=words, tags=tuple(tags), file=file, line=number, text=text, spans=tuple(places))


def _span(where: str, text: str, span: Any) -> tuple[int, int, str]:
    """Start, end and label, from an object or a list of three."""
    given = [span.get(name) for name in ("start", "end", "label")] if isinstance(span, dict) else span
    start, end, label = given if isinstance(given, list) and len(given) == 3 else (None, None, None)
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(label, str) and label.strip()):
        raise UserError(f"{where}: a span needs start and end, whole numbers, and a label, a text: found {span!r}")
    if not 0 <= start < end <= len(text):
        raise UserError(f"{where}: the span {start} to {end} is not within the text of {len(text)} characters")
    # White space at a span's ends means nothing.
    inner = text[start:end]
    start += len(inner) - len(inner.lstrip())
    return start, start + len(inner.strip()), "_".join(label.split())
