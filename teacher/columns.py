"""Which column is the text, the pair and the label: given by name, by common names, or by what the columns hold."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from common.errors import UserError, unknown_name
from teacher.labels import nearly_all
from teacher.readers import Table


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TEXT_NAMES = _words(
    "sentence text review reviewtext content message tweet comment document utterance query question headline body "
    "description sms sentence1 texta text1 premise"
)
"""In lower case without signs, as all names here: "Review_Text" counts as "reviewtext"."""
PAIR_NAMES = tuple(
    tuple(names.split("/"))
    for names in _words(
        "sentence1/sentence2 question1/question2 text1/text2 texta/textb sentencea/sentenceb premise/hypothesis "
        "query/passage question/context question/answer question/sentence 1string/2string"
    )
)
LABEL_NAMES = _words(
    "label labels goldlabel class category target sentiment intent topic score rating similarity stars isduplicate "
    "quality polarity emotion y"
)
_OTHER_NAMES = frozenset({"id", "idx", "index", "guid", "uid", "pairid", "promptid"})
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_LONGEST_LABEL = 50


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Column names by role. In files without a header the names are "1", "2", ..."""

    text: str
    pair: str | None
    label: str | None
    """None in a table without labels."""
    header: bool
    """Whether the first record is a header."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the user named.

    Raises:
        UserError: two roles for one column.
    """

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    """One column, or several with commas between, each of a label that rows have (1) or have not (0)."""
    kind: str = "auto"
    """Of the task: auto, classification, regression or multilabel."""

    def __post_init__(self) -> None:
        roles = (("text", self.text), ("pair", self.pair), ("label", self.label))
        for (one, name), (other, same) in itertools.combinations(roles, 2):
            if name is not None and name == same:
                raise UserError(f"--{one}-column and --{other}-column are the same column, {name!r}: name two")

    def names(self) -> list[str]:
        return [name for name in (self.text, self.pair, self.label) if name is not None]


def find_columns(table: Table, asked: Asked) -> Columns:
    """The roles of a labelled table's columns.

    Raises:
        UserError: a named column does not exist, or it is not clear which columns to take; lists the columns.
    """
    header, names, records = _settle_header(table, asked)
    label = asked.label or _label(table, names, records, header, asked)
    text, pair = _texts(table, [name for name in names if name != label], records, names, asked)
    _refuse_repeated(table, names, (text, pair, label))
    return Columns(text=text, pair=pair, label=label, header=header)


def find_texts(table: Table, asked: Asked, *, others: Sequence[str] = ()) -> Columns:
    """The text and pair columns of a table whose labels, if it has any, are not looked at, or are read elsewhere.

    `others`: columns that are neither, beside the one that `asked` calls the label.

    Raises:
        UserError: as `find_columns` does.
    """
    header, names, records = _settle_header(table, asked)
    taken = (asked.label, *others)
    free = [name for name in names if len(names) == 1 or (plain(name) not in LABEL_NAMES and name not in taken)]
    text, pair = _texts(table, free, records, names, asked)
    _refuse_repeated(table, names, (text, pair, *taken))
    return Columns(text=text, pair=pair, label=None, header=header)


def _refuse_repeated(table: Table, names: Sequence[str], used: Sequence[str | None]) -> None:
    """Of two columns with one name nobody can say which is meant."""
    for name in used:
        if name is not None and names.count(name) > 1:
            raise UserError(f"{table.path} has {names.count(name)} columns {name!r}: give each a name of its own")


def _settle_header(table: Table, asked: Asked) -> tuple[bool, list[str], list[list[str]]]:
    """Whether there is a header, the columns' names, and the rows below it."""
    header = has_header(table, asked)
    names = column_names(table, header)
    for name in asked.names():
        if name not in names:
            raise UserError(f"{table.path}: {unknown_name('column', name, names)}")
    records = table.records[1:] if header and table.columns is None else table.records
    if not records:
        raise UserError(f"{table.path} holds a header and no rows")
    return header, names, records


def column_names(table: Table, header: bool) -> list[str]:
    if table.columns is not None:
        return table.columns
    first = table.records[0]
    return [name.strip() for name in first] if header else [str(number) for number in range(1, len(first) + 1)]


