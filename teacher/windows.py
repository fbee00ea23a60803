"""Questions with their contexts as pieces: a context that is too long for one row gives several overlapping ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    # Predictions by ONNX Runtime come here too, and need not wait for transformers.
    from transformers import PreTrainedTokenizerBase

LONG, STRIDE = "long_texts", "window_stride"
"""Entries of a model's configuration: how it reads texts that are too long for it (None: cut), and how many pieces its
windows share (None: as many as the kind of task takes)."""


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Rows of question and context, every list with one entry a row."""

    input_ids: list[np.ndarray]
    token_types: list[np.ndarray]
    example: np.ndarray
    """(rows,) which example a row is of, rising."""
    first: np.ndarray
    """(rows,) its first piece of context."""
    offsets: list[np.ndarray]
    """(pieces of context, 2): first character of each in the whole context, and the one after its last."""
    cut: int
    """Examples whose question was cut."""


def default_stride(max_length: int) -> int:
    """Pieces that neighbouring windows share: a third of a row."""
    return max_length // 3


def encode_windows(
    questions: Sequence[str],
    contexts: Sequence[str],
    tokenizer: "PreTrainedTokenizerBase",
    max_length: int,
    stride: int,
) -> Windows:
    """Every row has the whole question. It is cut where it leaves less than twice `stride` pieces for the context.

    `stride`: pieces of context that neighbouring rows share, at most a third of those in a row.
    """
    room = max_length - tokenizer.num_special_tokens_to_add(pair=True)
    stride = min(stride, room // 3)
    shorter = _shortened(questions, tokenizer, room - 2 * stride)
    encoding = tokenizer(
        shorter,
        list(contexts),
        truncation="only_second",
        max_length=max_length,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_token_type_ids=True,
        return_attention_mask=False,
    )
    starts, offsets = [], []
    for row, places in enumerate(encoding["offset_mapping"]):
        sides = encoding.sequence_ids(row)
        count = sides.count(1)
        first = sides.index(1) if count else len(sides)
        starts.append(first)
        offsets.append(np.array(places[first : first + count], dtype=np.int64).reshape(-1, 2))
    return Windows(
        input_ids=[np.asarray(ids, dtype=np.int64) for ids in encoding["input_ids"]],
        token_types=[np.asarray(types, dtype=np.int64) for types in encoding["token_type_ids"]],
        example=np.asarray(encoding["overflow_to_sample_mapping"], dtype=np.int64),
        first=np.array(starts, dtype=np.int64),
        offsets=offsets,
        cut=sum(one != other for one, other in zip(shorter, questions, strict=True)),
    )


def _shortened(questions: Sequence[str], tokenizer: "PreTrainedTokenizerBase", most: int) -> list[str]:
    """Questions of at most about `most` pieces."""
    encoding = tokenizer(
        list(questions), add_special_tokens=False, truncation=True, max_length=most + 1, return_offsets_mapping=True
    )
    return [
        question if len(places) <= most else question[: places[most - 1][1]]
        for question, places in zip(questions, encoding["offset_mapping"], strict=True)
    ]


def pieces_of(windows: Windows, row: int, start: int, end: int) -> tuple[int, int]:
    """First and last piece in a row of the characters from `start` to before `end`; (0, 0), the [CLS] piece, where the
    row does not have all of them.
    """
    offsets, example = windows.offsets[row], windows.example
    if len(offsets) == 0:
        return 0, 0
    earlier = row > 0 and example[row - 1] == example[row]
    later = row + 1 < len(example) and example[row + 1] == example[row]
    # At the ends of the context itself there may be characters that no piece stands for.
    if (earlier and start < offsets[0, 0]) or (later and end > offsets[-1, 1]):
        return 0, 0
    one = int(np.searchsorted(offsets[:, 1], start, side="right"))
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1
    if one > last:
        return 0, 0
    return int(windows.first[row]) + one, int(windows.first[row]) + last
