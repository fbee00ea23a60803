"""Bytes to text without ever failing on one bad byte; what was odd is counted and told."""

import contextlib
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from common.errors import UserError
from common.words import counted
from teacher.binary import GZIP_MARK, refuse_binary, refuse_utf16

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufeff]")
_MEANT = {code: sign for code in range(0x80, 0xA0) if (sign := bytes([code]).decode("cp1252", errors="ignore"))}
HALF_PAIR = re.compile("[\ud800-\udfff]")
"""An escape of json can write one; it is no text."""
HALVED = "with half of a surrogate pair, replaced"
_BOM = b"\xef\xbb\xbf"
_CONTINUATIONS = bytes(range(0x80, 0xC0))
_BUFFER = 2**16
LONGEST_LINE = 1_000_000
"""Bytes of a line that are held at a time."""
DOCUMENTATION = re.compile(r"(?i)(readme|licen[cs]e|provenance|notice|copying|changelog|authors|citation)\b")
"""Names of files that lie beside data and are none."""


@dataclass
class Oddities:
    """What had to be repaired while reading."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, where: str) -> None:
        self.counts[what] += 1
        self.first.setdefault(what, where)

    def notes(self) -> list[str]:
        return [f"{counted(count, 'line')} {what} (first: {self.first[what]})" for what, count in self.counts.items()]


def decode_line(line: bytes, where: str, oddities: Oddities) -> str:
    """UTF-8, or else cp1252, or else latin-1, which takes every byte."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        oddities.add("not in UTF-8, read as cp1252", where)
    try:
        return line.decode("cp1252")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def clean(text: str, where: str, oddities: Oddities) -> str:
    """Without control characters and white space at the ends; tabs and line ends inside stay."""
    return without_control(text, where, oddities).strip()


def without_control(text: str, where: str, oddities: Oddities) -> str:
    r"""Control characters removed; those between 0x80 and 0x9f are cp1252 signs that were decoded as latin-1.

    Halves of surrogate pairs, which escapes of json can write and no tokenizer takes, become U+FFFD.

    >>> without_control("don\x92t\x00", "f:1", Oddities())
    'don’t'
    """
    if text.isprintable():
        return text
    if HALF_PAIR.search(text):
        oddities.add(HALVED, where)
        text = HALF_PAIR.sub("\ufffd", text)
    if not _CONTROL.search(text):
        return text
    oddities.add("with control characters, removed or read as cp1252", where)
    return _CONTROL.sub("", text.translate(_MEANT))


def read_text(path: Path, oddities: Oddities) -> tuple[str, bytes]:
    """A whole file, gzip unpacked, byte order mark and CR removed, and its raw bytes.

    Raises:
        UserError: missing, unreadable, empty, UTF-16, binary, or a broken gzip.
    """
    with explain_reading(path):
        raw = path.read_bytes()
        content = gzip.decompress(raw) if raw.startswith(GZIP_MARK) else raw
    content = content.removeprefix(_BOM).replace(b"\r\n", b"\n")
    refuse_utf16(path, content[:2])
    refuse_binary(path, content)
    if b"\n" not in content:
        # What spreadsheets call "CSV (Macintosh)" has CR alone at the ends of lines.
        content = content.replace(b"\r", b"\n")
    if not content.strip():
        raise UserError(f"{path} is empty: rows of text and labels were expected")
    try:
        return content.decode("utf-8"), raw
    except UnicodeDecodeError:
        lines = content.split(b"\n")
    decoded = (decode_line(line, f"{path.name}:{number}", oddities) for number, line in enumerate(lines, 1))
    return "\n".join(decoded), raw


def suffix_of(path: Path) -> str:
    """The extension in lower case, of what is packed where the file is.

    >>> suffix_of(Path("a/Train.JSONL.gz")), suffix_of(Path("train"))
    ('.jsonl', '')
    """
    named = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return named.suffix.lower()


@contextlib.contextmanager
def open_start(path: Path) -> Iterator[io.TextIOBase]:
    """A file, gzip unpacked, whose first characters tell what it holds, without byte order mark; CRs stay.

    Raises OSError, EOFError or zlib.error where it cannot be read.
    """
    with path.open("rb") as raw:
        packed = raw.read(len(GZIP_MARK)) == GZIP_MARK
        raw.seek(0)
        unpacked = gzip.GzipFile(fileobj=raw) if packed else raw
        yield io.TextIOWrapper(cast(io.BufferedReader, unpacked), encoding="utf-8-sig", errors="replace", newline="")


UNREADABLE = (OSError, EOFError, zlib.error)
"""What `open_start` raises."""


def stream_lines(path: Path, oddities: Oddities, *, longest: int | None = LONGEST_LINE) -> Iterator[str]:
    """Lines of a text file of any size, gzip or not, without line ends, byte order marks and control characters.

    A line of more than `longest` bytes is cut at spaces (None: never), so that memory is bounded.

    Raises:
        UserError: missing, unreadable, UTF-16, binary, or a broken gzip.
    """
    with open_text(path) as stream, explain_reading(path):
        for number, line, cut in _bounded_lines(stream, longest):
            where = f"{path.name}:{number}"
            if cut:
                oddities.add(f"longer than {longest:,} bytes, cut at a space", where)
            if line.startswith(_BOM):
                oddities.add("with a byte order mark, removed", where)
                line = line.removeprefix(_BOM)
            if line.endswith(b"\r\n"):
                oddities.add("ending in CR LF, read as LF", where)
            text = decode_line(line.rstrip(b"\r\n"), where, oddities)
            yield without_control(text, where, oddities)


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[io.BufferedReader]:
    """The bytes of a text file of any size, gzip unpacked.

    Raises:
        UserError: missing, unreadable, UTF-16, binary, or a broken gzip. What goes wrong later, while the bytes are
            read, `explain_reading` explains.
    """
    with contextlib.ExitStack() as stack:
        with explain_reading(path):
            raw = cast(io.BufferedReader, stack.enter_context(path.open("rb", buffering=_BUFFER)))
            refuse_utf16(path, raw.peek(2)[:2])
            packed = raw.peek(2)[:2] == GZIP_MARK
            # The gzip module reads lines in Python; a buffer over it does so in C.
            unpacked = io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw)), _BUFFER) if packed else raw
            stream = cast(io.BufferedReader, unpacked)
            refuse_binary(path, stream.peek(_BUFFER))
        yield stream


def _bounded_lines(stream: io.BufferedReader, longest: int | None) -> Iterator[tuple[int, bytes, bool]]:
    """(line number, bytes, whether the line goes on in the next)."""
    number, rest = 1, b""
    while line := rest + stream.readline(-1 if longest is None else longest - len(rest)):
        rest = b""
        ended = line.endswith(b"\n")
        cut = longest is not None and not ended and len(line) >= longest
        if cut:
            place = line.rfind(b" ") + 1 or _last_character(line)
            line, rest = line[:place], line[place:]
        yield number, line, cut
        number += ended


def _last_character(line: bytes) -> int:
    """Where the last character of UTF-8 starts, which may not be there as a whole; the end of what is no UTF-8."""
    start = len(line.rstrip(_CONTINUATIONS)) - 1
    return start if start > 0 and len(line) - start <= 4 else len(line)


@contextlib.contextmanager
def explain_reading(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into one line."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is not a whole gzip file ({error}): download or pack it again") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
