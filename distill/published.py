"""Recipes of the papers: losses, layers and settings as published, or nearest to it on a task."""

from distill.stages import Stage


def tinybert_recipe() -> tuple[Stage, ...]:
    """TinyBERT with its published settings (arXiv 1909.10351, section 4.2; the first stage's from its released code).

    Without augmentation and length of general text, which are options (`--augment 20 --text-length 128`). Dropout, and
    weights, as published: all 1.
    """
    layers = {"embedding": 1.0, "hidden": 1.0, "attention": 1.0}
    return (
        Stage(
            name="general",
            description="The teacher before fine-tuning, on general text: embeddings, hidden states, attention scores.",
            teacher="pretrained",
            data="text",
            losses=layers,
            learning_rate=5e-5,
            epochs=3.0,
            dropout=True,
        ),
        Stage(
            name="intermediate",
            description="The fine-tuned teacher on the task's texts: embeddings, hidden states and attention scores.",
            teacher="finetuned",
            data="train",
            losses=layers,
            learning_rate=5e-5,
            epochs=20.0,
            warmup=0.0,
            schedule="constant",
            dropout=True,
        ),
        Stage(
            name="prediction",
            description="The fine-tuned teacher's logits on the task's texts.",
            teacher="finetuned",
            data="train",
            losses={"soft": 1.0},
            learning_rate=3e-5,
            epochs=3.0,
            dropout=True,
            select=True,
        ),
    )


def distilbert_recipe() -> tuple[Stage, ...]:
    """DistilBERT's weights and optimizer (arXiv 1910.01108, section 3, and its released code) on the task."""
    return (
        Stage(
            name="distil",
            description="The fine-tuned teacher's logits, the labels, the direction of the last hidden states.",
            teacher="finetuned",
            data="train",
            losses={"soft": 5.0, "hard": 2.0, "cosine": 1.0},
            temperature=2.0,
            learning_rate=5e-4,
            epochs=3.0,
            warmup=0.05,
            betas=(0.9, 0.98),
            clip=5.0,
            dropout=True,
            select=True,
        ),
    )


def minilmv2_recipe() -> tuple[Stage, ...]:
    """MiniLMv2's relations of one teacher layer (arXiv 2012.15828) on the task's texts, then the logits."""
    return (
        Stage(
            name="relations",
            description="Query, key and value relations of one layer of the fine-tuned teacher, on the task's texts.",
            teacher="finetuned",
            data="train",
            losses={"relations": 1.0},
            learning_rate=3e-4,
            epochs=1.0,
            most_steps=1500,
        ),
        Stage(
            name="prediction",
            description="The fine-tuned teacher's logits on the task's texts.",
            teacher="finetuned",
            data="train",
            losses={"soft": 1.0},
            learning_rate=2e-4,
            epochs=2.0,
            most_steps=4000,
            select=True,
        ),
    )


def pkd_recipe() -> tuple[Stage, ...]:
    """PKD-Skip (arXiv 1908.09355, section 4): labels, logits and [CLS] states of evenly spaced inner layers.

    alpha 0.5, T 10 and 5e-5 are of the paper's grid. So is beta 500, which its released code divides by 768 dimensions
    and 5 layers; `pkd` is a sum over both.
    """
    return (
        Stage(
            name="patient",
            description="The labels, the fine-tuned teacher's logits, and its inner layers' [CLS] states.",
            teacher="finetuned",
            data="train",
            losses={"hard": 0.5, "soft": 0.5, "pkd": 0.13},
            temperature=10.0,
            learning_rate=5e-5,
            epochs=4.0,
            dropout=True,
            select=True,
        ),
    )
