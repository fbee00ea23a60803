"""Cards of a model that was pretrained further, and of the best weights of a run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teacher.pretrain_card import second_phase, what_was_hidden

_ROWS = (("loss of masked pieces (nats)", "mlm_loss"), ("accuracy of masked pieces", "mlm_accuracy"))


def continued_card(settings: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """The model card of one that was pretrained further."""
    held_out, before = summary["held_out"], summary["held_out_before"]
    # As JSON in a code span, a name of the user's cannot change the page.
    corpus, source = (json.dumps(name).replace("`", "'") for name in (summary["corpus"], settings["from"]))
    rows = "\n".join(
        f"| {title} | {'' if before is None else f'{before[name]:.3f}'} | {held_out[name]:.3f} |"
        for title, name in _ROWS
    )
    notes = "".join(f"- {note}\n" for note in summary["notes"])
    return f"""# {Path(str(settings["from"])).name}, pretrained further

From `{source}`, on masked pieces of `{corpus}`: {summary["steps"]:,} steps of
{settings["batch_size"] * settings["accumulation"]} segments of at most
{settings["length"]} pieces{second_phase(settings)}, {summary["tokens"]:,} tokens in
{summary["seconds"]:.0f} s.{what_was_hidden(settings)}
{summary["parameters"]:,} parameters, {summary["vocabulary"]:,} pieces.

| {held_out["masked"]:,} masked pieces of held-out documents | before | after |
|---|---|---|
{rows}

{notes}
`AutoModel` and `AutoModelForMaskedLM` load it. All settings and figures are in pretraining.json, the curves in
history.jsonl.
"""


def best_card(summary: Mapping[str, Any]) -> str:
    """Of weights that were better than the last ones."""
    return f"""# The best weights by held-out loss

After step {summary["best_step"]:,} of {summary["steps"]:,}: {summary["best_loss"]:.3f}. The last ones are in the folder
above, which says how both were trained and what loads them.
"""
