"""Docstrings, paragraphs and pairs of installed packages: extracted in parallel, kept in the user's cache folder."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import write_text
from common.progress import Progress, say
from teacher.docstrings import VIEWS, Package, View, source_files

Entries = list[tuple[str, Any]]
"""(module, item) in file order; `teacher.docstrings.extract` says what an item of each view is."""

FORMAT = 1
"""Counts up when the rules in teacher.paragraphs or teacher.docstrings change: older caches are then not read."""
CHUNKS_PER_WORKER = 6
LEAST_CHUNK = 100
"""Files: fewer are not worth the start of another interpreter."""


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/distillery, or ~/.cache/distillery."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "distillery"


def load_view(packages: Sequence[Package], view: View) -> dict[str, Entries]:
    """Package name to what it gives to a view; from the cache where that is whole, else extracted and cached."""
    loaded = {package.name: _read_cache(_cache_file(package, view)) for package in packages}
    missing = [package for package in packages if loaded[package.name] is None]
    if missing:
        for name, views in _extract(missing).items():
            loaded[name] = views[view]
    return {name: entries for name, entries in loaded.items() if entries is not None}


def _cache_file(package: Package, view: View) -> Path:
    identity = f"{package.name} {package.version} format {FORMAT} python {sys.version_info[:2]}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return cache_folder() / f"pydocs-{package.name}-{view}-{key}.json"


def _read_cache(file: Path) -> Entries | None:
    """None where the file is missing or not what its checksum, on the first line, promises."""
    try:
        checksum, _, body = file.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    if hashlib.sha256(body.encode()).hexdigest() != checksum:
        return None
    entries: Entries = json.loads(body)
    return entries


def _write_cache(package: Package, views: dict[View, Entries]) -> None:
    for view, entries in views.items():
        body = json.dumps(entries)
        write_text(_cache_file(package, view), f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}")


def _extract(packages: Sequence[Package]) -> dict[str, dict[View, Entries]]:
    """Every view of the packages, and the cache written; without a writable cache it says so and goes on."""
    found = [(package, module, file) for package in packages for module, file in source_files(package)]
    results = _in_workers([file for _, _, file in found])
    views: dict[str, dict[View, Entries]] = {package.name: {view: [] for view in VIEWS} for package in packages}
    for package, module, file in found:
        for view, items in zip(VIEWS, results[file], strict=True):
            views[package.name][view].extend((module, item) for item in items)
    try:
        for package in packages:
            _write_cache(package, views[package.name])
    except UserError as error:
        say(f"pydocs: not cached, so the next run extracts again ({error})")
    return views


def _in_workers(files: Sequence[Path]) -> dict[Path, Any]:
    workers = _cores()
    chunks = _balanced(files, min(workers * CHUNKS_PER_WORKER, -(-len(files) // LEAST_CHUNK)))
    results: dict[Path, Any] = {}
    with (
        Progress("read docstrings of installed packages", total=len(files), unit="file") as bar,
        ThreadPoolExecutor(workers) as pool,
    ):
        for chunk, output in zip(chunks, pool.map(_run_worker, chunks), strict=True):
            results.update(zip(chunk, output, strict=True))
            bar.advance(len(chunk))
    return results


def _run_worker(files: Sequence[Path]) -> list[Any]:
    """`teacher.docstrings.extract` of each file, in a fresh interpreter."""
    # Not multiprocessing: spawn imports the main module, and torch with it, in every worker, and forking a process
    # with running threads is not safe.
    worker = subprocess.run(
        [sys.executable, "-S", "-m", "teacher.docstrings"],
        input=json.dumps([str(file) for file in files]),
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONIOENCODING": "utf-8"},
    )
    output: list[Any] = json.loads(worker.stdout)
    return output


def _balanced(files: Sequence[Path], count: int) -> list[list[Path]]:
    """At most `count` groups of about equal size in bytes, each file in one."""
    by_size = sorted(files, key=lambda file: (-file.stat().st_size, file))
    return [group for start in range(count) if (group := by_size[start::count])]


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
