"""Contestants as processes in turn, and what came of them as tables and JSON."""

import argparse
import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from work import prepare_work

from common.bootstrap import Interval
from common.files import write_json
from common.hardware import cpu_name, instruction_sets, memory_bytes, usable_cores
from common.progress import say

HERE = Path(__file__).resolve().parent
BUSY = 0.5
"""Load above which a machine is not idle: operations split over all threads wait for the slowest of them."""
PACE = ("ms a step", "texts a step", "texts a second", "padded tokens a text")
"""Header of `pace`."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One contestant of a run."""

    name: str
    script: str
    """In this folder."""
    options: tuple[str, ...] = ()
    python: str = sys.executable

    def plus(self, *options: str) -> "Entry":
        return dataclasses.replace(self, options=(*self.options, *options))


class Rounds:
    """Runs contestants one after another and keeps every result.

    Args:
        options: of `command_line`.
        file: in the folder --out, JSON, written anew after every run.
    """

    def __init__(self, options: argparse.Namespace, file: str) -> None:
        self._work, self._out, self._threads = options.out / "work", options.out / file, options.threads
        self._facts = {
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": sys.argv,
            "machine": machine(),
            "threads": options.threads,
            "inputs": prepare_work(self._work, options.data, options.teacher),
        }
        self.results: list[dict] = []
        load = os.getloadavg()[0]
        if load > BUSY:
            say(f"warning: load {load:.1f}: other work on this machine slows some contestants more than others")

    def run(self, entry: Entry, seed: int) -> dict:
        """One process; its last line of output is the result.

        Raises:
            SystemExit: it failed; its output has been shown.
        """
        command = [entry.python, str(HERE / entry.script), "--work", str(self._work), "--seed", str(seed)]
        command += ["--threads", str(self._threads), *entry.options]
        settings = {name: str(self._threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        settings |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{entry.name} failed:\n{done.stdout}\n{done.stderr}")
        result = json.loads(done.stdout.strip().splitlines()[-1]) | {"contestant": entry.name}
        self.results.append(result)
        write_json(self._out, self._facts | {"runs": self.results})
        reached = f", dev accuracy {result['dev_accuracy']:.4f}" if "dev_accuracy" in result else ""
        say(
            f"{entry.name}, seed {seed}: {result['milliseconds_a_step']:.0f} ms a step, "
            f"{result['texts_a_second']:.0f} texts a second{reached}"
        )
        return result

    def interleave(self, entries: Sequence[Entry], repeats: int) -> list[dict]:
        """A B C, A B C, ...: a machine that slows down for a while slows all of them. Repeats are seeds."""
        return [self.run(entry, seed) for seed in range(repeats) for entry in entries]


def machine() -> dict:
    """What the figures were measured on."""
    return {
        "processor": cpu_name(),
        "instruction_sets": list(instruction_sets()),
        "cores": usable_cores(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def middle(results: Iterable[dict], contestant: str, value: Callable[[dict], float]) -> float:
    """The median over a contestant's repeats."""
    return statistics.median(value(result) for result in results if result["contestant"] == contestant)


def epochs_seconds(result: dict) -> float:
    """Wall time of all epochs at the pace of the timed steps, preparation included."""
    step = result["mean_milliseconds_a_step"] / 1000
    preparation = result["train_texts"] * result["preparation_seconds_a_text"]
    return int(result["options"]["epochs"]) * result["steps_per_epoch"] * step + preparation


def pace(results: list[dict], contestant: str) -> list[str]:
    """Cells for PACE, medians."""
    return [
        f"{middle(results, contestant, lambda result: result['milliseconds_a_step']):.0f}",
        f"{middle(results, contestant, lambda result: result['train_texts'] / result['steps_per_epoch']):.1f}",
        f"{middle(results, contestant, lambda result: result['texts_a_second']):.0f}",
        f"{middle(results, contestant, lambda result: result['padded_tokens_a_text']):.1f}",
    ]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def points(value: float, spread: float | None) -> str:
    """A score in hundredths, with its spread over seeds."""
    return f"{100 * value:.2f}" + ("" if spread is None else f" ± {100 * spread:.2f}")


def gap(interval: Interval | None) -> str:
    """A difference in hundredths with the ends of its interval."""
    if interval is None:
        return ""
    return f"{100 * interval.difference:+.2f} ({100 * interval.low:+.2f} to {100 * interval.high:+.2f})"


def command_line(description: str | None) -> argparse.ArgumentParser:
    """The options that every comparison takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="folder with GLUE's SST-2 files")
    parser.add_argument("--teacher", type=Path, required=True, help="folder of a model fine-tuned on SST-2")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/sst2"), help="results, and what contestants read")
    parser.add_argument("--steps", type=int, default=300, help="timed steps; 0: no timing")
    parser.add_argument("--warmup", type=int, default=20, help="steps before them, 1 at least")
    parser.add_argument("--repeats", type=int, default=3, help="of everything; each is a seed")
    parser.add_argument("--threads", type=int, default=2)
    return parser
