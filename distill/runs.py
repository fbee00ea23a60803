"""Run folders: a new one, or the one to go on with. Nothing in another's folder is ever touched."""

import dataclasses
import itertools
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import write_json
from common.keys import short_key
from common.progress import say
from distill.config import RunConfig
from distill.recipes import OWN

LONGEST_NAME = 120

_NOT_SETTINGS = ("name", "resume", "runs", "reports")


def settings(config: RunConfig) -> dict[str, Any]:
    """Every option with its value, as JSON has it."""
    return json.loads(json.dumps(dataclasses.asdict(config), default=str))


def settings_key(config: RunConfig) -> str:
    """Equal for two commands that make the same results."""
    kept = {name: value for name, value in settings(config).items() if name not in _NOT_SETTINGS}
    kept["distilling"].pop("jobs")
    if not config.compress.anything:
        # Runs that compress nothing keep the key that they had before there was anything to choose.
        kept.pop("compress")
    if config.changes.class_weights == "none":
        kept["changes"].pop("class_weights")
    if not config.scratch.given:
        kept.pop("scratch")
    kept["finetuning"] = config.finetuning.deciding()
    return short_key(kept, 12)


def open_run(config: RunConfig, task: str, files: Mapping[str, str] | None = None) -> Path:
    """The folder for this run: with --resume the newest unfinished one of the same settings, else a new one.

    `files`: option to a digest of the data that it names, which a resumed run must find unchanged.

    Raises:
        UserError: nothing to resume, or a name that is taken.
    """
    recipes = [name for name in config.distilling.recipes if config.distilling.recipe != OWN]
    recipes += ["ablation"] if config.distilling.ablate else []
    base = config.name or "-".join([task, *config.students, *recipes])
    if base != Path(base).name or base.startswith(".") or len(base) > LONGEST_NAME or base == "index":
        raise UserError(f"--name {base[:120]}: expected a plain folder name of up to {LONGEST_NAME} letters")
    if config.resume:
        return _unfinished(config, base, files or {})
    folder = config.runs / base
    if config.name is None:
        folder = next(path for path in numbered(folder) if not path.exists())
    elif folder.exists() and any(folder.iterdir()):
        raise UserError(
            f"{folder} is there already: --resume goes on with an unfinished run; else choose another --name"
        )
    write_json(
        folder / "config.json", {"key": settings_key(config), "settings": settings(config), "files": dict(files or {})}
    )
    return folder


def finished(config: RunConfig, data: str) -> bool:
    """Whether the run that has the configuration's name is finished; `data`: the fingerprint of its task.

    Raises:
        UserError: it is, but of other settings or data.
    """
    folder = config.runs / str(config.name)
    if not (folder / "record.json").is_file():
        return False
    stored = _stored(folder)
    if stored is None or stored["key"] != settings_key(config) or stored["files"].get("--task") != data:
        changed = stored and _changed(stored["settings"], settings(config))
        raise UserError(
            f"{folder} is a finished run of other settings or data{f' ({changed})' if changed else ''}: choose another "
            "--name, or move that folder away"
        )
    return True


def numbered(folder: Path) -> "itertools.chain[Path]":
    """The folder, and the names that are tried after it: NAME-2, NAME-3, ..."""
    return itertools.chain([folder], (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2)))


def _unfinished(config: RunConfig, base: str, files: Mapping[str, str]) -> Path:
    candidates = (
        [config.runs / base] if config.name else list(itertools.takewhile(Path.exists, numbered(config.runs / base)))
    )
    refusal = f"no unfinished run of these settings under {config.runs / base}: leave --resume out"
    for folder in reversed(candidates):
        stored = _stored(folder)
        if stored is None or (folder / "record.json").is_file():
            continue
        if stored["key"] == settings_key(config):
            if stored["files"] == files:
                return folder
            flags = " and ".join(flag for flag in files if stored["files"].get(flag) != files[flag])
            refusal = f"the data of {flags} changed after {folder} was started: put them back, or start another run"
        elif config.name:
            changed = _changed(stored["settings"], settings(config))
            raise UserError(
                f"--resume: {folder} was started with other settings ({changed}): repeat them, or choose another --name"
            )
    raise UserError(f"--resume: {refusal}")


def _stored(folder: Path) -> dict[str, Any] | None:
    """What config.json of a run holds; a damaged one is named and passed over."""
    path = folder / "config.json"
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return {"key": str(value["key"]), "settings": dict(value["settings"]), "files": dict(value["files"])}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        say(f"{path} is damaged ({error}): this run cannot be gone on with")
        return None


def drop_if_unused(folder: Path, *, marker: str = "config.json") -> None:
    """Remove the folder of a run that never began, which has `marker` alone, so that its name is free again."""
    ours = {marker, ".lock"}
    if {path.name for path in folder.iterdir()} <= ours:
        shutil.rmtree(folder)


def _changed(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The first options that differ, by flag."""
    differences = []
    for name, value in new.items():
        if name in _NOT_SETTINGS:
            continue
        if isinstance(value, dict):
            nested = _changed(old.get(name, {}), value)
            differences += [nested] if nested else []
        elif old.get(name) != value:
            differences.append(f"--{name.replace('_', '-')} was {old.get(name)}")
    return ", ".join(differences[:4])
