"""Arrays that are written a block at a time and read from memory maps, so that neither needs memory."""

from pathlib import Path
from types import TracebackType

import numpy as np

from common.errors import UserError


class GrowingArray:
    """An .npy file under construction: `with GrowingArray(path, np.int64) as array: array.append(block)`.

    Blocks are joined along their first axis; `row` is the shape of what is one element of it.
    """

    def __init__(self, path: Path, kind: type[np.generic] | np.dtype, row: tuple[int, ...] = ()) -> None:
        self.count = 0
        self._kind, self._row = np.dtype(kind), row
        self._stream = path.open("wb")
        self._start = self._write_header()

    def append(self, block: np.ndarray) -> None:
        np.ascontiguousarray(block, dtype=self._kind).tofile(self._stream)
        self.count += len(block)

    def __enter__(self) -> "GrowingArray":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._stream.seek(0)
            # numpy leaves room in a header for the first axis to grow.
            if self._write_header() != self._start:
                raise RuntimeError("this numpy writes headers of different lengths")
        self._stream.close()

    def _write_header(self) -> int:
        header = {"descr": self._kind.str, "fortran_order": False, "shape": (self.count, *self._row)}
        np.lib.format.write_array_header_1_0(self._stream, header)
        return self._stream.tell()


def map_array(path: Path) -> np.ndarray:
    """The array of an .npy file, mapped into memory: only what is looked at is read.

    Raises:
        UserError: missing or damaged.
    """
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path} is damaged ({error}): delete its folder, it will be made again") from error
