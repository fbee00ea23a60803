"""What is worth keeping of a teacher, and that a stage learns the same from it."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from toy import toy_task
from transformers import BertForSequenceClassification, BertTokenizerFast

from distill import precompute
from distill.cache import Wanted
from distill.distiller import Distiller
from distill.job import Job
from distill.precompute import drop_insides, insides, looked_at
from distill.recipes import RECIPES
from distill.stages import Stage, filled, scaled
from students.presets import student_preset
from teacher.batches import mean_padded
from teacher.prepare import prepare
from teacher.ready import Teacher

Make = Callable[..., BertForSequenceClassification]
TEXTS = ("good film", "the plot is very boring", "a great play", "bad", "it is not funny to the actor", "poor music")


@pytest.fixture
def teacher(tiny_bert: Make, tiny_tokenizer: BertTokenizerFast, tmp_path: Path) -> Teacher:
    model = tiny_bert(layers=4)
    model.save_pretrained(tmp_path / "teacher")
    prepared = prepare(toy_task(texts=TEXTS, rows=64), tiny_tokenizer, 32)
    return Teacher(model=model, prepared=prepared, folder=tmp_path / "teacher", origin="", outcome=None)


def _jobs(teacher: Teacher, run: Path, *, seeds: int, names: tuple[str, ...] = ("tiny",)) -> list[Job]:
    """A tiny learns layers in one pass over the texts, a distil in two."""
    budgets = {"tiny": 2 / 150, "distil": 4 / 300}
    return [
        Job(
            student=student_preset(name, teacher.model.config),
            stages=scaled(RECIPES[name](), budgets[name]),
            seed=seed,
            folder=run / name / str(seed),
            twin=False,
        )
        for name in names
        for seed in range(seeds)
    ]


def test_each_term_says_which_layers_it_compares() -> None:
    general, intermediate, prediction = RECIPES["tiny"]()
    assert looked_at(intermediate, 4, 12) == Wanted(
        hidden=frozenset({0, 3, 6, 9, 12}), attention=frozenset({3, 6, 9, 12})
    ) | Wanted(hidden=frozenset({0, 12}))
    nearest = dataclasses.replace(intermediate, layers="nearest")
    assert looked_at(nearest, 2, 5).attention == frozenset(range(1, 6))
    (relations, _) = RECIPES["minilmv2"]()
    assert looked_at(relations, 3, 12) == Wanted(attention=frozenset({12}), values=True)
    (distil,) = RECIPES["distil"]()
    assert looked_at(distil, 3, 6) == Wanted(hidden=frozenset({0, 6}))
    # The layer map that a student deeper than its teacher lacks is asked for by no term of these.
    assert looked_at(relations, 8, 6) == Wanted(attention=frozenset({6}), values=True)
    assert looked_at(distil, 8, 6) == Wanted(hidden=frozenset({0, 6}))
    assert precompute.storable(intermediate)
    assert not precompute.storable(general)
    assert not precompute.storable(prediction)


def test_nothing_is_kept_for_one_pass_and_what_fits_for_more(teacher: Teacher, tmp_path: Path) -> None:
    assert insides(teacher, _jobs(teacher, tmp_path, seeds=1), tmp_path, gigabytes=1, bf16=False) is None
    assert insides(teacher, _jobs(teacher, tmp_path, seeds=3), tmp_path, gigabytes=0, bf16=False) is None
    kept = insides(teacher, _jobs(teacher, tmp_path, seeds=3), tmp_path, gigabytes=1, bf16=False)
    assert kept is not None
    assert kept.wanted.serves(looked_at(RECIPES["tiny"]()[1], 2, 4))
    # Distil's last hidden states are passed twice by one student and take two files: they come first.
    both = _jobs(teacher, tmp_path, seeds=2, names=("tiny", "distil"))
    pieces = int(teacher.prepared.splits["train"].lengths.sum())
    little = Wanted(hidden=frozenset({0, 4})).size(pieces, 32, bf16=False) / 1e9
    drop_insides(tmp_path)
    kept = insides(teacher, both, tmp_path, gigabytes=1.01 * little, bf16=False)
    assert kept is not None
    assert kept.wanted == Wanted(hidden=frozenset({0, 4}))


def test_what_is_there_is_used_again_and_another_teachers_is_not(
    teacher: Teacher, tmp_path: Path, tiny_bert: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = _jobs(teacher, tmp_path, seeds=2)
    kept = insides(teacher, jobs, tmp_path, gigabytes=1, bf16=False)
    assert kept is not None
    stamp = (kept.folder / "offsets.npy").stat().st_ino
    assert insides(teacher, jobs, tmp_path, gigabytes=1, bf16=False) == kept
    assert (kept.folder / "offsets.npy").stat().st_ino == stamp
    before = np.load(kept.folder / "hidden-4.npy")
    other = tiny_bert(layers=4, seed=5)
    other.save_pretrained(teacher.folder)
    insides(dataclasses.replace(teacher, model=other), jobs, tmp_path, gigabytes=1, bf16=False)
    assert not np.array_equal(np.load(kept.folder / "hidden-4.npy"), before)
    monkeypatch.setattr(Job, "finished", property(lambda job: True))
    assert insides(teacher, jobs, tmp_path, gigabytes=1, bf16=False) is None
    drop_insides(tmp_path)
    assert not kept.folder.exists()


def test_a_killed_run_chooses_again_what_it_chose_and_frees_what_it_left(
    teacher: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = _jobs(teacher, tmp_path, seeds=2, names=("tiny", "distil"))
    pieces = int(teacher.prepared.splits["train"].lengths.sum())
    free = 2.1 * Wanted(hidden=frozenset({0, 4})).size(pieces, 32, bf16=False)
    monkeypatch.setattr(precompute.shutil, "disk_usage", lambda run: SimpleNamespace(free=free))
    kept = insides(teacher, jobs, tmp_path, gigabytes=1, bf16=False)
    assert kept is not None
    assert kept.wanted == Wanted(hidden=frozenset({0, 4}))
    # Killed between the folder and its key, and once more while it was written anew; the disk has other room by now.
    (kept.folder / precompute.KEY).unlink()
    unfinished = kept.folder.with_name(".insides.123.tmp")
    unfinished.mkdir()
    for later in (1e12, 0):
        monkeypatch.setattr(precompute.shutil, "disk_usage", lambda run, later=later: SimpleNamespace(free=later))
        assert insides(teacher, jobs, tmp_path, gigabytes=1, bf16=False) == kept
        assert not unfinished.exists()
    unfinished.mkdir()
    drop_insides(tmp_path)
    assert not unfinished.exists()


@pytest.mark.parametrize("recipe", ["tiny", "distil", "albert", "minilmv2", "pkd"])
def test_a_stage_has_the_losses_and_gradients_that_a_forward_pass_gives(
    recipe: str, teacher: Teacher, tiny_bert: Make, tmp_path: Path
) -> None:
    (stage, *_) = [stage for stage in RECIPES[recipe]() if stage.layered and stage.data == "train"]
    jobs = [SimpleNamespace(finished=False, stages=(stage,), student=SimpleNamespace(layers=2))] * 3
    kept = insides(teacher, jobs, tmp_path, gigabytes=1, bf16=False)
    assert kept is not None
    logits = torch.randn(64, 3)
    batch = teacher.prepared.batches("train", 12, 0).collate([3, 30, 7, 11, 25], 0)
    results = []
    for stored in (None, kept.open(teacher.model)):
        student = tiny_bert(layers=2, seed=3)
        distiller = Distiller(
            student,
            teacher.model,
            stage,
            teacher.prepared.task,
            projection=torch.nn.Identity(),
            teacher_logits=logits,
            stored=stored,
        )
        terms = distiller(batch)
        if stored is None:
            # A forward pass has the teacher's own logits; a stage with stored insides has them from a file.
            terms.pop("soft", None)
        layered = {name: term for name, term in terms.items() if name != "soft"}
        sum(distiller.weights[name] * term for name, term in layered.items()).backward()
        gradients = torch.cat([p.grad.flatten() for p in student.bert.parameters() if p.grad is not None])
        results.append(({name: float(term.detach()) for name, term in layered.items()}, gradients))
    (fresh, one), (stored_terms, other) = results
    assert fresh.keys() == stored_terms.keys()
    for name, value in fresh.items():
        assert stored_terms[name] == pytest.approx(value, rel=0.02, abs=1e-4), name
    assert float(torch.cosine_similarity(one, other, dim=0)) > 0.999


def test_short_texts_fill_a_batch_and_long_ones_leave_it() -> None:
    stage = RECIPES["distil"]()[0]
    assert [mean_padded(np.full(100, length)) for length in (8, 9)] == [8, 16]
    assert (filled(stage, 8).batch_size, filled(stage, 8).tokens) == (128, 1024)
    assert filled(stage, 16).batch_size == 64
    long = filled(stage, 64)
    assert (long.batch_size, long.tokens) == (32, None)
    published: Stage = RECIPES["distilbert"]()[0]
    assert filled(published, 8).batch_size == published.batch_size


def test_batches_of_several_sets_are_filled_by_texts_and_those_of_general_text_are_not() -> None:
    stage = RECIPES["distil"]()[0]
    mixed = dataclasses.replace(stage, data="mixed", mix={"labeled": None, "unlabeled": None})
    assert (filled(mixed, 8).batch_size, filled(mixed, 8).tokens) == (128, None)
    assert (filled(mixed, 64).batch_size, filled(mixed, 64).tokens) == (32, None)
    general = dataclasses.replace(RECIPES["tiny"]()[0], tokens=1024)
    assert (filled(general, 8).batch_size, filled(general, 8).tokens) == (32, None)
