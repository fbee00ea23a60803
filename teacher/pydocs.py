"""The built-in data set: docstrings of the installed libraries, as two tasks and as a corpus.

`pydocs`: which of ten libraries is this paragraph from? `pydocs-pair`: does this paragraph follow that summary line?

Rules (those for a single paragraph are in `teacher.paragraphs`):
- A text counts once: of paragraphs with the same letters the first stays, and where two libraries have it, none does.
- A module file is wholly in one split: 15 % of each library's paragraphs to evaluate, 7 % to select. Which modules does
  not depend on the seed, so figures of different seeds are comparable and the corpus can leave held-out modules out.
- The seed draws the rows. Classes come as often as they do in the libraries; nothing is balanced.
- A pair joins a summary line and the paragraph after it; half of the pairs of each library get the paragraph of another
  docstring of the same library and split. No line and no paragraph occurs twice.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from teacher.docstrings import Package, find_package, required_packages
from teacher.extraction import Entries, load_view
from teacher.raw import RawTask, Row

LIBRARIES = (
    "torch",
    "transformers",
    "sympy",
    "pandas",
    "matplotlib",
    "sqlalchemy",
    "networkx",
    "numpy",
    "huggingface_hub",
    "datasets",
)
"""The classes of the task."""

CORPUS_LIBRARIES = (
    *LIBRARIES,
    "sklearn",
    "scipy",
    "optuna",
    "accelerate",
    "pyarrow",
    "fsspec",
    "joblib",
    "mpmath",
    "PIL",
    "fontTools",
    "alembic",
    "tokenizers",
    "torch_pruning",
    "tyro",
    "jinja2",
    "tqdm",
    "pyparsing",
    "anyio",
    "typer",
    "rich",
)
"""The project's run-time dependencies by name, so that the corpus does not change with what else is installed."""

DEFAULT_ROWS = {"train": 12_000, "select": 2_000, "evaluate": 4_000}
EVALUATE_SHARE, SELECT_SHARE = 0.15, 0.07

Paragraph = tuple[str, str, str]
"""(library, module, text)"""


def load_pydocs(
    *, rows: int | Literal["all"] | None = None, seed: int = 0, packages: Sequence[Package] | None = None
) -> RawTask:
    """The ten-class task.

    Args:
        rows: training rows; None: 12,000 (with 2,000 to select, 4,000 to evaluate); "all": everything in every split.
        seed: draws the rows.
        packages: instead of the installed ones (for tests).

    Raises:
        UserError: a library is not installed.
    """
    packages = packages or required_packages(LIBRARIES)
    found = unique_paragraphs(load_view(packages, "paragraphs"))
    splits = module_splits(found)
    pools: dict[str, list[Row]] = {"train": [], "select": [], "evaluate": []}
    for library, module, text in found:
        pools[splits[module]].append(Row(text, None, library, module, 0))
    return _task("pydocs", pools, tuple(sorted(package.name for package in packages)), packages, rows, seed)


def load_pydocs_pair(
    *, rows: int | Literal["all"] | None = None, seed: int = 0, packages: Sequence[Package] | None = None
) -> RawTask:
    """The pair task, half "yes" and half "no"; arguments as for `load_pydocs`."""
    packages = packages or required_packages(LIBRARIES)
    splits = module_splits(unique_paragraphs(load_view(packages, "paragraphs")))
    groups: dict[tuple[str, str], list[tuple[str, str, str]]] = defaultdict(list)
    for library, module, summary, body in _unique_pairs(load_view(packages, "pairs")):
        groups[splits.get(module, "train"), library].append((module, summary, body))
    pools: dict[str, list[Row]] = {"train": [], "select": [], "evaluate": []}
    for (split, library), pairs in sorted(groups.items()):
        pools[split].extend(_half_swapped(pairs, random.Random(f"pairs of {library} in {split}")))
    return _task("pydocs-pair", pools, ("no", "yes"), packages, rows, seed)


