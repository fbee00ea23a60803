"""Quality and intervals of a model against its teacher, and the tasks' metrics."""

import numpy as np
import pytest
from scipy import stats

from common.bootstrap import bootstrap_difference
from distill.evaluate import quality
from teacher.data import Example, TaskData
from teacher.difference import difference, majority
from teacher.tasks import task_for
from teacher.tasks.base import Task


def _task(kind: str, metric: str, labels: tuple[str, ...], values: list[float]) -> Task:
    rows = tuple(Example("x", None, value) for value in values)
    data = TaskData(
        name="toy",
        kind=kind,
        labels=labels,
        metric=metric,
        origins={},
        fingerprint="",
        sources={},
        splits={"train": rows, "select": rows, "evaluate": rows},
    )
    return task_for(data)


def test_quality_over_seeds_against_the_teacher() -> None:
    generator = np.random.default_rng(0)
    references = generator.integers(0, 3, 400)
    task = _task("classification", "accuracy", ("a", "b", "c"), references.tolist())
    teacher = np.where(generator.random(400) < 0.9, references, (references + 1) % 3)
    seeds = {seed: np.where(generator.random(400) < 0.8, references, (references + 1) % 3) for seed in range(3)}
    result = quality(task, seeds, references, teacher=teacher)
    values = [float(np.mean(predictions == references)) for predictions in seeds.values()]
    assert result.value == pytest.approx(np.mean(values))
    assert result.spread == pytest.approx(np.std(values, ddof=1))
    assert list(result.by_seed.values()) == values
    assert result.retained == pytest.approx(np.mean(values) / np.mean(teacher == references))
    assert result.against_teacher.low < result.against_teacher.difference < result.against_teacher.high < 0
    assert result.mcnemar_p < 0.01
    assert sum(row.n for row in result.per_class) == 400
    own = quality(task, {0: teacher}, references, teacher=None)
    assert own.retained is None
    assert own.against_teacher is None


def test_metrics_are_glues() -> None:
    references = np.array([1, 1, 0, 0, 1, 0])
    predictions = np.array([1, 0, 0, 1, 1, 0])
    task = _task("classification", "matthews", ("no", "yes"), references.tolist())
    scores = task.metrics(predictions, references)
    tp, tn, fp, fn = 2, 2, 1, 1
    assert scores["accuracy"] == pytest.approx(4 / 6)
    assert scores["f1"] == pytest.approx(2 * tp / (2 * tp + fp + fn))
    assert scores["matthews"] == pytest.approx(
        (tp * tn - fp * fn) / ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    )
    assert majority(task, references) == 0.0


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize(("metric", "classes"), [("matthews", 2), ("matthews", 5), ("f1", 2), ("macro_f1", 5)])
def test_intervals_are_drawn_from_sums_of_what_sklearn_counts(metric: str, classes: int) -> None:
    generator = np.random.default_rng(2)
    task = _task("classification", metric, tuple("abcde"[:classes]), [0, 1])
    for size in (1, 2, 9, 200):
        right = generator.integers(0, classes, size)
        given = np.where(generator.random(size) < 0.6, right, generator.integers(0, classes, size))
        for answers in (given, np.zeros_like(right), right):
            sums = task.counts(answers, right).sum(axis=0)
            assert task.from_counts(sums) == pytest.approx(task.metrics(answers, right)[metric])
    teacher = np.where(generator.random(200) < 0.8, right, (right + 1) % classes)
    fast = difference(task, [given], [teacher], right)
    slow = bootstrap_difference([given], [teacher], right, lambda p, r: task.metrics(p, r)[metric], resamples=100)
    assert fast.difference == pytest.approx(slow.difference)
    assert (fast.low, fast.high) == pytest.approx((slow.low, slow.high), abs=0.04)


def test_regression_is_scored_by_correlation_with_an_interval() -> None:
    generator = np.random.default_rng(1)
    references = generator.random(60).astype(np.float32)
    task = _task("regression", "pearson_spearman", (), references.tolist())
    teacher = references + 0.1 * generator.standard_normal(60)
    student = references + 0.5 * generator.standard_normal(60)
    result = quality(task, {0: student}, references, teacher=teacher)
    expected = (stats.pearsonr(student, references).statistic + stats.spearmanr(student, references).statistic) / 2
    assert result.value == pytest.approx(expected)
    assert result.against_teacher.high < 0
    assert result.mcnemar_p is None
    assert result.per_class == ()
    assert task.metrics(np.ones(60), references)["pearson"] == 0.0
