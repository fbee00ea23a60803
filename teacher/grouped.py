"""Rows held out by groups, so that none of a group is learned from while others are asked about."""

import random
from collections import Counter
from collections.abc import Callable, Sequence

from common.errors import UserError
from teacher.raw import Row


def pick_groups(rows: Sequence[Row], count: int, seed: int, group: Callable[[Row], str]) -> tuple[list[Row], list[Row]]:
    """(picked, others), both in the order of `rows`: whole groups, in random order, that hold at most `count` rows.

    Where each alone has more, the smallest is picked.

    Raises:
        UserError: a single group.
    """
    sizes = Counter(map(group, rows))
    if len(sizes) < 2:
        raise UserError(
            f"{rows[0].file}: all rows are about one text, so none can be held out: give a folder with train, dev and "
            "test files"
        )
    order = sorted(sizes)
    random.Random(seed).shuffle(order)
    chosen: set[str] = set()
    total = 0
    for name in order:
        if total + sizes[name] <= count and len(chosen) < len(sizes) - 1:
            chosen.add(name)
            total += sizes[name]
    chosen = chosen or {min(order, key=lambda name: (sizes[name], name))}
    return [row for row in rows if group(row) in chosen], [row for row in rows if group(row) not in chosen]
