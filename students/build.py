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
from students import albert, distilbert, tinybert
from students.activations import Activations
from students.presets import StudentConfig, check_teacher
from students.weights import randomise

HEAD_OPTIONS = ("num_labels", "id2label", "label2id", "problem_type")


@dataclass(frozen=True, kw_only=True)
class Family:
    """What is special to a family: its class, its transformers configuration, and its start from a teacher."""

    model: type[PreTrainedModel]
    configuration: Callable[..., PretrainedConfig]
    start: Callable[[PreTrainedModel, PreTrainedModel, StudentConfig, Activations | None], None]


FAMILIES = {
    "bert": Family(model=BertForSequenceClassification, configuration=tinybert.configuration, start=tinybert.prune),
    "distilbert": Family(
        model=DistilBertForSequenceClassification, configuration=distilbert.configuration, start=distilbert.copy
    ),
    "albert": Family(model=AlbertForSequenceClassification, configuration=albert.configuration, start=albert.factorise),
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

    Vocabulary, positions, labels and problem type are the teacher's; `head` (num_labels, id2label, label2id,
    problem_type) overrides the labels. Weights are random (truncated normal, `seed`), then replaced by the teacher's as
    `config.start` says. The teacher's classifier is taken over only where the labels are its own. The caller's random
    state is left alone.

    Raises:
        UserError: a teacher of another family, a layer it does not have, or a shape that the start cannot make.
    """
    check_teacher(teacher.config)
    _check_layers(config, teacher.config)
    family = FAMILIES[config.family]
    settings = family.configuration(config, teacher.config, **_head(teacher.config, head))
    with torch.random.fork_rng(devices=[]):
        student = family.model(settings)
    randomise(student, seed=seed, std=teacher.config.initializer_range)
    if config.start != "random":
        family.start(student, teacher, config, activations)
    return student.eval()


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
