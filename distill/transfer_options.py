"""The options that say what is distilled on, beside the labelled data."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from distill.named_numbers import named_numbers

SETS = ("labeled", "unlabeled", "augmented")
"""What a stage's examples are drawn from: the training rows, text without labels, new versions of the training rows."""


@dataclass(frozen=True, kw_only=True)
class TransferOptions:
    """What is distilled on, beside the labelled data."""

    augment: int = 0
    """Versions of each training text with words replaced (TinyBERT's augmentation; 20 as published): stages that need
    no labels are trained on them alone, others on the labelled rows too. 0: none."""
    augment_mlm: str | None = None
    """BERT with a masked-language-modelling head (folder or hub id) that proposes words; None: the teacher before
    its fine-tuning, if it has such a head, else word vectors propose all words."""
    word_vectors: Path | None = None
    """Text file of word vectors (GloVe, word2vec) for words of several pieces; None: the teacher's embeddings."""
    unlabeled: Path | None = None
    """Texts without labels (txt: one a line; csv, tsv, jsonl: --text-column and --pair-column count here too): the
    teacher's answers are learned on them too."""
    teacher_outputs: Path | None = None
    """A teacher that is only its outputs: jsonl (text, pair, and probabilities or logits by label) or csv (a column a
    label). No teacher is trained; --teacher names the encoder that the students' first weights come from."""
    allow_missing: bool = False
    """Let --teacher-outputs lack some of the training texts: of these only the labels are learned."""
    mix: str | None = None
    """Shares in which a stage's examples are drawn: labeled=1,unlabeled=3,augmented=2. None: every example once an
    epoch."""

    def __post_init__(self) -> None:
        problems = []
        if self.augment < 0:
            problems.append(f"--augment {self.augment}: expected 0 or more versions of each text")
        if self.augment == 0 and (self.augment_mlm or self.word_vectors):
            problems.append("--augment-mlm and --word-vectors are for augmentation: give --augment N too, such as 20")
        if self.augment and self.teacher_outputs:
            problems.append("--augment makes new texts, to which --teacher-outputs has no answer: leave one out")
        if self.allow_missing and not self.teacher_outputs:
            problems.append("--allow-missing is for --teacher-outputs: give that too, or leave it out")
        if problems:
            raise UserError("; ".join(problems))
        self._check_mix(self.shares)

    @property
    def sets(self) -> tuple[str, ...]:
        """The sets there are."""
        given = {"labeled": True, "unlabeled": self.unlabeled is not None, "augmented": self.augment > 0}
        return tuple(name for name in SETS if given[name])

    @property
    def shares(self) -> Mapping[str, float] | None:
        """What --mix says, checked for its form."""
        if self.mix is None:
            return None
        return named_numbers("--mix", self.mix, SETS, what="share", example="labeled=1,unlabeled=3")

    def _check_mix(self, shares: Mapping[str, float] | None) -> None:
        if shares is None:
            return
        if len(self.sets) == 1:
            raise UserError("--mix needs something to mix: give --unlabeled FILE or --augment N too")
        missing = [name for name in shares if name not in self.sets]
        unused = [name for name in self.sets if name not in shares and name != "labeled"]
        if missing:
            flag = {"unlabeled": "--unlabeled FILE", "augmented": "--augment N"}[missing[0]]
            raise UserError(f"--mix {self.mix} takes from {missing[0]}, which is not there: give {flag}")
        if unused:
            raise UserError(
                f"--mix {self.mix} takes nothing from {unused[0]}: give it a share, or leave its option out"
            )
