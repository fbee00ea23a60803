"""A BERT as it was pretrained: encoder, masked-language head and pooler, and which of them were really there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import BertForPreTraining, PreTrainedModel, PreTrainedTokenizerBase

from common.errors import UserError
from common.progress import say
from teacher.hub import offline_if_unreachable
from teacher.sources import explain, read_config, read_tokenizer, resolve


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A BERT without a task."""

    model: PreTrainedModel
    """BertForPreTraining in evaluation mode; its `bert.pooler` is None where the file has none."""
    tokenizer: PreTrainedTokenizerBase
    masked: bool
    """Its head for masked pieces, `cls.predictions`, came from the file."""
    finetuned: bool
    """It has been fine-tuned for a task."""


def load_pretrained(source: str) -> Pretrained:
    """The BERT at `source`: minilm, a model folder or a hub id.

    Raises:
        UserError: not loadable, no BERT, or weights of the encoder missing.
    """
    where = resolve(source)
    if Path(where).is_dir():
        return _load(source, where)
    say(f"loading {where} from the hub, or from its cache")
    with offline_if_unreachable():
        return _load(source, where)


def _load(source: str, where: str) -> Pretrained:
    config = read_config(where)
    if config.model_type != "bert":
        raise UserError(f"{source}: its model_type is {config.model_type!r}, a BERT (model_type 'bert') was expected")
    try:
        with torch.random.fork_rng(devices=[]):
            loaded: Any = BertForPreTraining.from_pretrained(where, output_loading_info=True, dtype=torch.float32)
    except Exception as error:  # safetensors' and transformers' errors have no common base
        raise UserError(explain(where, error)) from error
    model, found = loaded
    missing = {name for name in found["missing_keys"] if "position_ids" not in name}
    lacking = {name for name in missing if not name.startswith(("cls.", "bert.pooler"))}
    if lacking or found["mismatched_keys"]:
        names = sorted(lacking) or sorted(map(str, found["mismatched_keys"]))
        raise UserError(f"{source}: weights are missing or of another shape: {', '.join(names[:3])}")
    if any(name.startswith("bert.pooler") for name in missing):
        model.bert.pooler = None
    return Pretrained(
        model=model.eval(),
        tokenizer=read_tokenizer(where, model),
        masked=not any(name.startswith("cls.predictions") for name in missing),
        finetuned=any("For" in name and "Classification" in name for name in config.architectures or []),
    )
