"""Tagged words, whatever file they come from, to rows of a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.errors import UserError
from common.words import counted
from teacher.decoding import HALF_PAIR
from teacher.labels import natural_order
from teacher.raw import RawTask, Row
from teacher.schemes import CANONICAL, OUTSIDE, canonical, scheme_of

KIND = "tags"


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """Words with a tag each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    file: str
    line: int
    text: str | None = None
    """The text that the words stand in; None: the words with spaces between."""
    spans: tuple[tuple[int, int], ...] | None = None
    """First character of each word in `text`, and the one after its last."""

    @classmethod
    def of(cls, words: Sequence[str], tags: Sequence[str], file: str, line: int) -> "Sentence":
        return cls(words=tuple(words), tags=tuple(tags), file=file, line=line)


def tagged_task(
    name: str,
    parts: Mapping[str, Sequence[Sentence]],
    origins: Mapping[str, str],
    sources: Mapping[str, str],
    notes: Sequence[str],
) -> RawTask:
    """Rows whose label is the tags, one behind the other, and whose detail is where each word stands in the text.

    Tags of entities are brought into IOB2 or BIOES; the metric is then F1 over entities, for other tags (parts of
    speech) accuracy over words.

    Raises:
        UserError: no sentence at all, a tag that train lacks, or all tags the same.
    """
    notes = list(notes)
    train = parts["train"]
    if not train:
        raise UserError(f"{origins['train']} holds no sentence with words and tags")
    scheme = scheme_of([sentence.tags for sentence in train])
    raw = RawTask(name=name, parts={}, origins=dict(origins), sources=dict(sources), notes=notes, kind=KIND)
    for part, sentences in parts.items():
        tags: Sequence[Sequence[str]] = [sentence.tags for sentence in sentences]
        rows = zip(sentences, canonical(tags, scheme) if scheme else tags, strict=True)
        raw.parts[part] = [_row(sentence, own) for sentence, own in rows]
    if scheme == "IOB":
        begun = [tag[0] for row in raw.parts["train"] for tag in row.label.split()].count("B")
        without = begun - [tag[0] for sentence in train for tag in sentence.tags].count("B")
        notes.append(f"tags are read as IOB2: {without:,} of {counted(begun, 'entity', 'entities')} begin without B")
    elif scheme in ("BMES", "BILOU"):
        notes.append(f"tags are written as {scheme}: read as {CANONICAL[scheme]}")
    found = {tag for row in raw.parts["train"] for tag in row.label.split()}
    raw.labels = tuple(sorted(found, key=lambda tag: (tag != OUTSIDE, tag[2:] if scheme else "", natural_order(tag))))
    raw.metric = "entity_f1" if scheme else "accuracy"
    _check_tags(raw, found)
    return raw


def _row(sentence: Sentence, tags: Sequence[str]) -> Row:
    text, spans = sentence.text, sentence.spans
    if text is None or spans is None:
        text, spans = " ".join(sentence.words), _places(sentence.words)
    # In the place of one character stands another: the spans stay right.
    return Row(HALF_PAIR.sub("\ufffd", text), None, " ".join(tags), sentence.file, sentence.line, spans)


def _places(words: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Where words stand that have one space between.

    >>> _places(["EU", "rejects"])
    ((0, 2), (3, 10))
    """
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return tuple(spans)


def _check_tags(raw: RawTask, known: set[str]) -> None:
    train = raw.parts["train"]
    if len(known) == 1:
        raise UserError(
            f"{train[0].file}: every word has the tag {train[0].label.split()[0]!r}: nothing can be learned"
        )
    missing: dict[str, Row] = {}
    for part, rows in raw.parts.items():
        if part == "train":
            continue
        for row in rows:
            for tag in row.label.split():
                if tag not in known:
                    missing.setdefault(tag, row)
    if missing:
        tag, row = next(iter(missing.items()))
        others = f" and {counted(len(missing) - 1, 'more tag')}" if len(missing) > 1 else ""
        raise UserError(
            f"{row.file}:{row.line} has the tag {tag!r}{others}, which train lacks: it has "
            f"{', '.join(raw.labels or ())}"
        )
