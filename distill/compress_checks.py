"""What cannot be done to a model, said before a folder is made and minutes go into training."""

import dataclasses
from collections.abc import Mapping

import torch
from transformers import PretrainedConfig, PreTrainedModel

from distill.compress_options import CompressOptions
from distill.compress_prune import check_share, cost_of
from students.anatomy import check_prunable
from students.build import build_student, with_head
from students.onnx_folder import need
from students.onnx_ready import head_kind, positions
from students.presets import StudentConfig

PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def check_packages(options: CompressOptions) -> None:
    """Raise UserError where packages are missing that the options need."""
    for module in PACKAGES if options.exported else ():
        need(module)


def check_model(model: PreTrainedModel, options: CompressOptions) -> None:
    """Raise UserError where the model cannot be exported, or has not so much that could be pruned."""
    if options.exported:
        head_kind(model)
        positions(model)
    if options.prune is not None:
        check_prunable(model.config)
        check_share(model, options, cost_of(options.prune_target, model))


def check_students(
    options: CompressOptions, students: Mapping[str, StudentConfig], teacher: PretrainedConfig, head: str
) -> None:
    """Raise UserError where packages are missing, or where students of such a teacher have not so much that could go.

    `students` by name. `head`: a key of common.heads.AUTO_CLASSES.
    """
    check_packages(options)
    if options.prune is None:
        return
    with torch.device("meta"):
        of_its_shape = with_head(teacher, head)
    for student in students.values():
        # What it costs does not depend on its weights.
        drawn = dataclasses.replace(student, start="random", teacher_layers=None)
        check_model(build_student(drawn, of_its_shape, seed=0), options)
