"""Numbers and errors in messages."""


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "row"), counted(1200, "row"), counted(2, "class", "classes")
    ('1 row', '1,200 rows', '2 classes')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def first_line(error: BaseException) -> str:
    """What an error of a library says, without the lines that only its developers can use; else its kind.

    >>> first_line(ValueError(" no such key ")), first_line(ValueError())
    ('no such key', 'ValueError')
    """
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
