"""A student from its configuration and its teacher: fresh, or with weights taken from the teacher."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers import (
    AlbertForSequenceClassification,
    BertForSequenceClassification,
    DistilBertForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
)

from common.errors import UserError, unknown_name
from common.pooled import POOLED, pooled_configuration, pooling_of
from students import albert, distilbert, tinybert
from students.activations import Activations
from students.general import fill_from_folder, folder_configuration
from students.presets import StudentConfig, check_teacher
from students.weights import check_same_width, randomise

HEAD_OPTIONS = ("num_labels", "id2label", "label2id", "problem_type")


@dataclass(frozen=True, kw_only=True)
class Family:
    """What is special to a family: its class, its transformers configuration, and its start from a teacher."""

    model: type[PreTrainedModel]
    configuration: Callable[..., PretrainedConfig]
    start: Callable[[PreTrainedModel, PreTrainedModel, StudentConfig, Activations | None], None]
    check: Callable[[StudentConfig, PretrainedConfig], None]
    """Raises UserError where `start` cannot make a student of this shape from this teacher."""


FAMILIES = {
    "bert": Family(
        model=BertForSequenceClassification,
        configuration=tinybert.configuration,
        start=tinybert.prune,
        check=tinybert.check_smaller,
    ),
    "distilbert": Family(
        model=DistilBertForSequenceClassification,
        configuration=distilbert.configuration,
        start=distilbert.copy,
        check=check_same_width,
    ),
    "albert": Family(
        model=AlbertForSequenceClassification,
        configuration=albert.configuration,
        start=albert.factorise,
        check=albert.check_factorised,
    ),
}
"""Keys are those of students.presets.STARTS."""


def build_student(
    config: StudentConfig,
    teacher: PreTrainedModel,
    *,
    seed: int,
    activations: Activations | None = None,
    **head: Any,
) -> PreTrainedModel:
    """A ...ForSequenceClassification in evaluation mode, float32, on the CPU.

    Vocabulary, positions, labels, problem type and pooling are the teacher's; `head` (num_labels, id2label, label2id,
    problem_type) overrides the labels. Weights are random (truncated normal, `seed`), then replaced by the teacher's as
    `config.start` says, or by those in `config.folder`, which then also decides positions and activation. The teacher's
    classifier is taken over only where the labels are its own. The caller's random state is left alone.

    Raises:
        UserError: a teacher of another family, a layer it does not have, or a shape that the start cannot make.
    """
    check_student(config, teacher.config)
    family = FAMILIES[config.family]
    labels = _head(teacher.config, head)
    if config.folder is not None:
        settings = folder_configuration(config.folder, **labels)
    else:
        settings = family.configuration(config, teacher.config, **labels)
    model = family.model
    if pooling_of(teacher.config) != "cls":
        settings, model = pooled_configuration(settings, pooling_of(teacher.config)), POOLED[config.family]
    with torch.random.fork_rng(devices=[]):
        student = albert.share(model(settings))
    randomise(student, seed=seed, std=teacher.config.initializer_range)
    if config.folder is not None:
        fill_from_folder(student, config.folder)
    elif config.start != "random":
        family.start(student, teacher, config, activations)
    return student.eval()


def check_student(config: StudentConfig, teacher: PretrainedConfig) -> None:
    """Raise UserError where `build_student` could not make the student from a teacher of this configuration."""
    check_teacher(teacher)
    _check_layers(config, teacher)
    if config.start not in ("random", "general"):
        FAMILIES[config.family].check(config, teacher)


def encoder(model: PreTrainedModel) -> PreTrainedModel:
    """The encoder inside a model with a head, or the model itself where it has none.

    It shares its weights with the model: training it trains the model, which is how general distillation works on a
    student that gets its task later.
    """
    return cast(PreTrainedModel, model.base_model)


def _head(teacher: Any, given: dict[str, Any]) -> dict[str, Any]:
    for name in given:
        if name not in HEAD_OPTIONS:
            raise unknown_name("option of the head", name, HEAD_OPTIONS)
    head: dict[str, Any] = {"problem_type": teacher.problem_type}
    if "num_labels" not in given:
        head["id2label"] = dict(given.get("id2label", teacher.id2label))
        head["label2id"] = {name: index for index, name in head["id2label"].items()}
    return head | given


def _check_layers(config: StudentConfig, teacher: PretrainedConfig) -> None:
    highest = max(config.teacher_layers or (0,))
    if highest >= teacher.num_hidden_layers:
        raise UserError(
            f"student {config.name!r} takes teacher layer {highest}, the teacher has {teacher.num_hidden_layers} (0 to "
            f"{teacher.num_hidden_layers - 1})"
        )
