"""Pretraining against the machine and against the usual practice, for several sizes.

In turn, each a fresh process: the machine's best matrix product in the same precision, teacher.pretrain's training
steps with the pace of its data side alone, and transformers' Trainer with its MLM collator in fp32 and, where the
processor has it, in bf16. FLOPs are those that the model needs by hand, see pretrain_pace.Work. An interrupted
comparison is gone on with by the same command. With --profile each size has a further process, in one thread, that
says where the time of our steps goes.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pretrain_pace import text
from pretrain_table import pace_table, profile_table
from rounds import BUSY, HERE, machine

from common.errors import UserError
from common.files import write_json, write_text
from common.hardware import bf16_pays, usable_cores
from common.progress import say
from common.provenance import git_commit
from teacher.pretrain_options import SIZES

STEPS = {"tiny": (100, 10), "mini": (60, 10), "small": (30, 5), "medium": (16, 4), "base": (8, 2), "large": (3, 1)}
"""Timed steps and those before them: on two cores seconds a process, for base half a minute in fp32."""

PASSED = ("corpus", "objective", "length", "batch_size", "dropout", "threads")
"""Options that all contestants get, and that all runs of a folder have in common."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One contestant."""

    name: str
    script: str
    """In this folder."""
    options: tuple[str, ...] = ()


def entries() -> list[Entry]:
    """In the order in which they take turns."""
    found = [
        Entry(name="peak", script="pretrain_gemm.py"),
        Entry(name="ours", script="pretrain_ours.py"),
        Entry(name="Trainer, fp32", script="pretrain_trainer.py"),
    ]
    if bf16_pays():
        found.append(Entry(name="Trainer, bf16", script="pretrain_trainer.py", options=("--bf16",)))
    return found


class Comparison:
    """Runs what is missing of a comparison, and keeps every result.

    Raises:
        UserError: --out holds a comparison of other settings, of other code or on another machine.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options, self._file = options, options.out / "pretrain_speed.json"
        settings = {name: getattr(options, name) for name in PASSED}
        self._facts = {"settings": settings, "machine": machine(), "code": git_commit(HERE.parents[1])}
        self.runs: dict[str, dict[str, Any]] = {}
        if self._file.is_file():
            found = json.loads(self._file.read_text(encoding="utf-8"))
            if {name: found.get(name) for name in self._facts} != self._facts:
                raise UserError(f"{self._file} is of other settings, code or machine: choose another --out")
            self.runs = found["runs"]
        self._keep()

    def run(self, entry: Entry, size: str, repeat: int) -> None:
        """One process, unless its result is there; its last line of output is the result."""
        steps, warmup = self._steps(size)
        key = f"{size}, {entry.name}, {repeat}"
        if self.runs.get(key, {}).get("steps") == steps:
            say(f"{key}: done before")
            return
        given = {name: getattr(self._options, name) for name in PASSED}
        given |= {"work": self._options.out / "work", "size": size, "steps": steps, "warmup": warmup, "seed": repeat}
        command = [sys.executable, str(HERE / entry.script)]
        command += [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
        command += entry.options
        facts = {"size": size, "contestant": entry.name, "repeat": repeat, "steps": steps}
        facts["started"] = datetime.now(UTC).isoformat(timespec="seconds")
        facts["load_before"] = round(os.getloadavg()[0], 2)
        self.runs[key] = facts | _result(command, key, self._options.threads)
        self._keep()
        say(f"{key}: {_in_words(self.runs[key])}")

    def _steps(self, size: str) -> tuple[int, int]:
        steps, warmup = STEPS[size]
        return self._options.steps or steps, warmup

    def _keep(self) -> None:
        write_json(self._file, self._facts | {"runs": self.runs})


def _result(command: list[str], name: str, threads: int) -> dict[str, Any]:
    settings = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    settings |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    settings |= {"PYTHONPATH": os.pathsep.join(filter(None, [str(HERE.parents[1]), os.environ.get("PYTHONPATH")]))}
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stdout}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _in_words(result: dict[str, Any]) -> str:
    if "peak_flops_a_second" in result:
        return f"{result['peak_flops_a_second'] / 1e9:,.0f} GFLOP/s in {result['precision']}"
    if "shares" in result:
        return f"{result['profiled_milliseconds_a_step']:.0f} ms a step while it is watched"
    pace = f"{result['tokens_a_second']:,.0f} real tokens a second"
    return f"{result['milliseconds_a_step']:.0f} ms a step, {pace}, {result['flops_a_second'] / 1e9:,.0f} GFLOP/s"


def turns(options: argparse.Namespace) -> Iterator[tuple[Entry, str, int]]:
    """A B C, A B C, ... for each size: a machine that slows down for a while slows all of them. Repeats are seeds."""
    for size in options.sizes.split(","):
        for repeat in range(options.repeats):
            for entry in entries():
                yield entry, size, repeat
        if options.profile:
            watched = (f"--profile={options.out / f'profile-{size}.txt'}", "--threads=1")
            yield Entry(name="profile", script="pretrain_ours.py", options=watched), size, 0


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/pretrain-speed"))
    parser.add_argument("--sizes", default="mini,small,base", help="of teacher.pretrain, separated by commas")
    parser.add_argument("--corpus", default="pydocs")
    parser.add_argument("--objective", default="mlm+nsp", help="of ours; Trainer's is mlm")
    parser.add_argument("--length", type=int, default=64, help="pieces at most")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.0, help="of all contestants")
    parser.add_argument("--steps", type=int, help="timed steps; by size if not given")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--profile", action="store_true", help="also say where the time goes")
    options = parser.parse_args()
    unknown = [size for size in options.sizes.split(",") if size not in SIZES]
    if unknown:
        parser.error(f"--sizes {', '.join(unknown)}: expected some of {', '.join(SIZES)}")
    return options


def main() -> None:
    options = command_line()
    comparison = Comparison(options)
    if os.getloadavg()[0] > BUSY:
        say(f"warning: load {os.getloadavg()[0]:.1f}: other work on this machine slows some more than others")
    # Tokenised here, so that no contestant's process does more than the others'.
    text(options.corpus, options.out / "work")
    for turn in turns(options):
        comparison.run(*turn)
    page = pace_table(list(comparison.runs.values()))
    if options.profile:
        page += "\n\n" + profile_table(list(comparison.runs.values()))
    say(page)
    write_text(options.out / "pretrain_speed.md", page + "\n")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
