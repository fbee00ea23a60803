"""The folder of a student distilled on general text: weights, tokenizer, card, settings and curves."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from common.artifact import state_to_save
from common.files import write_json, write_text
from teacher.pretrain_folder import Work

DONE = "general.json"


def write_student(
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    settings: Mapping[str, Any],
    summary: Mapping[str, Any],
    work: Work,
) -> None:
    """The finished folder, all at once; then drop `work`."""
    with work.finished(folder) as target:
        model.save_pretrained(target, state_dict=state_to_save(model), max_shard_size="1000GB")
        tokenizer.save_pretrained(target)
        shutil.copyfile(work.folder / "training" / "history.jsonl", target / "history.jsonl")
        write_text(target / "README.md", card(folder, settings, summary))
        write_json(target / DONE, {"settings": dict(settings), **summary})


def card(folder: Path, settings: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """The model card."""
    weights, last = settings["losses"], summary["last_losses"]
    rows = "\n".join(f"| {name} | {weight:g} | {last[name]:.4f} |" for name, weight in weights.items())
    # As JSON in a code span, a name of the user's cannot change the page.
    text, teacher = (json.dumps(summary[name]).replace("`", "'") for name in ("text", "teacher"))
    masked = " Pieces were masked, the rare ones more often." if summary["masked_text"] else ""
    for_masks = ", `AutoModelForMaskedLM`" if summary["head"] else ""
    return f"""---
# license: name yours here before you publish
library_name: transformers
---
# {summary["student"]} distilled on general text

No task yet: an encoder for fine-tuning. Teacher `{teacher}`, text `{text}`: {summary["steps"]:,} steps of
{settings["batch_size"]} sequences of at most {summary["length"]} pieces in {summary["seconds"]:.0f} s.{masked}

- Architecture: {summary["architecture"]}, {summary["shape"]}
- Parameters: {summary["parameters"]:,}
- First weights: {summary["start"]}
- Head for masked pieces: {summary["head"] or "none"}

| loss | weight | at the end of training |
|---|---|---|
{rows}

`AutoModel`, `AutoModelForSequenceClassification`{for_masks} load it. {summary["note"]}

All settings and figures are in {DONE}, the curves in history.jsonl. To distil it on a task:

```
python -m distill.run --student {settings["student"]} --student-from {folder.name} --task FILE --teacher TEACHER
```
"""
