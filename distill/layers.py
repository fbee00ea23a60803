"""Which teacher layer each student layer learns from. Layers count from 1; 0 is the embedding output."""

from common.errors import UserError, unknown_name


def even(students: int, teachers: int) -> tuple[int, ...]:
    """Evenly spaced, the last kept: g(m) = m N / M where M divides N, else rounded with first and last kept.

    >>> even(4, 12), even(4, 6), even(1, 6)
    ((3, 6, 9, 12), (1, 3, 4, 6), (6,))
    """
    if teachers % students == 0:
        return tuple(layer * teachers // students for layer in range(1, students + 1))
    # Halves round up, so that the result does not depend on the parity of the integer part.
    return tuple(int(1 + step * (teachers - 1) / (students - 1) + 0.5) for step in range(students))


def top(students: int, teachers: int) -> tuple[int, ...]:
    """The last layers: g(m) = m + N - M."""
    return tuple(layer + teachers - students for layer in range(1, students + 1))


def bottom(students: int, teachers: int) -> tuple[int, ...]:
    """The first layers: g(m) = m."""
    return tuple(range(1, students + 1))


MAPS = {"uniform": even, "top": top, "bottom": bottom}


def layer_map(name: str, students: int, teachers: int) -> tuple[int, ...]:
    """The map by name, or explicit: "2,4,6".

    Raises:
        UserError: unknown name, wrong number of layers, a layer the teacher lacks, more student layers than teacher
        layers.
    """
    if name[:1].isdigit():
        return _explicit(name, students, teachers)
    if name not in MAPS:
        raise unknown_name("layer map", name, MAPS)
    if students > teachers:
        raise UserError(
            f"the student has {students} layers, the teacher {teachers}: give an explicit map, as in 1,1,2,2"
        )
    return MAPS[name](students, teachers)


def _explicit(text: str, students: int, teachers: int) -> tuple[int, ...]:
    try:
        layers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"layer map {text!r}: expected teacher layers as in 2,4,6") from None
    if len(layers) != students:
        raise UserError(f"layer map {text!r} names {len(layers)} layers, the student has {students}")
    if min(layers) < 0 or max(layers) > teachers:
        raise UserError(f"layer map {text!r}: the teacher has layers 0 (embeddings) to {teachers}")
    return layers
