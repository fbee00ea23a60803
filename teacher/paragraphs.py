"""What a paragraph of pydocs is. Pure functions on text; standard library only.

A docstring is cut at blank lines. A piece is a paragraph when all of its lines stand at one indentation (parameter
lists do not), it does not start like code, markup, a list or a field, it has at least `MINIMUM_WORDS` words, and
three words in five are plain words. The library's own name is then replaced by a neutral word.
"""

import hashlib
import re

MINIMUM_WORDS = 6
PLAIN_SHARE = 0.6
MASK = "library"
"""What stands where a library's name stood."""

_NAMES = (
    "pytorch|torch|transformers|sympy|pandas|matplotlib|sqlalchemy|networkx|numpy|datasets"
    "|hugging[ _]?face[ _]?hub|hugging[ _]?face|hf"
)
_ALIASES = "np|pd|plt|mpl|nx|sa"
# A name counts wherever no letter touches it, so also in torch_dtype; an alias only before a dot, as in np.array.
_MASKED = re.compile(rf"(?<![a-z])(?:{_NAMES}|(?:{_ALIASES})(?=\.[a-z_]))(?![a-z])", re.IGNORECASE)

_BLANK = re.compile(r"\n[ \t]*\n")
_CODE_START = re.compile(r">>>|\.\. ?|[-*+•|@:#$=~^<]|\d+[.)] |\S+ ?:(?: |$)")
_CODE_ANYWHERE = re.compile(r">>>|```|----|====")
_EDGES = "(\"'`).,;:"
_PLAIN = re.compile(r"[A-Za-z][a-z'-]*")
_NOT_A_LETTER = re.compile(r"[^a-z]+")


def mask_names(text: str) -> str:
    """Replace the names of the ten libraries and their usual aliases.

    >>> mask_names("Like np.array, but for a PyTorch tensor.")
    'Like library.array, but for a library tensor.'
    """
    return _MASKED.sub(MASK, text)


def normalised(text: str) -> str:
    """What two paragraphs share when they count as the same: their letters. Case, digits, spaces, signs do not matter.

    >>> normalised("Add 1 to `x`.") == normalised("add 2 to X")
    True
    """
    return _NOT_A_LETTER.sub("", text.lower())


def as_paragraph(piece: str) -> str | None:
    """The piece of a docstring as one line with names masked, or None where it is no prose."""
    lines = piece.split("\n")
    if len({len(line) - len(line.lstrip()) for line in lines}) > 1 or _CODE_START.match(lines[0].lstrip()):
        return None
    words = piece.split()
    text = " ".join(words)
    if len(words) < MINIMUM_WORDS or _CODE_ANYWHERE.search(text):
        return None
    plain = sum(1 for word in words if _PLAIN.fullmatch(word.strip(_EDGES)))
    return mask_names(text) if plain >= PLAIN_SHARE * len(words) else None


def same_text_key(text: str) -> str:
    """A short hash of `normalised(text)`."""
    return hashlib.blake2b(normalised(text).encode(), digest_size=8).hexdigest()


def read_docstring(docstring: str) -> tuple[list[str], tuple[str, str] | None]:
    """All paragraphs of a cleaned docstring, and its (summary, body) pair.

    The pair is the first piece and the next paragraph after it, None where the first piece is none or nothing follows.
    """
    pieces = [as_paragraph(piece) for piece in _BLANK.split(docstring)]
    found = [piece for piece in pieces if piece]
    return found, (found[0], found[1]) if pieces[0] and len(found) > 1 else None
