"""What learns in a fine-tuning, how much memory it takes, how classes count, and that models are plain afterwards."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from families import KINDS, tiny_config
from sklearn.utils.class_weight import compute_class_weight
from toy import toy_task
from transformers import (
    AutoModelForSequenceClassification,
    BertForSequenceClassification,
    BertTokenizerFast,
    PreTrainedModel,
)

from common.artifact import load, save
from common.card import CardText
from common.errors import UserError
from teacher.adapters import low_rank
from teacher.class_weights import balanced, weighted_loss
from teacher.freezing import Unfreezing, freeze, requirements_kept
from teacher.levels import levels
from teacher.loop import Outcome, train
from teacher.options import FinetuneOptions
from teacher.practice import check_practice, loop_config, unfreezing
from teacher.prepare import Prepared, predict_logits, prepare
from teacher.standins import StandIns
from teacher.supervised import Supervised, finetune

TEXTS = ["good film", "bad plot it is", "the actor", "great music and play", "poor story", "funny"]
Make = Callable[..., BertForSequenceClassification]


@pytest.fixture
def prepared(tiny_tokenizer: BertTokenizerFast) -> Prepared:
    return prepare(toy_task(texts=TEXTS, rows=24), tiny_tokenizer, 16)


def _options(**changes: object) -> FinetuneOptions:
    return FinetuneOptions(**{"teacher_learning_rate": 1e-3, "teacher_epochs": 1, "teacher_batch": 8, **changes})


def _finetune(model: PreTrainedModel, prepared: Prepared, options: FinetuneOptions, folder: Path) -> Outcome:
    return finetune(model, prepared, loop_config(options, "fp32", 100), options, folder)


def _weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def _equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_frozen_layers_stay_bit_for_bit_and_the_others_move(
    prepared: Prepared, tiny_bert: Make, tmp_path: Path
) -> None:
    model = tiny_bert(labels=3, layers=3)
    before = _weights(model)
    _finetune(model, prepared, _options(teacher_freeze=2), tmp_path)
    stayed = {name for name, tensor in _weights(model).items() if torch.equal(tensor, before[name])}
    expected = {name for name in before if "embeddings" in name or ".layer.0." in name or ".layer.1." in name}
    assert stayed == expected
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_more_layers_than_there_are_cannot_be_frozen(tiny_bert: Make) -> None:
    with pytest.raises(UserError, match="--teacher-freeze 3: the model has 2 layers"):
        freeze(tiny_bert(layers=2), 3)


def test_a_level_more_learns_in_each_part_of_an_epoch(tiny_bert: Make) -> None:
    """3 epochs of 4 steps, a level every 3/4: after 3 steps each. The levels are head, layer 2, layer 1, embeddings."""
    model = tiny_bert(layers=2)
    plan = Unfreezing(model, every=0.75, epochs=3)
    learning = []
    for step in range(12):
        plan.at(step, 12)
        places = levels(model)
        learning.append({place for parameter, place in places.items() if parameter.requires_grad})
        assert not {place for parameter, place in places.items() if not parameter.requires_grad} & learning[-1]
    assert learning == [{3}] * 3 + [{2, 3}] * 3 + [{1, 2, 3}] * 3 + [{0, 1, 2, 3}] * 3


def test_what_is_frozen_for_good_is_not_unfrozen(tiny_bert: Make) -> None:
    model = tiny_bert(layers=2)
    freeze(model, 1)
    plan = unfreezing(model, _options(teacher_unfreeze=0.1))
    assert plan is not None
    plan.at(11, 12)
    assert {place for parameter, place in levels(model).items() if parameter.requires_grad} == {2, 3}


def test_gradual_unfreezing_goes_on_where_it_was_stopped(prepared: Prepared, tiny_bert: Make, tmp_path: Path) -> None:
    """The moments of a level that learns since a few steps have their own count of them."""
    options = _options(teacher_epochs=4, teacher_unfreeze=1.0)

    def run(folder: Path, stop_at: int | None) -> dict[str, torch.Tensor]:
        model = tiny_bert(labels=3, layers=2)
        plan = unfreezing(model, options)
        objective = Supervised(model, prepared.task, unfreezing=plan)

        def evaluate() -> float:
            return 0.0

        original = objective.at

        def at(step: int, total: int) -> None:
            if step == stop_at:
                raise KeyboardInterrupt
            original(step, total)

        objective.at = at  # type: ignore[method-assign]
        config = loop_config(options, "fp32", 1)
        train(objective, prepared.batches("train", 8, 0), config, folder, label="x", evaluate=evaluate, keep_best=False)
        return _weights(model)

    whole = run(tmp_path / "whole", None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", 8)
    assert _equal(run(tmp_path / "parts", None), whole)


def test_stand_ins_follow_what_learns() -> None:
    layer = torch.nn.Linear(3, 2)
    stand_ins = StandIns(layer, bf16=True)
    for learns in (False, True):
        layer.weight.requires_grad_(learns)
        layer.zero_grad()
        with stand_ins.placed([{}]):
            layer(torch.ones(1, 3, dtype=torch.bfloat16)).float().sum().backward()
        assert (layer.weight.grad is not None) == learns
        assert layer.bias.grad is not None


def test_accumulated_batches_are_one_large_batch(prepared: Prepared, tiny_bert: Make, tmp_path: Path) -> None:
    one, other = tiny_bert(labels=3, layers=1), tiny_bert(labels=3, layers=1)
    for model in (one, other):
        model.config.hidden_dropout_prob = 0.0
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    # Steps of all rows, in whatever order and parts.
    _finetune(one, prepared, _options(teacher_batch=24, teacher_epochs=2), tmp_path / "one")
    outcome = _finetune(other, prepared, _options(teacher_accumulation=3, teacher_epochs=2), tmp_path / "other")
    assert outcome.steps == 2
    for name, tensor in _weights(one).items():
        assert torch.allclose(tensor, _weights(other)[name], atol=2e-5), name


def test_activations_computed_twice_give_the_same_weights(prepared: Prepared, tiny_bert: Make, tmp_path: Path) -> None:
    one, other = tiny_bert(labels=3), tiny_bert(labels=3)
    _finetune(one, prepared, _options(), tmp_path / "one")
    _finetune(other, prepared, _options(teacher_activation_checkpointing=True), tmp_path / "other")
    assert _equal(_weights(one), _weights(other))
    assert not any(getattr(module, "gradient_checkpointing", False) for module in other.modules())


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    labels = np.array([0] * 7 + [1] * 2 + [3])
    found = balanced(labels, 4)
    expected = compute_class_weight("balanced", classes=np.array([0, 1, 3]), y=labels)
    assert found[[0, 1, 3]].numpy() == pytest.approx(expected)
    assert found[2] == 1.0
    assert float(found[labels].sum()) == pytest.approx(len(labels))


def test_the_weighted_loss_is_a_mean_over_examples_that_parts_add_up_to() -> None:
    logits, labels, weights = torch.randn(6, 3), torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([1.0, 3.0, 0.5])
    each = -logits.log_softmax(-1)[torch.arange(6), labels] * weights[labels]
    whole = weighted_loss(logits, labels, weights)
    assert float(whole) == pytest.approx(float(each.mean()))
    parts = weighted_loss(logits[:2], labels[:2], weights) * 2 + weighted_loss(logits[2:], labels[2:], weights) * 4
    assert float(whole) == pytest.approx(float(parts / 6))


def test_class_weights_reach_the_loss(prepared: Prepared, tiny_bert: Make) -> None:
    weights = torch.tensor([2.0, 0.0, 0.0])
    model = tiny_bert(labels=3)
    batch = prepared.task.collate(prepared.splits["train"], [0, 1, 2], prepared.pad)
    first, second = ({**batch, "labels": torch.full((3,), label)} for label in (0, 1))
    heavy = Supervised(model, prepared.task, class_weights=weights)
    with torch.no_grad():
        plain = float(Supervised(model, prepared.task)(first)["hard"])
        assert float(heavy(first)["hard"]) == pytest.approx(2 * plain)
        assert float(heavy(second)["hard"]) == 0.0


def test_numbers_have_no_class_weights() -> None:
    with pytest.raises(UserError, match="--teacher-class-weights balanced is for tasks with classes"):
        check_practice(_options(teacher_class_weights="balanced"), toy_task("regression"))


def test_more_evaluations_an_epoch_are_noted(prepared: Prepared, tiny_bert: Make, tmp_path: Path) -> None:
    outcome = _finetune(tiny_bert(labels=3), prepared, _options(teacher_evaluations=3), tmp_path)
    assert [row.step for row in outcome.history if "selection metric" in row.values] == [1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_adapters_change_nothing_at_first_and_are_merged_in_the_end(kind: str) -> None:
    model = AutoModelForSequenceClassification.from_config(tiny_config(kind)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # first weights are so small that adapters hardly show
    before, names = _weights(model), set(model.state_dict())
    ids = torch.randint(5, 100, (2, 7))
    with torch.no_grad(), requirements_kept(model):
        plain = model(ids).logits
        with low_rank(model, rank=2, seed=0):
            assert torch.allclose(model(ids).logits, plain, atol=1e-5)
            added = {name: entry for name, entry in model.named_parameters() if "lora_" in name}
            learning = {name for name, entry in model.named_parameters() if entry.requires_grad}
            assert learning > set(added)
            assert not any("embeddings" in name for name in learning)
            assert any(name.startswith("classifier") for name in learning)
            for entry in added.values():
                entry.normal_(std=0.1)
            changed = model(ids).logits
        assert torch.allclose(model(ids).logits, changed, atol=1e-4)
    assert not torch.allclose(changed, plain, atol=1e-3)
    assert set(model.state_dict()) == names
    moved = {name for name, tensor in _weights(model).items() if not torch.equal(tensor, before[name])}
    assert {name.split(".")[-1] for name in moved} == {"weight"}
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_model_trained_with_adapters_is_saved_as_a_plain_one(
    prepared: Prepared, tiny_bert: Make, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    model = tiny_bert(labels=3)
    before = _weights(model)
    options = _options(teacher_adapter="lora", teacher_adapter_rank=4, teacher_epochs=25, teacher_learning_rate=1e-2)
    outcome = _finetune(model, prepared, options, tmp_path / "run")
    assert outcome.selected_value is not None
    assert outcome.selected_value > 0.6  # by chance 0.33; the frozen embeddings are random
    assert prepared.score(model, "select", "fp32") == outcome.selected_value
    table = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(_weights(model)[table], before[table])
    save(model, tiny_tokenizer, tmp_path / "model", card=CardText(title="t", description="d", task="toy"))
    again, _ = load(tmp_path / "model")
    assert type(again) is BertForSequenceClassification
    assert np.array_equal(predict_logits(again, prepared, "evaluate"), predict_logits(model, prepared, "evaluate"))
    # What is added to a weight has the rank of the adapter.
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert torch.linalg.matrix_rank(_weights(model)[name] - before[name], rtol=1e-3) <= 4


def test_without_peft_adapters_are_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'distillery\[peft\]'"):
        check_practice(_options(teacher_adapter="lora"), toy_task())


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"teacher_freeze": -1}, "--teacher-freeze -1"),
        ({"teacher_unfreeze": 0.0}, "--teacher-unfreeze 0.0"),
        ({"teacher_accumulation": 0}, "--teacher-accumulation 0"),
        ({"teacher_evaluations": 0}, "--teacher-evaluations 0"),
        ({"teacher_adapter_rank": 0}, "--teacher-adapter-rank 0"),
        ({"teacher_adapter_rank": 4}, "--teacher-adapter-rank 4 is for --teacher-adapter lora"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, float], named: str) -> None:
    with pytest.raises(UserError, match=named):
        FinetuneOptions(**options)
