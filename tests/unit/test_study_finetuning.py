"""A study of fine-tuning: its space, the options of a trial, and the pruner that is fed while a teacher learns."""

from collections.abc import Iterable
from pathlib import Path

import optuna
import pytest
from torch import nn
from toy import toy_task
from transformers import AlbertConfig, BertConfig, DistilBertConfig, ModernBertConfig

from distill.study_config import SearchOptions, StudyConfig
from distill.study_objectives import RUNGS, pruner
from distill.study_space import defaults, drawn, samples
from distill.study_storage import SLOT
from distill.study_teacher import TeacherBench, Watch
from distill.study_teacher_space import finetune_options, teacher_space
from teacher.dropout import dropping
from teacher.loop import SELECTION
from teacher.options import FinetuneOptions
from teacher.prepare import Prepared

BERT = BertConfig(num_hidden_layers=6)


def test_the_options_as_given_are_the_first_trial_and_come_back() -> None:
    given = FinetuneOptions(teacher_learning_rate=2e-3, teacher_epochs=4.0, teacher_freeze=1, teacher_dropout=0.3)
    space = teacher_space(given, BERT, "classification")
    first = defaults(space)
    assert first is not None and set(first) == set(space)
    assert finetune_options(given, first) == given


def test_every_draw_is_options_that_teacher_finetune_takes() -> None:
    space = teacher_space(FinetuneOptions(), BERT, "classification")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    seen = [finetune_options(FinetuneOptions(), drawn(space, study.ask())) for _ in range(60)]
    seen += [finetune_options(FinetuneOptions(), settings) for settings in samples(space)]
    assert {options.teacher_freeze for options in seen} == {None, 0, 2, 3}
    assert {options.teacher_pooling for options in seen} == {"cls", "mean", "max"}
    assert all(
        options.teacher_head_rate is None or 1 <= options.teacher_head_rate / options.teacher_learning_rate <= 10.0001
        for options in seen
    )


def test_the_space_is_the_encoders_and_the_tasks() -> None:
    options = FinetuneOptions()
    assert "pooling" not in teacher_space(options, BERT, "tags")
    assert "pooling" not in teacher_space(options, ModernBertConfig(), "classification")
    assert teacher_space(options, AlbertConfig(), "classification")["freeze"].choices == ("none", "0")
    assert teacher_space(options, DistilBertConfig(dropout=0.2), "classification")["dropout"].default == 0.2
    tokens = teacher_space(FinetuneOptions(teacher_batch_tokens=1024), BERT, "classification")
    assert tokens["batch_tokens"].choices == (512, 1024, 2048) and "batch" not in tokens


def _watched(study: optuna.Study, scores: list[float]) -> optuna.trial.FrozenTrial:
    """A trial of 9 steps whose selection metric is looked at after each third."""
    trial = study.ask()
    trial.set_user_attr(SLOT, True)
    watch = Watch(trial=trial, total=9, looks=3)
    try:
        for look, score in enumerate(scores, start=1):
            watch(3 * look - 1, {"loss": 1.0})
            watch(3 * look, {SELECTION: score})
        study.tell(trial, max(watch.found.values()))
    except optuna.TrialPruned:
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    return study.trials[trial.number]


def test_a_fine_tuning_that_lags_behind_ends_at_its_first_look() -> None:
    study = optuna.create_study(direction="maximize", pruner=pruner(SearchOptions(pruner="halving")))
    assert _watched(study, [0.6, 0.7, 0.65]).value == 0.7
    behind = _watched(study, [0.5, 0.9, 0.9])
    assert behind.state.name == "PRUNED" and behind.intermediate_values == {1: 0.5}
    assert behind.user_attrs[RUNGS] == [0.5] and behind.user_attrs["reason"] == "given up at look 1 of 3"
    ahead = _watched(study, [0.65, 0.6, 0.8])
    assert ahead.state.name == "COMPLETE" and ahead.intermediate_values == {1: 0.65, 2: 0.6, 3: 0.8}


def test_what_an_earlier_sitting_saw_is_not_seen_twice() -> None:
    trial = optuna.create_study(direction="maximize").ask()
    watch = Watch(trial=trial, total=10, looks=3)
    for step, score in ((4, 0.5), (8, 0.6), (4, 0.1), (8, 0.2), (10, 0.7)):
        watch(step, {SELECTION: score})
    assert watch.found == {1: 0.5, 2: 0.6, 3: 0.7}
    assert trial.user_attrs[RUNGS] == [0.5, 0.6, 0.7]


@pytest.mark.parametrize(
    ("total", "looks", "steps", "found"),
    [
        (10, 9, range(1, 11), [1, 2, 3, 4, 6, 7, 8, 9, 10]),
        (7, 3, (2, 4, 6, 7), [2, 4, 7]),
        (7, 3, (3, 6, 7), [3, 6, 7]),
        (5, 9, range(1, 6), [1, 1, 2, 2, 3, 4, 4, 5, 5]),
        (4, 1, (1, 2, 3, 4), [4]),
    ],
)
def test_every_look_has_its_place_and_the_last_is_the_end_of_the_training(
    total: int, looks: int, steps: Iterable[int], found: list[int]
) -> None:
    trial = optuna.create_study(direction="maximize").ask()
    watch = Watch(trial=trial, total=total, looks=looks)
    for step in steps:
        watch(step, {SELECTION: float(step)})
    assert watch.found == dict(enumerate(map(float, found), start=1))
    assert trial.user_attrs[RUNGS] == found


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_dropout_is_another_within_the_block_alone(share: float) -> None:
    module = nn.Sequential(nn.Dropout(0.1), nn.Sequential(nn.Dropout(0.2)))
    with dropping(module, share):
        assert [part.p for part in module.modules() if isinstance(part, nn.Dropout)] == [share, share]
    assert [part.p for part in module.modules() if isinstance(part, nn.Dropout)] == [0.1, 0.2]


class _Worse(TeacherBench):
    """Fine-tunings that are worse than chance, as a correlation says it."""

    prepared = Prepared(task=toy_task(), tokenizer=None, splits={}, max_length=8)  # type: ignore[arg-type]

    def _score(self, trial: optuna.Trial, options: FinetuneOptions, folder: Path) -> float:
        return -0.25


def test_a_metric_below_zero_is_said_as_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = optuna.create_study(direction="maximize")
    bench = _Worse(config=StudyConfig(target="teacher"), folder=tmp_path, space={}, data=toy_task().data, source="x")
    assert bench.run(study, study.ask(), {}, tmp_path) == [-0.25]
    assert "trial 0: accuracy -0.2500" in "".join(capsys.readouterr())
