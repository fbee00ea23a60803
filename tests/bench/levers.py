"""What each thing that makes this project's training fast brings: from a plain loop, one after another.

With --alone each is taken out of the complete set instead, all others left in, but for the batches of 1,024 tokens,
which go with the length buckets.
"""

import sys

from rounds import PACE, Entry, Rounds, command_line, epochs_seconds, middle, pace, table

from common.errors import UserError
from common.progress import say

LEVERS = (
    ("bf16", ("--precision", "fp32")),
    # Batches by tokens need texts of like length: without buckets all have 32 texts.
    ("length buckets", ("--random-batches",)),
    ("teacher's logits once", ("--teacher-forward-each-step",)),
    ("embedding rows that occur", ("--all-rows",)),
    ("no dropout", ("--dropout",)),
    ("batches of 1,024 tokens", ("--tokens", "0")),
    ("two lanes", ("--one-lane",)),
)
"""A lever, and the options that leave it out."""
PLAIN = "plain: fp32, 32 random texts"


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--alone", action="store_true", help="leave out one lever at a time")
    options = parser.parse_args()
    rounds = Rounds(options, "levers.json")
    entries = [
        entry.plus("--steps", str(options.steps), "--warmup", str(options.warmup))
        for entry in (alone() if options.alone else ladder())
    ]
    results = rounds.interleave(entries, options.repeats)
    page = gains(results, [entry.name for entry in entries])
    say(page)
    (options.out / "levers.md").write_text(page + "\n", encoding="utf-8")


def ladder() -> list[Entry]:
    """From a loop without any lever to one with all."""
    names = [PLAIN, *(f"+ {name}" for name, _ in LEVERS)]
    left_out = [[option for _, without in LEVERS[rung:] for option in without] for rung in range(len(names))]
    return [
        Entry(name=name, script="ours.py", options=tuple(without))
        for name, without in zip(names, left_out, strict=True)
    ]


def alone() -> list[Entry]:
    """All levers, then all but one."""
    return [
        Entry(name="all", script="ours.py"),
        *(Entry(name=f"without {name}", script="ours.py", options=without) for name, without in LEVERS),
    ]


def gains(results: list[dict], names: list[str]) -> str:
    """Medians, and how many times faster than the line above and than the first one, in wall time of all epochs."""
    walls = [middle(results, name, epochs_seconds) for name in names]
    header = ["", *PACE, f"{results[0]['options']['epochs']} epochs, s", "times the line above", "times the first line"]
    rows = [
        [name, *pace(results, name), f"{wall:.0f}", f"{before / wall:.2f}", f"{walls[0] / wall:.2f}"]
        for name, before, wall in zip(names, [walls[0], *walls], walls, strict=False)
    ]
    return table(header, rows)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
