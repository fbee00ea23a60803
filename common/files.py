"""Files and folders that are either complete or not there."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from common.errors import UserError
from common.progress import say

_FULL = "no space left on the disk while writing"
_AGAIN = "free some space, then give the same command again, with --resume where it has that"
_CANNOT_WRITE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR),
    errno.ENAMETOOLONG,
)


@contextlib.contextmanager
def explain_full_disk(target: Path) -> Iterator[None]:
    """Turn "no space left", "read-only" and their like into a message that says what was being written."""
    try:
        yield
    except UserError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(f"{_FULL} {target}: {_AGAIN}") from error
        if error.errno in _CANNOT_WRITE:
            raise UserError(f"cannot write {target}: {error.strerror}. Choose another place for the output") from error
        raise
    except Exception as error:
        # safetensors has an error class of its own, with the same words and no errno.
        if "No space left" in str(error):
            raise UserError(f"{_FULL} {target}: {_AGAIN}") from error
        raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A temporary file beside `path` that takes its name when the block ends well, and vanishes when it does not.

    A reader sees the old file or the new one, never a part.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with explain_full_disk(path):
        try:
            with temporary.open("wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, in a folder that is made where it is not there: all of it or nothing."""
    with explain_full_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as stream:
        stream.write(text.encode("utf-8"))


def read_object(path: Path, *, advice: str) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        UserError: unreadable, or something else; names the file and ends with `advice`, what to do then.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}): {advice}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} is damaged (a JSON object was expected): {advice}")
    return value


def write_json(path: Path, value: Any) -> None:
    """`value` as indented JSON; NaN is refused, since other readers of JSON refuse it."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its name when the block ends well, and vanishes when it does not.

    An earlier folder of that name is replaced only at the end, by two renames. The caller decides beforehand whether
    replacing is right.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with explain_full_disk(path):
            temporary.mkdir(parents=True)
            yield temporary
            for file in filter(Path.is_file, temporary.rglob("*")):
                _open_to_others(file)
                _sync(file)
        _replace_folder(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _open_to_others(file: Path) -> None:
    """Give weights the permissions of any new file: safetensors writes them for their owner alone."""
    if file.suffix == ".safetensors":
        mask = os.umask(0)
        os.umask(mask)
        file.chmod(0o666 & ~mask)


def _replace_folder(new: Path, path: Path) -> None:
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        os.rename(path, old)
    os.rename(new, path)
    _sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def sole_use(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold `folder` for this process alone; a lock ends with its process, however that ends.

    Raises:
        UserError: another process holds it; with `wait` it is waited for.
    """
    held = False
    while not held:
        with explain_full_disk(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = (folder / ".lock").open("w")
        with lock:
            _take(lock, folder, wait)
            # Whoever held it may have removed the folder, and somebody else may have made it anew.
            held = (folder / ".lock").exists() and os.path.samestat(os.fstat(lock.fileno()), (folder / ".lock").stat())
            if held:
                yield


def _take(lock: TextIO, folder: Path, wait: bool) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if not wait:
            reason = f"{folder} is in use by another process: wait for it, or choose another name"
            raise UserError(reason) from error
        say(f"{folder} is in use by another process: waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)
