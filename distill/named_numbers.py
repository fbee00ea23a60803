"""Options that give names a number each, as in soft=5,mlm=2."""

import math
from collections.abc import Collection

from common.errors import UserError, unknown_name


def named_numbers(
    option: str, text: str, known: Collection[str], *, what: str, example: str, default: float = math.nan
) -> dict[str, float]:
    """Name to number, in the order given; a name alone has the number `default`.

    >>> named_numbers("--losses", "soft=5, cosine", ("soft", "cosine"), what="weight", example="soft=5", default=1.0)
    {'soft': 5.0, 'cosine': 1.0}

    Args:
        option: the flag, for messages.
        text: what the user gave.
        known: the names there are.
        what: the numbers are called, for messages.
        example: of such an option.
        default: NaN where a name needs a number.

    Raises:
        UserError: no name, an unknown one, one that comes twice, or a number that is not above 0.
    """
    numbers: dict[str, float] = {}
    for name, number in named_texts(option, text, known).items():
        numbers[name] = default if number is None else _number(number)
        if not 0 < numbers[name] < math.inf:
            entry = name if number is None else f"{name}={number}"
            raise UserError(f"{option} {entry}: expected a {what} above 0, as in {example}")
    if not numbers:
        raise UserError(f"{option} {text}: expected names with a {what} each, as in {example}")
    return numbers


def named_texts(option: str, text: str, known: Collection[str]) -> dict[str, str | None]:
    """Name to what stands after its =, in the order given; None for a name alone.

    >>> named_texts("--loss-weights", "soft=8..1, hard", ("soft", "hard"))
    {'soft': '8..1', 'hard': None}

    Raises:
        UserError: an unknown name, or one that comes twice.
    """
    texts: dict[str, str | None] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, number = (part.strip() for part in entry.partition("="))
        if name not in known:
            raise unknown_name(f"name in {option}", name, known)
        if name in texts:
            raise UserError(f"{option} {text} names {name} twice")
        texts[name] = number if equals else None
    return texts


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
