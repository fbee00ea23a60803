"""A task's splits as pieces, and a model's answers to them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from common.errors import UserError
from common.heads import CHOICE, SPANS, head_of_model
from common.progress import progress
from teacher.batches import Batches, sorted_batches
from teacher.lanes import side_by_side
from teacher.tasks.base import CHOICES, Encoded, Task

NO_CHOICE = -1e4
"""Logit of one that is not; half precisions have it too."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A task, the tokenizer, and every split tokenised with it once."""

    task: Task
    tokenizer: PreTrainedTokenizerBase
    splits: Mapping[str, Encoded]
    max_length: int

    @property
    def pad(self) -> int:
        return int(self.tokenizer.pad_token_id)

    def batches(self, split: str, batch_size: int, seed: int, *, tokens: int | None = None) -> Batches:
        """Training batches of a split, by examples or by `tokens` pieces."""
        encoded = self.splits[split]
        return Batches(
            lengths=encoded.lengths,
            batch_size=batch_size,
            tokens=tokens,
            seed=seed,
            collate=lambda indices, step: (
                self.task.collate(encoded, indices, self.pad) | {"index": torch.as_tensor(indices)}
            ),
        )

    def sample(self, count: int) -> list[dict[str, Tensor]]:
        """The first training examples in `count` batches of 32."""
        encoded = self.splits["train"]
        rows = range(min(len(encoded), 32 * count))
        return [self.task.collate(encoded, rows[start : start + 32], self.pad) for start in range(0, len(rows), 32)]

    def occurring(self, *splits: str) -> Tensor:
        """The piece ids that occur in these splits, and the padding, rising."""
        pieces = [ids for split in splits for ids in self.splits[split].input_ids]
        return torch.from_numpy(np.unique(np.concatenate([*pieces, [self.pad]])))

    def truncations(self) -> list[str]:
        """One sentence for each split that had texts longer than the limit, or questions that left no room."""
        pieces = f"{self.max_length} pieces"
        what = f"texts were longer than {pieces} and cut"
        if self.task.head_kind == SPANS:
            what = f"questions left too few of {pieces} for the context and were cut"
        return [
            f"{encoded.truncated:,} of {len(encoded.references):,} {name} {what}"
            for name, encoded in self.splits.items()
            if encoded.truncated
        ]

    def metrics(self, logits: np.ndarray, split: str) -> dict[str, float]:
        """Every metric of `logits` (n, outputs) against a split's labels."""
        return self.task.metrics(self.decode(logits, split), self.splits[split].references)

    def decode(self, logits: np.ndarray, split: str) -> np.ndarray:
        """Predictions, one an example, from logits of a split's rows."""
        return self.task.decode(logits, self.splits[split])

    def score(self, model: PreTrainedModel, split: str, precision: str) -> float:
        """The selection metric of `model` on a split, higher better; its outputs are read as is best there."""
        logits = predict_logits(model, self, split, precision=precision)
        if self.task.settings:
            logits = self.task.tuned(logits, self.task.tune(logits, self.splits[split]))
        value = self.metrics(logits, split)[self.task.data.metric]
        return self.task.signed(value)


