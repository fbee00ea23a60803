"""What can be said about a pretraining run."""

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from transformers import BertConfig

from common.errors import UserError, unknown_name
from teacher.loop import LoopConfig
from teacher.maskings import MASKINGS
from teacher.objectives import OBJECTIVES
from teacher.pretrain_options import ScheduleOptions, ShapeOptions, StartOptions, changed
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

GENERAL_TEXT = "pydocs"
"""What domain masking compares with: real text that is there without a network."""

_LATER = ("masking", "masks", "dupe_factor", "general_text", "generator_width")
"""Options that are younger than finished folders: at their defaults these are not among a folder's settings."""

DEFAULT_STEPS = 2000
"""About five minutes of mini on two cores that have bf16, at the other defaults: 3.4 million tokens of pydocs."""


_GROUPS = ("start", "shape", "schedule")

RATE, CONTINUED_RATE = 1e-3, 1e-4
"""Peak rates, from random weights and for an encoder that has learned already."""


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Pretrain an encoder, from random weights and a vocabulary of its own, or further (--from); write its folder."""

    corpus: str = "pydocs"
    """pydocs (docstrings of the installed libraries), a text file, a folder of them, or hub:ID."""
    size: str = "mini"
    """tiny 2/128, mini 4/256, small 4/512, medium 8/512, base 12/768 or large 24/1024 (layers/width)."""
    objective: str = "mlm+nsp"
    """mlm+nsp: masked pieces and next sentence, as BERT; mlm: masked pieces of packed sentences, as RoBERTa; mlm+sop:
    masked pieces and sentence order, as ALBERT; rtd: replaced pieces, as ELECTRA; ltr: next pieces, left to right.
    """
    masking: str = "piece"
    """What is hidden. piece: any pieces, as BERT; whole-word: all pieces of a word; ngram: one to three words in a row,
    as ALBERT; frequency: rare pieces more often, as DistilBERT; domain: more often what the corpus has more of than
    general text has.
    """
    masks: str = "dynamic"
    """dynamic: drawn anew each time an example is served, as RoBERTa; static: drawn once, as BERT."""
    dupe_factor: int = 10
    """Times that examples are drawn from the same documents: with static masks always, with dynamic ones at most."""
    general_text: str | None = None
    """For --masking domain: what the corpus is compared with, named as --corpus is; pydocs if not given."""
    generator_width: float = 0.25
    """For rtd: width of the generator as a share of the model's; 1/4 to 1/2 are the paper's best."""
    steps: int | None = None
    """Optimizer steps; 2000 if neither this nor --minutes is given."""
    minutes: float | None = None
    """Train for about so long: a few steps are timed first, and the number of steps follows."""
    vocabulary: int = 8000
    """WordPieces, specials included."""
    cased: bool = False
    """Keep upper case and accents."""
    length: int = 64
    """Longest pair, in pieces. Short ones learn faster; positions beyond it stay random (BERT: 128, then 512)."""
    batch_size: int = 32
    """Pairs a batch."""
    accumulation: int = 1
    """Batches a step."""
    learning_rate: float | None = None
    """Peak of AdamW; after the warm-up it falls to 0. None: 1e-3 (mini learned nothing at 3e-3, larger sizes want
    less), and 1e-4 with --from."""
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
    start: StartOptions = field(default_factory=StartOptions)
    shape: ShapeOptions = field(default_factory=ShapeOptions)
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)

    def __post_init__(self) -> None:
        names: list[tuple[str, str, Collection[str]]] = [
            ("--size", self.size, SIZES),
            ("--objective", self.objective, OBJECTIVES),
            ("--masking", self.masking, MASKINGS),
            ("--masks", self.masks, ("dynamic", "static")),
        ]
        problems = [str(unknown_name(option, name, known)) for option, name, known in names if name not in known]
        problems += self._contradictions() + self._continued_problems() + self.start.problems()
        problems += self.schedule.problems(self.length)
        if self.size in SIZES:
            problems += self.shape.problems(SIZES[self.size][1])
        if self.steps is not None and self.minutes is not None:
            problems.append("--steps and --minutes contradict each other: give one of them")
        if self.minutes is not None and self.minutes <= 0:
            problems.append(f"--minutes {self.minutes}: expected more than 0")
        if not 16 <= self.length <= POSITIONS:
            problems.append(f"--length {self.length}: expected 16 to {POSITIONS} pieces")
        if self.batch_size < 1:
            problems.append(f"--batch-size {self.batch_size}: expected at least 1")
        if not 0 <= self.dropout < 1:
            problems.append(f"--dropout {self.dropout}: expected 0 to below 1")
        try:
            self.loop(self.budget or 1)
        except UserError as error:
            problems.append(str(error))
        if problems:
            raise UserError("; ".join(problems))

    def _contradictions(self) -> list[str]:
        problems = []
        if self.objective == "ltr" and (self.masking, self.masks) != ("piece", "dynamic"):
            problems.append("--objective ltr hides nothing: leave out --masking and --masks")
        if self.general_text is not None and self.masking != "domain":
            problems.append("--general-text is what --masking domain compares with: give that too, or leave it out")
        if self.masking == "domain" and self.compared_with == self.corpus:
            problems.append(
                f"--masking domain compares the corpus with other text, and both are {self.corpus}: name another one "
                "with --general-text"
            )
        if self.dupe_factor < 1:
            problems.append(f"--dupe-factor {self.dupe_factor}: expected at least 1")
        if not 0 < self.generator_width <= 1:
            problems.append(f"--generator-width {self.generator_width}: expected a share above 0, up to 1")
        if self.objective != "rtd" and self.generator_width != PretrainConfig.generator_width:
            problems.append(f"--generator-width is for --objective rtd: {self.objective} has no generator")
        return problems

    @property
    def compared_with(self) -> str:
        """The general text of domain masking."""
        return self.general_text or GENERAL_TEXT

    def _continued_problems(self) -> list[str]:
        """Options that contradict --from."""
        if self.start.source is None:
            return []
        problems = []
        if self.objective != "mlm":
            problems.append(
                f"--objective {self.objective}: an encoder that is pretrained further learns masked pieces alone, say "
                "--objective mlm"
            )
        fresh = {"--size": self.size != PretrainConfig.size, "--cased": self.cased}
        fresh |= {"--vocabulary": self.vocabulary != PretrainConfig.vocabulary}
        given = [name for name, differs in fresh.items() if differs] + self.shape.given
        if given:
            problems.append(f"{', '.join(given)}: what is given by --from has its shape and its tokenizer already")
        return problems

    @property
    def peak(self) -> float:
        """Of the learning rate."""
        if self.learning_rate is not None:
            return self.learning_rate
        return RATE if self.start.source is None else CONTINUED_RATE

    @property
    def longest(self) -> int:
        """Pieces of the longest input of the whole run."""
        return self.schedule.long_length or self.length

    @property
    def budget(self) -> int | None:
        """Steps, as far as known before anything is timed."""
        return self.steps if self.steps is not None or self.minutes is not None else DEFAULT_STEPS

    def loop(self, steps: int) -> LoopConfig:
        return LoopConfig(
            learning_rate=self.peak,
            warmup=self.schedule.warmup,
            evaluate_every=self.schedule.evaluate_every,
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
        names = {
            entry.name
            for entry in dataclasses.fields(PretrainConfig)
            if entry.name not in _LATER or getattr(self, entry.name) != entry.default
        } - {"resume", "checkpoint_every", *_GROUPS}
        own = {name: getattr(self, name) for name in sorted(names)}
        return own | {"steps": self.budget, "learning_rate": self.peak} | changed(self.start, self.shape, self.schedule)


def bert_config(config: PretrainConfig, vocabulary: int) -> BertConfig:
    """The architecture of a size or shape, for a vocabulary of so many pieces."""
    layers, hidden, heads, ffn = config.shape.resolved(*SIZES[config.size])
    return BertConfig(
        vocab_size=vocabulary,
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=ffn,
        max_position_embeddings=POSITIONS,
        pad_token_id=0,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
    )
