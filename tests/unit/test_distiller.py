"""Gradient norms on request, the nearest layers, a projection for each layer, and resuming with all of them."""

import copy
import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from toy import toy_task
from transformers import BertForSequenceClassification

from distill.distiller import Distiller, without_dropout
from distill.journal import Journal, journal_rows
from distill.layers import rising
from distill.nearest import layer_costs
from distill.projections import fitted_projection
from distill.stages import Stage
from distill.traces import stage_curves
from reports.curves import curve_kind
from teacher.batches import Batches
from teacher.history import read_rows
from teacher.loop import train
from teacher.loop_config import LoopConfig
from teacher.parts import cut
from teacher.tasks.base import Task

Make = Callable[..., BertForSequenceClassification]
STAGE = Stage(
    name="toy",
    description="",
    teacher="finetuned",
    data="train",
    losses={"hard": 1.0, "embedding": 1.0, "hidden": 1.0, "attention": 0.5},
    learning_rate=1e-2,
    dropout=True,
)


@pytest.fixture
def task() -> Task:
    return toy_task()


IDS = torch.randint(5, 100, (24, 6), generator=torch.Generator().manual_seed(0))


def _collate(indices: object, step: int) -> dict[str, Tensor]:
    rows = torch.as_tensor(np.asarray(indices))
    ids = IDS[rows]
    mask = (torch.arange(6)[None, :] < (2 + rows % 5)[:, None]).long()
    return {
        "input_ids": ids * mask,
        "attention_mask": mask,
        "token_type_ids": torch.zeros_like(ids),
        "labels": rows % 3,
        "index": rows,
    }


SAMPLE = [_collate(range(start, start + 8), 0) for start in (0, 8)]
BATCHES = Batches(lengths=2 + np.arange(24) % 5, batch_size=8, seed=3, collate=_collate)


def _distiller(tiny_bert: Make, task: Task, folder: Path, stage: Stage = STAGE, **options: object) -> Distiller:
    torch.manual_seed(5)
    teacher, student = tiny_bert(layers=4, seed=1), tiny_bert(layers=2, hidden=16, seed=2)
    return Distiller(
        student,
        teacher,
        stage,
        task,
        projection=fitted_projection(student, teacher, SAMPLE, (2, 4), shared=stage.projection == "shared"),
        sample=SAMPLE,
        journal=Journal(folder),
        **options,
    )


def _train(distiller: Distiller, folder: Path, **changes: object) -> dict[str, Tensor]:
    config = LoopConfig(
        **{"learning_rate": 1e-2, "steps": 23, "precision": "fp32", "checkpoint_every": 5, "seed": 1} | changes
    )
    train(distiller, BATCHES, config, folder, label="toy")
    return {name: parameter.detach().clone() for name, parameter in distiller.named_parameters()}


def test_gradient_norms_are_those_of_each_term_alone(tiny_bert: Make, task: Task, tmp_path: Path) -> None:
    distiller = _distiller(tiny_bert, task, tmp_path, norms=True).eval()
    distiller.at(0, 100)
    distiller(SAMPLE[0])
    (row,) = journal_rows(tmp_path)
    assert row.step == 1
    for name in STAGE.losses:
        alone = copy.deepcopy(distiller)
        alone(SAMPLE[0])[name].backward()
        gradients = [parameter.grad for parameter in alone.student.parameters() if parameter.grad is not None]
        expected = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        assert row.values[f"gradient norm {name}"] == pytest.approx(float(expected), rel=1e-5)
        assert float(expected) > 0
    assert all(parameter.grad is None for parameter in distiller.parameters())


