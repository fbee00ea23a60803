"""Peak memory and pace of the data side of pretraining, for texts of several sizes.

Each size is a fresh process: it learns a vocabulary from a text, tokenises it, draws pairs for --steps batches, and
makes the batches, without a model. The text is made of words of random letters whose frequencies fall as
those of a language do, so its size is free; it lies in --out while it is needed.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common.files import write_json
from common.hardware import cpu_name, usable_cores
from common.progress import say

ROOT = Path(__file__).resolve().parents[2]
MEGABYTE = 1_000_000
HEADER = (
    "MB of text",
    "documents",
    "pieces",
    "MB a second",
    "pieces a second",
    "pairs a second",
    "batch pieces a second",
    "MB before",
    "MB at most",
    "MB at most, a worker",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10,100", help="megabytes of text, several separated by commas")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/pretrain-data"))
    parser.add_argument("--workers", type=int, default=usable_cores(), help="processes that tokenise")
    parser.add_argument("--steps", type=int, default=2000, help="batches made, and pairs drawn for")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--of", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.of is not None:
        print(json.dumps(measure(options)))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    results = [in_a_process(options, float(size)) for size in options.sizes.split(",")]
    machine = {"cpu": cpu_name(), "cores": usable_cores()}
    write_json(options.out / "pretrain_data.json", {"machine": machine, "command": sys.argv, "results": results})
    page = table(results)
    say(page)
    (options.out / "pretrain_data.md").write_text(page + "\n", encoding="utf-8")


def in_a_process(options: argparse.Namespace, size: float) -> dict[str, Any]:
    work = options.out / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    write_text_file(work / "text.txt", round(size * MEGABYTE))
    names = ("workers", "steps", "batch_size", "length")
    passed = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in names]
    try:
        output = subprocess.run(
            [sys.executable, __file__, "--of", str(work), *passed],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(work / "cache")},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
    finally:
        shutil.rmtree(work)
    *lines, result = output.strip().split("\n")
    for line in lines:
        say(line)
    return {"megabytes": size, **json.loads(result)}


def write_text_file(path: Path, size: int, seed: int = 0) -> None:
    """Documents of 1 to 20 sentences with an empty line after each."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(1, 10))) for _ in range(20_000)]
    odds = [1 / (rank + 3) for rank in range(len(words))]
    # Sentences are drawn once and repeated in random order: drawing words for 2 GB would take an hour.
    sentences = [" ".join(rng.choices(words, odds, k=rng.randint(3, 30))).capitalize() + "." for _ in range(20_000)]
    written = 0
    with path.open("w", encoding="utf-8") as stream:
        while written < size:
            document = "\n".join(rng.choices(sentences, k=rng.randint(1, 20))) + "\n\n"
            stream.write(document)
            written += len(document)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All steps of the data side, timed, in this process."""
    import torch

    from teacher.corpus import load_corpus
    from teacher.examples import draw_examples
    from teacher.pretrain_data import training_batches
    from teacher.pretrain_text import SUMMARY, prepare_data

    torch.set_num_threads(1)
    with Memory() as memory:
        wanted, length = options.steps * options.batch_size, options.length
        corpus = load_corpus(str(options.of / "text.txt"))
        data, prepared = timed(
            lambda: prepare_data(corpus, options.of / "data", seed=0, workers=options.workers, enough=wanted * length)
        )
        pairs, drawn = timed(
            lambda: draw_examples(
                data.learned, "nsp", length=length, seed=0, wanted=wanted, folder=options.of / "pairs"
            )
        )
        batches = training_batches(data, pairs, batch_size=options.batch_size, length=length, seed=0)
        plan = batches.plan(0)[: options.steps]
        served, made = timed(
            lambda: sum(int(batches.collate(rows, step)["attention_mask"].sum()) for step, rows in enumerate(plan))
        )
    counts = json.loads((options.of / "data" / SUMMARY).read_text(encoding="utf-8"))
    size = (options.of / "text.txt").stat().st_size
    return {
        "documents": counts["documents"],
        "pieces": counts["pieces"],
        "bytes_a_second": size / prepared,
        "pieces_a_second": counts["pieces"] / prepared,
        "pairs_a_second": len(pairs) / drawn,
        "batch_pieces_a_second": served / made,
        "bytes_before": memory.before,
        "bytes_at_most": memory.peak,
        "worker_bytes_at_most": memory.worker_peak,
    }


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


class Memory:
    """Memory of this process and of the largest of its workers, in bytes, looked at 50 times a second.

    Pages of files do not count: the system takes them back when it needs them.
    """

    def __init__(self) -> None:
        self.before = self.peak = unmapped(os.getpid())
        self.worker_peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.peak = max(self.peak, unmapped(os.getpid()))
            tasks = Path("/proc/self/task").glob("*/children")
            workers = [int(child) for task in tasks for child in task.read_text(encoding="utf-8").split()]
            self.worker_peak = max(self.worker_peak, *map(unmapped, workers), 0)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def unmapped(process: int) -> int:
    """Bytes in memory that are no pages of files; 0 of a process that has ended or is no Python yet."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = [line for line in status.splitlines() if line.startswith("RssAnon:")]
    # A process that was just started looks like its parent for a moment.
    own = process == os.getpid() or b"shard_worker" in command
    return 1024 * int(found[0].split()[1]) if found and own else 0


def table(results: list[dict[str, Any]]) -> str:
    rows = [
        (
            f"{result['megabytes']:,.0f}",
            f"{result['documents']:,}",
            f"{result['pieces']:,}",
            f"{result['bytes_a_second'] / MEGABYTE:.1f}",
            *(f"{result[name]:,.0f}" for name in ("pieces_a_second", "pairs_a_second", "batch_pieces_a_second")),
            *(f"{result[name] / MEGABYTE:,.0f}" for name in ("bytes_before", "bytes_at_most", "worker_bytes_at_most")),
        )
        for result in results
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (HEADER, ["---"] * len(HEADER), *rows))


if __name__ == "__main__":
    main()
