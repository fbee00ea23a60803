"""Files of questions: SQuAD's json, or json lines with a question, a context and its answers."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.errors import UserError
from teacher.columns import Asked
from teacher.decoding import UNREADABLE, Oddities, open_start, read_text, suffix_of
from teacher.questions import Question, question_task
from teacher.raw import RawTask

_SUFFIXES = (".json", ".jsonl", ".ndjson")
_HEAD = 200_000
"""Characters that tell what a file holds."""
_FLAT = {"question", "context", "answers"}


def matches(file: Path) -> bool:
    """Whether it begins as SQuAD's json does, or its first line is an object with question, context and answers."""
    if suffix_of(file) not in _SUFFIXES:
        return False
    try:
        with open_start(file) as stream:
            head = stream.read(_HEAD).lstrip()
    except UNREADABLE:
        return False
    if head.startswith("{") and re.search(r'"data"\s*:\s*\[', head) and '"paragraphs"' in head:
        return True
    try:
        first, _ = json.JSONDecoder().raw_decode(head.lstrip("[").lstrip())
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and first.keys() >= _FLAT


def load(name: str, files: Mapping[str, Path], asked: Asked) -> RawTask:
    """The questions of each part.

    Raises:
        UserError: json that is broken or lacks an entry, or an answer that does not stand in its context; names file
            and question.
    """
    if asked.names():
        raise UserError(
            f"{next(iter(files.values())).name}: questions are found by their names (question, context, answers): "
            "leave --text-column, --pair-column, --label-column out"
        )
    oddities = Oddities()
    parts, sources = {}, {}
    for part, file in files.items():
        text, raw = read_text(file, oddities)
        sources[file.name] = hashlib.sha256(raw).hexdigest()
        parts[part] = _questions(file, text)
    return question_task(name, parts, {part: file.name for part, file in files.items()}, sources, oddities.notes())


def _questions(file: Path, text: str) -> list[Question]:
    value = _json(file, text)
    if isinstance(value, dict) and "data" in value:
        return list(_of_articles(file, value["data"]))
    return [_flat(file, line, entry) for line, entry in enumerate(value if isinstance(value, list) else [value], 1)]


def _json(file: Path, text: str) -> Any:
    """One value, or the list of those on the lines."""
    whole: Exception
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        whole = error
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    found = []
    for number, line in lines:
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            # What begins as one value is told as one.
            problem = error if found else whole
            place = number if found else getattr(whole, "lineno", number)
            raise UserError(f"{file}:{place} is not json ({getattr(problem, 'msg', problem)})") from error
    return found


def _of_articles(file: Path, articles: Any) -> Iterator[Question]:
    count = 0
    for number, article in enumerate(_list(articles, f"{file}: data"), 1):
        title = str(article.get("title") or f"article {number}") if isinstance(article, dict) else ""
        for paragraph in _list(_entry(article, "paragraphs", f"{file}: article {number}"), f"{file}: {title}"):
            context = _words(_entry(paragraph, "context", f"{file}: {title}"))
            for entry in _list(_entry(paragraph, "qas", f"{file}: {title}"), f"{file}: {title}"):
                count += 1
                yield _question(file, count, entry, context, title)


def _flat(file: Path, line: int, entry: Any) -> Question:
    context = _words(_entry(entry, "context", f"{file}:{line}"))
    return _question(file, line, entry, context, str(entry.get("title") or context))


def _question(file: Path, line: int, entry: Any, context: str, article: str) -> Question:
    asked = _entry(entry, "question", f"{file}:{line}")
    name = str(entry.get("id", line))
    where = f"{file}:{line} (question {name})"
    impossible = entry.get("is_impossible") is True
    return Question(
        question=_words(asked),
        context=context,
        answers=[] if impossible else list(_answers(entry.get("answers"), where)),
        id=name,
        article=article,
        file=file.name,
        line=line,
    )


def _words(value: Any) -> str:
    """A question or context as text; null and NaN, which is what pandas writes for none, are empty."""
    return "" if value is None or value != value else str(value)


def _answers(value: Any, where: str) -> Iterator[tuple[str, int | None]]:
    """Texts and their places, from a list of objects or texts, or from an object of two lists."""
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        starts = value.get("answer_start") or [None] * len(value["text"])
        value = [{"text": text, "answer_start": start} for text, start in zip(value["text"], starts, strict=False)]
    for answer in _list(value or [], where):
        if isinstance(answer, str):
            answer = {"text": answer}
        text = _entry(answer, "text", where)
        start = answer.get("answer_start")
        if not isinstance(text, str) or not (start is None or (isinstance(start, int) and start >= 0)):
            raise UserError(f"{where}: an answer needs a text, and answer_start, the number of its first character")
        yield text, start


def _entry(value: Any, name: str, where: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        found = ", ".join(list(value)[:6]) if isinstance(value, dict) else type(value).__name__
        raise UserError(f"{where}: an object with {name!r} was expected, found {found or 'nothing'}")
    return value[name]


def _list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise UserError(f"{where}: a list was expected, found {type(value).__name__}")
    return value
