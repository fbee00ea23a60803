"""The students by name: a preset is a function from the teacher's configuration to a `StudentConfig`."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from transformers import PretrainedConfig

from common.errors import UserError, unknown_name
from common.pooled import plain_type

STARTS = {
    "bert": ("prune", "random", "general"),
    "distilbert": ("copy", "random", "general"),
    "albert": ("svd", "random", "general"),
}
"""Family to the ways its first weights can be made; general: read from the folder of a student distilled on text."""

SHARING = ("all", "attention", "ffn", "none")
"""ALBERT's sharing modes by name; a whole number k is the mode "k groups of consecutive layers"."""

SHARED_PARTS = ("attention", "ffn")
"""The modes in which every layer has a block of its own, but for the part of this name. LayerNorms belong to it."""


@dataclass(frozen=True, kw_only=True)
class StudentConfig:
    """A small encoder and where its first weights come from. Checked when made; raises UserError."""

    name: str
    family: str
    """A key of STARTS."""
    layers: int
    hidden: int
    heads: int
    ffn: int
    """Units of the feed-forward part."""
    embedding: int | None = None
    """ALBERT's E; None for the other families."""
    sharing: str | int | None = None
    """ALBERT: one of SHARING, or the number of groups of consecutive layers that share weights."""
    teacher_layers: tuple[int, ...] | None = None
    """Teacher layers (0 = first) whose weights are used, rising: one a layer; ALBERT: one or more a block, averaged."""
    start: str
    """One of STARTS[family]."""
    folder: str | None = None
    """The folder that start "general" reads; None for the other starts."""

    def __post_init__(self) -> None:
        problems = [*_family_problems(self), *_shape_problems(self), *_layer_problems(self)]
        if problems:
            raise UserError(f"student {self.name!r}: {'; '.join(problems)}")

    @property
    def blocks(self) -> int:
        """Layers with weights, or a part of the weights, of their own."""
        if self.sharing == "all":
            return 1
        return max(1, self.sharing) if isinstance(self.sharing, int) else self.layers


def _family_problems(config: StudentConfig) -> list[str]:
    if config.family not in STARTS:
        return [str(unknown_name("family", config.family, STARTS))]
    if config.start not in STARTS[config.family]:
        return [str(unknown_name(f"start of a {config.family} student", config.start, STARTS[config.family]))]
    if config.family != "albert":
        alien = [name for name in ("embedding", "sharing") if getattr(config, name) is not None]
        return [f"{' and '.join(alien)} are for the albert family only, leave them None"] if alien else []
    problems = []
    if config.embedding is None or config.embedding < 3:
        problems.append(f"embedding is {config.embedding}: a whole number of 3 or more was expected")
    if isinstance(config.sharing, str) and config.sharing not in SHARING:
        problems.append(str(unknown_name("sharing mode", config.sharing, SHARING)) + ", or a number of groups")
    elif config.sharing is None:
        problems.append(f"sharing is None: one of {', '.join(SHARING)} or a number of groups was expected")
    elif isinstance(config.sharing, int) and (config.sharing < 1 or config.layers % config.sharing):
        problems.append(f"{config.sharing} groups do not divide {config.layers} layers")
    return problems


def _shape_problems(config: StudentConfig) -> list[str]:
    sizes = {name: getattr(config, name) for name in ("layers", "hidden", "heads", "ffn")}
    problems = [f"{name} is {size}: 1 or more was expected" for name, size in sizes.items() if size < 1]
    if not problems and config.hidden % config.heads:
        problems.append(f"hidden {config.hidden} is not a multiple of heads {config.heads}")
    return problems


def _layer_problems(config: StudentConfig) -> list[str]:
    chosen = config.teacher_layers
    if (config.folder is None) == (config.start == "general"):
        return ["start 'general' and a folder belong together: give both or none"]
    if chosen is None:
        return [] if config.start in ("random", "general") else [f"start {config.start!r} needs teacher_layers"]
    if not chosen or chosen[0] < 0 or list(chosen) != sorted(set(chosen)):
        return [f"teacher_layers {chosen} must be rising numbers from 0"]
    if config.family == "albert" and len(chosen) % config.blocks:
        return [f"teacher_layers names {len(chosen)} layers, which {config.blocks} groups do not share evenly"]
    if config.family != "albert" and len(chosen) != config.layers:
        return [f"teacher_layers names {len(chosen)} layers for {config.layers} of the student"]
    return []


