"""A stage whose student and teacher read texts with tokenizers of their own, against one example at a time by hand."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from families import tiny_classifier
from torch import nn
from toy import toy_task
from toy_tokenizers import byte_level
from transformers import BertForSequenceClassification, BertTokenizerFast, PreTrainedTokenizerBase, RobertaConfig

from distill.config import DistilOptions, RunConfig
from distill.contest import check_recipes
from distill.distiller import Distiller
from distill.job import Job, Shared
from distill.nearest import layer_costs
from distill.projections import fitted_projection
from distill.reading import chunks
from distill.spans import NONE, OWN, read, spans_of, teachers_view
from distill.stage_batches import StageBatches, stage_batches
from distill.stages import Stage
from students.presets import student_preset
from teacher.data import Example
from teacher.prepare import Prepared, prepare

Make = Callable[..., BertForSequenceClassification]
TEXTS = ("good film", "the plot is very boring", "a great play", "bad", "it is not funny to the actor", "poor music")
LOSSES = {"hard": 1.0, "soft": 1.0, "embedding": 1.0, "hidden": 1.0, "cosine": 1.0, "pkd": 1.0}


@pytest.fixture
def prepared(tiny_tokenizer: BertTokenizerFast) -> Prepared:
    return prepare(toy_task(texts=TEXTS, rows=6), tiny_tokenizer, 32)


@pytest.fixture
def other(tmp_path: Path) -> PreTrainedTokenizerBase:
    return byte_level(tmp_path)


def _stage(losses: dict[str, float], **changes: object) -> Stage:
    named = {"name": "s", "description": "", "teacher": "finetuned", "data": "train", "learning_rate": 1e-3}
    return Stage(**named | {"losses": losses, "dropout": True} | changes)  # type: ignore[arg-type]


def _batches(stage: Stage, prepared: Prepared, teacher: PreTrainedTokenizerBase, tmp_path: Path) -> StageBatches:
    student = student_preset("tiny", tiny_classifier("bert").config)
    job = Job(student=student, stages=(stage,), seed=0, folder=tmp_path, twin=False)
    shared = Shared(
        data=prepared.task.data,
        teacher="",
        teacher_origin="",
        teacher_logits={},
        voices=(),
        sets={},
        pretrained=None,
        text="task",
        text_length=12,
        max_length=60,
        precision="fp32",
        checkpoint_every=10,
    )
    return stage_batches(stage, job, prepared, teacher, shared)


def test_every_loss_is_the_mean_over_examples_read_alone(
    tiny_bert: Make, prepared: Prepared, other: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    teacher = tiny_classifier("roberta", len(other))
    student = tiny_bert(layers=2, seed=4)
    stage = _stage(LOSSES)
    found = _batches(stage, prepared, other, tmp_path)
    batch = found.batches.collate(range(6), 0)
    assert found.second is not None
    with torch.no_grad():
        logits = teacher(**{name: teachers_view(batch)[name] for name in ("input_ids", "attention_mask")}).logits
    distiller = Distiller(
        student, teacher, stage, prepared.task, projection=nn.Identity(), teacher_logits=logits, lengths=found.lengths
    )
    with torch.no_grad():
        terms = distiller.eval()(batch)
    embedding, hidden, cosine, pkd, answers = [], [[], []], [], [], []
    for text in TEXTS:
        ours, theirs = prepared.tokenizer(text, return_tensors="pt"), other(text, return_tensors="pt")
        with torch.no_grad():
            own, goal = student(**ours, output_hidden_states=True), teacher(**theirs, output_hidden_states=True)
        spans = spans_of(*(read([Example(text, None, 0)], each, 60) for each in (prepared.tokenizer, other)))
        answers.append((own.logits[0], goal.logits[0]))
        for span in range(int(spans.counts[0])):
            first, second = (torch.tensor(rows[0] == span) for rows in (spans.own, spans.other))
            pooled = [
                (mine[0, first].mean(0), yours[0, second].mean(0))
                for mine, yours in zip(own.hidden_states, goal.hidden_states, strict=True)
            ]
            embedding.append((pooled[0][0] - pooled[0][1]).square().mean())
            for layer in (1, 2):
                hidden[layer - 1].append((pooled[layer][0] - pooled[layer][1]).square().mean())
            cosine.append(1 - torch.cosine_similarity(*pooled[2], dim=0))
        states = [nn.functional.normalize(each.hidden_states[1][0, 0], dim=0) for each in (own, goal)]
        pkd.append((states[0] - states[1]).square().sum())
    expected = {
        "embedding": torch.stack(embedding).mean(),
        "hidden": sum(torch.stack(layer).mean() for layer in hidden),
        "cosine": torch.stack(cosine).mean(),
        "pkd": torch.stack(pkd).mean(),
        "soft": torch.stack(
            [(b.log_softmax(0).exp() * (b.log_softmax(0) - a.log_softmax(0))).sum() for a, b in answers]
        ).mean(),
        "hard": nn.functional.cross_entropy(torch.stack([a for a, _ in answers]), torch.arange(6) % 3),
    }
    for name, value in expected.items():
        torch.testing.assert_close(terms[name], value, rtol=1e-5, atol=1e-5, msg=name)


def test_equal_tokenizers_give_the_losses_of_one_but_for_the_last_special_piece(
    tiny_bert: Make, prepared: Prepared, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    tiny_tokenizer.save_pretrained(tmp_path)
    twin = BertTokenizerFast.from_pretrained(tmp_path)
    stage = _stage({"hidden": 1.0, "cosine": 1.0})
    batch = _batches(stage, prepared, twin, tmp_path).batches.collate(range(6), 0)
    plain = _batches(stage, prepared, prepared.tokenizer, tmp_path).batches.collate(range(6), 0)
    assert OWN in batch and OWN not in plain
    plain["attention_mask"] = (plain["input_ids"] != 0).long()
    teacher, student = tiny_bert(layers=2, seed=1), tiny_bert(layers=2, seed=2)
    distiller = Distiller(student, teacher, stage, prepared.task, projection=nn.Identity()).eval()
    spans = (batch[OWN] != NONE).sum()
    with torch.no_grad():
        own = distiller(batch)["hidden 2"] * spans
        whole = distiller(plain)["hidden 2"] * plain["attention_mask"].sum()
    assert int(plain["attention_mask"].sum() - spans) == 6
    assert 0 < float(own) < float(whole)


def test_projection_and_nearest_layers_are_fitted_over_spans(
    tiny_bert: Make, prepared: Prepared, other: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    teacher, student = tiny_classifier("roberta", len(other)), tiny_bert(layers=2, hidden=16, seed=4)
    stage = _stage({"hidden": 1.0})
    found = _batches(stage, prepared, other, tmp_path)
    batches = found.first(1)
    projection = fitted_projection(student, teacher, batches, (1, 2))
    costs = layer_costs(student, teacher, batches, lambda states, layer: projection(states))
    distiller = Distiller(student, teacher, stage, prepared.task, projection=projection).eval()
    with torch.no_grad():
        terms = distiller(batches[0])
    for layer in (1, 2):
        assert float(terms[f"hidden {layer}"]) == pytest.approx(float(costs[layer - 1, layer - 1]), rel=1e-4)


def test_general_text_is_cut_for_the_student_and_read_by_both(
    prepared: Prepared, other: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    document = "the plot is very boring and good film " * 3
    texts = chunks([document, " "], prepared.tokenizer, 8)
    assert [len(prepared.tokenizer(text.text)["input_ids"]) for text in texts] == [8, 8, 8, 8]
    assert " ".join(text.text for text in texts).split() == document.split()
    found = _batches(_stage({"hidden": 1.0}, data="text"), prepared, other, tmp_path)
    batch = found.batches.collate(range(len(found.lengths)), 0)
    assert teachers_view(batch)["input_ids"].shape != batch["input_ids"].shape
    assert (found.lengths >= 2).all()


def test_a_stage_on_answers_alone_needs_one_reading(
    prepared: Prepared, other: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    found = _batches(_stage({"soft": 1.0, "hard": 1.0}), prepared, other, tmp_path)
    assert found.second is None
    assert set(found.batches.collate([0, 1], 0)) == {"input_ids", "attention_mask", "token_type_ids", "labels", "index"}


@pytest.mark.parametrize("recipe", ["distil", "distilbert", "pkd", "albert"])
def test_recipes_on_outputs_and_hidden_states_can_be_had(recipe: str) -> None:
    config = RunConfig(student="distil", distilling=DistilOptions(recipe=recipe))
    teacher = RobertaConfig(num_hidden_layers=4)
    assert check_recipes(config, "classification", teacher, two=True) == ()
