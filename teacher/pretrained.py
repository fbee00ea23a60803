"""An encoder as it was pretrained: with its masked-language head and pooler, and which of them were really there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, BertForPreTraining, PreTrainedModel, PreTrainedTokenizerBase

from common.aligned import aligned
from common.errors import UserError
from common.masked import MASKED_HEADS
from common.output_layer import is_head
from common.progress import say
from teacher.hub import offline_if_unreachable
from teacher.sources import explain, read_config, read_tokenizer, resolve


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """An encoder without a task."""

    model: PreTrainedModel
    """In evaluation mode: BertForPreTraining, whose `bert.pooler` is None where the file has none, or the class for
    masked pieces of another family."""
    tokenizer: PreTrainedTokenizerBase
    masked: bool
    """Its head for masked pieces came from the file."""
    finetuned: bool
    """It has been fine-tuned for a task."""


def load_pretrained(source: str) -> Pretrained:
    """The encoder at `source`: minilm, a model folder or a hub id.

    Raises:
        UserError: not loadable, of a family without a known head for masked pieces, or weights of the encoder missing.
    """
    where = resolve(source)
    if Path(where).is_dir():
        return _load(source, where)
    say(f"loading {where} from the hub, or from its cache")
    with offline_if_unreachable():
        return _load(source, where)


def _load(source: str, where: str) -> Pretrained:
    config = read_config(where)
    if config.model_type not in MASKED_HEADS:
        raise UserError(
            f"{source}: its model_type is {config.model_type!r}, expected one of {', '.join(MASKED_HEADS)} for text "
            "without labels"
        )
    kind: Any = BertForPreTraining if config.model_type == "bert" else AutoModelForMaskedLM
    try:
        with torch.random.fork_rng(devices=[]):
            loaded: Any = kind.from_pretrained(where, output_loading_info=True, dtype=torch.float32)
    except Exception as error:  # safetensors' and transformers' errors have no common base
        raise UserError(explain(where, error)) from error
    model, found = loaded
    missing = {name for name in found["missing_keys"] if "position_ids" not in name}
    lacking = {name for name in missing if not is_head(model, name)}
    if lacking or found["mismatched_keys"]:
        names = sorted(lacking) or sorted(map(str, found["mismatched_keys"]))
        raise UserError(f"{source}: weights are missing or of another shape: {', '.join(names[:3])}")
    if any(name.startswith("bert.pooler") for name in missing):
        model.bert.pooler = None
    return Pretrained(
        model=aligned(model).eval(),
        tokenizer=read_tokenizer(where, model),
        masked=not any(_of_masked_head(model, name) for name in missing),
        finetuned=any("For" in name and "Classification" in name for name in config.architectures or []),
    )


def _of_masked_head(model: PreTrainedModel, name: str) -> bool:
    """Whether a weight is of the head for masked pieces; a BERT's head for pairs, or a pooler, may be missing."""
    return is_head(model, name) and "pooler." not in name and not name.startswith("cls.seq_relationship")
