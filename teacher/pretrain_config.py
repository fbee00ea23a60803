"""What can be said about a pretraining run."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from transformers import BertConfig

from common.errors import UserError, unknown_name
from teacher.loop import LoopConfig
from teacher.objectives import OBJECTIVES
from teacher.tokenizer import POSITIONS

SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
"""Layers and hidden width; heads are hidden / 64 and the feed-forward part is 4 x hidden wide."""

DEFAULT_STEPS = 2000
"""About five minutes of mini on two cores that have bf16, at the other defaults: 3.4 million tokens of pydocs."""


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Pretrain an encoder from random weights, with a vocabulary of its own, and write a model folder."""

    corpus: str = "pydocs"
    """pydocs (docstrings of the installed libraries), a text or jsonl file, a folder of them (or .gz), or hub:ID."""
    text_column: str | None = None
    """Of jsonl files and the hub; text or another usual name if not given."""
    size: str = "mini"
    """tiny 2/128, mini 4/256, small 4/512, medium 8/512, base 12/768 or large 24/1024 (layers/width)."""
    objective: str = "mlm+nsp"
    """mlm+nsp: masked pieces and next sentence, as BERT."""
    steps: int | None = None
    """Optimizer steps; 2000 if neither this nor --minutes is given."""
    minutes: float | None = None
    """Train for about so long: a few steps are timed first, and the number of steps follows."""
    tokenizer: str | None = None
    """A BERT vocabulary to take: a vocab.txt, a folder, a hub id, or minilm; if not given, one is learned."""
    vocabulary: int | None = None
    """WordPieces to learn, specials included; if not given, by the text's size: 8000 for pydocs, 30000 at most."""
    cased: bool = False
    """Keep upper case and accents in a vocabulary that is learned."""
    workers: int | None = None
    """Processes that tokenise; one for each core if not given."""
    length: int = 64
    """Longest pair, in pieces. Short ones learn faster; positions beyond it stay random (BERT: 128, then 512)."""
    batch_size: int = 32
    """Pairs a batch."""
    accumulation: int = 1
    """Batches a step."""
    learning_rate: float = 1e-3
    """Peak of AdamW; after 10 % warm-up it falls to 0. Mini learned nothing at 3e-3; larger sizes want less."""
    dropout: float = 0.0
    """While pretraining. Less than one pass cannot be learned by heart, and 0.1 (BERT's) is a third slower."""
    precision: str = "auto"
    """auto (bf16 where the processor multiplies it natively), fp32 or bf16."""
    checkpoint_every: int = 200
    """Steps between checkpoints."""
    seed: int = 0
    """Draws weights, documents, pairs and masks."""
    resume: bool = False
    """Go on with an interrupted run of the same settings; starts one where there is none."""

    def __post_init__(self) -> None:
        problems = [
            str(unknown_name(option, name, known))
            for option, name, known in (("--size", self.size, SIZES), ("--objective", self.objective, OBJECTIVES))
            if name not in known
        ]
        if self.steps is not None and self.minutes is not None:
            problems.append("--steps and --minutes contradict each other: give one of them")
        if self.minutes is not None and self.minutes <= 0:
            problems.append(f"--minutes {self.minutes}: expected more than 0")
        if not 16 <= self.length <= POSITIONS:
            problems.append(f"--length {self.length}: expected 16 to {POSITIONS} pieces")
        if self.batch_size < 1:
            problems.append(f"--batch-size {self.batch_size}: expected at least 1")
        if self.tokenizer is not None and (self.vocabulary is not None or self.cased):
            problems.append("--tokenizer takes a vocabulary, --vocabulary and --cased say what to learn: give either")
        if self.workers is not None and self.workers < 1:
            problems.append(f"--workers {self.workers}: expected at least 1")
        if not 0 <= self.dropout < 1:
            problems.append(f"--dropout {self.dropout}: expected 0 to below 1")
        try:
            self.loop(self.budget or 1)
        except UserError as error:
            problems.append(str(error))
        if problems:
            raise UserError("; ".join(problems))

    @property
    def budget(self) -> int | None:
        """Steps, as far as known before anything is timed."""
        return self.steps if self.steps is not None or self.minutes is not None else DEFAULT_STEPS

    def loop(self, steps: int) -> LoopConfig:
        return LoopConfig(
            learning_rate=self.learning_rate,
            steps=steps,
            accumulation=self.accumulation,
            precision=self.precision,
            checkpoint_every=self.checkpoint_every,
            seed=self.seed,
        )

    @property
    def pairs_a_step(self) -> int:
        return self.batch_size * self.accumulation

    def settings(self) -> dict[str, Any]:
        """What decides the weights, beside the text."""
        names = {entry.name for entry in dataclasses.fields(PretrainConfig)} - {"resume", "checkpoint_every", "workers"}
        return {name: getattr(self, name) for name in sorted(names)} | {"steps": self.budget}


def bert_config(config: PretrainConfig, vocabulary: int, pad: int = 0) -> BertConfig:
    """The architecture of a size, for a vocabulary of so many pieces, with the id of its padding."""
    layers, hidden = SIZES[config.size]
    return BertConfig(
        vocab_size=vocabulary,
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
        max_position_embeddings=POSITIONS,
        pad_token_id=pad,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
    )
