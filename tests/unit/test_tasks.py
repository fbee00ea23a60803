"""Encoding, batching, answers in order, and training on the rows that occur."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertForSequenceClassification, BertModel, BertTokenizerFast

from common.errors import UserError, unknown_name
from teacher.batches import padded_length
from teacher.data import Example, TaskData
from teacher.head import standardised_head, start_in_label_units
from teacher.loop import train
from teacher.loop_config import LoopConfig
from teacher.options import FinetuneOptions
from teacher.prepare import Prepared, predict_logits, prepare
from teacher.ready import claim
from teacher.rows import only_rows
from teacher.sources import load_for_task
from teacher.supervised import Supervised, finetune
from teacher.tasks import task_for
from teacher.tasks.base import Task

TEXTS = ["good film", "bad plot it is", "the actor", "great music and play", "poor story", "funny"]


def _task(texts: list[str], pairs: list[str | None] | None = None) -> Task:
    rows = tuple(
        Example(text, pair, index % 2)
        for index, (text, pair) in enumerate(zip(texts, pairs or [None] * len(texts), strict=True))
    )
    data = TaskData(
        name="toy",
        kind="classification",
        labels=("no", "yes"),
        metric="accuracy",
        origins={},
        fingerprint="",
        sources={},
        splits={"train": rows, "select": rows, "evaluate": rows},
    )
    return task_for(data)


@pytest.fixture
def prepared(tiny_tokenizer: BertTokenizerFast) -> Prepared:
    return prepare(_task(TEXTS * 8), tiny_tokenizer, 32)


def test_long_texts_are_cut_and_counted(tiny_tokenizer: BertTokenizerFast) -> None:
    task = _task(["good film", "a very long " * 8400, "x" * 100_000])
    encoded = task.encode(task.data.splits["train"], tiny_tokenizer, 16)
    expected = tiny_tokenizer(["good film", "a very long " * 30, "x" * 50], truncation=True, max_length=16)["input_ids"]
    assert encoded.truncated == 1  # a word of over 100 letters is one unknown piece
    assert [len(ids) for ids in encoded.input_ids][1:] == [16, 3]
    assert encoded.input_ids[0].tolist() == expected[0]
    assert encoded.input_ids[1].tolist() == expected[1]


def test_of_a_pair_the_longer_side_is_cut(tiny_tokenizer: BertTokenizerFast) -> None:
    task = _task(["good film", "good film"], ["the plot", "the plot is " * 20])
    encoded = task.encode(task.data.splits["train"], tiny_tokenizer, 12)
    cut = tiny_tokenizer("good film", "the plot is " * 20, truncation="longest_first", max_length=12)
    assert encoded.truncated == 1
    assert encoded.input_ids[1].tolist() == cut["input_ids"]
    assert encoded.token_types[1].tolist() == cut["token_type_ids"]


def test_batches_are_padded_to_a_multiple_of_eight_within_the_limit(prepared: Prepared) -> None:
    task, encoded = prepared.task, prepared.splits["train"]
    batch = task.collate(encoded, [1, 5], prepared.pad)
    assert batch["input_ids"].shape == (2, 8)
    assert batch["attention_mask"].sum(1).tolist() == [len(encoded.input_ids[1]), len(encoded.input_ids[5])]
    assert batch["labels"].tolist() == [1, 1]
    assert padded_length([9], limit=10) == 10


def test_answers_come_in_the_order_of_the_split(
    prepared: Prepared, tiny_bert: Callable[..., BertForSequenceClassification]
) -> None:
    model = tiny_bert(labels=2).train()
    logits = predict_logits(model, prepared, "evaluate", batch_size=5)
    assert model.training
    model.eval()
    for index in (0, 3, 7, 47):
        batch = prepared.task.collate(prepared.splits["evaluate"], [index], prepared.pad)
        with torch.no_grad():
            alone = model(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"]).logits
        assert np.allclose(logits[index], alone.numpy(), atol=1e-5)


def test_training_on_the_occurring_rows_is_training_on_all(
    prepared: Prepared, tiny_bert: Callable[..., BertForSequenceClassification], tmp_path: Path
) -> None:
    """Without decay the rows that do not occur would not move anyway: the two ways give the same weights."""
    config = LoopConfig(learning_rate=1e-3, epochs=2, weight_decay=0.0, precision="fp32")
    whole, part = tiny_bert(labels=2), tiny_bert(labels=2)
    before = whole.get_input_embeddings().weight.detach().clone()
    train(Supervised(whole, prepared.task), prepared.batches("train", 8, 0), config, tmp_path / "a", label="a")
    ids = prepared.occurring("train")
    with only_rows(part, ids):
        assert part.get_input_embeddings().rows.shape == (len(ids), 32)
        train(Supervised(part, prepared.task), prepared.batches("train", 8, 0), config, tmp_path / "b", label="b")
    for one, other in zip(whole.parameters(), part.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    moved = (part.get_input_embeddings().weight != before).any(1)
    assert set(moved.nonzero().flatten().tolist()) <= set(ids.tolist())
    assert moved.sum() > 5


def test_finetuning_learns_and_keeps_the_best(
    prepared: Prepared, tiny_bert: Callable[..., BertForSequenceClassification], tmp_path: Path
) -> None:
    model = tiny_bert(labels=2)
    config = LoopConfig(learning_rate=3e-3, epochs=15, precision="fp32")
    outcome = finetune(model, prepared, config, FinetuneOptions(teacher_batch=8), tmp_path)
    assert outcome.selected_value == prepared.score(model, "select", "fp32") > 0.9
    assert model.config._attn_implementation != "plain_or_fused"


def test_a_new_head_is_drawn_from_the_seed(
    tiny_bert: Callable[..., BertModel], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    tiny_bert(model_class=BertModel).save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    state = torch.get_rng_state()
    first, again, other = (
        load_for_task(str(tmp_path), _task(TEXTS), seed).model.classifier.weight for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("names", [("yes", "no"), ("YES", "No"), ("LABEL_0", "LABEL_1")])
def test_a_teachers_labels_are_put_in_the_datas_order(
    names: tuple[str, str],
    tiny_bert: Callable[..., BertForSequenceClassification],
    tiny_tokenizer: BertTokenizerFast,
    tmp_path: Path,
) -> None:
    """By name; names that say nothing are taken in order."""
    teacher = tiny_bert(
        labels=2, id2label=dict(enumerate(names)), label2id={name: index for index, name in enumerate(names)}
    )
    teacher.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    loaded = load_for_task(str(tmp_path), _task(TEXTS), 0)
    ids = torch.tensor([[2, 80, 90, 3]])
    swapped = names[0].casefold() == "yes"
    with torch.no_grad():
        expected = teacher(ids).logits.flip(-1) if swapped else teacher(ids).logits
        # Some processors round an output by its place among the others.
        torch.testing.assert_close(loaded.model(ids).logits, expected, rtol=0, atol=1e-6)
    assert loaded.finetuned
    assert loaded.model.config.id2label == {0: "no", 1: "yes"}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("no-such-org/no-such-model", ["no-such-org/no-such-model", "network"]),
        ("./nowhere", ["./nowhere", "config.json"]),
    ],
)
def test_a_model_that_cannot_be_had_is_explained(source: str, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        load_for_task(source, _task(TEXTS), 0)
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)


def test_a_truncated_weights_file_is_explained(
    tiny_bert: Callable[..., BertModel], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    tiny_bert(model_class=BertModel).save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(UserError, match="cannot be loaded as a model folder"):
        load_for_task(str(tmp_path), _task(TEXTS), 0)


def test_a_folder_is_claimed_once(tmp_path: Path) -> None:
    claim(tmp_path / "new", "abc")
    claim(tmp_path / "new", "abc")
    with pytest.raises(UserError, match="other settings"):
        claim(tmp_path / "new", "def")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(UserError, match="holds something else"):
        claim(tmp_path / "mine", "abc")


def test_an_unknown_kind_of_task_names_the_known_ones() -> None:
    assert "regression" in str(unknown_name("kind of task", "regresion", ["regression", "classification"]))


def test_a_regression_head_is_trained_in_standard_units_and_kept_in_the_labels(
    tiny_bert: Callable[..., BertForSequenceClassification],
    tiny_tokenizer: BertTokenizerFast,
    tmp_path: Path,
) -> None:
    # Of two values alone any correlation is 1, and the first evaluation would be the best.
    texts = {100.0: "bad poor boring", 130.0: "film play story", 150.0: "model token value", 200.0: "good great funny"}
    rows = tuple(Example(text, None, value) for value, text in texts.items()) * 12
    data = TaskData(
        name="toy",
        kind="regression",
        labels=(),
        metric="pearson_spearman",
        origins={},
        fingerprint="",
        sources={},
        splits={"train": rows, "select": rows, "evaluate": rows},
    )
    prepared = prepare(task_for(data), tiny_tokenizer, 32)
    model = tiny_bert(labels=1, problem_type="regression")
    before = predict_logits(model, prepared, "evaluate")
    with standardised_head(model, prepared.task):
        assert np.allclose(predict_logits(model, prepared, "evaluate"), before, atol=1e-4)
    assert np.allclose(predict_logits(model, prepared, "evaluate"), before, atol=1e-4)
    start_in_label_units(model, prepared.task)
    finetune(
        model,
        prepared,
        LoopConfig(learning_rate=3e-3, epochs=20, precision="fp32"),
        FinetuneOptions(teacher_batch=8),
        tmp_path,
    )
    scores = prepared.metrics(predict_logits(model, prepared, "evaluate"), "evaluate")
    assert scores["rmse"] < 15  # the deviation is 36; without standard units it stays above 100
    assert type(model.classifier) is torch.nn.Linear


def test_a_folder_without_its_tokenizer_is_refused(
    tiny_bert: Callable[..., BertModel], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    tiny_bert(model_class=BertModel).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="has no tokenizer"):
        load_for_task(str(tmp_path), _task(TEXTS), 0)
    tiny_tokenizer.save_pretrained(tmp_path)
    tiny_bert(model_class=BertModel, vocab_size=50).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="do not fit"):
        load_for_task(str(tmp_path), _task(TEXTS), 0)
