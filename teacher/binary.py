"""Bytes that are no text: what they are instead, by their first ones."""

from pathlib import Path

from common.errors import UserError

_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
GZIP_MARK = b"\x1f\x8b"
_BINARY_MARKS = {
    b"\x89PNG\r\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF87a": "a GIF image",
    b"GIF89a": "a GIF image",
    b"\x93NUMPY": "a numpy file",
    b"PAR1": "a parquet file",
    b"ARROW1": "an Arrow file",
    b"\xd0\xcf\x11\xe0": "a binary Office file such as xls",
    b"%PDF-": "a PDF file",
    b"SQLite format 3\x00": "an SQLite file",
}
_ARCHIVE_MARKS = {
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"BZh91AY&SY": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
}
_CONTROL_BYTES = bytes({*range(0x09), *range(0x0E, 0x20), 0x7F})
_MOST_CONTROL = 0.05
"""Share of control characters from which bytes are no text; any bytes at random have 11 %."""
_ENOUGH_LINES = 20
"""Whole lines by which it is judged whether a file is text in UTF-8."""
_SURE = 512
"""Bytes from which that share says something of a stream, which may be somebody typing."""


def refuse_stream(source: str, start: bytes) -> None:
    """Refuse a stream of lines, called `source`, whose first bytes are of no text.

    Raises:
        UserError: packed, UTF-16, or binary; says which.
    """
    if start.startswith(GZIP_MARK):
        raise UserError(f"{source} is packed with gzip: unpack it (gunzip -c FILE), or give the file's name")
    refuse_utf16(source, start[:2])
    refuse_binary(source, start, sure=len(start) >= _SURE)


def refuse_undecodable(source: str, start: bytes) -> None:
    """Refuse what has more lines that are not UTF-8 than lines that are, by its first bytes.

    Raises:
        UserError: says how many of how many.
    """
    lines = start.split(b"\n")[:-1]
    bad = sum(not _is_utf8(line) for line in lines)
    if len(lines) >= _ENOUGH_LINES and 2 * bad > len(lines):
        raise UserError(
            f"{source} is not text in UTF-8: {bad} of its first {len(lines)} lines are not. Of other text save it as "
            "UTF-8 (iconv -f latin1 -t utf-8); of anything else the texts in it as csv, tsv or jsonl"
        )


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def refuse_utf16(source: Path | str, start: bytes) -> None:
    """Raise UserError for the mark that UTF-16 begins with."""
    if start in _WIDE_MARKS:
        raise UserError(f"{source} is UTF-16: save it as UTF-8 (iconv -f utf-16 -t utf-8)")


def refuse_binary(source: Path | str, content: bytes, *, sure: bool = True) -> None:
    """Raise UserError for what is no text, by known marks, and, if `sure`, by the share of control characters."""
    archive = next((kind for mark, kind in _ARCHIVE_MARKS.items() if content.startswith(mark)), None)
    kind = next((kind for mark, kind in _BINARY_MARKS.items() if content.startswith(mark)), None)
    if content[257:262] == b"ustar":
        archive = "a tar archive"
    elif archive == "a zip archive" and b"xl/" in content:
        archive, kind = None, "a binary Excel file"
    if archive:
        raise UserError(f"{source} is {archive}: unpack it and give the csv, tsv or jsonl file in it")
    if content[6:10] == b'\0\0{"':
        # A length of eight bytes, then json: the head of a safetensors file, which may be text for long.
        kind = "a safetensors file"
    start = content[:65536]
    if kind is None and sure and len(start) - len(start.translate(None, _CONTROL_BYTES)) > _MOST_CONTROL * len(start):
        kind = "a binary file"
    if kind:
        raise UserError(f"{source} is {kind}, not text: save it as csv (UTF-8), tsv or jsonl")
