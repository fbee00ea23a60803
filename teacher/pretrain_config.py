"""What can be said about a pretraining run."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from transformers import BertConfig

from common.errors import UserError
from teacher.loop_config import LoopConfig
from teacher.pretrain_checks import option_problems
from teacher.pretrain_options import SIZES, ScheduleOptions, ShapeOptions, StartOptions, changed
from teacher.tokenizer import POSITIONS

GENERAL_TEXT = "pydocs"
"""What domain masking compares with: real text that is there without a network."""

_LATER = ("masking", "masks", "dupe_factor", "general_text", "generator_width", "text_column", "tokenizer")
"""Options that are younger than finished folders: at their defaults these are not among a folder's settings."""

DEFAULT_STEPS = 2000
"""About five minutes of mini on two cores that have bf16, at the other defaults: 3.4 million tokens of pydocs."""

PYDOCS_VOCABULARY = 8000
"""What the size of pydocs gives; it was said in full before sizes followed from texts, and settings still do."""

_GROUPS = ("start", "shape", "schedule")

RATE, CONTINUED_RATE = 1e-3, 1e-4
"""Peak rates, from random weights and for an encoder that has learned already."""


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Pretrain an encoder, from random weights and a vocabulary of its own, or further (--from); write its folder."""

    corpus: str = "pydocs"
    """pydocs (docstrings of the installed libraries), a text or jsonl file (also .json with an object a line), a folder
    of them (or .gz), or hub:ID."""
    text_column: str | None = None
    """Of jsonl files and the hub; text or another usual name if not given."""
    size: str = "mini"
    """tiny 2/128, mini 4/256, small 4/512, medium 8/512, base 12/768 or large 24/1024 (layers/width)."""
    objective: str = "mlm+nsp"
    """mlm+nsp: masked pieces and next sentence, as BERT; mlm: masked pieces of packed sentences, as RoBERTa; mlm+sop:
    masked pieces and sentence order, as ALBERT; rtd: replaced pieces, as ELECTRA; ltr: next pieces, left to right,
    for teacher.ablate and not for fine-tuning.
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
    tokenizer: str | None = None
    """A BERT vocabulary to take: a vocab.txt, a folder, a hub id, or minilm; if not given, one is learned."""
    vocabulary: int | None = None
    """WordPieces to learn, specials included; if not given, by the text's size: 8000 for pydocs, 30000 at most."""
    cased: bool = False
    """Keep upper case and accents in a vocabulary that is learned."""
    workers: int | None = None
    """Processes that tokenise; one for each core if not given."""
    length: int = 64
    """Longest input, in pieces. Short ones learn faster; positions beyond it stay random (BERT: 128, then 512)."""
    batch_size: int = 32
    """Pairs or segments a batch, of all processes together."""
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
    """Draws weights, held-out documents, examples and masks."""
    resume: bool = False
    """Go on with an interrupted run of the same settings; starts one where there is none."""
    start: StartOptions = field(default_factory=StartOptions)
    shape: ShapeOptions = field(default_factory=ShapeOptions)
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)

    def __post_init__(self) -> None:
        problems = option_problems(self)
        if self.size in SIZES:
            problems += self.shape.problems(SIZES[self.size][1])
        try:
            # How many steps there are is checked with the other sizes.
            self.loop(1)
        except UserError as error:
            problems.append(str(error))
        if problems:
            raise UserError("; ".join(problems))

    @property
    def compared_with(self) -> str:
        """The general text of domain masking."""
        return self.general_text or GENERAL_TEXT

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
    def examples_a_step(self) -> int:
        return self.batch_size * self.accumulation

    def settings(self) -> dict[str, Any]:
        """What decides the weights, beside the text."""
        names = {
            entry.name
            for entry in dataclasses.fields(PretrainConfig)
            if entry.name not in _LATER or getattr(self, entry.name) != entry.default
        } - {"resume", "checkpoint_every", "workers", *_GROUPS}
        own = {name: getattr(self, name) for name in sorted(names)}
        if self.vocabulary is None and self.tokenizer is None and self.corpus == "pydocs":
            own["vocabulary"] = PYDOCS_VOCABULARY
        return own | {"steps": self.budget, "learning_rate": self.peak} | changed(self.start, self.shape, self.schedule)


def bert_config(config: PretrainConfig, vocabulary: int, pad: int = 0) -> BertConfig:
    """The architecture of a size or shape, for a vocabulary of so many pieces, with the id of its padding."""
    layers, hidden, heads, ffn = config.shape.resolved(*SIZES[config.size])
    return BertConfig(
        vocab_size=vocabulary,
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=ffn,
        max_position_embeddings=POSITIONS,
        pad_token_id=pad,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
    )
