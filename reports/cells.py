"""Which measurements are compared: models by role, and the cells of the speed table."""

from typing import NamedTuple

from reports.record import Latency, ModelCard, Record

UNSTEADY = 3.0
"""A p95 of more than so many times the p50 tells of other work on the machine, not of the model."""
FEWEST_REPEATS = 5


class Cell(NamedTuple):
    """The conditions of one latency figure; figures are compared within a cell only."""

    batch: int
    length: int
    threads: int
    precision: str
    runtime: str

    @property
    def short(self) -> str:
        return f"batch {self.batch} {chr(0xD7)} {self.length} tokens"

    @property
    def long(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.short}, {threads}, {self.runtime} {self.precision}"


def teacher_of(record: Record) -> ModelCard | None:
    return next((card for card in record.models if card.role == "teacher"), None)


def students_of(record: Record) -> list[ModelCard]:
    return [card for card in record.models if card.role == "student"]


def seeds_of(record: Record) -> int:
    """With how many each student was trained; a teacher is one model, whatever this is."""
    return max((len(card.quality.by_seed) for card in record.models if card.role in ("student", "twin")), default=1)


def twin_of(record: Record, student: ModelCard) -> ModelCard | None:
    return next((card for card in record.models if _are_twins(card, student)), None)


def _are_twins(card: ModelCard, student: ModelCard) -> bool:
    return card.role == "twin" and card.twin_of in (student.name, student.student)


def measured_card(record: Record, card: ModelCard) -> ModelCard:
    """Whose cost stands for this model: a twin has its student's architecture and is not measured again."""
    if card.role != "twin" or card.speed is not None:
        return card
    return next((student for student in students_of(record) if _are_twins(card, student)), card)


def in_order(record: Record) -> list[ModelCard]:
    """Teacher, each student with its twin below it (below the last of several), twins without a student, baselines."""
    cards: list[ModelCard] = [card for card in record.models if card.role == "teacher"]
    students = students_of(record)
    for place, student in enumerate(students, start=1):
        cards.append(student)
        cards += [
            card
            for card in record.models
            if _are_twins(card, student) and not any(_are_twins(card, later) for later in students[place:])
        ]
    return cards + [card for card in record.models if card not in cards]


def cell_of(latency: Latency) -> Cell:
    return Cell(latency.batch, latency.length, latency.threads, latency.precision, latency.runtime)


def latency_in(card: ModelCard, cell: Cell) -> Latency | None:
    if card.speed is None:
        return None
    return next((latency for latency in card.speed.latency if cell_of(latency) == cell), None)


def doubt(*latencies: Latency | None) -> str:
    """Why these figures can't be relied on: "p95 is 26x p50", "3 repeats"; empty where they can."""
    return doubt_of(*((latency.p50_ms, latency.p95_ms, latency.repeats) for latency in latencies if latency))


def doubt_of(*figures: tuple[float, float, int]) -> str:
    """`doubt` of p50, p95 and repeats."""
    ratio = max((p95 / p50 for p50, p95, _ in figures), default=0.0)
    fewest = min((repeats for *_, repeats in figures), default=FEWEST_REPEATS)
    if ratio > UNSTEADY:
        return f"p95 is {ratio:.{1 if ratio < 10 else 0}f}{chr(0xD7)} p50"
    return f"{fewest} repeat{'' if fewest == 1 else 's'}" if fewest < FEWEST_REPEATS else ""


def all_cells(record: Record) -> list[Cell]:
    """Every measured cell, in order of runtime, batch, length and threads."""
    cells = {cell_of(latency) for card in record.models if card.speed for latency in card.speed.latency}
    return sorted(cells, key=lambda cell: (cell.runtime, cell.precision, cell.batch, cell.length, cell.threads))


def headline_cells(record: Record) -> list[Cell]:
    """The one or two cells that the summary shows: batch 1 x 16 tokens and 32 x 128, else the smallest and the largest.

    Among equals the teacher's own, with the fewest threads: that is what most disturbs least.
    """
    teacher = teacher_of(record)
    measured = teacher.speed.latency if teacher and teacher.speed else ()
    cells = sorted(cell_of(latency) for latency in measured) or sorted(all_cells(record))
    if not cells:
        return []
    small = next((cell for cell in cells if (cell.batch, cell.length) == (1, 16)), cells[0])
    largest = max((cell.batch, cell.length) for cell in cells)
    wanted = (32, 128) if any((cell.batch, cell.length) == (32, 128) for cell in cells) else largest
    large = next(cell for cell in cells if (cell.batch, cell.length) == wanted)
    return [small] if small == large else [small, large]
