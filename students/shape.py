"""Students of any shape: a preset with some of its sizes changed."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from transformers import PretrainedConfig

from common.errors import UserError, unknown_name
from students.presets import LAYERLESS, SHARING, StudentConfig, embedding_width, evenly_spaced, with_start


@dataclass(frozen=True, kw_only=True)
class ShapeOptions:
    """The shape of the students, where it is not to be that of their presets."""

    layers: int | None = None
    """Layers. None: the preset's (tiny 4, or half of a small teacher's; distil half the teacher's; albert all)."""
    hidden: int | None = None
    """Width of the hidden states. None: the preset's (tiny 312, or 0.6 of a small teacher's; else the teacher's)."""
    heads: int | None = None
    """Attention heads, which divide the width. None: the preset's."""
    ffn: int | None = None
    """Units of the feed-forward part. None: in the preset's proportion to the width."""
    embedding: int | None = None
    """albert: width of its table of pieces. None: 128, or half the width where that is less."""
    sharing: str | None = None
    """albert: what its layers share: all, attention, ffn, none, or a number of groups of consecutive layers. None:
    all."""

    def __post_init__(self) -> None:
        sizes = {name: getattr(self, name) for name in ("layers", "hidden", "heads", "ffn")}
        problems = [
            f"--{name} {size}: expected 1 or more" for name, size in sizes.items() if size is not None and size < 1
        ]
        if self.embedding is not None and self.embedding < 3:
            problems.append(f"--embedding {self.embedding}: expected 3 or more")
        if not problems and self.hidden and self.heads and self.hidden % self.heads:
            problems.append(_indivisible(self.hidden, self.heads, f"--heads {self.heads}"))
        if self.sharing is not None and self.sharing not in SHARING and not self.sharing.strip("0").isdecimal():
            problems.append(str(unknown_name("--sharing", self.sharing, SHARING)) + ", or a number of groups")
        if problems:
            raise UserError("; ".join(problems))

    @property
    def given(self) -> list[str]:
        """The options that are set, by flag."""
        return [f"--{name}" for name, value in vars(self).items() if value is not None]

    @property
    def mode(self) -> str | int | None:
        """ALBERT's sharing as `StudentConfig` has it."""
        return int(self.sharing) if self.sharing is not None and self.sharing.isdecimal() else self.sharing


def alien_options(shape: ShapeOptions, families: Collection[str]) -> str | None:
    """What is wrong with options that no student of these families has; None where all have their use."""
    alien = [name for name in shape.given if name in ("--embedding", "--sharing")]
    return f"{' and '.join(alien)}: for --student albert only" if alien and "albert" not in families else None


def reshaped(
    preset: StudentConfig, teacher: PretrainedConfig, shape: ShapeOptions, start: str | None = None
) -> StudentConfig:
    """The preset in another shape, and with other first weights (None: the preset's way).

    Raises:
        UserError: heads that do not divide the width, groups that do not divide the layers, or more layers than can
        start from this teacher's; says which option helps.
    """
    started = with_start(preset, start)
    if not shape.given:
        return started
    hidden = shape.hidden or preset.hidden
    heads = shape.heads or preset.heads
    if hidden % heads:
        raise UserError(_indivisible(hidden, heads, f"the {heads} heads of {preset.name!r}"))
    shared = preset.family == "albert"
    bare = replace(
        preset,
        layers=shape.layers or preset.layers,
        hidden=hidden,
        heads=heads,
        ffn=shape.ffn or max(1, round(preset.ffn * hidden / preset.hidden)),
        embedding=shape.embedding or embedding_width(hidden) if shared else None,
        sharing=shape.mode or preset.sharing if shared else None,
        teacher_layers=None,
        start="random",
    )
    if started.start in LAYERLESS:
        return replace(bare, start=started.start)
    return replace(bare, start=started.start, teacher_layers=_sources(bare, teacher.num_hidden_layers, started.start))


def _sources(config: StudentConfig, teacher_layers: int, start: str) -> tuple[int, ...]:
    """The teacher's layers that the student's are made of."""
    if config.layers <= teacher_layers:
        return evenly_spaced(teacher_layers, config.layers)
    # Layers that share their weights need no layer of the teacher each.
    if config.family == "albert" and teacher_layers % config.blocks == 0:
        return tuple(range(teacher_layers))
    raise UserError(
        f"--layers {config.layers}: start {start!r} takes the layers of {config.name!r} from the teacher's, which has "
        f"{teacher_layers}: choose --layers 1 to {teacher_layers}, or --start random"
    )


def _indivisible(hidden: int, heads: int, what: str) -> str:
    fitting = ", ".join(str(count) for count in range(1, min(hidden, 64) + 1) if hidden % count == 0)
    near = sorted({max(1, hidden // heads) * heads, (hidden // heads + 1) * heads})
    return (
        f"--hidden {hidden} is not a multiple of {what}: give --heads {fitting}, or --hidden "
        f"{' or '.join(map(str, near))}"
    )
