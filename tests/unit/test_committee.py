"""Several teachers: what their answers count for."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional
from toy import toy_task
from transformers import BertForSequenceClassification

from common.errors import UserError
from distill.changes import ChangeOptions
from distill.committee import CommitteeOptions, Voice
from distill.config import RunConfig
from distill.distiller import Distiller
from distill.recipes import RECIPES


def test_voices_are_weights_of_one_and_temperatures() -> None:
    assert CommitteeOptions().voices == (Voice(weight=1.0, temperature=None),)
    options = CommitteeOptions(more_teachers="a, b", teacher_weights="2,1,1", teacher_temperatures="1,2,4")
    assert options.others == ("a", "b")
    assert options.voices == (
        Voice(weight=0.5, temperature=1.0),
        Voice(weight=0.25, temperature=2.0),
        Voice(weight=0.25, temperature=4.0),
    )


@pytest.mark.parametrize("text", ["1,2", "1,0,1", "1,x,2", "1,2,3,4", "inf,1,1"])
def test_numbers_that_do_not_fit_are_refused_by_option(text: str) -> None:
    with pytest.raises(UserError, match=r"--teacher-weights .*expected 3 numbers"):
        CommitteeOptions(more_teachers="a,b", teacher_weights=text)
    with pytest.raises(UserError, match=r"--teacher-temperatures .*expected 3 numbers"):
        CommitteeOptions(more_teachers="a,b", teacher_temperatures=text)


def test_options_of_several_teachers_need_several() -> None:
    with pytest.raises(UserError, match="give --more-teachers too"):
        CommitteeOptions(teacher_weights="2")
    assert CommitteeOptions(teacher_temperatures="4").voices == (Voice(weight=1.0, temperature=4.0),)
    with pytest.raises(UserError, match="--temperature and --teacher-temperatures contradict"):
        RunConfig(committee=CommitteeOptions(teacher_temperatures="4"), changes=ChangeOptions(temperature="2"))


@pytest.mark.parametrize("layered", [False, True])
def test_the_soft_loss_is_the_weighted_sum_of_each_teachers(
    layered: bool, tiny_bert: Callable[..., BertForSequenceClassification]
) -> None:
    student, stored = tiny_bert(layers=2, seed=1), torch.randn(9, 2, 3)
    stage = RECIPES["distil"]()[0] if layered else RECIPES["tiny"]()[2]
    distiller = Distiller(
        student,
        tiny_bert(layers=4) if layered else None,
        stage,
        toy_task(),
        projection=nn.Identity(),
        teacher_logits=stored,
        voices=(Voice(weight=0.75, temperature=None), Voice(weight=0.25, temperature=3.0)),
    ).eval()
    ids = torch.randint(5, 60, (4, 6))
    batch = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
        "labels": torch.tensor([0, 1, 2, 0]),
        "index": torch.tensor([8, 0, 3, 3]),
    }
    with torch.no_grad():
        soft = distiller(batch)["soft"]
        own = student(ids, torch.ones_like(ids)).logits
    expected = 0.0
    for voice, (weight, temperature) in enumerate([(0.75, 2.0 if layered else 1.0), (0.25, 3.0)]):
        goal = functional.softmax(stored[batch["index"], voice] / temperature, dim=-1)
        log = functional.log_softmax(own / temperature, dim=-1)
        expected += weight * temperature**2 * float((goal * (goal.log() - log)).sum(-1).mean())
    assert float(soft) == pytest.approx(expected, abs=1e-5)
