"""Which rows train, select and evaluate: seeded, by class, and no text in two of them."""

import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import Literal

from common.errors import UserError
from common.words import counted
from teacher.grouped import pick_groups
from teacher.labels import too_many_labels
from teacher.raw import RawTask, Row

SELECT_SHARE, MOST_SELECT = 0.1, 1000
LEAST_ROWS = 10


def resolve_splits(raw: RawTask, seed: int) -> None:
    """Turn the parts "train", "dev", "test" into "train", "select", "evaluate".

    - A labelled test part: evaluate = test, select = dev (without dev: held out from train).
    - Train and dev only: evaluate = dev, which then has no say in selection; select is held out from train.
    - A single file: 80 / 10 / 10 by class, exact duplicates removed before.

    Held out: min(1,000, 10 %) of the rows, by class, or whole groups where the task has some. Parts that are already
    the three splits stay.

    Raises:
        UserError: too few rows; hardly a label that comes twice, so that nothing can be held out.
    """
    parts = raw.parts
    if "select" in parts and "evaluate" in parts:
        return
    single = "test" not in parts and "dev" not in parts
    repeats = _drop_repeats(raw) if single else 0
    train, train_name = parts["train"], raw.origins["train"]
    if len(train) < LEAST_ROWS:
        after = f" after removing {counted(repeats, 'duplicate row')}" if repeats else ""
        found = counted(len(train), "row")
        raise UserError(f"{train_name} has {found} with text{after}: at least {LEAST_ROWS} are needed")
    origins = {"train": train_name, "select": f"held out from {train_name}, seed {seed}"}
    if "test" in parts:
        evaluate, origins["evaluate"] = parts["test"], raw.origins["test"]
    elif "dev" in parts:
        evaluate, origins["evaluate"] = parts["dev"], raw.origins["dev"]
    else:
        evaluate, train = _hold_out(raw, train, round(SELECT_SHARE * len(train)), seed)
        origins["evaluate"] = origins["select"]
    if "test" in parts and "dev" in parts:
        select, origins["select"] = parts["dev"], raw.origins["dev"]
    else:
        # A single file gives as many rows to select as to evaluate: 10 % of all.
        wanted = min(MOST_SELECT, round(SELECT_SHARE * len(train)))
        wanted = len(evaluate) if single else wanted
        select, train = _hold_out(raw, train, wanted, seed + 1)
    raw.parts, raw.origins = {"train": train, "select": select, "evaluate": evaluate}, origins


def remove_leaks(raw: RawTask) -> None:
    """No text in two splits: rows of train that select or evaluate hold, and rows of select that evaluate holds, go."""
    key = raw.key or _key
    held: set[Hashable] = set()
    for split in ("evaluate", "select", "train"):
        kept = [row for row in raw.parts[split] if key(row) not in held]
        removed = len(raw.parts[split]) - len(kept)
        if removed:
            raw.notes.append(f"{counted(removed, 'row')} of {split} removed, since a held-out split has the same text")
        if not kept:
            raise UserError(
                f"every text of {split} ({raw.origins[split]}) also stands in a held-out part: "
                f"nothing is left to {split}"
            )
        raw.parts[split] = kept
        held |= {key(row) for row in kept}
    _count_conflicts(raw)


def cap_rows(raw: RawTask, rows: int | Literal["all"] | None, seed: int) -> None:
    """Keep `rows` training rows, by class; None and "all" keep every row."""
    train = raw.parts["train"]
    if rows is None or rows == "all" or rows == len(train):
        return
    if rows > len(train):
        raw.notes.append(f"--rows {rows:,} asked for, all {len(train):,} training rows used")
        return
    classes = len({row.label for row in train}) if raw.kind == "classification" else 2
    if rows < classes:
        raise UserError(f"--rows {rows} is less than the {classes} classes of {raw.name}: give at least {classes}")
    raw.parts["train"] = pick_by_class(train, rows, seed, stratify=raw.kind == "classification")[0]
    raw.origins["train"] += f", {rows:,} of {len(train):,} rows by class, seed {seed}"


def pick_by_class(
    rows: Sequence[Row], count: int, seed: int, *, stratify: bool, spare: bool = False
) -> tuple[list[Row], list[Row]]:
    """(picked, others), both in the order of `rows`, with each class's share of `count` by largest remainder.

    Every class keeps at least one row on one side: among the picked ones, or with `spare` among the others.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        groups[row.label if stratify else ""].append(index)
    least = 0 if spare else 1
    room = {label: len(group) - (1 if spare else 0) for label, group in groups.items()}
    exact = {label: count * len(group) / len(rows) for label, group in groups.items()}
    quota = {label: min(room[label], max(least, int(exact[label]))) for label in groups}
    by_remainder = sorted(groups, key=lambda label: (quota[label] - exact[label], label))
    while (missing := count - sum(quota.values())) != 0:
        step = 1 if missing > 0 else -1
        order = by_remainder if step > 0 else by_remainder[::-1]
        able = [label for label in order if least <= quota[label] + step <= room[label]][: abs(missing)]
        if not able:
            break
        for label in able:
            quota[label] += step
    generator = random.Random(seed)
    picked = {index for label in sorted(groups) for index in generator.sample(groups[label], quota[label])}
    return (
        [row for index, row in enumerate(rows) if index in picked],
        [row for index, row in enumerate(rows) if index not in picked],
    )


def _hold_out(raw: RawTask, rows: Sequence[Row], count: int, seed: int) -> tuple[list[Row], list[Row]]:
    if raw.group is not None:
        return pick_groups(rows, max(1, count), seed, raw.group)
    picked, others = pick_by_class(rows, max(1, count), seed, stratify=raw.kind == "classification", spare=True)
    if 2 * len(picked) < max(1, count):
        raise too_many_labels(raw)
    return picked, others


def _drop_repeats(raw: RawTask) -> int:
    """How many rows went."""
    train = raw.parts["train"]
    unique = list({(row.text, row.pair, row.label, row.detail): row for row in reversed(train)}.values())[::-1]
    repeats = len(train) - len(unique)
    if repeats:
        raw.notes.append(f"{counted(repeats, 'exact duplicate')} removed before splitting")
        raw.parts["train"] = unique
    return repeats


def same(text: str, pair: str | None) -> tuple[str, str | None]:
    """Equal for texts, alone or in pairs, that differ in white space only."""
    return " ".join(text.split()), pair and " ".join(pair.split())


def _key(row: Row) -> tuple[str, str | None]:
    return same(row.text, row.pair)


def _count_conflicts(raw: RawTask) -> None:
    if raw.kind != "classification":
        return
    seen: dict[tuple[str, str | None], str] = {}
    counts: Counter[bool] = Counter(seen.setdefault(_key(row), row.label) != row.label for row in raw.parts["train"])
    if counts[True]:
        rows = f"{counted(counts[True], 'training row')} {'has' if counts[True] == 1 else 'have'}"
        raw.notes.append(f"{rows} the text of another row and a different label")
