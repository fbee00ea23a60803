"""An encoder that exists already and is pretrained further: its model, its head for masked pieces, its losses."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel, AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerFast

from common.errors import UserError
from common.masked import MASKED_HEADS, masked_logits
from common.progress import say
from teacher.batches import on_full_rows
from teacher.hub import offline_if_unreachable
from teacher.loop import Objective
from teacher.objectives import masked_mean
from teacher.sources import explain, read_config, read_tokenizer, resolve

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


def load_continued(source: str, seed: int) -> Continued:
    """The encoder at `source`: minilm, a model folder or a hub id; what its head lacks is drawn from `seed`.

    Raises:
        UserError: not loadable, a family without a known head, weights of the encoder missing, no mask token.
    """
    where = resolve(source)
    if Path(where).is_dir():
        return _load(source, where, seed)
    say(f"loading {where} from the hub, or from its cache")
    with offline_if_unreachable():
        return _load(source, where, seed)


def _load(source: str, where: str, seed: int) -> Continued:
    config = read_config(where)
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
    if tokenizer.mask_token_id is None or tokenizer.pad_token_id is None or not tokenizer.is_fast:
        raise UserError(f"--from {source}: its tokenizer has no mask token, no padding token or no tokenizer.json")
    if hasattr(model.base_model, "pooler"):
        model.base_model.pooler = None
    return Continued(
        model=model.eval(),
        tokenizer=tokenizer,
        pooler=pooler,
        new_head=bool(missing),
        notes=_notes(source, missing, found["unexpected_keys"]),
    )


def _read(where: str, kind: Any) -> tuple[Any, dict[str, Any]]:
    try:
        return kind.from_pretrained(where, output_loading_info=True, dtype=torch.float32)
    except Exception as error:  # safetensors' and transformers' errors have no common base
        raise UserError(explain(where, error)) from error


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


def set_dropout(model: PreTrainedModel, share: float) -> None:
    """Dropout of every layer, attention included; the configuration keeps its own for fine-tuning."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share


class MaskedPieces(Objective):
    """Masked language modelling with the family's own head, projecting masked positions only.

    A batch has input_ids, attention_mask (batch, length), padded on the right; positions (k,), places of the masked
    pieces in the flattened batch; labels (k,), the pieces that stood there. One segment, so segments need not be given.
    """

    complete = True

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.weights = {"mlm": 1.0}
        self._first = _first_position(model)

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        losses = functional.cross_entropy(self.logits(batch), batch["labels"], reduction="none")
        return {"mlm": masked_mean(losses)}

    def counts(self, batch: dict[str, Tensor]) -> dict[str, int]:
        return {"mlm": len(batch["labels"])}

    def logits(self, batch: dict[str, Tensor]) -> Tensor:
        """fp32 logits (k, vocabulary) at the masked positions."""
        inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
        if self._first:
            inputs["position_ids"] = self._positions(batch["attention_mask"])
        states = self.model.base_model(**inputs).last_hidden_state
        masked = states.flatten(0, 1).index_select(0, batch["positions"])
        return on_full_rows(partial(masked_logits, self.model), masked).float()

    def _positions(self, mask: Tensor) -> Tensor:
        """RoBERTa's, but from the mask: a masked piece may have been replaced by the padding's."""
        return mask * torch.arange(1, mask.shape[1] + 1, device=mask.device) + (self._first - 1)


@torch.inference_mode()
def evaluate_masked(objective: MaskedPieces, batches: Iterable[dict[str, Tensor]], precision: str) -> dict[str, float]:
    """Held-out figures over all masked pieces: mlm_loss (nats), mlm_accuracy, and masked, their number."""
    loss = right = 0.0
    masked = 0
    device = objective.model.device
    was_training = objective.training
    objective.eval()
    for batch in batches:
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            scores = objective.logits(batch)
        loss += float(functional.cross_entropy(scores, batch["labels"], reduction="sum"))
        right += int((scores.argmax(dim=-1) == batch["labels"]).sum())
        masked += len(scores)
    objective.train(was_training)
    return {"mlm_loss": loss / max(1, masked), "mlm_accuracy": right / max(1, masked), "masked": masked}
