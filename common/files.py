"""Files and folders that are either complete or not there."""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common.errors import UserError


@contextlib.contextmanager
def explain_full_disk(target: Path) -> Iterator[None]:
    """Turn "no space left" and "read-only" into a message that says what was being written and what to do."""
    try:
        yield
    except OSError as error:
        # safetensors raises its own error class with the same words and no errno, so that is matched by text below.
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"no space left on the disk while writing {target}: free some space and run again"
            ) from error
        if error.errno in (errno.EACCES, errno.EROFS):
            raise UserError(f"cannot write {target}: {error.strerror}. Choose another folder with --out") from error
        raise
    except Exception as error:
        if "No space left" in str(error):
            raise UserError(
                f"no space left on the disk while writing {target}: free some space and run again"
            ) from error
        raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`: a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with explain_full_disk(path):
        try:
            with temporary.open("w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """`value` as indented JSON; NaN is refused, since other readers of JSON refuse it."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its name when the block ends well, and vanishes when it does not.

    An earlier folder of that name is replaced only at the end, by two renames. The caller decides beforehand whether
    replacing is right.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with explain_full_disk(path):
            temporary.mkdir()
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    _sync(file)
        _replace_folder(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(new: Path, path: Path) -> None:
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        os.rename(path, old)
    os.rename(new, path)
    _sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)
