"""Tables on a terminal."""

from collections.abc import Sequence


def aligned(headings: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> str:
    """Lines of headings and of rows, as many texts each; the first column to the left, the others to the right.

    A column that is empty in all rows is left out.

    >>> print(aligned([("model", "spread", "score")], [("tiny", "", "0.5")]))
    model  score
    tiny     0.5
    """
    table = [*headings, *rows]
    columns = [column for column, _ in enumerate(headings[0]) if any(row[column] for row in rows)]
    widths = {column: max(len(row[column]) for row in table) for column in columns}
    return "\n".join(
        "  ".join(
            row[column].rjust(widths[column]) if column else row[column].ljust(widths[column]) for column in columns
        ).rstrip()
        for row in table
    )