def corpus_docstrings(
    libraries: Iterable[str] = CORPUS_LIBRARIES, *, packages: Sequence[Package] | None = None
) -> Iterator[str]:
    """The docstrings of the corpus; equal ones count once.

    Modules held out by the tasks are left out, since their text names the library that the tasks ask for.
    """
    packages = packages or corpus_packages(libraries)
    task_packages = [package for package in packages if package.name in LIBRARIES]
    splits = module_splits(unique_paragraphs(load_view(task_packages, "paragraphs")))
    seen: set[str] = set()
    for entries in load_view(packages, "docstrings").values():
        for module, text in entries:
            if splits.get(module, "train") == "train" and text not in seen:
                seen.add(text)
                yield text


def corpus_packages(libraries: Iterable[str] = CORPUS_LIBRARIES) -> list[Package]:
    """Those of the libraries that are installed; the ten of the task must be."""
    required_packages(LIBRARIES)
    return [package for name in libraries if (package := find_package(name))]


def unique_paragraphs(view: dict[str, Entries]) -> list[Paragraph]:
    """Each text once; none of a text that two libraries have."""
    first: dict[str, Paragraph] = {}
    shared: set[str] = set()
    for library, entries in view.items():
        for module, (text, key) in entries:
            if first.setdefault(key, (library, module, text))[0] != library:
                shared.add(key)
    return [paragraph for key, paragraph in first.items() if key not in shared]


def module_splits(paragraphs: Iterable[Paragraph]) -> dict[str, str]:
    """Module to split, by library: modules in a fixed random order go to evaluate, then select, as long as they fit."""
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    for library, module, _ in paragraphs:
        sizes[library][module] += 1
    splits: dict[str, str] = {}
    for library, counts in sizes.items():
        modules = sorted(counts)
        random.Random(f"modules of {library}").shuffle(modules)
        room = {"evaluate": EVALUATE_SHARE * counts.total(), "select": SELECT_SHARE * counts.total()}
        for module in modules:
            splits[module] = next((split for split in room if counts[module] <= room[split]), "train")
            if splits[module] in room:
                room[splits[module]] -= counts[module]
    return splits


def _unique_pairs(view: dict[str, Entries]) -> Iterator[tuple[str, str, str, str]]:
    seen: set[str] = set()
    for library, entries in view.items():
        for module, (summary, summary_key, body, body_key) in entries:
            if summary_key != body_key and summary_key not in seen and body_key not in seen:
                seen.update((summary_key, body_key))
                yield library, module, summary, body


def _half_swapped(pairs: list[tuple[str, str, str]], generator: random.Random) -> list[Row]:
    """As many true pairs as false ones; in the false half each line gets the next one's paragraph."""
    generator.shuffle(pairs)
    half = len(pairs) // 2
    if half < 2:
        return []
    true, false = pairs[:half], pairs[half : 2 * half]
    bodies = [body for _, _, body in false]
    rows = [Row(summary, body, "yes", module, 0) for module, summary, body in true]
    moved = zip(false, bodies[1:] + bodies[:1], strict=True)
    return rows + [Row(summary, body, "no", module, 0) for (module, summary, _), body in moved]


def _task(
    name: str,
    pools: dict[str, list[Row]],
    labels: tuple[str, ...],
    packages: Sequence[Package],
    rows: int | Literal["all"] | None,
    seed: int,
) -> RawTask:
    """Draw the rows of each split from its pool. A smaller draw of the same seed is the start of a larger one."""
    wanted = dict(DEFAULT_ROWS, train=rows) if isinstance(rows, int) else DEFAULT_ROWS
    drawn = {}
    for split, pool in pools.items():
        shuffled = random.Random(f"{split} {seed}").sample(pool, len(pool))
        drawn[split] = shuffled if rows == "all" else shuffled[: wanted[split]]
    task = RawTask(
        name=name,
        parts=drawn,
        origins={split: f"docstrings, {len(pools[split]):,} in its modules, seed {seed}" for split in drawn},
        sources={package.name: package.version for package in packages},
        labels=labels,
        kind="classification",
        group=lambda row: row.file,
    )
    if isinstance(rows, int) and rows > len(drawn["train"]):
        task.notes.append(f"--rows {rows:,} asked for, all {len(drawn['train']):,} training rows used")
    return task