def evenly_spaced(teacher_layers: int, count: int) -> tuple[int, ...]:
    """`count` of a teacher's layers, the first and the last kept, the others rounded to the nearest, a half upwards.

    One layer alone is the first: it is the only one that then gets the input it was trained on.

    >>> evenly_spaced(12, 6)
    (0, 2, 4, 7, 9, 11)
    >>> evenly_spaced(6, 3)
    (0, 3, 5)
    """
    if not 1 <= count <= teacher_layers:
        raise UserError(
            f"cannot keep {count} layers of a teacher that has {teacher_layers}: 1 to {teacher_layers} are possible"
        )
    if count == 1:
        return (0,)
    # In whole numbers, so that a half is a half: rounding floats would send 2.5 to 2 and 3.5 to 4.
    gaps = count - 1
    return tuple((2 * index * (teacher_layers - 1) + gaps) // (2 * gaps) for index in range(count))


def check_teacher(config: PretrainedConfig) -> None:
    """Raise UserError unless the teacher is a BERT encoder with learned absolute positions."""
    if plain_type(config) != "bert":
        raise UserError(
            f"the teacher's model_type is {config.model_type!r}: students are made from BERT teachers "
            "(model_type 'bert') only, choose another --teacher"
        )
    if config.is_decoder:
        raise UserError("the teacher is a BERT decoder (is_decoder is true): students are made from encoders only")


def tiny(teacher: PretrainedConfig) -> StudentConfig:
    """TinyBERT4 (arXiv 1909.10351): 4 layers of 312, FFN 1200, cut out of the teacher.

    Heads: as many as the teacher has where that divides 312, so that attention losses compare head with head; else 12.
    For a teacher that is not wider than 312 or not deeper than 4: half its layers (1 to 4), the largest multiple of its
    head count within 0.6 of its width, FFN in the proportion 1200 : 312.
    """
    check_teacher(teacher)
    heads = teacher.num_attention_heads
    if teacher.hidden_size > 312 and teacher.num_hidden_layers > 4:
        layers, hidden, ffn = 4, 312, 1200
        heads = heads if hidden % heads == 0 else 12
    else:
        layers = max(1, min(4, teacher.num_hidden_layers // 2))
        hidden = max(1, 6 * teacher.hidden_size // (10 * heads)) * heads
        ffn = round(hidden * 1200 / 312)
    return StudentConfig(
        name="tiny",
        family="bert",
        layers=layers,
        hidden=hidden,
        heads=heads,
        ffn=min(ffn, teacher.intermediate_size),
        teacher_layers=evenly_spaced(teacher.num_hidden_layers, layers),
        start="prune",
    )


def distil(teacher: PretrainedConfig) -> StudentConfig:
    """DistilBERT (arXiv 1910.01108): half the layers, copied from the teacher, same width; no segments, no pooler."""
    check_teacher(teacher)
    layers = max(1, teacher.num_hidden_layers // 2)
    return StudentConfig(
        name="distil",
        family="distilbert",
        layers=layers,
        hidden=teacher.hidden_size,
        heads=teacher.num_attention_heads,
        ffn=teacher.intermediate_size,
        teacher_layers=evenly_spaced(teacher.num_hidden_layers, layers),
        start="copy",
    )


def albert(teacher: PretrainedConfig) -> StudentConfig:
    """ALBERT (arXiv 1909.11942) in the teacher's shape: E = 128 (half the width below 256), one block for all layers.

    Smaller on disk, not faster: every layer is still computed. The block starts as the mean of the teacher's layers.
    The first layer alone starts a little nearer to the teacher's hidden states, but is behind after 100 steps.
    """
    check_teacher(teacher)
    return StudentConfig(
        name="albert",
        family="albert",
        layers=teacher.num_hidden_layers,
        hidden=teacher.hidden_size,
        heads=teacher.num_attention_heads,
        ffn=teacher.intermediate_size,
        embedding=embedding_width(teacher.hidden_size),
        sharing="all",
        teacher_layers=tuple(range(teacher.num_hidden_layers)),
        start="svd",
    )


def embedding_width(hidden: int) -> int:
    """ALBERT's E for a width: the published 128, at most half the width, and at least the 3 that a start needs.

    >>> embedding_width(768), embedding_width(192)
    (128, 96)
    """
    return min(128, max(3, round(hidden / 2)))


STUDENTS: dict[str, Callable[[PretrainedConfig], StudentConfig]] = {"tiny": tiny, "distil": distil, "albert": albert}


def student_preset(name: str, teacher: PretrainedConfig) -> StudentConfig:
    """The student called `name` for this teacher.

    Raises:
        UserError: no such student (the nearest names are given), or a teacher that is no BERT encoder.
    """
    if name not in STUDENTS:
        raise unknown_name("student", name, STUDENTS)
    return STUDENTS[name](teacher)


def with_start(config: StudentConfig, start: str | None) -> StudentConfig:
    """The same student with other first weights, one of STARTS[config.family]; None leaves the preset's."""
    return config if start is None else replace(config, start=start)
