"""What is wrong with the options of a pretraining, alone and together: all of it, in the user's words."""

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

from common.errors import unknown_name
from teacher.maskings import MASKINGS
from teacher.objectives import OBJECTIVES
from teacher.pretrain_options import SIZES
from teacher.tokenizer import POSITIONS

if TYPE_CHECKING:
    from teacher.pretrain_config import PretrainConfig


def option_problems(config: "PretrainConfig") -> list[str]:
    """A sentence for each."""
    names: list[tuple[str, str, Collection[str]]] = [
        ("--size", config.size, SIZES),
        ("--objective", config.objective, OBJECTIVES),
        ("--masking", config.masking, MASKINGS),
        ("--masks", config.masks, ("dynamic", "static")),
    ]
    return [
        *(str(unknown_name(option, name, known)) for option, name, known in names if name not in known),
        *_text_problems(config),
        *_masking_problems(config),
        *_continued_problems(config),
        *config.start.problems(),
        *config.schedule.problems(config.length),
        *_sizes(config),
    ]


def _text_problems(config: "PretrainConfig") -> list[str]:
    problems = []
    if config.tokenizer is not None and (config.vocabulary is not None or config.cased):
        problems.append("--tokenizer takes a vocabulary, --vocabulary and --cased say what to learn: give either")
    if config.vocabulary is not None and config.vocabulary < 1:
        problems.append(f"--vocabulary {config.vocabulary}: expected a number above 0")
    if config.workers is not None and config.workers < 1:
        problems.append(f"--workers {config.workers}: expected at least 1")
    return problems


def _masking_problems(config: "PretrainConfig") -> list[str]:
    problems = []
    if config.objective == "ltr" and (config.masking, config.masks) != ("piece", "dynamic"):
        problems.append("--objective ltr hides nothing: leave out --masking and --masks")
    if config.general_text is not None and config.masking != "domain":
        problems.append("--general-text is what --masking domain compares with: give that too, or leave it out")
    if config.masking == "domain" and config.compared_with == config.corpus:
        problems.append(
            f"--masking domain compares the corpus with other text, and both are {config.corpus}: name another one "
            "with --general-text"
        )
    if config.dupe_factor < 1:
        problems.append(f"--dupe-factor {config.dupe_factor}: expected at least 1")
    if not 0 < config.generator_width <= 1:
        problems.append(f"--generator-width {config.generator_width}: expected a share above 0, up to 1")
    if config.objective != "rtd" and config.generator_width != type(config).generator_width:
        problems.append(f"--generator-width is for --objective rtd: {config.objective} has no generator")
    return problems


def _continued_problems(config: "PretrainConfig") -> list[str]:
    """Options that contradict --from."""
    if config.start.source is None:
        return []
    problems = []
    if config.objective != "mlm":
        problems.append(
            f"--objective {config.objective}: an encoder that is pretrained further learns masked pieces alone, say "
            "--objective mlm"
        )
    fresh = {
        "--size": config.size != type(config).size,
        "--tokenizer": config.tokenizer is not None,
        "--vocabulary": config.vocabulary is not None,
        "--cased": config.cased,
    }
    given = [name for name, differs in fresh.items() if differs] + config.shape.given
    if given:
        problems.append(f"{', '.join(given)}: what is given by --from has its shape and its tokenizer already")
    return problems


def _sizes(config: "PretrainConfig") -> list[str]:
    problems = []
    if config.steps is not None and config.minutes is not None:
        problems.append("--steps and --minutes contradict each other: give one of them")
    if config.steps is not None and config.steps < 1:
        problems.append(f"--steps {config.steps}: expected at least 1")
    if config.minutes is not None and not 0 < config.minutes < math.inf:
        problems.append(f"--minutes {config.minutes}: expected a number above 0")
    if not 16 <= config.length <= POSITIONS:
        problems.append(f"--length {config.length}: expected 16 to {POSITIONS} pieces")
    if config.batch_size < 1:
        problems.append(f"--batch-size {config.batch_size}: expected at least 1")
    if not 0 <= config.dropout < 1:
        problems.append(f"--dropout {config.dropout}: expected 0 to below 1")
    return problems
