"""What all contestants of the SST-2 benchmark share: options, inputs, one clock, one result line.

The peers run in an environment of their own, so this file imports numpy, torch and transformers, nothing of ours.
"""

import argparse
import copy
import json
import os
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, kw_only=True)
class Split:
    """Tokenised texts, without padding."""

    ids: list[np.ndarray]
    labels: np.ndarray


class Work:
    """The folder that tests/bench/work.py writes: everything a contestant reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def split(self, name: str) -> Split:
        """ "train" or "dev"."""
        with np.load(self.folder / f"{name}.npz") as arrays:
            ids = np.split(arrays["ids"].astype(np.int64), arrays["starts"][1:-1])
            return Split(ids=ids, labels=arrays["labels"])

    def model(self, name: str) -> PreTrainedModel:
        """ "teacher" or "student", in evaluation mode."""
        folder = self.folder / name
        return AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()

    def tokenizer(self) -> PreTrainedTokenizerBase:
        return AutoTokenizer.from_pretrained(self.folder / "teacher")


class Meter:
    """When every optimizer step ended, and what had been collated by then.

    A hook that torch calls after the step of any optimizer: no contestant has to be changed, and all are timed alike.
    """

    def __init__(self) -> None:
        self._lock, self._texts, self._tokens = threading.Lock(), 0, 0
        self.marks: list[tuple[float, int, int]] = []

    def __enter__(self) -> "Meter":
        self._handle = register_optimizer_step_post_hook(self._mark)
        return self

    def __exit__(self, *exception: object) -> None:
        self._handle.remove()

    def saw(self, input_ids: Tensor) -> None:
        """A batch (texts, length) was put together."""
        with self._lock:
            self._texts += input_ids.shape[0]
            self._tokens += input_ids.numel()

    def pace(self, warmup: int) -> dict[str, float]:
        """Over the steps after the first `warmup`."""
        marks = np.array(self.marks[warmup - 1 :])
        seconds, texts, tokens = marks[-1] - marks[0]
        return {
            "steps": len(marks) - 1,
            "milliseconds_a_step": float(np.median(np.diff(marks[:, 0]))) * 1000,
            "mean_milliseconds_a_step": seconds / (len(marks) - 1) * 1000,
            "padded_tokens_a_text": tokens / texts,
        }

    def _mark(self, *_: object) -> None:
        self.marks.append((time.perf_counter(), self._texts, self._tokens))


class Contestant(ABC):
    """One way to distil the student.

    Args:
        options: of `parser`.
    """

    name: str

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.work = options, Work(options.work)
        self.train_split = self.work.split("train")

    @property
    def steps_per_epoch(self) -> int:
        return -(-len(self.train_split.ids) // self.options.texts)

    def prepare(self, steps: int) -> int:
        """Compute once what `steps` steps need; the number of texts that took."""
        return 0

    @abstractmethod
    def train(self, student: PreTrainedModel, steps: int, meter: Meter) -> None:
        """Train in place, warm-up and decay of the learning rate fitted into `steps`."""


def parser(description: str) -> argparse.ArgumentParser:
    """The options that every contestant takes."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--work", type=Path, required=True, help="folder that compare_sst2.py or levers.py filled")
    result.add_argument("--steps", type=int, default=300, help="timed steps")
    result.add_argument("--warmup", type=int, default=20, help="steps before them, not timed, 1 at least")
    result.add_argument("--minutes", type=float, help="train as long as fits, and give the accuracy on dev")
    result.add_argument("--calibration", type=int, default=60, help="steps from which --minutes takes the pace")
    result.add_argument("--full", action="store_true", help="train all epochs, and give the accuracy on dev")
    result.add_argument("--epochs", type=int, default=3, help="of --full")
    result.add_argument("--texts", type=int, default=32, help="of a batch")
    result.add_argument("--layers", default="1,4,6", help="teacher layers for the student's, where layers are compared")
    result.add_argument("--threads", type=int, default=2)
    result.add_argument("--seed", type=int, default=0)
    return result


