"""Distil the same student from the same teacher with this project and with its peers: speed and accuracy on SST-2.

All read the same tokenised texts and the same first weights, and run one after another, in turn, on the same threads.
Peers need an environment of their own, made with tests/bench/peers.txt.
"""

import argparse
import dataclasses
import shlex
import statistics
import sys

from rounds import PACE, Entry, Rounds, command_line, epochs_seconds, middle, pace, table

from common.errors import UserError, unknown_name
from common.progress import say

OURS = "ours"
ENTRIES = (
    Entry(name=OURS, script="ours.py"),
    Entry(name="ours-intermediate", script="ours.py", options=("--intermediate",)),
    Entry(name="textbrewer", script="peer_textbrewer.py"),
    Entry(name="textbrewer-logits", script="peer_textbrewer.py", options=("--logits-only",)),
    Entry(name="trainer-fp32", script="peer_trainer.py"),
    Entry(name="trainer-bf16", script="peer_trainer.py", options=("--bf16",)),
)


def main() -> None:
    options = _options()
    entries = _entries(options)
    rounds = Rounds(options, "compare.json")
    pages = []
    if options.steps:
        timed = [entry.plus("--steps", str(options.steps), "--warmup", str(options.warmup)) for entry in entries]
        pages.append(speed(rounds.interleave(timed, options.repeats), [entry.name for entry in entries]))
        say(pages[-1])
    if options.minutes:
        budget = [entry.plus("--minutes", str(options.minutes)) for entry in entries]
        pages.append(accuracies(rounds.interleave(budget, options.repeats), f"{options.minutes:g} minutes"))
        say(pages[-1])
    if options.full:
        pages.append(accuracies(_full(rounds, entries, options), "the wall time of our full run"))
        say(pages[-1])
    (options.out / "compare.md").write_text("\n\n".join(pages) + "\n", encoding="utf-8")


def speed(results: list[dict], names: list[str]) -> str:
    """Medians over the repeats; "times ours" is the wall time of all epochs against ours."""
    walls = {name: middle(results, name, epochs_seconds) for name in names}
    header = ["contestant", *PACE, f"{results[0]['options']['epochs']} epochs, s", f"times {OURS}"]
    rows = [[name, *pace(results, name), f"{wall:.0f}", f"{wall / walls[OURS]:.2f}"] for name, wall in walls.items()]
    return table(header, rows)


def accuracies(results: list[dict], budget: str) -> str:
    """Mean and range over the seeds."""
    header = ["contestant", f"training for {budget}: wall, s", "steps", "epochs", "dev accuracy", "lowest to highest"]
    rows = []
    for name in dict.fromkeys(result["contestant"] for result in results):
        values = [result["dev_accuracy"] for result in results if result["contestant"] == name]
        rows.append(
            [
                name,
                f"{middle(results, name, lambda result: result['seconds']):.0f}",
                f"{middle(results, name, lambda result: result['total_steps']):.0f}",
                f"{middle(results, name, _epochs):.2f}",
                f"{statistics.mean(values):.4f}",
                f"{min(values):.4f} to {max(values):.4f}",
            ]
        )
    return table(header, rows)


def _epochs(result: dict) -> float:
    return result["total_steps"] / result["steps_per_epoch"]


def _full(rounds: Rounds, entries: list[Entry], options: argparse.Namespace) -> list[dict]:
    """Ours trains all epochs, the peers as long as that took; with --peers-full all epochs too."""
    results = []
    for seed in range(options.repeats):
        own = rounds.run(next(entry for entry in entries if entry.name == OURS).plus("--full"), seed)
        results.append(own)
        for entry in entries:
            if entry.name != OURS:
                whole = options.peers_full or entry.script == "ours.py"
                mode = ("--full",) if whole else ("--minutes", f"{own['seconds'] / 60:.4f}")
                results.append(rounds.run(entry.plus(*mode), seed))
    return results


def _entries(options: argparse.Namespace) -> list[Entry]:
    known = {entry.name: entry for entry in ENTRIES}
    names = options.contestants.split(",")
    extra = dict(pair.partition("=")[::2] for pair in options.extra)
    for name in (*names, *extra):
        if name not in known:
            raise unknown_name("contestant", name, known)
    if names[0] != OURS:
        raise UserError(f"--contestants {options.contestants}: {OURS} comes first, the others are compared with it")
    chosen = [known[name].plus(*shlex.split(extra.get(name, ""))) for name in names]
    peers = [entry for entry in chosen if entry.script != "ours.py"]
    if peers and options.peers is None:
        raise UserError(f"--peers is missing: {peers[0].name} needs a Python with tests/bench/peers.txt installed")
    return [dataclasses.replace(entry, python=options.peers) if entry in peers else entry for entry in chosen]


def _options() -> argparse.Namespace:
    parser = command_line(__doc__)
    parser.add_argument("--peers", help="Python of the peers' environment")
    parser.add_argument("--contestants", default=",".join(entry.name for entry in ENTRIES))
    parser.add_argument("--extra", action="append", default=[], help="NAME=OPTIONS for one contestant; may be repeated")
    parser.add_argument("--minutes", type=float, help="also: accuracy after training so long")
    parser.add_argument("--full", action="store_true", help="also: accuracy after our epochs, and theirs in that time")
    parser.add_argument("--peers-full", action="store_true", help="with --full: the peers train all epochs as well")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
