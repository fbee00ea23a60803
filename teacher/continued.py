"""An encoder that exists already and is pretrained further: its model, its head for masked pieces, its losses."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerFast

from common.aligned import aligned
from common.errors import UserError
from common.masked import MASKED_HEADS, masked_logits
from common.progress import say
from teacher.batches import on_full_rows
from teacher.hub import offline_if_unreachable
from teacher.masked_language import Mlm
from teacher.pretrain_objective import at_positions
from teacher.sources import explain, read_config, read_tokenizer, refuse_left_to_right, resolve

OFFSET_POSITIONS = ("roberta", "xlm-roberta")
"""Families that count positions from padding_idx + 1 on."""


@dataclass(frozen=True, kw_only=True)
class Continued:
    """What is there before it is pretrained further."""

    model: PreTrainedModel
    """With a head for masked pieces, in evaluation mode, without a pooler."""
    tokenizer: PreTrainedTokenizerFast
    pooler: nn.Module | None
    """The pooler of its file, which masked pieces do not train."""
    new_head: bool
    """Its head for masked pieces is not from the file."""
    notes: tuple[str, ...]
    """What the user should know, a sentence each."""

    def objective(self, dropout: float) -> "MaskedPieces":
        """What is trained, with that share of dropout; the configuration keeps its own, for fine-tuning."""
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = dropout
        return MaskedPieces(self.model)

    def with_pooler(self, model: PreTrainedModel) -> PreTrainedModel:
        """`model`, trained, as it is to be written."""
        if self.pooler is not None:
            cast(Any, model.base_model).pooler = self.pooler
        return model


def load_continued(source: str, seed: int, length: int) -> Continued:
    """The encoder at `source`: minilm, a model folder or a hub id; what its head lacks is drawn from `seed`.

    Raises:
        UserError: not loadable, a family without a known head, weights of the encoder missing, a tokenizer without a
        mask token, or positions for less than `length` pieces.
    """
    where = resolve(source)
    if Path(where).is_dir():
        start = _load(source, where, seed)
    else:
        say(f"loading {where} from the hub, or from its cache")
        with offline_if_unreachable():
            start = _load(source, where, seed)
    room = longest_input(start.model)
    if length > room:
        raise UserError(
            f"inputs of {length} pieces: {source} has positions for {room}, give a --length of at most that"
        )
    for note in start.notes:
        say(f"note: {note}")
    return start


def _load(source: str, where: str, seed: int) -> Continued:
    config = read_config(where)
    refuse_left_to_right(config, f"--from {source} cannot learn masked pieces")
    if config.model_type not in MASKED_HEADS:
        raise UserError(
            f"--from {source}: its model_type is {config.model_type!r}, one of {', '.join(MASKED_HEADS)} was expected"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, found = _read(where, AutoModelForMaskedLM)
        missing = {name for name in found["missing_keys"] if "position_ids" not in name}
        lacking = {name for name in missing if name.startswith(f"{model.base_model_prefix}.")}
        if lacking or found["mismatched_keys"]:
            names = sorted(lacking) or sorted(map(str, found["mismatched_keys"]))
            raise UserError(f"--from {source}: weights are missing or of another shape: {', '.join(names[:3])}")
        pooler = _pooler(where)
    tokenizer: Any = read_tokenizer(where, model)
    _check_tokenizer(source, tokenizer)
    if hasattr(model.base_model, "pooler"):
        model.base_model.pooler = None
    return Continued(
        model=model.eval(),
        tokenizer=tokenizer,
        pooler=pooler,
        new_head=bool(missing),
        notes=_notes(source, missing, found["unexpected_keys"]),
    )


def _check_tokenizer(source: str, tokenizer: Any) -> None:
    """Raise UserError unless it is one of BERT's kind: a mask token, and one token each before and after a text."""
    ids = tokenizer("a")["input_ids"]
    framed = len(ids) > 2 and (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    if None in (tokenizer.mask_token_id, tokenizer.pad_token_id) or not (framed and tokenizer.is_fast):
        raise UserError(
            f"--from {source}: its tokenizer is none of an encoder (with mask, padding, start and end tokens, as "
            "tokenizer.json)"
        )


def _read(where: str, kind: Any) -> tuple[Any, dict[str, Any]]:
    try:
        model, found = kind.from_pretrained(where, output_loading_info=True, dtype=torch.float32)
    except Exception as error:  # safetensors' and transformers' errors have no common base
        raise UserError(explain(where, error)) from error
    return aligned(model), found


def _pooler(where: str) -> nn.Module | None:
    """The pooler of the file, if it has all of it."""
    encoder, found = _read(where, AutoModel)
    pooler = getattr(encoder, "pooler", None)
    return None if any(name.startswith("pooler.") for name in found["missing_keys"]) else pooler


def _notes(source: str, missing: Iterable[str], unexpected: Iterable[str]) -> tuple[str, ...]:
    notes = []
    if missing:
        notes.append(f"{source} has no head for masked pieces: a new one is trained (random first weights)")
    other = sorted({name.split(".")[0] for name in unexpected if "pooler" not in name and "position_ids" not in name})
    if other:
        notes.append(f"other heads of {source} are not kept: {', '.join(other)}")
    return tuple(notes)


def longest_input(model: PreTrainedModel) -> int:
    """Pieces that the model has positions for."""
    return int(model.config.max_position_embeddings) - _first_position(model)


def _first_position(model: PreTrainedModel) -> int:
    return int(model.config.pad_token_id or 0) + 1 if model.config.model_type in OFFSET_POSITIONS else 0


class MaskedPieces(Mlm):
    """`Mlm` with the family's own head. Of one segment, so segments are not given to the model; padded on the right."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._first = _first_position(model)

    def _scores(self, batch: dict[str, Tensor]) -> Tensor:
        inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
        if self._first:
            inputs["position_ids"] = self._positions(batch["attention_mask"])
        masked = at_positions(self.model.base_model(**inputs).last_hidden_state, batch["positions"])
        return on_full_rows(partial(masked_logits, self.model), masked)

    def _positions(self, mask: Tensor) -> Tensor:
        """RoBERTa's, but from the mask: a masked piece may have been replaced by the padding's."""
        return mask * torch.arange(1, mask.shape[1] + 1, device=mask.device) + (self._first - 1)
