"""The recipes by name: a fast one for each student, which fits minutes, and those of the papers."""

from collections.abc import Callable, Mapping

from distill.published import distilbert_recipe, minilmv2_recipe, pkd_recipe, tinybert_recipe
from distill.stages import Stage, steps_of

TOKENS = 1024
"""Pieces that a fast recipe fills its batches with: about 70 texts of SST-2. The papers' recipes have 32, always."""


def tiny_recipe() -> tuple[Stage, ...]:
    """TinyBERT's stages without augmentation (arXiv 1909.10351, section 3.2), each in minutes.

    The last learns the labels beside the teacher's logits: a teacher is sure of nearly all rows that it was trained on.
    """
    layers = {"embedding": 1.0, "hidden": 1.0, "attention": 1.0}
    return (
        Stage(
            name="general",
            description="The teacher before fine-tuning, on general text: embeddings, hidden states, attention scores.",
            teacher="pretrained",
            data="text",
            losses=layers,
            learning_rate=3e-4,
            steps=50,
        ),
        Stage(
            name="intermediate",
            description="The fine-tuned teacher on the task's texts: embeddings, hidden states and attention scores.",
            teacher="finetuned",
            data="train",
            tokens=TOKENS,
            losses=layers,
            learning_rate=3e-4,
            epochs=0.5,
            least_steps=150,
            most_steps=750,
        ),
        Stage(
            name="prediction",
            description="The fine-tuned teacher's logits, and the labels, on the task's texts.",
            teacher="finetuned",
            data="train",
            tokens=TOKENS,
            losses={"soft": 1.0, "hard": 1.0},
            learning_rate=2e-4,
            epochs=2.0,
            least_steps=300,
            most_steps=4000,
            select=True,
        ),
    )


def distil_recipe() -> tuple[Stage, ...]:
    """DistilBERT's losses on the task (arXiv 1910.01108, section 3): soft and hard labels, cosine of last states."""
    return (
        Stage(
            name="distil",
            description="The fine-tuned teacher's logits, the labels, the direction of the last hidden states.",
            teacher="finetuned",
            data="train",
            tokens=TOKENS,
            losses={"soft": 5.0, "hard": 2.0, "cosine": 1.0},
            temperature=2.0,
            learning_rate=2e-4,
            epochs=2.0,
            least_steps=300,
            most_steps=4000,
            select=True,
        ),
    )


def albert_recipe() -> tuple[Stage, ...]:
    """Hidden states of every pass of the shared block, then the logits.

    Twice as long as the other students' recipes, since one block has to stand for all layers: with half of it the
    student kept 95.8 % of its teacher on pydocs, with this 98.1 %.
    """
    return (
        Stage(
            name="hidden",
            description="The fine-tuned teacher's embeddings and hidden states, pass by pass, on the task's texts.",
            teacher="finetuned",
            data="train",
            tokens=TOKENS,
            losses={"embedding": 1.0, "hidden": 1.0},
            learning_rate=5e-4,
            epochs=2.0,
            least_steps=200,
            most_steps=3000,
        ),
        Stage(
            name="soft",
            description="The fine-tuned teacher's logits on the task's texts.",
            teacher="finetuned",
            data="train",
            tokens=TOKENS,
            losses={"soft": 1.0},
            learning_rate=2e-4,
            epochs=4.0,
            least_steps=400,
            most_steps=6000,
            select=True,
        ),
    )


def outputs_recipe() -> tuple[Stage, ...]:
    """For a teacher that is only its outputs: these and the labels (Hinton et al. 2015, arXiv 1503.02531)."""
    return (
        Stage(
            name="outputs",
            description="The teacher's stored outputs and the labels.",
            teacher="finetuned",
            data="train",
            tokens=TOKENS,
            losses={"soft": 0.5, "hard": 0.5},
            temperature=2.0,
            learning_rate=2e-4,
            epochs=3.0,
            least_steps=300,
            most_steps=6000,
            select=True,
        ),
    )


RECIPES: dict[str, Callable[[], tuple[Stage, ...]]] = {
    "tiny": tiny_recipe,
    "distil": distil_recipe,
    "albert": albert_recipe,
    "tinybert": tinybert_recipe,
    "distilbert": distilbert_recipe,
    "minilmv2": minilmv2_recipe,
    "pkd": pkd_recipe,
}
"""Recipes by name; a student's own fast one has the student's name."""

OWN = "fast"
"""The name by which every student's own recipe can be asked for."""


LABELS_ALONE = "The labels alone, from the same first weights, for as {}."
"""What a twin's stage is described by, with how long it is."""


def recipe_for(name: str, student: str, *, outputs: bool = False) -> tuple[Stage, ...]:
    """The recipe called `name`; OWN is the student's own, or that for a teacher that is only its outputs."""
    if name == OWN and outputs:
        return outputs_recipe()
    return RECIPES[student if name == OWN else name]()


def twin_recipe(stages: tuple[Stage, ...], sizes: Mapping[str, int], *, steps: int | None = None) -> tuple[Stage, ...]:
    """The same student without distillation: labels alone, for as many steps as its task stages have together.

    `sizes`: set to its examples. With `steps` for as many steps: where recipes are compared, all have the same.
    """
    task = [stage for stage in stages if stage.data != "text"]
    return (
        Stage(
            name="labels",
            description=LABELS_ALONE.format(f"many steps as {'its task stages' if steps is None else 'each recipe'}"),
            teacher="none",
            data="train",
            tokens=task[-1].tokens,
            losses={"hard": 1.0},
            learning_rate=task[-1].learning_rate,
            steps=steps_of(task, sizes) if steps is None else steps,
            dropout=True,
            batch_size=task[-1].batch_size,
            select=True,
        ),
    )
