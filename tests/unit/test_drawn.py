"""A teacher answers what its students come to, and nothing else."""

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from toy import toy_task
from transformers import BertConfig, BertTokenizerFast, PreTrainedModel

from distill.answers import teacher_logits
from distill.augment import Augmented
from distill.drawn import drawn
from distill.job import Job
from distill.stage_batches import task_batches
from distill.stages import Stage
from distill.transfer_sets import TransferSet, with_sets, write_set
from students.presets import student_preset
from teacher.prepare import Prepared, predict_logits, prepare
from teacher.ready import Teacher

STAGE = Stage(
    name="s",
    description="",
    teacher="finetuned",
    data="mixed",
    mix={"labeled": None, "unlabeled": None},
    losses={"soft": 1.0},
    learning_rate=1e-3,
    batch_size=8,
    steps=3,
)


@pytest.fixture
def prepared(tiny_tokenizer: BertTokenizerFast) -> Prepared:
    return prepare(toy_task(), tiny_tokenizer, 16)


@pytest.fixture
def unlabeled(tmp_path: Path) -> TransferSet:
    rows = [Augmented(" ".join(["film"] * (1 + n % 7)), None, n) for n in range(200)]
    return write_set(tmp_path / "unlabeled", "key", rows, name="unlabeled", origin="made up")


def _job(*stages: Stage, seed: int = 0) -> Job:
    student = student_preset("tiny", BertConfig(hidden_size=32, num_attention_heads=4, num_hidden_layers=2))
    return Job(student=student, stages=stages, seed=seed, twin=False, folder=Path("nowhere"))


def test_rows_are_those_of_all_batches_of_all_seeds(prepared: Prepared, unlabeled: TransferSet) -> None:
    folders = {"unlabeled": unlabeled.folder}
    alone = dataclasses.replace(STAGE, mix={"unlabeled": None}, steps=5)
    jobs = [_job(STAGE), _job(STAGE, alone, seed=1)]
    found = drawn(jobs, prepared, folders)
    whole = with_sets(prepared, folders)
    expected: set[int] = set()
    for stage, seed in ((STAGE, 0), (STAGE, 1), (alone, 1)):
        before = len(whole.splits["train"]) if "labeled" in stage.mix else 0
        batches = itertools.islice(task_batches(stage, whole, seed).from_batch(0), stage.steps)
        expected |= {int(row) - before for batch in batches for row in batch if row >= before}
    assert found.keys() == {"unlabeled"}
    assert found["unlabeled"].tolist() == sorted(expected)
    assert 0 < len(expected) < 90


def test_sets_that_are_drawn_whole_or_not_learned_from_are_left_out(prepared: Prepared, unlabeled: TransferSet) -> None:
    folders = {"unlabeled": unlabeled.folder}
    assert drawn([_job(dataclasses.replace(STAGE, steps=None))], prepared, folders) == {}
    assert drawn([_job(dataclasses.replace(STAGE, losses={"hidden": 1.0}))], prepared, folders) == {}
    assert drawn([_job(STAGE)], prepared, {}) == {}


def test_the_longest_of_stages_that_are_alike_decides(prepared: Prepared, unlabeled: TransferSet) -> None:
    folders = {"unlabeled": unlabeled.folder}
    short, long = (dataclasses.replace(STAGE, steps=None, most_steps=most) for most in (2, 6))
    alone = drawn([_job(long)], prepared, folders)["unlabeled"].tolist()
    for stages in ((short, long), (long, short)):
        assert drawn([_job(*stages)], prepared, folders)["unlabeled"].tolist() == alone


def test_a_set_that_no_such_stage_draws_from_is_not_looked_at(
    prepared: Prepared, unlabeled: TransferSet, tmp_path: Path
) -> None:
    assert drawn([_job(STAGE)], prepared, {"unlabeled": unlabeled.folder, "augmented": tmp_path / "none"}).keys() == {
        "unlabeled"
    }


def test_the_others_have_no_answer(
    prepared: Prepared,
    unlabeled: TransferSet,
    tiny_bert: Callable[..., PreTrainedModel],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = tiny_bert()
    model.save_pretrained(tmp_path)
    teacher = Teacher(model=model, prepared=prepared, folder=tmp_path, origin="t", outcome=None)
    places = np.array([3, 50, 199])

    def logits(asked: dict[str, np.ndarray]) -> np.ndarray:
        found = teacher_logits(teacher, (), {"unlabeled": unlabeled}, tmp_path / "run", "fp32", None, asked)
        return np.load(found["unlabeled"])

    some = logits({"unlabeled": places})
    assert np.flatnonzero(~np.isnan(some).any(axis=-1)).tolist() == places.tolist()
    assert "3 of 200 texts are drawn, and answered" in capsys.readouterr().out
    whole = with_sets(prepared, {"unlabeled": unlabeled.folder})
    expected = predict_logits(model, whole, "unlabeled", precision="fp32", tuned=False)
    np.testing.assert_allclose(some[places], expected[places], atol=1e-5)
    # Answers to some are not taken for answers to all, nor for those to others.
    np.testing.assert_allclose(logits({}), expected, atol=1e-5)
    assert (~np.isnan(logits({"unlabeled": places[:2]}))).all(axis=-1).sum() == 2
