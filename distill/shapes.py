"""The students of a run before anything is trained: their shape and start, and stages that fit them."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from transformers import PretrainedConfig

from common.errors import UserError
from distill.layers import layer_map
from distill.stages import Stage
from students.build import check_layers_kind, check_student
from students.general import folder_configuration, student_from
from students.presets import LAYERLESS, StudentConfig, student_preset
from students.shape import ShapeOptions, reshaped


def planned_student(
    name: str, teacher: PretrainedConfig, shape: ShapeOptions, *, start: str | None, folder: Path | None = None
) -> StudentConfig:
    """The student called `name` for a teacher of this configuration; with a `folder` the one that lies there.

    Raises:
        UserError: a shape that cannot be, or cannot start in the way asked for.
    """
    preset = student_preset(name, teacher)
    if folder is not None:
        return student_from(folder, name=name, family=preset.family)
    if start not in (None, *LAYERLESS):
        check_layers_kind(name, teacher, start)
    student = reshaped(preset, teacher, shape, start)
    check_student(student, teacher)
    return student


def segment_notes(students: Iterable[StudentConfig], teacher: PretrainedConfig, *, paired: bool) -> tuple[str, ...]:
    """What a reader should know where texts come in pairs, which the teacher alone has segments for."""
    if not paired or getattr(teacher, "type_vocab_size", 0) < 2:
        return ()
    without = [student.name for student in students if student.family == "distilbert"]
    if not without:
        return ()
    note = (
        f"{' and '.join(without)}: no segment embeddings, as DistilBERT has none. Which of two texts a piece is of, "
        "which the teacher is told, is seen from [SEP] alone; tiny and albert are told as well."
    )
    return (note,)


def check_positions(folder: Path, length: int) -> None:
    """Raise UserError where the student in `folder` cannot read texts of `length` pieces."""
    positions = folder_configuration(folder).max_position_embeddings
    if positions < length:
        raise UserError(f"--student-from {folder} reads {positions} pieces at most: use --max-length {positions}")


def fitting(stages: tuple[Stage, ...], student: StudentConfig, teacher: PretrainedConfig) -> tuple[Stage, ...]:
    """The stages of a recipe for this student.

    One that comes from general text does not learn from it again; one deeper than its teacher gets a map that gives
    several of its layers the same teacher layer, which projections of hidden states are fitted by too.
    """
    if student.start == "general":
        stages = tuple(stage for stage in stages if stage.data != "text")
    if student.layers <= teacher.num_hidden_layers:
        return stages
    layers = deep_map(student.layers, teacher.num_hidden_layers)
    return tuple(dataclasses.replace(stage, layers=layers) if stage.layered else stage for stage in stages)


def any_depth(name: str, students: int, teachers: int) -> tuple[int, ...]:
    """`layer_map`, in which "uniform" also serves a student that is deeper than its teacher."""
    deep = name == "uniform" and students > teachers
    return layer_map(deep_map(students, teachers) if deep else name, students, teachers)


def deep_map(students: int, teachers: int) -> str:
    """An explicit layer map for a student at least as deep as its teacher: g(m) = m N / M, rounded up.

    >>> deep_map(6, 4), deep_map(4, 2)
    ('1,2,2,3,4,4', '1,1,2,2')
    """
    return ",".join(str(-(-layer * teachers // students)) for layer in range(1, students + 1))