def prepare(task: Task, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Prepared:
    """Tokenise every split."""
    splits = {name: task.encode(examples, tokenizer, max_length) for name, examples in task.data.splits.items()}
    return Prepared(task=task, tokenizer=tokenizer, splits=splits, max_length=max_length)


def prepare_split(task: Task, tokenizer: PreTrainedTokenizerBase, split: str, max_length: int) -> Encoded:
    """One split alone, tokenised."""
    return task.encode(task.data.splits[split], tokenizer, max_length)


def say_reading(model: PreTrainedModel, task: Task) -> None:
    """Let the model's configuration say how texts were read that were too long; an entry that says nothing goes."""
    for name, value in task.reading.items():
        if value is not None:
            setattr(model.config, name, value)
        elif hasattr(model.config, name):
            delattr(model.config, name)


def tune(model: PreTrainedModel, prepared: Prepared) -> None:
    """Give the model's configuration the entries that its outputs are read with, found on the split "select", and those
    that say how texts were read.
    """
    say_reading(model, prepared.task)
    if not prepared.task.settings:
        return
    logits = predict_logits(model, prepared, "select", tuned=False)
    for name, value in prepared.task.tune(logits, prepared.splits["select"]).items():
        setattr(model.config, name, value)


def settings_of(model: PreTrainedModel, task: Task) -> dict[str, float]:
    """The entries of the model's configuration, where it has them, that its outputs are read with."""
    return {name: float(getattr(model.config, name)) for name in task.settings if hasattr(model.config, name)}


def _accepts_token_types(kind: type[PreTrainedModel]) -> bool:
    return "token_type_ids" in inspect.signature(kind.forward).parameters


def model_inputs(model: PreTrainedModel, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What of a batch the model's forward takes: DistilBERT has no segments, and RoBERTa a table of one.

    (batch, length) each, or of choices, which a batch holds one below the other, (batch, choices, length). Other texts
    are single choices to a model that scores some.
    """
    segments = _accepts_token_types(type(model)) and getattr(model.config, "type_vocab_size", 2) != 1
    names = ["input_ids", "attention_mask"] + (["token_type_ids"] if segments else [])
    if head_of_model(model) != CHOICE:
        return {name: batch[name] for name in names}
    shape = batch[CHOICES].shape if CHOICES in batch else (-1, 1)
    return {name: batch[name].unflatten(0, shape) for name in names}


def predict_logits(
    model: PreTrainedModel,
    prepared: Prepared,
    split: str,
    *,
    batch_size: int = 64,
    precision: str = "fp32",
    label: str | None = None,
    tuned: bool = True,
) -> np.ndarray:
    """Logits of a whole split in its order, fp32, in evaluation mode; the model's mode is put back.

    (n, outputs), or (n, longest, outputs) of a task per position, 0 behind the end of shorter rows. With a
    `label` progress is shown. `tuned`: as the model's configuration says that they are read, else as they come.

    Raises:
        UserError: the split has no examples.
    """
    encoded = prepared.splits[split]
    batches = sorted_batches(encoded.lengths, batch_size)
    if not batches:
        raise UserError(f"the split {split!r} has no examples")
    was_training = model.training
    model.eval()
    compute = partial(_logits, model, prepared, encoded, precision)
    rows = in_order(compute, batches, device=model.device, label=label)
    model.train(was_training)
    settings = settings_of(model, prepared.task)
    return prepared.task.tuned(rows, settings) if tuned and settings else rows


def in_order(
    compute: Callable[[np.ndarray], np.ndarray],
    batches: Sequence[np.ndarray],
    *,
    device: torch.device,
    label: str | None = None,
) -> np.ndarray:
    """What `compute` gives for batches of examples, a row an example, put in the order of the examples.

    `batches` hold every example once; with a `label` progress is shown.
    """
    found = side_by_side(compute, batches, device=device)
    shown = found if label is None else progress(found, label, total=len(batches), unit="step")
    rows = np.concatenate(list(shown))
    ordered = np.empty_like(rows)
    ordered[np.concatenate(batches)] = rows
    return ordered


@torch.inference_mode()
def _logits(
    model: PreTrainedModel, prepared: Prepared, encoded: Encoded, precision: str, indices: np.ndarray
) -> np.ndarray:
    """(len(indices), outputs) or (len(indices), longest, outputs), fp32."""
    batch = prepared.task.collate(encoded, list(indices), prepared.pad)
    inputs = {name: tensor.to(model.device) for name, tensor in model_inputs(model, batch).items()}
    with torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bf16"):
        logits = output_logits(model(**inputs), batch).float().cpu()
    if prepared.task.per_position:
        logits = to_length(logits, int(encoded.lengths.max()))
    return logits.numpy()


def output_logits(output: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
    """A model's logits; those of spans, start and end, as (batch, length, 2); empty of an encoder alone.

    A choice that is not there scores so little that its probability is 0.
    """
    if "start_logits" in output:
        return torch.stack([output["start_logits"], output["end_logits"]], dim=-1)
    logits = output["logits"] if "logits" in output else torch.empty(0)
    return logits.masked_fill(~batch[CHOICES].to(logits.device), NO_CHOICE) if CHOICES in batch else logits


def to_length(logits: Tensor, length: int) -> Tensor:
    """Logits (batch, l, outputs) cut or filled up with 0 to `length` positions."""
    if logits.shape[1] >= length:
        return logits[:, :length]
    return functional.pad(logits, (0, 0, 0, length - logits.shape[1]))