def has_header(table: Table, asked: Asked) -> bool:
    """Whether the first record names the columns.

    It does when it holds a name that the user gave or a common one that its column does not repeat, or when its entry
    in the column of labels is the only one that occurs once.
    """
    if table.columns is not None:
        return True
    first, rest = table.records[0], table.records[1:]
    if any(name in [entry.strip() for entry in first] for name in asked.names()):
        return True
    known = {*TEXT_NAMES, *LABEL_NAMES, *_OTHER_NAMES, *(name for pair in PAIR_NAMES for name in pair)}
    for position, entry in enumerate(first):
        if plain(entry) in known and not any(record[position] == entry for record in rest):
            return True
    return _odd_first_label(first, rest)


def _odd_first_label(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    if len(first) == 1:
        # Texts alone have no labels, though "ok" may come often.
        return False
    columns = [[record[position] for record in rest] for position in range(len(first))]
    labels = [position for position, values in enumerate(columns) if _repeats(values)]
    return bool(labels) and all(first[position] not in columns[position] for position in labels)


def _repeats(values: Sequence[str]) -> bool:
    """Whether every value occurs again, as labels do."""
    return bool(values) and 2 * len(set(values)) <= len(values) and max(map(len, values)) <= _LONGEST_LABEL


def plain(name: str) -> str:
    """A column name in lower case without signs and spaces: "Text_A" is "texta"."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _label(table: Table, names: list[str], records: list[list[str]], header: bool, asked: Asked) -> str:
    free = [name for name in names if name not in (asked.text, asked.pair)]
    if header:
        for wanted in LABEL_NAMES:
            for name in free:
                if plain(name) == wanted:
                    return name
    values = {name: [record[names.index(name)] for record in records] for name in free}
    plausible = [name for name in free if plain(name) not in _OTHER_NAMES and name not in table.nested]
    candidates = [name for name in plausible if _looks_like_labels(values[name])]
    if len(names) == 2 and len(candidates) == 2:
        candidates = [min(candidates, key=lambda name: (len(set(values[name])), sum(map(len, values[name]))))]
    if len(candidates) != 1:
        found = "no column looks" if not candidates else f"columns {', '.join(candidates)} all look"
        raise UserError(f"{table.path}: {found} like labels. {_listing(names, records)} Choose with --label-column")
    return candidates[0]


def _looks_like_labels(values: Sequence[str]) -> bool:
    """Few short values that repeat, or numbers with decimals (nearly all: the others are told as faults later)."""
    if max(map(len, values)) > _LONGEST_LABEL:
        return False
    numbers = [bool(_NUMBER.fullmatch(value.strip())) for value in values]
    if nearly_all(numbers) and any("." in value for value, number in zip(values, numbers, strict=True) if number):
        return True
    return len(set(values)) < len(values) and len(set(values)) <= max(2, len(values) // 2)


def _texts(
    table: Table, free: list[str], records: list[list[str]], names: list[str], asked: Asked
) -> tuple[str, str | None]:
    """The text and, where there is one, the pair column."""
    if asked.text:
        return asked.text, asked.pair
    free = [name for name in free if name != asked.pair]
    known = {plain(name): name for name in reversed(free)}
    if asked.pair is None:
        for first, second in PAIR_NAMES:
            if first in known and second in known:
                return known[first], known[second]
    common = [known[name] for name in TEXT_NAMES if name in known]
    candidates = common or [name for name in free if plain(name) not in _OTHER_NAMES]
    if len(candidates) > 1 and not common:
        candidates = [name for name in candidates if _looks_like_text([row[names.index(name)] for row in records])]
    if len(candidates) != 1:
        raise UserError(
            f"{table.path}: it is not clear which column is the text. {_listing(names, records)} "
            "Choose with --text-column (and --pair-column for a second text)"
        )
    return candidates[0], asked.pair


def _looks_like_text(values: Sequence[str]) -> bool:
    return sum(len(value) for value in values) >= 12 * len(values) and len(set(values)) * 2 > len(values)


def _listing(names: Sequence[str], records: Sequence[Sequence[str]]) -> str:
    """Columns with an example each."""
    shown = (f"{name} ({record[:30]!r})" for name, record in zip(names, records[0], strict=True))
    return f"Columns: {', '.join(shown)}."
