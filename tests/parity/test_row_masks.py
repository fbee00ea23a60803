"""Labels of a mixture: rows without one change neither the hard loss nor its gradient."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from toy import toy_task
from transformers import PreTrainedModel

from distill.distiller import Distiller, without_dropout
from distill.stages import Stage
from teacher.batches import Batches
from teacher.loop import train
from teacher.loop_config import LoopConfig
from teacher.tasks.base import Encoded


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize("labeled", [[True, False, True, False], [False] * 4, [True] * 4])
def test_hard_counts_labelled_rows_alone(
    tiny_bert: Callable[..., PreTrainedModel], kind: str, labeled: list[bool]
) -> None:
    task, outputs = toy_task(kind), 3 if kind == "classification" else 1
    stage = Stage(
        name="x", description="", teacher="finetuned", data="mixed", mix={"labeled": None, "unlabeled": None},
        losses={"hard": 1.0, "soft": 1.0}, learning_rate=1e-4,
    )  # fmt: skip
    mask = torch.tensor(labeled)
    labels = torch.tensor([2, 0, 1, 0]).to(torch.int64 if kind == "classification" else torch.float32)
    batch = {
        "input_ids": torch.randint(5, 100, (4, 6)),
        "attention_mask": torch.ones(4, 6, dtype=torch.long),
        "token_type_ids": torch.zeros(4, 6, dtype=torch.long),
        "labels": labels,
        "index": torch.arange(4),
    }
    model, stored = tiny_bert(labels=outputs), torch.randn(4, outputs)
    distiller = Distiller(
        model, None, stage, task, projection=nn.Identity(), teacher_logits=stored, labeled=mask
    ).eval()
    terms = distiller(batch)
    with torch.no_grad():
        logits = model(batch["input_ids"]).logits
        if kind == "classification":
            rows = -logits.log_softmax(-1)[torch.arange(4), labels]
        else:
            rows = (logits[:, 0] - labels) ** 2
        soft = (
            (logits - stored).square().mean()
            if outputs == 1
            else nn.functional.kl_div(logits.log_softmax(-1), stored.softmax(-1), reduction="batchmean")
        )
    expected = sum(float(row) for row, counts in zip(rows, labeled, strict=True) if counts) / max(1, sum(labeled))
    assert float(terms["hard"].detach()) == pytest.approx(expected, rel=1e-5, abs=1e-9)
    assert float(terms["soft"].detach()) == pytest.approx(float(soft), rel=1e-5)
    gradient = torch.autograd.grad(terms["hard"], model.classifier.bias)[0]
    assert bool(gradient.any()) == any(labeled)
    other = distiller(batch | {"labels": torch.where(mask, labels, torch.ones_like(labels))})
    assert torch.equal(other["hard"], terms["hard"])


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize("answered", [[True, False, True], [False] * 3])
def test_soft_counts_answered_rows_alone(
    tiny_bert: Callable[..., PreTrainedModel], kind: str, answered: list[bool]
) -> None:
    task, outputs = toy_task(kind), 3 if kind == "classification" else 1
    stage = Stage(
        name="x", description="", teacher="finetuned", data="train", losses={"soft": 1.0}, temperature=2.0,
        learning_rate=1e-4,
    )  # fmt: skip
    batch = {
        "input_ids": torch.randint(5, 100, (3, 6)),
        "attention_mask": torch.ones(3, 6, dtype=torch.long),
        "token_type_ids": torch.zeros(3, 6, dtype=torch.long),
        "index": torch.tensor([2, 0, 1]),
    }
    there = torch.tensor(answered)
    stored = torch.randn(3, outputs)
    looked_up = torch.empty(3, outputs)
    looked_up[batch["index"]] = torch.where(there[:, None], stored, torch.tensor(float("nan")))
    model = tiny_bert(labels=outputs)
    distiller = Distiller(
        model,
        None,
        stage,
        task,
        projection=nn.Identity(),
        teacher_logits=looked_up,
        answered=~looked_up.isnan().any(-1),
    ).eval()
    soft = distiller(batch)["soft"]
    with torch.no_grad():
        logits = model(batch["input_ids"]).logits
    if kind == "regression":
        rows = (logits - stored).square().mean(-1)
    else:
        rows = 4 * nn.functional.kl_div((logits / 2).log_softmax(-1), (stored / 2).softmax(-1), reduction="none").sum(
            -1
        )
    expected = float(rows[there].sum()) / max(1, sum(answered))
    assert float(soft.detach()) == pytest.approx(expected, rel=1e-5, abs=1e-9)
    soft.backward()
    assert bool(model.classifier.bias.grad.isfinite().all())


def test_two_lanes_weigh_labels_and_answers_as_one_does(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel]
) -> None:
    """Few rows have labels, so that the halves of a batch seldom have equally many, and often one has none."""
    task = toy_task("classification")
    encoded = Encoded(
        input_ids=[np.arange(5, 11) + row for row in range(70)],
        token_types=[np.zeros(6, dtype=np.int64)] * 70,
        labels=np.arange(70) % 3,
        max_length=16,
        truncated=0,
    )
    labeled, answered = torch.arange(70) % 14 == 3, torch.arange(70) % 9 != 2
    stage = Stage(
        name="x", description="", teacher="finetuned", data="mixed", mix={"labeled": None, "unlabeled": None},
        losses={"hard": 2.0, "soft": 1.0}, learning_rate=1e-3,
    )  # fmt: skip
    batches = Batches(
        lengths=encoded.lengths,
        batch_size=20,
        seed=2,
        collate=lambda rows, step: task.collate(encoded, rows, 0) | {"index": torch.as_tensor(rows)},
    )
    loop = LoopConfig(learning_rate=1e-3, epochs=3, precision="fp32", seed=5)
    models, values = [], []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.manual_seed(0)
        model = tiny_bert(labels=3)
        distiller = Distiller(
            model, None, stage, task, projection=nn.Identity(), labeled=labeled, answered=answered,
            teacher_logits=torch.randn(70, 3, generator=torch.Generator().manual_seed(1)),
        )  # fmt: skip
        torch.set_num_threads(threads)
        try:
            with without_dropout(model):
                outcome = train(distiller, batches, loop, tmp_path / str(threads), label="x")
        finally:
            torch.set_num_threads(before)
        models.append(model)
        values.append([(row.values["hard"], row.values["soft"], row.values["loss"]) for row in outcome.history])
    assert np.allclose(*values, atol=1e-4)
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.allclose(one, other, atol=1e-4)
