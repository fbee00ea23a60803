"""The folders of pretraining: the unfinished one that a resumed run goes on from, and the finished model."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from common.errors import UserError
from common.files import new_folder, write_json, write_text

DONE = "pretraining.json"
PLAN = "plan.json"


@dataclass(frozen=True)
class Work:
    """The folder of a run that is not finished."""

    folder: Path

    def steps(self, decide: Callable[[], int]) -> int:
        """Steps of the whole run: decided once, and the same after every interruption."""
        plan = _read(self.folder / PLAN)
        if plan.get("steps") is None:
            plan["steps"] = decide()
            write_json(self.folder / PLAN, plan)
        return int(plan["steps"])


def reusable(folder: Path, identity: Mapping[str, Any], done: str = DONE) -> bool:
    """Whether `folder` holds the finished model of these settings, by its file `done`.

    Raises:
        UserError: it holds something else.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if not (folder / done).is_file():
        raise UserError(f"--out {folder} holds something else: choose another folder")
    found = _read(folder / done).get("settings", {})
    if found != dict(identity):
        raise UserError(
            f"--out {folder} holds a model of other settings ({_differences(found, identity)}): choose another folder"
        )
    return True


def open_work(folder: Path, identity: Mapping[str, Any], *, resume: bool) -> Work:
    """FOLDER-unfinished, new or of an interrupted run of equal settings.

    Raises:
        UserError: it is there and `resume` is off, or is of other settings or something else.
    """
    work = folder.with_name(f"{folder.name}-unfinished")
    # What starts with a dot is the rest of a write that was cut off.
    if not work.exists() or not any(entry for entry in work.iterdir() if not entry.name.startswith(".")):
        write_json(work / PLAN, {"settings": dict(identity), "steps": None})
        return Work(work)
    if not (work / PLAN).is_file():
        raise UserError(f"{work} holds something else: choose another --out")
    found = _read(work / PLAN).get("settings", {})
    if found != dict(identity):
        raise UserError(
            f"{work} is an interrupted run of other settings ({_differences(found, identity)}): repeat its settings, "
            "choose another --out, or delete it"
        )
    if not resume:
        raise UserError(
            f"{work} is an interrupted run of these settings: go on with --resume, or delete it to start again"
        )
    return Work(work)


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}): delete its folder, or choose another --out") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} is damaged (a JSON object was expected): delete its folder, or choose another --out")
    return value


def _differences(found: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    names = [name for name in asked if found.get(name) != asked[name]]
    return ", ".join(f"{name} {found.get(name)} there, {asked[name]} asked for" for name in names) or "unknown ones"


def write_model(
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    *,
    settings: Mapping[str, Any],
    summary: Mapping[str, Any],
    work: Work,
) -> None:
    """The finished folder, all at once: weights, tokenizer, card, pretraining.json, history.jsonl; then drop `work`."""
    with new_folder(folder) as target:
        model.save_pretrained(target)
        tokenizer.save_pretrained(target)
        shutil.copyfile(work.folder / "training" / "history.jsonl", target / "history.jsonl")
        write_text(target / "README.md", card(settings, summary))
        write_json(target / DONE, {"settings": dict(settings), **summary})
    shutil.rmtree(work.folder)


def card(settings: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """The model card."""
    held_out = summary["held_out"]
    pairs, case = settings["batch_size"] * settings["accumulation"], "cased" if summary["cased"] else "lower case"
    notes = "".join(f"- {note}\n" for note in summary["notes"])
    # As JSON in a code span, a corpus name cannot change the page.
    corpus = json.dumps(summary["corpus"]).replace("`", "'")
    return f"""# BERT {settings["size"]}, pretrained from random weights

Objective {settings["objective"]} on `{corpus}`: {summary["steps"]:,} steps of {pairs} pairs of at most
{settings["length"]} pieces, {summary["tokens"]:,} tokens in {summary["seconds"]:.0f} s.
{summary["parameters"]:,} parameters, {summary["vocabulary"]:,} WordPieces, {case}.

| {held_out["pairs"]:,} pairs of held-out documents | model | without context |
|---|---|---|
| loss of masked pieces (nats) | {held_out["mlm_loss"]:.3f} | {summary["unigram_loss"]:.3f} |
| accuracy of masked pieces | {held_out["mlm_accuracy"]:.3f} | |
| accuracy of next sentence | {held_out["nsp_accuracy"]:.3f} | {held_out["nsp_majority"]:.3f} |

{notes}
`AutoModel`, `AutoModelForMaskedLM` and `AutoModelForPreTraining` load it. Positions from {settings["length"]} on were
never trained. All settings and figures are in pretraining.json, the curves in history.jsonl.
"""
