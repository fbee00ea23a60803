"""The closing table of a run: what it shows, leaves out, and that it fits a terminal."""

from dataclasses import replace

from unit import record_factory

from distill.summary import closing_table
from reports.record import Record


def cells(record: Record) -> list[list[str]]:
    """Fields of each line: two or more spaces part them."""
    return [[field for field in line.split("  ") if field.strip()] for line in closing_table(record).splitlines()]


def test_ratios_are_to_the_teacher() -> None:
    rows = {row[0]: [field.strip() for field in row] for row in cells(record_factory.rich())}
    assert rows["model"] == ["model", "accuracy", "±", "kept", "parameters", "on disk", "ms (1 x 16)", "speed"]
    assert rows["tiny"] == ["tiny", "0.8410", "0.0026", "97.9%", "14.4 M", "57.4 MB", "0.83", "3.12x"]
    assert rows["TF-IDF + logistic regression"][1:] == ["0.7710", "89.8%"]


def test_no_spread_no_column_and_a_twin_without_latency_is_blank() -> None:
    record = record_factory.small()
    cards = tuple(replace(card, quality=replace(card.quality, spread=None)) for card in record.models)
    table = closing_table(replace(record, models=cards))
    assert "±" not in table
    twin = next(line for line in table.splitlines() if line.startswith("tiny without"))
    assert twin.endswith("57.4 MB")
    assert "±" in closing_table(record)


def test_fits_100_columns_with_long_names_and_metrics() -> None:
    rich = record_factory.busy(record_factory.rich())
    long = replace(rich.models[1], name="a-student-with-a-very-long-name without distillation")
    task = replace(rich.task, metric="pearson_spearman")
    table = closing_table(replace(rich, task=task, models=(*rich.models, long)))
    assert max(map(len, table.splitlines())) <= 100
    first, second = table.splitlines()[:2]
    assert first.split() == ["pearson_"]
    assert second.split()[:2] == ["model", "spearman"]


def test_an_error_metric_is_not_kept() -> None:
    table = closing_table(record_factory.regression())
    assert "kept" not in table
    assert "1.12x" in table


def test_unreliable_speed_is_marked_and_explained() -> None:
    table = closing_table(record_factory.busy(record_factory.rich()))
    assert next(line for line in table.splitlines() if line.startswith("tiny ")).endswith("0.83?  3.12x?")
    assert table.splitlines()[-1].startswith("?  not reliable")
    assert "?" not in closing_table(record_factory.rich())
