"""What contestants of the pretraining benchmark share: options, the text, model FLOPs, one clock, one result line."""

import argparse
import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook
from transformers import BertConfig

from teacher.corpus import load_corpus
from teacher.pretrain_config import PretrainConfig, bert_config
from teacher.pretrain_text import PretrainData, prepare_data

COUNTS = ("sequences", "tokens", "squares", "masked", "padded_tokens", "padded_squares")
"""What is counted of the batches: squares are those of the sequences' lengths, which attention is paid for."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every contestant takes."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--work", type=Path, required=True, help="folder that pretrain_speed.py filled")
    result.add_argument("--corpus", default="pydocs")
    result.add_argument("--size", default="mini")
    result.add_argument("--objective", default="mlm+nsp", choices=("mlm+nsp", "mlm", "mlm+sop"))
    result.add_argument("--length", type=int, default=64)
    result.add_argument("--batch-size", type=int, default=32)
    result.add_argument("--dropout", type=float, default=0.0)
    result.add_argument("--steps", type=int, default=60, help="timed steps")
    result.add_argument("--warmup", type=int, default=10, help="steps before them, not timed, 1 at least")
    result.add_argument("--threads", type=int, default=2)
    result.add_argument("--seed", type=int, default=0)
    return result


def pretrain_config(options: argparse.Namespace) -> PretrainConfig:
    """The run of teacher.pretrain that is timed."""
    return PretrainConfig(
        corpus=options.corpus,
        size=options.size,
        objective=options.objective,
        length=options.length,
        batch_size=options.batch_size,
        dropout=options.dropout,
        steps=options.warmup + options.steps,
        seed=options.seed,
    )


def text(corpus: str, work: Path) -> PretrainData:
    """All of the corpus, tokenised once, with the vocabulary that teacher.pretrain learns from it."""
    return prepare_data(load_corpus(corpus), work / "data", seed=0)


def shape(options: argparse.Namespace, data: PretrainData) -> BertConfig:
    """Of all contestants' models."""
    pad = data.tokenizer.pad_token_id
    return bert_config(pretrain_config(options), len(data.tokenizer), pad=int(pad))


@dataclass(frozen=True, kw_only=True)
class Work:
    """FLOPs that a training step needs by hand: three times those of the products of a forward pass.

    Counted are the layers with attention, the pooler where a pair is asked about, and the vocabulary of masked
    positions. Looking up embeddings, element by element operations and the optimizer are not, nor is anything that a
    contestant computes beyond what is needed: padding (unless asked for), or the vocabulary at every position.
    """

    config: BertConfig
    pooled: bool

    def flops(self, counts: dict[str, float], *, padding: bool = False) -> float:
        """Of batches with these COUNTS."""
        width, ffn = self.config.hidden_size, self.config.intermediate_size
        tokens, squares = (
            counts["padded_tokens" if padding else "tokens"],
            counts["padded_squares" if padding else "squares"],
        )
        layer = 2 * tokens * (4 * width**2 + 2 * width * ffn) + 4 * width * squares
        head = 2 * counts["masked"] * (width**2 + width * self.config.vocab_size)
        pair = 2 * counts["sequences"] * (width**2 + 2 * width) if self.pooled else 0
        return 3 * (self.config.num_hidden_layers * layer + head + pair)


class Meter:
    """When every optimizer step ended, and COUNTS of all batches by then.

    A hook that torch calls after the step of any optimizer: no contestant has to be changed, and all are timed alike.
    """

    def __init__(self) -> None:
        self._lock, self._seen = threading.Lock(), np.zeros(len(COUNTS))
        self._marks: list[np.ndarray] = []

    def __enter__(self) -> "Meter":
        self._handle = register_optimizer_step_post_hook(self._mark)
        return self

    def __exit__(self, *exception: object) -> None:
        self._handle.remove()

    def saw(self, attention_mask: Tensor, masked: int) -> None:
        """A batch of sequences by their mask (batch, length), so many of whose pieces are to be predicted."""
        rows, length = attention_mask.shape
        lengths = attention_mask.sum(dim=1).double()
        found = (rows, float(lengths.sum()), float(lengths.square().sum()), masked, rows * length, rows * length**2)
        with self._lock:
            self._seen += found

    def result(self, warmup: int, work: Work) -> dict[str, Any]:
        """Pace and model FLOPs over the steps after the first `warmup`."""
        marks = np.stack(self._marks[warmup - 1 :])
        seconds, *sums = marks[-1] - marks[0]
        steps = len(marks) - 1
        counts = dict(zip(COUNTS, map(float, sums), strict=True))
        return {
            "timed_steps": steps,
            "milliseconds_a_step": 1000 * seconds / steps,
            "median_milliseconds_a_step": 1000 * float(np.median(np.diff(marks[:, 0]))),
            "tokens_a_second": counts["tokens"] / seconds,
            "tokens_a_step": counts["tokens"] / steps,
            "padding": 1 - counts["tokens"] / counts["padded_tokens"],
            "flops_a_second": work.flops(counts) / seconds,
            "flops_a_second_with_padding": work.flops(counts, padding=True) / seconds,
        }

    def _mark(self, *_: object) -> None:
        self._marks.append(np.array([time.perf_counter(), *self._seen]))


def compete(options: argparse.Namespace, result: dict[str, Any]) -> None:
    """Print the result as one line of JSON."""
    facts = {"threads": options.threads, "load_after": round(os.getloadavg()[0], 2), "torch": torch.__version__}
    print(json.dumps(facts | result), flush=True)
