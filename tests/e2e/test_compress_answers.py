"""What recovery learns from a teacher: its answers as they come, where the model that learns has its own pieces."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from e2e.test_compress_heads import KINDS, LENGTH, saved
from transformers import BertTokenizerFast, PreTrainedModel

from common.artifact import load
from distill.compress_chain import Artifact, run_chain
from distill.compress_options import CompressOptions
from distill.compress_steps import Work, steps_for, work_for
from distill.distiller import Distiller
from distill.placed_answers import NONE, Answers, Placed, placed
from distill.recovery import recover, recovery_stage
from teacher.prepare import Prepared, predict_logits, prepare
from teacher.tasks.tags import EncodedTags

FINER = CompressOptions(
    trim_vocabulary=True, keep_frequent=0, trim_least=1000, prune=0.3, prune_steps=1, recovery_epochs=1.0
)
"""Of a trimmed vocabulary letters alone are left."""


def work_of(prepared: Prepared, tmp_path: Path, options: CompressOptions) -> Work:
    places = {"max_length": LENGTH, "precision": "fp32", "checkpoint_every": 50, "seed": 0}
    return work_for(prepared.task, tmp_path / "m", tmp_path / "run", options=options, **places)


def at_words(logits: np.ndarray, encoded: EncodedTags) -> np.ndarray:
    """Rows of the words' first pieces."""
    return np.concatenate([row[places[places >= 0]] for row, places in zip(logits, encoded.places, strict=True)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_cuts_texts_finer_learns_each_answer_where_it_belongs(
    kind: str,
    tmp_path: Path,
    tiny_bert: Callable[..., PreTrainedModel],
    tiny_tokenizer: BertTokenizerFast,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned: list[Placed] = []

    def watched(*arguments: Any, **named: Any) -> object:
        learned.append(next(value for value in arguments if isinstance(value, Placed)))
        return recover(*arguments, **named)

    monkeypatch.setattr("distill.compress_prune.recover", watched)
    model, prepared = saved(kind, tiny_bert, tiny_tokenizer, tmp_path / "m")
    trimmed, pruned = run_chain(
        Artifact(folder=tmp_path / "m"), steps_for(FINER, work_of(prepared, tmp_path, FINER)), tmp_path / "run"
    )
    raw = predict_logits(model, prepared, "train", tuned=False)
    own = prepare(prepared.task, load(trimmed.artifact.folder)[1], LENGTH).splits["train"]
    assert own.lengths.sum() > prepared.splits["train"].lengths.sum(), "the texts are cut finer"
    (answers,) = learned
    if kind in ("questions", "windows"):
        assert answers.logits is None
        assert NONE in pruned.artifact.notes
        return
    assert answers.logits is not None
    assert NONE not in pruned.artifact.notes
    if kind != "tags":
        np.testing.assert_allclose(answers.logits.numpy(), raw, atol=1e-5)
        return
    theirs = prepared.splits["train"]
    assert isinstance(own, EncodedTags) and isinstance(theirs, EncodedTags)
    known = [(before >= 0) & (after >= 0) for before, after in zip(theirs.places, own.places, strict=True)]
    there, here = (
        dataclasses.replace(side, places=[np.where(k, p, -1) for k, p in zip(known, side.places, strict=True)])
        for side in (theirs, own)
    )
    np.testing.assert_allclose(at_words(answers.logits.numpy(), here), at_words(raw, there), atol=1e-5)
    assert answers.carried


def test_rows_of_the_same_pieces_keep_their_answers(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    for kind in ("questions", "windows"):
        model, prepared = saved(kind, tiny_bert, tiny_tokenizer, tmp_path / kind)
        encoded = prepared.splits["train"]
        answers = Answers(logits=predict_logits(model, prepared, "train"), encoded=encoded)
        logits = placed(prepared.task, answers, prepare(prepared.task, tiny_tokenizer, LENGTH).splits["train"]).logits
        assert logits is not None and np.array_equal(logits.numpy(), answers.logits)


def test_parts_of_a_batch_weigh_as_much_as_their_words(
    tmp_path: Path,
    tiny_bert: Callable[..., PreTrainedModel],
    tiny_tokenizer: BertTokenizerFast,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Distiller] = []
    monkeypatch.setattr("distill.recovery.train", lambda distiller, *others, **named: made.append(distiller))
    model, prepared = saved("tags", tiny_bert, tiny_tokenizer, tmp_path / "m")
    answers = placed(prepared.task, Answers(logits=predict_logits(model, prepared, "train")), prepared.splits["train"])
    training = work_of(prepared, tmp_path, FINER).training
    learn = recovery_stage((1, 2), epochs=1.0, learning_rate=1e-3)
    recover(model, load(tmp_path / "m")[0], prepared, answers, learn, training, tmp_path / "t", label="")
    words = prepared.task.weights(prepared.splits["train"])
    assert words is not None and len(set(words)) > 1
    assert made[0].shares(np.arange(3), np.arange(8))["soft"] == pytest.approx(words[:3].sum() / words.sum())


def test_answers_are_learned_as_they_come_and_the_threshold_is_found_anew(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    model, prepared = saved("questions", tiny_bert, tiny_tokenizer, tmp_path / "m")
    task = prepared.task
    raw = predict_logits(model, prepared, "train", tuned=False)
    assert np.abs(predict_logits(model, prepared, "train") - raw).max() > 0.1, "a threshold that shows"
    options = CompressOptions(prune=0.5, prune_steps=1, recovery=False)
    work = work_of(prepared, tmp_path, options)
    np.testing.assert_allclose(work.answers().logits, raw, atol=1e-5)
    (made,) = run_chain(Artifact(folder=tmp_path / "m"), steps_for(options, work), tmp_path / "run")
    pruned = load(made.artifact.folder)[0]
    logits = predict_logits(pruned, prepared, "select", tuned=False)
    found = task.tune(logits, prepared.splits["select"])["no_answer_threshold"]
    assert pruned.config.no_answer_threshold == pytest.approx(found, abs=1e-4)
    assert pruned.config.no_answer_threshold != pytest.approx(model.config.no_answer_threshold, abs=1e-4)


def test_a_vocabulary_that_cuts_finer_has_a_threshold_of_its_own(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    model, prepared = saved("questions", tiny_bert, tiny_tokenizer, tmp_path / "m")
    task = prepared.task
    for least in (1, 1000):
        options = CompressOptions(trim_vocabulary=True, keep_frequent=0, trim_least=least)
        steps = steps_for(options, work_of(prepared, tmp_path, options))
        (made,) = run_chain(Artifact(folder=tmp_path / "m"), steps, tmp_path / str(least))
        trimmed, tokenizer = load(made.artifact.folder)
        finer = prepare(task, tokenizer, LENGTH)
        found = task.tune(predict_logits(trimmed, finer, "select", tuned=False), finer.splits["select"])
        assert trimmed.config.no_answer_threshold == pytest.approx(found["no_answer_threshold"], abs=1e-4)
        kept = trimmed.config.no_answer_threshold == model.config.no_answer_threshold
        assert kept == (least == 1)
