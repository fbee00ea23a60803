"""Cut text into sentences with regular expressions.

A sentence ends at . ! ? or … (with closing quotes or brackets) before white space and a capital, a digit or an opening
sign; at 。 ！ ？ always. It does not end after an abbreviation (Mr., e.g.; No., Fig. and months
only before a number), after a single capital (J. Smith), nor inside a number, since no white space follows there.
"""

import re
from collections.abc import Callable, Iterable

_ABBREVIATION = re.compile(
    r"(?i)mr|mrs|ms|messrs|mme|mlle|dr|prof|rev|hon|st|sr|jr|capt|col|gen|lieut|lt|sgt|maj|gov|sen|rep|vs|viz|cf|al"
    r"|e\.g|i\.e|eds|approx|ca|dept|univ"
)
_BEFORE_NUMBERS = re.compile(r"(?i)no|nos|figs?|eqs?|sec|ch|vol|pp?|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec")
_NUMBER_NEXT = re.compile(r"\.\s+\d")
_END = re.compile(
    r"""(?P<stop>[.!?…]+[)\]"'”’»]*)(?=\s+["'“‘«(\[`]*[^\W_a-z])"""  # then white space and no small letter
    r"""|(?P<wide>[。！？]+[」』”’）"]*)"""
)
_LAST_WORD = re.compile(r"[\w.]+$")


def split_sentences(text: str) -> list[str]:
    """Sentences of a text, white space within each reduced to single spaces.

    >>> split_sentences("Dr. J. Smith paid 3.5 dollars. He left!")
    ['Dr. J. Smith paid 3.5 dollars.', 'He left!']
    >>> split_sentences("好。很好！")
    ['好。', '很好！']
    """
    sentences, start = [], 0
    for match in _END.finditer(text):
        if match["stop"] == "." and _keeps_going(text, start, match.start()):
            continue
        sentences.append(text[start : match.end()])
        start = match.end()
    sentences.append(text[start:])
    return [" ".join(words) for sentence in sentences if (words := sentence.split())]


def _keeps_going(text: str, start: int, dot: int) -> bool:
    """Whether the full stop at `dot` belongs to an abbreviation or an initial."""
    last = _LAST_WORD.search(text, max(start, dot - 20), dot)
    if last is None:
        return False
    word = last.group()
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    if is_initial or _ABBREVIATION.fullmatch(word):
        return True
    return bool(_BEFORE_NUMBERS.fullmatch(word) and _NUMBER_NEXT.match(text, dot))


_BLANK = re.compile(r"\n[ \t]*\n")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_RULER = re.compile(r"[-=~^`#*+ |]{3,}")


def docstring_sentences(docstring: str) -> list[str]:
    """Sentences of a cleaned docstring without its interactive examples, fenced code and underlines.

    Blank lines end a sentence; parameter lists stay, since they are most of what such text says.
    """
    return [
        sentence
        for piece in _BLANK.split(_FENCE.sub("\n\n", docstring))
        if not piece.lstrip().startswith(">>>")
        for unit in _units(piece.split("\n"))
        for sentence in split_sentences(unit)
    ]


def _units(lines: Iterable[str]) -> list[str]:
    """Lines that belong together: a new unit starts after an underline, and where the indentation falls."""
    units: list[list[str]] = [[]]
    depth = 0
    for line in lines:
        indentation = len(line) - len(line.lstrip())
        if indentation < depth or _RULER.fullmatch(line.strip()):
            units.append([])
        if not _RULER.fullmatch(line.strip()):
            units[-1].append(line)
        depth = indentation
    return ["\n".join(unit) for unit in units]


def line_sentences(text: str) -> list[str]:
    """Sentences of a document whose lines end sentences."""
    return [sentence for line in text.split("\n") for sentence in split_sentences(line)]


CUTS: dict[str, Callable[[str], list[str]]] = {"lines": line_sentences, "docstring": docstring_sentences}
"""How the text of a document becomes sentences, by name: other processes are told the name."""
