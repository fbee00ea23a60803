"""Reads the records of all runs and sorts out those that can't be shown: a bad one must not cost the other pages."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from common.ablation_record import FILE, AblationRecord
from common.errors import UserError
from common.pretraining_record import FILE as PRETRAINING_FILE
from common.pretraining_record import PretrainingRecord
from common.study_record import FILE as STUDY_FILE
from common.study_record import StudyRecord
from reports.record import Record

Shown = TypeVar("Shown", Record, AblationRecord, StudyRecord, PretrainingRecord)


def load_all(runs: Path) -> tuple[dict[str, Record], list[str]]:
    """Run folder to record, and a sentence for each that can't be shown."""
    return _loaded(runs, "record.json", Record.load, _check)


def load_ablations(runs: Path) -> tuple[dict[str, AblationRecord], list[str]]:
    """Likewise the ablations of pretraining; a folder that has the record of a run too can't be shown."""
    return _loaded(runs, FILE, AblationRecord.load, _check_ablation)


def load_studies(runs: Path) -> tuple[dict[str, StudyRecord], list[str]]:
    """Likewise the studies."""
    return _loaded(runs, STUDY_FILE, StudyRecord.load, _check_study)


def load_pretrainings(runs: Path) -> tuple[dict[str, PretrainingRecord], list[str]]:
    """Likewise the pretrained encoders."""
    return _loaded(runs, PRETRAINING_FILE, PretrainingRecord.load, _check_pretraining)


def _loaded(
    runs: Path, file: str, load: Callable[[Path], Shown], check: Callable[[Shown, Path], None]
) -> tuple[dict[str, Shown], list[str]]:
    records, broken = {}, []
    for path in sorted(runs.glob(f"*/{file}")):
        try:
            record = load(path)
            check(record, path)
        except UserError as error:
            broken.append(str(error))
        else:
            records[path.parent.name] = record
    return records, broken


def _check_ablation(record: AblationRecord, path: Path) -> None:
    _check_any(record, path)
    if (path.parent / "record.json").exists():
        raise UserError(f"{path}: its folder has a record.json too, and a page shows one of them; move one elsewhere")
    if not record.studies or not all(study.rows for study in record.studies):
        raise UserError(f"{path} lists no studies, or one without rows")
    curves = [curve for study in record.studies for row in study.rows for curve in row.pretraining.curves]
    if any(len(curve.steps) != len(curve.values) for curve in curves):
        raise UserError(f"{path} has a curve with more steps than values, or fewer")


def _check_study(record: StudyRecord, path: Path) -> None:
    _check_any(record, path)
    if any((path.parent / name).exists() for name in ("record.json", FILE)):
        raise UserError(f"{path}: its folder has another record too, and a page shows one of them; move one elsewhere")
    if not record.trials:
        raise UserError(f"{path} lists no trials")


def _check_pretraining(record: PretrainingRecord, path: Path) -> None:
    _check_any(record, path)
    if any((path.parent / name).exists() for name in ("record.json", FILE, STUDY_FILE)):
        raise UserError(f"{path}: its folder has another record too, and a page shows one of them; move one elsewhere")


def _check_any(record: Record | AblationRecord | StudyRecord | PretrainingRecord, path: Path) -> None:
    if path.parent.name == "index":
        raise UserError(f"{path}: a run can't be called 'index', its page would be the list of runs; rename the folder")
    for where in _not_finite(dataclasses.asdict(record), ""):
        raise UserError(f"{path}: {where} is not a finite number; run the command again")


def _check(record: Record, path: Path) -> None:
    """Raise UserError where the record says what no run can have measured."""
    _check_any(record, path)
    if not record.models:
        raise UserError(f"{path} lists no models")
    _check_chains(record, path)
    for card in record.models:
        cells = card.speed.latency if card.speed else ()
        if any(min(cell.p50_ms, cell.p95_ms) <= 0 for cell in cells):
            raise UserError(f"{path}: {card.name} has a latency that is not above 0; run the command again")
        if any(len(curve.steps) != len(curve.values) for curve in card.curves):
            raise UserError(f"{path}: {card.name} has a curve with more steps than values, or fewer")


def _check_chains(record: Record, path: Path) -> None:
    for chain in record.compression:
        if not chain.rows:
            raise UserError(f"{path}: the chain of {chain.model} has no rows")
        figures: list[float] = [row.bytes_on_disk for row in chain.rows]
        figures += [time for row in chain.rows for cell in row.latency for time in (cell.p50_ms, cell.p95_ms)]
        if min(figures) <= 0:
            raise UserError(f"{path}: the chain of {chain.model} has a figure that is not above 0; run it again")


def _not_finite(value: Any, where: str) -> list[str]:
    """The places of NaN and infinities, which JSON as Python reads it lets through."""
    if isinstance(value, dict):
        inner = [(f"{where}.{key}" if where else str(key), item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        inner = [(f"{where}[{index}]", item) for index, item in enumerate(value)]
    else:
        return [where] if isinstance(value, float) and not math.isfinite(value) else []
    return [place for name, item in inner for place in _not_finite(item, name)]