def test_gradient_norms_are_few_and_do_not_change_the_training(tiny_bert: Make, task: Task, tmp_path: Path) -> None:
    weights = [
        _train(_distiller(tiny_bert, task, tmp_path / str(norms), norms=norms), tmp_path / str(norms))
        for norms in (False, True)
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not (tmp_path / "False" / "journal.jsonl").exists()
    assert [row.step for row in journal_rows(tmp_path / "True")] == [1, 11, 21]
    curves = {curve.name: curve for curve in stage_curves("toy", tmp_path / "True")}
    assert curves["gradient norm hidden"].steps == (1, 11, 21)
    assert curve_kind("gradient norm hidden") == "gradient norm"
    assert "hidden" in curves
    assert "hidden 1" not in curves
    assert "hidden 1" in read_rows(tmp_path / "True" / "history.jsonl")[0].values


LAYERED = {"embedding": 1.0, "hidden": 1.0, "attention": 1.0, "attention_kl": 1.0, "relations": 1.0, "cosine": 1.0}


def test_every_term_of_a_batch_is_the_sum_of_its_parts_by_their_shares(
    tiny_bert: Make, task: Task, tmp_path: Path
) -> None:
    """Parts of other lengths, of which some have no label: what two lanes add up is the loss of the whole batch."""
    stage = dataclasses.replace(
        STAGE, data="mixed", mix={"labeled": 1.0}, losses=LAYERED | {"hard": 1.0, "soft": 1.0, "pkd": 1.0}
    )
    distiller = _distiller(
        tiny_bert,
        task,
        tmp_path,
        stage,
        teacher_logits=torch.randn(24, 3),
        labeled=torch.arange(24) % 4 > 0,
        lengths=BATCHES.lengths,
    ).eval()
    batch = np.array([4, 9, 14, 0, 5, 11, 20])
    with torch.no_grad():
        whole = {name: float(value) for name, value in distiller(_collate(batch, 0)).items()}
        sums = dict.fromkeys(whole, 0.0)
        for part in cut(batch, 0, 2):
            shares = dict.fromkeys(whole, part.share) | distiller.shares(part.indices, batch)
            for name, value in distiller(_collate(part.indices, 0)).items():
                sums[name] += shares[name] * float(value)
    assert {name for name, value in whole.items() if value > 0} == set(whole)
    assert sums == pytest.approx(whole, rel=1e-4)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("kill_at", [3, 8, 17])
def test_a_stage_on_nearest_layers_is_resumed_bit_for_bit(
    tiny_bert: Make, task: Task, tmp_path: Path, kill_at: int
) -> None:
    """The map is looked for at every seventh step, checkpoints are kept at every fifth."""
    stage = dataclasses.replace(STAGE, layers="nearest", refresh=7)
    whole = _train(_distiller(tiny_bert, task, tmp_path / "whole", stage, norms=True), tmp_path / "whole")
    cut = _distiller(tiny_bert, task, tmp_path / "cut", stage, norms=True)
    at = cut.at

    def killed(step: int, total: int) -> None:
        if step == kill_at:
            raise KilledError
        at(step, total)

    cut.at = killed  # type: ignore[method-assign]
    with pytest.raises(KilledError):
        _train(cut, tmp_path / "cut")
    resumed = _train(_distiller(tiny_bert, task, tmp_path / "cut", stage, norms=True), tmp_path / "cut")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    for name in ("history.jsonl", "journal.jsonl"):
        assert (tmp_path / "whole" / name).read_text() == (tmp_path / "cut" / name).read_text()
    looks = [json.loads(line) for line in (tmp_path / "cut" / "journal.jsonl").read_text().splitlines()]
    looks = [row for row in looks if "teacher layer of 1" in row]
    maps = {row["step"]: (row["teacher layer of 1"], row["teacher layer of 2"]) for row in looks}
    assert list(maps) == [1, 8, 15, 22]
    # Else a resumed stage that began with the first map again would not be noticed.
    assert (2, 4) not in (maps[1], maps[15])


def test_the_map_in_force_decides_the_loss_and_comes_back_with_the_weights(
    tiny_bert: Make, task: Task, tmp_path: Path
) -> None:
    """At a step between two looks the layers are the ones kept, whatever they would be now."""
    distiller = _distiller(tiny_bert, task, tmp_path, dataclasses.replace(STAGE, layers="nearest")).eval()
    values = {}
    for layers in ((1, 2), (3, 4)):
        assert distiller.nearest is not None
        distiller.nearest.layers.data = torch.tensor(layers)
        distiller.at(5, 100)
        values[layers] = float(distiller(SAMPLE[0])["hidden"].detach())
        explicit = dataclasses.replace(STAGE, layers=",".join(map(str, layers)))
        same = _distiller(tiny_bert, task, tmp_path, explicit).eval()
        assert float(same(SAMPLE[0])["hidden"].detach()) == pytest.approx(values[layers], rel=1e-6)
    assert values[1, 2] != values[3, 4]


def test_a_student_cut_out_of_its_teacher_finds_its_layers(tiny_bert: Make, task: Task, tmp_path: Path) -> None:
    """Three layers that begin as the teacher's first three: their states are equal to the teacher's."""
    teacher, student = tiny_bert(layers=5, seed=1), tiny_bert(layers=3, seed=2)
    student.bert.embeddings = copy.deepcopy(teacher.bert.embeddings)
    student.bert.encoder.layer = nn.ModuleList(copy.deepcopy(layer) for layer in teacher.bert.encoder.layer[:3])
    stage = dataclasses.replace(STAGE, layers="nearest")
    distiller = Distiller(student, teacher, stage, task, projection=nn.Identity(), sample=SAMPLE, journal=None)
    assert distiller.nearest is not None
    assert distiller.nearest.current() == (1, 3, 5)
    distiller.train().at(0, 10)
    assert distiller.nearest.current() == (1, 2, 3)
    assert student.training


def test_layer_costs_are_means_over_real_tokens(tiny_bert: Make) -> None:
    teacher, student = tiny_bert(layers=3, seed=1), tiny_bert(layers=2, seed=2)
    costs = layer_costs(student, teacher, SAMPLE, lambda state, layer: state * layer)
    own, others = (
        [
            model(batch["input_ids"], batch["attention_mask"], output_hidden_states=True).hidden_states
            for batch in SAMPLE
        ]
        for model in (student, teacher)
    )
    valid = [batch["attention_mask"].bool() for batch in SAMPLE]
    for row in range(2):
        for column in range(3):
            gaps = [
                ((row + 1) * mine[row + 1] - theirs[column + 1])[mask]
                for mine, theirs, mask in zip(own, others, valid, strict=True)
            ]
            assert float(costs[row, column]) == pytest.approx(float(torch.cat(gaps).square().mean().detach()), rel=1e-5)


@given(st.integers(1, 4).flatmap(lambda m: st.tuples(st.just(m), st.integers(m, 6), st.integers(0, 10_000))))
def test_the_rising_map_is_the_best_of_all(case: tuple[int, int, int]) -> None:
    students, teachers, seed = case
    costs = np.random.default_rng(seed).integers(0, 5, (students, teachers)).tolist()
    layers = rising(costs)
    assert all(a < b for a, b in itertools.pairwise(layers))

    def total(chosen: tuple[int, ...]) -> int:
        return sum(costs[row][layer - 1] for row, layer in enumerate(chosen))

    assert total(layers) == min(map(total, itertools.combinations(range(1, teachers + 1), students)))


def test_a_map_for_each_layer_fits_better_than_one_for_all(tiny_bert: Make, task: Task, tmp_path: Path) -> None:
    teacher, student = tiny_bert(layers=4, seed=1), tiny_bert(layers=2, hidden=16, seed=2)
    with torch.no_grad():
        # Fresh layers hardly change their input, so one map would do for all of them.
        for parameter in (*teacher.parameters(), *student.parameters()):
            parameter.mul_(5 if parameter.ndim > 1 else 1)
    each = fitted_projection(student, teacher, SAMPLE, (2, 4), shared=False)
    assert isinstance(each, nn.ModuleList)
    assert len(each) == 3
    errors = {}
    for projection in (each, fitted_projection(student, teacher, SAMPLE, (2, 4))):
        distiller = Distiller(student, teacher, STAGE, task, projection=projection).eval()
        terms = [{name: float(value.detach()) for name, value in distiller(batch).items()} for batch in SAMPLE]
        errors[projection] = [values["embedding"] + values["hidden"] for values in terms]
    separate, shared = errors.values()
    assert sum(separate) < 0.95 * sum(shared)
    distiller = Distiller(student, teacher, STAGE, task, projection=each).eval()
    with torch.no_grad():
        batch = SAMPLE[0]
        own, theirs = (
            model(batch["input_ids"], batch["attention_mask"], output_hidden_states=True).hidden_states
            for model in (student, teacher)
        )
        gaps = (each[2](own[2]) - theirs[4])[batch["attention_mask"].bool()]
    assert float(distiller(batch)["hidden 2"]) == pytest.approx(float(gaps.square().mean()), rel=1e-4)
    assert sum(name.startswith("projection") for name, _ in distiller.named_parameters()) == 6


def test_a_part_that_is_not_finite_is_named_with_its_layer(tiny_bert: Make, task: Task, tmp_path: Path) -> None:
    distiller = _distiller(tiny_bert, task, tmp_path)
    with without_dropout(distiller), torch.no_grad():
        distiller.student.bert.encoder.layer[1].output.LayerNorm.bias.fill_(torch.nan)
    with pytest.raises(Exception, match="'hidden 2' is nan at step 1"):
        _train(distiller, tmp_path)


def test_teacher_answers_and_masks_follow_the_student(tiny_bert: Make, task: Task) -> None:
    teacher = tiny_bert(layers=4)
    distiller = Distiller(
        tiny_bert(layers=2),
        teacher,
        STAGE,
        task,
        projection=nn.Identity(),
        teacher_logits=torch.zeros(9, 3),
        labeled=torch.ones(9, dtype=torch.bool),
    )
    # No second device is needed to see where things go: this one has shapes and no numbers.
    meta = torch.device("meta")
    distiller.to(meta).follow(meta)
    assert {part.device for part in teacher.parameters()} == {meta}
    assert distiller._teacher_logits is not None
    assert {distiller._teacher_logits.device, *(mask.device for mask in distiller._masks.values())} == {meta}
