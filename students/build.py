"""A student from its configuration and its teacher: fresh, or with weights taken from the teacher."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers import PretrainedConfig, PreTrainedModel

from common.architectures import register_architectures
from common.errors import UserError, unknown_name
from common.families import family_of
from common.heads import AUTO_CLASSES, head_of_model
from common.pooled import pooled_configuration, pooling_of
from students import albert, distilbert, tinybert
from students.activations import Activations
from students.embeddings import take_embeddings
from students.general import fill_from_folder, folder_configuration
from students.mapping import RELATIVE_LENGTH, as_bert, has_bert_layers, in_bert_terms
from students.presets import LAYERLESS, StudentConfig
from students.weights import check_same_width, randomise

HEAD_OPTIONS = ("num_labels", "id2label", "label2id", "problem_type")


@dataclass(frozen=True, kw_only=True)
class Family:
    """What is special to a family: its transformers configuration, and its start from a teacher."""

    configuration: Callable[..., PretrainedConfig]
    start: Callable[[PreTrainedModel, PreTrainedModel, StudentConfig, Activations | None], None]
    """From a teacher in BERT's class."""
    check: Callable[[StudentConfig, PretrainedConfig], None]
    """Raises UserError where `start` cannot make a student of this shape from this teacher."""


FAMILIES = {
    "bert": Family(
        configuration=tinybert.configuration,
        start=tinybert.prune,
        check=tinybert.check_smaller,
    ),
    "distilbert": Family(
        configuration=distilbert.configuration,
        start=distilbert.copy,
        check=check_same_width,
    ),
    "albert": Family(
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
    length: int = RELATIVE_LENGTH,
    **head: Any,
) -> PreTrainedModel:
    """A model with the kind of head that the teacher has, in evaluation mode, float32, on the CPU.

    Vocabulary, positions, labels, problem type and pooling are the teacher's; `head` (num_labels, id2label, label2id,
    problem_type) overrides the labels. Weights are random (truncated normal, `seed`), then replaced by the teacher's as
    `config.start` says, or by those in `config.folder`, which then also decides positions and activation. The teacher's
    classifier is taken over only where the labels are its own. A teacher without a table of positions gives it 512, or
    `length` where texts are longer. The caller's random state is left alone.

    Raises:
        UserError: a teacher of no known family, layers that it does not have, or a shape that the start cannot make.
    """
    check_student(config, teacher.config)
    shape = in_bert_terms(teacher.config, length=length)
    family = FAMILIES[config.family]
    labels = _head(teacher.config, head)
    if config.folder is not None:
        settings = folder_configuration(config.folder, **labels)
    else:
        settings = family.configuration(config, shape, **labels)
    if pooling_of(teacher.config) != "cls":
        settings = pooled_configuration(settings, pooling_of(teacher.config))
    with torch.random.fork_rng(devices=[]):
        student = albert.share(with_head(settings, head_of_model(teacher)))
    randomise(student, seed=seed, std=shape.initializer_range)
    if config.folder is not None:
        fill_from_folder(student, config.folder)
    elif config.start == "embeddings":
        take_embeddings(student, teacher)
    elif config.start != "random":
        family.start(student, as_bert(teacher), config, activations)
    return student.eval()


def with_head(settings: PretrainedConfig, kind: str) -> PreTrainedModel:
    """A model of these settings with a head of this kind, a key of common.heads.AUTO_CLASSES; its weights are drawn.

    Raises:
        UserError: transformers has no such head for this family.
    """
    register_architectures()
    try:
        return AUTO_CLASSES[kind].from_config(settings, dtype=torch.float32)
    except ValueError as error:
        raise UserError(f"{settings.model_type}: transformers has no model {kind} of this family") from error


def check_student(config: StudentConfig, teacher: PretrainedConfig) -> None:
    """Raise UserError where `build_student` could not make the student from a teacher of this configuration."""
    shape = in_bert_terms(teacher)
    _check_layers(config, teacher)
    if config.start in LAYERLESS:
        return
    check_layers_kind(config.name, teacher, config.start)
    FAMILIES[config.family].check(config, shape)


def check_layers_kind(student: str, teacher: PretrainedConfig, start: str | None) -> None:
    """Raise UserError where a start that takes over layers has a teacher without BERT's."""
    if not has_bert_layers(teacher):
        raise UserError(
            f"student {student!r}: start {start!r} takes over layers of BERT's kind, and the teacher, "
            f"{family_of(teacher).title}, has others: leave --start out for its table of pieces alone (start "
            "'embeddings'), or choose --start random"
        )


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
