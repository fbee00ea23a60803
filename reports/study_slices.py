"""The slice view of a study: the score against each part of the space, over all finished trials."""

from matplotlib.axes import Axes

from common.study_record import StudyRecord, TrialRow
from reports.svg import inline, new_figure, plain, style
from reports.theme import light
from reports.words import metric_style


def slices(record: StudyRecord) -> list[str]:
    """One chart for each part that finished trials differ in, the most important first."""
    rows = [row for row in record.trials if row.score is not None]
    names = [name for name in record.space if len({str(row.settings.get(name)) for row in rows}) > 1]
    names.sort(key=lambda name: -record.importances.get(name, 0.0))
    return [_draw(name, rows, record) for name in names]


def _draw(name: str, rows: list[TrialRow], record: StudyRecord) -> str:
    shown = metric_style(record.metric)
    factor = 100 if shown.percent else 1
    with style():
        figure = new_figure(250, 210)
        axes = figure.add_axes((0.2, 0.22, 0.76, 0.65))
        axes.set_title(plain(name, 40), loc="left", fontsize=11, color=light("ink"))
        places = _places(axes, name, rows)
        for index, (row, place) in enumerate(zip(rows, places, strict=True)):
            chosen = row.number == record.chosen
            axes.plot(
                place, (row.score or 0.0) * factor, "s" if chosen else "o", markersize=8 if chosen else 6,
                color=light("series-1" if chosen else "series-0"), alpha=1.0 if row.on_front else 0.4,
                gid=f"slice-{index}",
            )  # fmt: skip
        axes.set_ylabel(shown.heading)
        axes.margins(0.12)
        tips = {f"slice-{index}": f"trial {row.number}: {row.settings.get(name)}" for index, row in enumerate(rows)}
        return inline(figure, f"{name}: {shown.heading} of each trial", tips=tips)


def _places(axes: Axes, name: str, rows: list[TrialRow]) -> list[float]:
    """Where each trial stands on the axis: its number, or the place of its name."""
    values = [row.settings.get(name) for row in rows]
    if all(isinstance(value, (int, float)) for value in values):
        return [float(value) for value in values if isinstance(value, (int, float))]
    names = sorted({str(value) for value in values})
    axes.set_xticks(range(len(names)), [plain(entry, 12) for entry in names])
    return [float(names.index(str(value))) for value in values]
