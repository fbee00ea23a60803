"""What a pretraining leaves: the finished model, how it is for fine-tuning, and the pages beside it."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from common.files import write_json, write_text
from common.pretraining_record import FILE as DONE
from common.pretraining_record import HISTORY
from teacher.continued import Continued
from teacher.continued_card import best_card, continued_card
from teacher.pretrain_card import card, part_card
from teacher.pretrain_folder import Work

DROPOUT = 0.1
"""In the written model, for fine-tuning."""


def finisher(start: Continued | None) -> Callable[[PreTrainedModel], PreTrainedModel]:
    """What gives a model, from random weights or `start`, all that it is written with."""
    if start is not None:
        return start.with_pooler

    def with_dropout(model: PreTrainedModel) -> PreTrainedModel:
        model.config.update({"hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT})
        return model

    return with_dropout


def write_model(
    folder: Path,
    models: Mapping[str, PreTrainedModel],
    tokenizer: PreTrainedTokenizerFast,
    *,
    settings: Mapping[str, Any],
    summary: Mapping[str, Any],
    work: Work,
) -> None:
    """The finished folder, all at once: weights, tokenizer, card, pretraining.json, history.jsonl; then drop `work`.

    `models` are by the folder inside it: "" is the one that is wanted, a generator or the best one stands beside it.
    """
    with work.finished(folder) as target:
        for name, model in models.items():
            model.save_pretrained(target / name)
            tokenizer.save_pretrained(target / name)
            write_text(target / name / "README.md", _page(name, settings, summary))
        shutil.copyfile(work.folder / "training" / HISTORY, target / HISTORY)
        write_json(target / DONE, {"settings": dict(settings), **summary})


def _page(name: str, settings: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """The model card in the folder `name`."""
    if name.startswith("best"):
        return best_card(summary)
    if name:
        return part_card(name, settings)
    return card(settings, summary) if settings.get("from") is None else continued_card(settings, summary)
