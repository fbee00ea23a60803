"""What a recipe cannot do with a student, found before anything is trained."""

import math
from collections.abc import Sequence

from transformers import PretrainedConfig

from common.errors import UserError
from common.families import family_of
from distill.layers import check_attention, layer_map
from distill.stages import Stage
from distill.substitutes import SCORES
from distill.terms import TERMS
from students.mapping import has_bert_layers
from students.presets import StudentConfig

MOST_RELATION_HEADS = 48
"""As in MiniLMv2 for teachers of 768 (arXiv 2012.15828)."""


def relation_heads(student: int, teacher: int, wanted: int | None) -> int:
    """Heads that both widths are split into for relations: `wanted`, or the most, up to 48, that divide both.

    >>> relation_heads(384, 768, None), relation_heads(312, 768, None)
    (48, 24)

    Raises:
        UserError: `wanted` does not divide both.
    """
    common = math.gcd(student, teacher)
    possible = [heads for heads in range(1, common + 1) if common % heads == 0]
    most = max(heads for heads in possible if heads <= MOST_RELATION_HEADS)
    if wanted is None:
        return most
    if wanted not in possible:
        raise UserError(
            f"--relation-heads {wanted} must divide the widths of student ({student}) and teacher ({teacher}): leave "
            f"it out for {most}, or choose among {', '.join(map(str, possible))}"
        )
    return wanted


def check_recipe(recipe: str, stages: Sequence[Stage], student: StudentConfig, teacher: PretrainedConfig) -> list[str]:
    """What a reader should know of this recipe for this student, one sentence each.

    Raises:
        UserError: a stage that cannot be, with the way out.
    """
    notes: dict[str, None] = dict.fromkeys(_start_notes(student, teacher))
    for stage in stages:
        try:
            notes |= dict.fromkeys(_check_stage(stage, student, teacher))
        except UserError as error:
            raise UserError(f"recipe {recipe}, stage {stage.name}, student {student.name}: {error}") from None
    return list(notes)


def _start_notes(student: StudentConfig, teacher: PretrainedConfig) -> list[str]:
    if student.start != "embeddings" or has_bert_layers(teacher):
        return []
    note = (
        f"{student.name} takes over the teacher's table of pieces alone, and starts with random layers: the teacher, "
        f"{family_of(teacher).title}, has no embeddings and layers of BERT's kind."
    )
    return [note]


def _check_stage(stage: Stage, student: StudentConfig, teacher: PretrainedConfig) -> list[str]:
    if "pkd" in stage.losses and student.layers < 2:
        raise UserError(
            "PKD leaves out the last layer, and the student has no other: take a student of 2 layers or more "
            "(--student distil, or a deeper --teacher), or another --recipe, such as minilmv2"
        )
    compared = [name for name in SCORES if name in stage.losses]
    notes = [stage.note] if stage.note else []
    if stage.needs("mapped"):
        layers = layer_map(stage.layers, student.layers, teacher.num_hidden_layers)
        check_attention(layers if compared else ())
    if "relations" in stage.losses:
        relation_heads(student.hidden, teacher.hidden_size, stage.relation_heads)
    if compared and student.heads != teacher.num_attention_heads:
        note = (
            f"{student.name} has {student.heads} attention heads, the teacher {teacher.num_attention_heads}: attention "
            "is compared by the mean over heads. Relations need no equal heads: --recipe minilmv2."
        )
        notes.append(note)
    return notes


def refuse_layers(recipe: str, student: str, stages: Sequence[Stage]) -> None:
    """A teacher that is only its outputs has no layers.

    Raises:
        UserError: a stage compares layers.
    """
    for stage in stages:
        layered = [name for name in stage.losses if TERMS[name].hidden or TERMS[name].attention]
        if layered:
            raise UserError(
                f"recipe {recipe}, stage {stage.name}, student {student}: it compares layers ({', '.join(layered)}), "
                "of which --teacher-outputs has none: leave --recipe out for soft and hard losses alone, or give a "
                "teacher that is a model"
            )
