"""What the figures of a record say, in sentences that claim no more than the figures carry."""

from dataclasses import dataclass

from reports.cells import doubt, headline_cells, latency_in, students_of, teacher_of
from reports.record import Latency, ModelCard, Record
from reports.twins import alike, alike_words, twin_effects
from reports.words import compared, metric_style, percent


@dataclass(frozen=True, kw_only=True)
class Headline:
    """One student in one sentence: its name, and what follows it."""

    model: ModelCard
    text: str


def headlines(record: Record) -> list[Headline]:
    """ "tiny keeps 97.9 % of the teacher's accuracy (84.1 against 85.9), 2.6x smaller on disk." and the like."""
    teacher = teacher_of(record)
    effects = {effect.student.name: effect.verdict for effect in twin_effects(record)}
    lines = []
    for student in students_of(record):
        parts = [_quality_words(record, student, teacher), *_cost_words(record, student, teacher)]
        twin = f" {_capital(effects[student.name])}." if student.name in effects else ""
        lines.append(Headline(model=student, text=f"{_listed(parts)}.{_doubtful_speed(record, student)}{twin}"))
    return lines


def _quality_words(record: Record, student: ModelCard, teacher: ModelCard | None) -> str:
    style = metric_style(record.task.metric)
    value = f"{style.value(student.quality.value)}{' %' if style.percent else ''}"
    if teacher is None:
        return f"reaches {value} {style.label}"
    both = f"{style.value(student.quality.value)} against {style.value(teacher.quality.value)}"
    if alike(student.quality.against_teacher):
        both += f", {alike_words(record.task)}"
    share = student.quality.retained
    if share is None:
        return f"has {style.label} {both}"
    if not record.task.higher_is_better:
        return f"has {share:.2f} times the teacher's {style.label} ({both})"
    return f"{'keeps' if share < 1 else 'reaches'} {percent(share)} of the teacher's {style.label} ({both})"


def _cost_words(record: Record, student: ModelCard, teacher: ModelCard | None) -> list[str]:
    if teacher is None:
        return []
    words = []
    if student.size and teacher.size:
        size = compared(
            teacher.size.bytes_on_disk, student.size.bytes_on_disk, less="smaller", more="larger", same="as large"
        )
        words.append(f"{size} on disk")
    pairs = _latency_pairs(record, student)
    if not _doubtful_speed(record, student):
        for batch, own, reference in pairs:
            speed = compared(reference.p50_ms, own.p50_ms, less="faster", more="slower", same="about as fast")
            words.append(f"{speed} at batch {batch}")
    return words


def _latency_pairs(record: Record, student: ModelCard) -> list[tuple[int, Latency, Latency]]:
    """Batch, the student's and the teacher's figure, of each headline cell where both were measured."""
    teacher = teacher_of(record)
    found = [
        (cell.batch, latency_in(student, cell), latency_in(teacher, cell) if teacher else None)
        for cell in headline_cells(record)
    ]
    return [(batch, own, reference) for batch, own, reference in found if own and reference]


def _doubtful_speed(record: Record, student: ModelCard) -> str:
    """One bad cell spoils the sentence: the others were timed in the same minutes."""
    reason = doubt(*(latency for _, *both in _latency_pairs(record, student) for latency in both))
    if not reason:
        return ""
    how = "on a busy machine" if "p95" in reason else "too few times"
    return f" Speed was measured {how} and is not reliable ({reason})."


def remarks(record: Record) -> list[Headline]:
    """What a reader would otherwise take wrongly: models' notes, students slower than their teacher, why ALBERT is."""
    found = [Headline(model=card, text=f"\N{EN DASH} {note}") for card in record.models for note in card.notes]
    for student in students_of(record):
        if student.architecture.get("family") == "albert":
            found.append(Headline(model=student, text=_albert_words(student)))
        slower = _slower_cells(record, student)
        if slower:
            found.append(Headline(model=student, text=f"is slower than the teacher at {'; '.join(slower)}."))
    return found


def _albert_words(student: ModelCard) -> str:
    layers = student.architecture.get("layers")
    passes = f"runs it {'once' if layers == 1 else f'{layers} times'}" if layers else "runs it once a layer"
    return (
        "shares one set of layer weights, which makes it small on disk and in memory for weights. Each pass still "
        f"{passes}, so it computes as much and is as slow as an unshared model of that depth and width, and its "
        "activations take as much memory. Smaller here does not mean faster."
    )


def _slower_cells(record: Record, student: ModelCard) -> list[str]:
    teacher = teacher_of(record)
    if teacher is None or student.speed is None:
        return []
    words = []
    for cell in headline_cells(record):
        own, reference = latency_in(student, cell), latency_in(teacher, cell)
        if own and reference and not doubt(own, reference) and own.p50_ms >= 1.05 * reference.p50_ms:
            words.append(
                f"{cell.short} ({compared(reference.p50_ms, own.p50_ms, less='faster', more='slower', same='')})"
            )
    return words


def _listed(parts: list[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 2 else ", ".join(parts)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
