"""Questions about a text, whose answers stand in it (SQuAD 1.1 and 2.0): what every file of them becomes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from common.errors import UserError
from common.words import counted
from teacher.raw import RawTask, Row

KIND = "questions"
_NEAR = 20
"""Characters that an answer may stand beside its place, where it stands in the text several times."""
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Answer:
    """A stretch of the context."""

    text: str
    start: int
    """Its first character in the context."""


@dataclass(frozen=True, slots=True)
class Gold:
    """What a question has beside itself and its context."""

    answers: tuple[Answer, ...]
    """Any of them is right; none: the context does not answer the question."""
    id: str = field(compare=False)
    article: str = field(compare=False)
    """What its context is a part of."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """As a file has it, not looked at yet."""

    question: str
    context: str
    answers: Sequence[tuple[str, int | None]]
    """Text and first character, where it is said."""
    id: str
    article: str
    file: str
    line: int
    """Its place in the file, from 1."""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line} (question {self.id})"


def question_task(
    name: str,
    parts: Mapping[str, Sequence[Question]],
    origins: Mapping[str, str],
    sources: Mapping[str, str],
    notes: Sequence[str],
) -> RawTask:
    """Rows whose text is the question and whose pair the context; the metric is F1 over words.

    Where rows have to be held out, those of an article stay together, or where there are fewer than three articles
    those of a context.

    Raises:
        UserError: an answer that does not stand in its context, or no question at all; names file and id.
    """
    raw = RawTask(name=name, parts={}, origins=dict(origins), sources=dict(sources), notes=list(notes), kind=KIND)
    raw.labels, raw.metric, moved, empty = (), "f1", 0, 0
    for part, questions in parts.items():
        usable = [entry for entry in questions if entry.question.strip() and entry.context.strip()]
        empty += len(questions) - len(usable)
        if part != "train" and not any(entry.answers for entry in usable):
            raw.notes.append(f"{origins[part]} has no answers, so it is not used")
            continue
        found = [_row(entry) for entry in usable]
        raw.parts[part] = [row for row, _ in found]
        moved += sum(count for _, count in found)
    if not any(row.detail.answers for row in raw.parts["train"]):
        raise UserError(f"{origins['train']} holds no question with an answer: nothing can be learned")
    if empty:
        raw.notes.append(f"{counted(empty, 'question')} without words, or about an empty text, left out")
    if moved:
        raw.notes.append(f"{counted(moved, 'answer')} stood beside the place named, or with other white space")
    raw.group = _groups([row for rows in raw.parts.values() for row in rows]).__getitem__
    return raw


def _row(entry: Question) -> tuple[Row, int]:
    """The row, and how many of its answers did not stand where they were said to."""
    context = _HALF.sub("\ufffd", entry.context)
    given = [(text, start) for text, start in entry.answers if text.strip()]
    answers = tuple(_placed(context, _HALF.sub("\ufffd", text), start, entry.where) for text, start in given)
    moved = sum(start is not None and not context.startswith(text, start) for text, start in given)
    gold = Gold(answers=answers, id=entry.id, article=entry.article)
    question = _HALF.sub("\ufffd", " ".join(entry.question.split()))
    return Row(question, context, answers[0].text if answers else "", entry.file, entry.line, gold), moved


def _placed(context: str, text: str, start: int | None, where: str) -> Answer:
    """The answer without white space at its ends, where it stands: at `start`, or near it with other white space."""
    if start is not None and context[start : start + len(text)] == text:
        return Answer(text.strip(), start + len(text) - len(text.lstrip()))
    pattern = r"\s+".join(map(re.escape, text.split()))
    found = [(match.start(), match.group()) for match in re.finditer(pattern, context)]
    if not found:
        raise UserError(f"{where}: the answer {text[:60]!r} does not stand in its context: correct it or leave it out")
    place, written = min(found, key=lambda entry: abs(entry[0] - (start or 0)))
    if start is not None and len(found) > 1 and abs(place - start) > _NEAR:
        raise UserError(
            f"{where}: the answer {text[:60]!r} does not stand at character {start:,}, where "
            f"{context[start : start + len(text)][:60]!r} stands: correct answer_start (characters, from 0)"
        )
    return Answer(written, place)


def _groups(rows: Sequence[Row]) -> "_Groups":
    articles = _Groups(rows, [row.detail.article for row in rows])
    return articles if len(articles) >= 3 else _Groups(rows, [str(row.pair) for row in rows])


class _Groups:
    """The group of each row: its article, or another that has one of its contexts too."""

    def __init__(self, rows: Iterable[Row], names: Sequence[str]) -> None:
        self._first: dict[str, str] = {}
        self._names = dict.fromkeys(names)
        self._parent: dict[str, str] = {}
        for row, name in zip(rows, names, strict=True):
            own, other = self._root(name), self._root(self._first.setdefault(_plain(row), name))
            if own != other:
                self._parent[max(own, other)] = min(own, other)

    def __len__(self) -> int:
        return len(set(map(self._root, self._names)))

    def __getitem__(self, row: Row) -> str:
        return self._root(self._first[_plain(row)])

    def _root(self, name: str) -> str:
        while name in self._parent:
            name = self._parent[name]
        return name


def _plain(row: Row) -> str:
    return " ".join(str(row.pair).split())
