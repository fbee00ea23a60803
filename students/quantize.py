"""An exported model in 8-bit integers, with the parts left out that lose too much."""

import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import numpy as np

from common.artifact import check_free, write_manifest
from common.card import CardText
from common.errors import UserError, unknown_name
from common.files import new_folder, write_json, write_text
from common.hardware import int8_saturates
from students.onnx_card import onnx_card
from students.onnx_folder import (
    CARD,
    CONFIG,
    INFO,
    MODEL,
    TOKENIZER,
    OnnxInfo,
    folder_bytes,
    info_json,
    need,
    read_info,
)
from students.runtime import OnnxModel
from students.sensitivity import Choice, choose_parts

METHODS = ("dynamic", "static")
EMBEDDING_BITS = (4, 8, 32)
Settings = Callable[[OnnxModel], Mapping[str, float]]
"""Entries of config.json that the outputs of a model are read with."""
Score = Callable[[OnnxModel], float]
"""Quality of a model on development data; higher is better."""


@dataclass(frozen=True, kw_only=True)
class Quantised:
    """What was quantised."""

    folder: Path
    info: OnnxInfo
    method: str
    embedding_bits: int
    weight_bits: int
    """7 where the processor's 8-bit products overflow, else 8."""
    excluded: tuple[str, ...]
    """Parts that stayed in fp32, the most sensitive first."""
    drops: Mapping[str, float]
    """What each part lost when it alone was quantised; empty where all of them could be."""
    before: float | None
    """Score of the fp32 model; None without `score`."""
    after: float | None
    """Score of what was written."""
    within: bool
    """Whether the drop is within the budget."""
    model_bytes: int
    """Of model.onnx."""
    folder_bytes: int
    """Of all files."""


def quantise(
    source: Path,
    out: Path,
    *,
    method: str = "dynamic",
    embedding_bits: int = 8,
    calibration: Sequence[Mapping[str, np.ndarray]] = (),
    score: Score | None = None,
    max_drop: float | None = None,
    settings: Settings | None = None,
    before: float | None = None,
    reduce_range: bool | None = None,
    card: CardText | None = None,
    overwrite: bool = False,
) -> Quantised:
    """Write an int8 version of the fp32 ONNX folder `source` to the folder `out`.

    Args:
        source: what `export_onnx` wrote.
        out: is made.
        method: "dynamic" finds the range of activations in every batch, "static" beforehand from `calibration`.
        embedding_bits: of the table of pieces: 8, 4 (half the size, with one scale for every 64 values), or 32.
        calibration: batches of input_ids, attention_mask and token_type_ids, each int64 (batch, length).
        score: quality of a model, higher is better.
        max_drop: how much of the score may be lost. The most sensitive parts stay in fp32 until it holds.
        settings: finds how the outputs of what is written are to be read; None: as those of `source`.
        before: the score that the drop is counted from. None: that of `source`.
        reduce_range: weights of 7 bits. None: where the processor's 8-bit products overflow.
        card: what README.md says beyond what the model knows.
        overwrite: replace a model folder that is there already.

    Raises:
        UserError: an unknown method, no calibration data for a static one, `max_drop` without `score`, `source` is no
            fp32 folder, or `out` is taken.
    """
    need("onnx")
    info = read_info(source)
    _check(info, source, method, embedding_bits, calibration, score, max_drop)
    check_free(out, replace=overwrite)
    bits = 7 if (int8_saturates() if reduce_range is None else reduce_range) else 8
    raw = (source / MODEL).read_bytes()
    ranges = _ranges(raw, info, calibration) if method == "static" else None

    def quantised(excluded: Collection[str]) -> bytes:
        return _int8(raw, ranges=ranges, embedding_bits=embedding_bits, weight_bits=bits, exclude=frozenset(excluded))

    choice = _choice(raw, info, source, quantised, score, max_drop, before)
    own = changed(
        info,
        precision=f"int8 {method}",
        quantised={"embedding_bits": embedding_bits, "weight_bits": bits, "excluded": list(choice.excluded)},
    )
    model = quantised(choice.excluded)
    entries = settings(OnnxModel.of(model, info, folder=source)) if settings else {}
    own = _write(model, own, source, out, card, entries)
    return Quantised(
        folder=out,
        info=own,
        method=method,
        embedding_bits=embedding_bits,
        weight_bits=bits,
        excluded=choice.excluded,
        drops=choice.drops,
        before=choice.before if score else None,
        after=choice.score if score else None,
        within=choice.within,
        model_bytes=(out / MODEL).stat().st_size,
        folder_bytes=folder_bytes(out),
    )


def _check(
    info: OnnxInfo,
    source: Path,
    method: str,
    embedding_bits: int,
    calibration: Sequence[Mapping[str, np.ndarray]],
    score: Score | None,
    max_drop: float | None,
) -> None:
    if method not in METHODS:
        raise unknown_name("method of quantisation", method, METHODS)
    problems = []
    if embedding_bits not in EMBEDDING_BITS:
        problems.append(f"embedding_bits {embedding_bits}: 4, 8 or 32 was expected")
    if method == "static" and not calibration:
        problems.append("static quantisation needs calibration data: give batches, or choose dynamic")
    if max_drop is not None and score is None:
        problems.append("max_drop needs a score to look at")
    if info.precision != "fp32":
        problems.append(f"{source} is {info.precision} already: quantise the fp32 folder that it was made of")
    if problems:
        raise UserError("; ".join(problems))


def _ranges(raw: bytes, info: OnnxInfo, calibration: Sequence[Mapping[str, np.ndarray]]) -> Any:
    import onnx

    from students.calibrate import activation_ranges
    from students.onnx_graph import Graph
    from students.onnx_int8 import activations

    model = onnx.load_model_from_string(raw)
    return activation_ranges(model, info, activations(Graph(model)), calibration)


def _int8(raw: bytes, **how: Any) -> bytes:
    import onnx

    from students.onnx_int8 import Int8, to_int8

    return to_int8(onnx.load_model_from_string(raw), Int8(**how)).SerializeToString()


def _choice(
    raw: bytes,
    info: OnnxInfo,
    source: Path,
    quantised: Callable[[Collection[str]], bytes],
    score: Score | None,
    max_drop: float | None,
    before: float | None,
) -> Choice:
    if score is None:
        return Choice(excluded=(), before=0.0, score=0.0, drops={}, within=True)
    import onnx

    from students.onnx_graph import Graph
    from students.onnx_int8 import parts

    names = list(parts(Graph(onnx.load_model_from_string(raw))))
    budget = float("inf") if max_drop is None else max_drop
    return choose_parts(
        names,
        lambda excluded: score(OnnxModel.of(quantised(excluded), info, folder=source)),
        max_drop=budget,
        before=before,
    )


def _write(
    model: bytes, info: OnnxInfo, source: Path, out: Path, card: CardText | None, entries: Mapping[str, float]
) -> OnnxInfo:
    import onnx

    from students.onnx_fuse import fused_counts

    info = changed(info, fused=fused_counts(onnx.load_model_from_string(model)))
    with new_folder(out) as target:
        (target / MODEL).write_bytes(model)
        shutil.copyfile(source / TOKENIZER, target / TOKENIZER)
        write_json(target / CONFIG, json.loads((source / CONFIG).read_text(encoding="utf-8")) | dict(entries))
        write_json(target / INFO, info_json(info))
        write_text(target / CARD, onnx_card(info, card, len(model)))
        write_manifest(target)
    return info