def compete(contestant: Contestant) -> None:
    """Run in the mode that the options ask for, and print the result as one line of JSON.

    Raises:
        SystemExit: no step before the timed ones, or none timed.
    """
    options = contestant.options
    if min(options.warmup, options.steps) < 1:
        raise SystemExit(f"--warmup {options.warmup} --steps {options.steps}: expected at least 1 of both")
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    load = os.getloadavg()[0]
    student = contestant.work.model("student")
    if options.minutes is None and not options.full:
        result = _timed(contestant, student, options.warmup + options.steps)
    else:
        steps = options.epochs * contestant.steps_per_epoch if options.full else _affordable(contestant, student)
        result = _timed(contestant, student, steps)
        result["dev_accuracy"] = accuracy(student, contestant.work.split("dev"))
    facts = {
        "contestant": contestant.name,
        "mode": "full" if options.full else "steps" if options.minutes is None else "minutes",
        "seed": options.seed,
        "threads": options.threads,
        "load_before": round(load, 2),
        "options": {key: str(value) for key, value in sorted(vars(options).items()) if key != "work"},
        "versions": {name: _version(name) for name in ("torch", "transformers", "textbrewer")},
    }
    print(json.dumps(facts | result), flush=True)


@torch.inference_mode()
def accuracy(model: PreTrainedModel, split: Split) -> float:
    """Share of right answers, in fp32, in evaluation mode."""
    model.eval()
    order = np.argsort([len(ids) for ids in split.ids], kind="stable")
    right = 0
    for start in range(0, len(order), 64):
        rows = order[start : start + 64]
        texts = [torch.from_numpy(split.ids[row]) for row in rows]
        input_ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=model.config.pad_token_id)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(text) for text in texts], batch_first=True)
        answers = model(input_ids=input_ids, attention_mask=mask).logits.argmax(dim=-1).numpy()
        right += int((answers == split.labels[rows]).sum())
    return right / len(order)


def steps_within(seconds: float, *, step: float, prepare: float, steps_per_epoch: int) -> int:
    """How many steps fit, two at least, with what has to be prepared for the texts that they see.

    Args:
        seconds: the budget.
        step: seconds of a step.
        prepare: seconds that preparing all texts takes.
        steps_per_epoch: after so many steps all texts were seen.
    """
    if seconds >= prepare + steps_per_epoch * step:
        return max(2, int((seconds - prepare) / step))
    return max(2, int(seconds / (step + prepare / steps_per_epoch)))


def _affordable(contestant: Contestant, student: PreTrainedModel) -> int:
    """Steps that fit the minutes, from the pace of a copy that is thrown away; this is not counted."""
    options = contestant.options
    pace = _timed(contestant, copy.deepcopy(student), options.warmup + options.calibration)
    torch.manual_seed(options.seed)
    return steps_within(
        options.minutes * 60,
        step=pace["mean_milliseconds_a_step"] / 1000,
        prepare=pace["preparation_seconds_a_text"] * len(contestant.train_split.ids),
        steps_per_epoch=contestant.steps_per_epoch,
    )


def _timed(contestant: Contestant, student: PreTrainedModel, steps: int) -> dict[str, Any]:
    """Prepare and train; pace and wall time."""
    started = time.perf_counter()
    texts = contestant.prepare(steps)
    preparation = time.perf_counter() - started
    with Meter() as meter:
        contestant.train(student, steps, meter)
    seconds = time.perf_counter() - started
    if len(meter.marks) != steps:
        raise RuntimeError(f"{contestant.name}: {len(meter.marks)} optimizer steps were seen, {steps} were expected")
    pace = meter.pace(min(contestant.options.warmup, steps - 1))
    train_texts, steps_per_epoch = len(contestant.train_split.ids), contestant.steps_per_epoch
    return {
        "train_texts": train_texts,
        "steps_per_epoch": steps_per_epoch,
        "total_steps": steps,
        "seconds": seconds,
        "preparation_seconds": preparation,
        "preparation_seconds_a_text": preparation / texts if texts else 0.0,
        # Over an epoch, so that it does not matter which texts fell into the timed steps.
        "texts_a_second": train_texts / steps_per_epoch / pace["mean_milliseconds_a_step"] * 1000,
        **pace,
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
