"""What a model is put through before it is shipped."""

import math
from dataclasses import dataclass
from typing import Literal

from common.errors import UserError
from students.prune import IMPORTANCE
from students.ranking import check_parts

KEEP_FREQUENT = 10_000
"""Pieces of general text that a trimmed vocabulary keeps beside the task's own. A third of BERT's: of those that
held-out reviews, text messages, questions to a bank and novels had and some thousand training texts of their kind had
not, it holds from a third to two thirds."""


@dataclass(frozen=True, kw_only=True)
class CompressOptions:
    """What is done to a finished model, in this order."""

    prune: float | None = None
    """Share that goes, 0 to 1, of what --prune-target names: whole heads, feed-forward units, channels or layers leave
    the model. None: nothing is pruned."""
    trim_vocabulary: bool = False
    """Keep the pieces that the task's training texts need and the most frequent of others, and letters for the rest;
    first of all steps."""
    keep_frequent: int = KEEP_FREQUENT
    """So many of the most frequent pieces of general text stay in a trimmed vocabulary, whether the training texts have
    them or not: texts that are still to come will. 0: none."""
    general_text: str | None = None
    """Where --keep-frequent counts: pydocs, a text file, a folder of them, or hub:ID. None: what the vocabulary itself
    says of the text that it was learned from, among pieces in the letters of the training texts. For a vocabulary of
    many languages a text in the task's own is better."""
    trim_least: int = 1
    """Pieces that are rarer than this in the training texts leave a trimmed vocabulary, unless --keep-frequent holds
    them. Above 1 the training texts too are cut into smaller pieces than before."""
    prune_target: Literal["parameters", "flops", "latency"] = "parameters"
    """What --prune is a share of: parameters without the look-up tables, FLOPs of a text of 128 pieces, or measured
    milliseconds in torch at batch 1, 16 pieces, one thread."""
    prune_parts: str = "heads,ffn"
    """What may go, separated by commas: heads, ffn, hidden (width), layers."""
    prune_even: bool = False
    """All layers lose alike. With ffn, layers, or heads and hidden together the result is a plain BERT folder, which
    transformers loads without this project."""
    importance: Literal["taylor", "magnitude", "random"] = "taylor"
    """What goes first: least effect on the loss to first order, smallest weights, or any (a control)."""
    prune_steps: int = 3
    """Pruning in so many steps, each followed by recovery."""
    recovery: bool = True
    """Learn from the teacher's answers and the states of the model before pruning, after every step."""
    recovery_epochs: float = 3.0
    """Passes over the training rows, half of them after the last step."""
    recovery_rate: float = 5e-5
    """Peak learning rate of recovery. A model that lost most of its units needs more, 2e-4 say."""

    onnx: bool = False
    """Write the result for ONNX Runtime too: a folder that runs without torch."""
    int8: bool = False
    """Write it in 8-bit integers for ONNX Runtime, which takes the step of --onnx before."""
    int8_method: Literal["dynamic", "static"] = "dynamic"
    """Ranges of activations found in every batch, or beforehand on training texts."""
    embedding_bits: Literal[4, 8, 32] = 8
    """Of the table of pieces in int8."""
    max_drop: float = 0.01
    """What int8 may lose of the metric on the selection split; the most sensitive parts stay in fp32 until it holds."""

    qat_epochs: float | None = None
    """Where int8 loses more than --max-drop, train the model so many passes over the training rows in simulated 8-bit
    integers, on the teacher's answers and its own states of before; only then do parts stay in fp32. None: no
    training."""
    qat_rate: float = 2e-5
    """Peak learning rate of that training."""

    def __post_init__(self) -> None:
        problems = [*self._without_int8(), *self._without_pruning(), *self._problems_of_trimming(), *self._qat()]
        if self.prune is not None and not 0 < self.prune < 1:
            problems.append(f"--prune {self.prune}: expected a share above 0 and below 1, such as 0.5")
        if self.importance not in IMPORTANCE:
            problems.append(f"--importance {self.importance}: expected one of {', '.join(IMPORTANCE)}")
        if self.prune_steps < 1:
            problems.append(f"--prune-steps {self.prune_steps}: expected at least 1")
        if not 0 < self.recovery_epochs < math.inf:
            problems.append(f"--recovery-epochs {self.recovery_epochs}: expected a number above 0; --no-recovery: none")
        if not 0 < self.recovery_rate < math.inf:
            problems.append(f"--recovery-rate {self.recovery_rate}: expected a number above 0")
        if not 0 <= self.max_drop < math.inf:
            problems.append(f"--max-drop {self.max_drop}: expected 0 or more, such as 0.01 for a point of accuracy")
        try:
            check_parts(self.parts)
        except UserError as error:
            problems.append(str(error))
        if problems:
            raise UserError("; ".join(problems))

    def _without_int8(self) -> list[str]:
        """A problem for each option of --int8 that was given without it."""
        given = {name: getattr(self, name) for name in ("int8_method", "embedding_bits", "max_drop", "qat_epochs")}
        return [
            f"--{name.replace('_', '-')} {value} is for --int8: give that too"
            for name, value in given.items()
            if not self.int8 and value != getattr(type(self), name)
        ]

    def _without_pruning(self) -> list[str]:
        """A problem for each option of --prune, and of recovery, that was given without it."""
        problems, recovering = [], ("recovery_epochs", "recovery_rate")
        names = ("prune_target", "prune_parts", "prune_even", "importance", "prune_steps", "recovery", *recovering)
        for name in names:
            value = getattr(self, name)
            if value == getattr(type(self), name):
                continue
            flag = f"--{name.replace('_', '-')} {value}"
            if isinstance(value, bool):
                flag = f"--{'' if value else 'no-'}{name.replace('_', '-')}"
            if self.prune is None:
                problems.append(f"{flag} is for --prune: give that too")
            elif name in recovering and not self.recovery:
                problems.append(f"{flag} and --no-recovery: give one of them")
        return problems

    def _problems_of_trimming(self) -> list[str]:
        """Values out of range, and options of --trim-vocabulary that were given without it."""
        names = ("keep_frequent", "general_text", "trim_least")
        given = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(type(self), name)}
        problems = [
            f"--{name.replace('_', '-')} {value} is for --trim-vocabulary: give that too"
            for name, value in given.items()
            if not self.trim_vocabulary
        ]
        if self.keep_frequent < 0:
            problems.append(f"--keep-frequent {self.keep_frequent}: expected 0 or more pieces, such as {KEEP_FREQUENT}")
        if self.trim_least < 1:
            problems.append(f"--trim-least {self.trim_least}: expected at least 1")
        if self.general_text is not None and self.keep_frequent == 0:
            problems.append("--general-text says which pieces are frequent, and --keep-frequent 0 keeps none of them")
        return problems

    def _qat(self) -> list[str]:
        """Problems of the options of training for int8."""
        problems = []
        if self.qat_epochs is not None and not 0 < self.qat_epochs < math.inf:
            problems.append(f"--qat-epochs {self.qat_epochs}: expected a number above 0, such as 1")
        if not 0 < self.qat_rate < math.inf:
            problems.append(f"--qat-rate {self.qat_rate}: expected a number above 0, such as 2e-5")
        elif self.qat_epochs is None and self.qat_rate != type(self).qat_rate:
            problems.append(f"--qat-rate {self.qat_rate} is for --qat-epochs: give that too")
        return problems

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.prune_parts.split(",") if name.strip())

    @property
    def anything(self) -> bool:
        """Whether there is something to do."""
        return self.prune is not None or self.trim_vocabulary or self.exported

    @property
    def exported(self) -> bool:
        """Whether there is a step to ONNX."""
        return self.onnx or self.int8

    def recovery_lengths(self) -> list[float]:
        """Epochs of recovery after each step of pruning: half of all after the last."""
        if self.prune_steps == 1:
            return [self.recovery_epochs]
        early = self.recovery_epochs / 2 / (self.prune_steps - 1)
        return [early] * (self.prune_steps - 1) + [self.recovery_epochs / 2]
