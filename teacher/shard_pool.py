"""Who makes a shard: this process, or several of `teacher.shard_worker`."""

import contextlib
import json
import os
import queue
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from common.errors import UserError
from teacher.encoder import TextEncoder
from teacher.sentences import CUTS
from teacher.shard_worker import encode_shard

Encode = Callable[[list[str], Path], tuple[int, int]]
"""Texts to the shard of a path; gives its documents and pieces. May be called by several threads."""


@contextlib.contextmanager
def here(tokenizer_file: Path, cut: str) -> Iterator[Encode]:
    """Encode in this process."""
    encoder = TextEncoder(Tokenizer.from_file(str(tokenizer_file)))
    yield lambda texts, path: encode_shard(texts, path, encoder, CUTS[cut])


@contextlib.contextmanager
def processes(tokenizer_file: Path, cut: str, count: int) -> Iterator[Encode]:
    """Encode in one of `count` processes of `teacher.shard_worker`."""
    idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            process = _start(tokenizer_file, cut)
            stack.callback(_end, process)
            idle.put(process)

        def encode(texts: list[str], path: Path) -> tuple[int, int]:
            process = idle.get()
            try:
                return _ask(process, texts, path)
            finally:
                idle.put(process)

        yield encode


def _start(tokenizer_file: Path, cut: str) -> "subprocess.Popen[bytes]":
    # Not multiprocessing, for the reasons that teacher.extraction gives.
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # Beside what is on the path already: libraries may lie there alone, as on many clusters.
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-m", "teacher.shard_worker", str(tokenizer_file), cut],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **single, "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": path},
    )


def _ask(process: "subprocess.Popen[bytes]", texts: list[str], path: Path) -> tuple[int, int]:
    assert process.stdin is not None and process.stdout is not None
    request = json.dumps({"texts": texts, "path": str(path)}, ensure_ascii=False)
    answer = b""
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(request.encode() + b"\n")
        process.stdin.flush()
        answer = process.stdout.readline()
    if not answer:
        raise UserError(
            f"a process that tokenises ended with code {process.wait()} (-9: it was killed, perhaps for want of "
            "memory): give the same command again with fewer --workers; what is tokenised is kept"
        )
    found: dict[str, Any] = json.loads(answer)
    if "error" in found:
        raise UserError(found["error"])
    return found["documents"], found["pieces"]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """A process ends with its input."""
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.wait()
    process.stdout.close()
