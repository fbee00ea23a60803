"""Long texts are read as the model was trained to read them: by predictions, and by what makes it smaller."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from toy import toy_task
from transformers import BertModel, BertTokenizerFast, PreTrainedModel

from common.artifact import CardText, load, save
from common.errors import UserError
from distill.as_trained import as_trained, options_as_trained, with_task
from distill.compress import main as compress
from distill.compress_chain import Artifact
from distill.compress_config import CompressConfig
from distill.compress_options import CompressOptions
from distill.compress_prune import Pruning
from distill.config import RunConfig
from distill.placed_answers import Answers
from distill.predict import PredictConfig, Running, predict
from distill.predict_long import WAYS, single_texts
from distill.predict_models import trained_length
from distill.predict_texts import Reading
from distill.predict_torch import TorchModel
from distill.recovery import Training
from teacher.data import Example
from teacher.options import FinetuneOptions, TaskOptions
from teacher.prepare import predict_logits, prepare
from teacher.ready import ready_teacher
from teacher.sources import load_for_task
from teacher.tasks import task_for
from teacher.tasks.long_texts import encode_long

WORDS = ["film", "plot", "good", "bad", "actor", "the", "a", "zebra", "music", "of", "ok"]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_rows_are_those_of_training(tiny_tokenizer: BertTokenizerFast, data: st.DataObject) -> None:
    long = data.draw(st.sampled_from(sorted(WAYS)))
    length, stride = data.draw(st.integers(6, 14)), data.draw(st.integers(0, 6))
    texts = data.draw(st.lists(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join), min_size=1, max_size=4))
    labels = np.zeros(len(texts), dtype=np.int64)
    expected = encode_long(texts, labels, tiny_tokenizer, length, long=long, stride=stride)
    tokenizer = Tokenizer.from_str(tiny_tokenizer.backend_tokenizer.to_str())
    tokenizer.no_padding()
    parts = single_texts(tokenizer, long, length, stride)(texts)
    assert [row.ids for part in parts for row in part] == [row.tolist() for row in expected.input_ids]
    example = getattr(expected, "example", range(len(texts)))
    assert [place for place, part in enumerate(parts) for _ in part] == list(example)
    if long == "head+tail":
        assert sum(bool(part[0].overflowing) for part in parts) == expected.truncated


@pytest.fixture
def trained(tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast) -> Path:
    """A model of windows of 12 pieces that share 3."""
    names = {"id2label": dict(enumerate("abc")), "label2id": {"a": 0, "b": 1, "c": 2}}
    model = tiny_bert(problem_type="single_label_classification", initializer_range=0.3, **names)
    model.config.long_texts, model.config.window_stride = "windows", 3
    save(model, tiny_tokenizer, tmp_path / "m", card=CardText(title="m", description="", task="t"), max_length=12)
    return tmp_path / "m"


def test_what_was_not_said_is_the_models_own(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = toy_task().data
    read = as_trained(data, str(trained))
    assert (read.long, read.stride) == ("windows", 3)
    assert f"read as {trained} was trained to: --long windows --stride 3" in capsys.readouterr().out
    assert as_trained(read, str(trained)) is read
    with pytest.raises(UserError, match=r"--long head\+tail: .* was trained with --long windows --stride 3"):
        as_trained(dataclasses.replace(data, long="head+tail"), str(trained))
    pairs = dict.fromkeys(data.splits, (Example("a", "b", 0),))
    with pytest.raises(UserError, match="on single texts"):
        as_trained(dataclasses.replace(data, splits=pairs), str(trained))


def test_a_task_is_read_as_its_fine_tuned_teacher_was_trained_to(
    trained: Path, tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    rows = "".join(f"a text {n},{'abc'[n % 3]}\n" for n in range(40))
    (tmp_path / "letters.csv").write_text("text,label\n" + rows)
    asked = TaskOptions(task=str(tmp_path / "letters.csv"))
    read, data = with_task(RunConfig(data=asked, teacher=str(trained)))
    assert (read.data.long, read.data.stride) == (data.long, data.stride) == ("windows", 3)
    assert read.data.max_length == 12
    tiny_bert(model_class=BertModel, long_texts="windows", window_stride=3).save_pretrained(tmp_path / "encoder")
    for source in ("auto", "scratch", str(tmp_path / "encoder")):
        read, data = with_task(RunConfig(data=asked, teacher=source))
        assert read.data is asked and (data.long, data.stride) == ("truncate", None)
    with pytest.raises(UserError, match=r"--long head\+tail: .* was trained with --long windows --stride 3"):
        with_task(RunConfig(data=dataclasses.replace(asked, long="head+tail"), teacher=str(trained)))


def test_the_length_is_the_models_own_unless_another_is_given(
    trained: Path, tmp_path: Path, tiny_tokenizer: BertTokenizerFast, capsys: pytest.CaptureFixture[str]
) -> None:
    data = as_trained(toy_task().data, str(trained))
    assert options_as_trained(TaskOptions(), data, str(trained)) == TaskOptions(max_length=12, long="windows", stride=3)
    assert f"read as {trained} was trained to: --max-length 12" in capsys.readouterr().out
    assert options_as_trained(TaskOptions(max_length=24), data, str(trained)).max_length == 24
    assert f"note: --max-length 24: {trained} was trained with --max-length 12" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"--stride 3: expected 0 to 2"):
        options_as_trained(TaskOptions(max_length=8), data, str(trained))
    capsys.readouterr()
    model, _ = load(trained)
    for length in (64, 128, None):
        # 64 pieces are all that one has, another says nothing, and 128 were asked for.
        model.config.max_position_embeddings = length or 64
        folder = tmp_path / f"of {length}"
        tiny_tokenizer.backend_tokenizer.no_truncation()
        model.config.save_pretrained(folder)
        if length is not None:
            tiny_tokenizer.backend_tokenizer.enable_truncation(length)
        tiny_tokenizer.save_pretrained(folder)
        assert options_as_trained(TaskOptions(), toy_task().data, str(folder)) == TaskOptions()
    tiny_tokenizer.backend_tokenizer.no_truncation()
    assert capsys.readouterr().out == ""


def test_options_of_a_training_that_is_not_done_are_told(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = FinetuneOptions(teacher_epochs=10, teacher_pooling="mean")
    ready_teacher(str(trained), toy_task(), options, tmp_path / "out", max_length=12, precision="fp32")
    said = f"note: {trained} is fine-tuned on such a task, and taken as it is: without effect are --teacher-epochs, --t"
    assert said in capsys.readouterr().out
    assert FinetuneOptions().useless("Why") == ()
    assert FinetuneOptions(teacher_seed=1).useless("Why") == ("Why: without effect is --teacher-seed.",)


def test_a_model_that_says_nothing_is_read_as_was_asked(trained: Path) -> None:
    config = json.loads((trained / "config.json").read_text(encoding="utf-8"))
    bare = {name: value for name, value in config.items() if name not in ("long_texts", "window_stride")}
    (trained / "config.json").write_text(json.dumps(bare), encoding="utf-8")
    asked = dataclasses.replace(toy_task().data, long="windows", stride=2)
    assert as_trained(asked, str(trained)) is asked


def test_a_pruned_model_is_read_as_it_was(trained: Path, tmp_path: Path) -> None:
    texts = ["good film " * 9, "a bad plot", "music of zebra " * 5]
    names = dict.fromkeys(
        ("train", "select", "evaluate"), tuple(Example(text, None, n) for n, text in enumerate(texts))
    )
    task = task_for(as_trained(dataclasses.replace(toy_task().data, splits=names), str(trained)))
    options = CompressOptions(prune=0.3, prune_steps=1, recovery=False)
    training = Training(learning_rate=1e-3, precision="fp32", checkpoint_every=50, seed=0)
    pruning = Pruning(
        task=task, options=options, training=training, max_length=12, answers=lambda: Answers(logits=np.zeros((3, 3)))
    )
    made = pruning(Artifact(folder=trained), tmp_path / "pruned")
    model = TorchModel(made.folder, threads=1, precision="fp32")
    assert (model.config["long_texts"], model.config["window_stride"], model.max_length) == ("windows", 3, 12)
    loaded = load_for_task(str(made.folder), task, seed=0)
    prepared = prepare(task, loaded.tokenizer, 12)
    expected = prepared.decode(predict_logits(loaded.model, prepared, "evaluate"), "evaluate")
    (tmp_path / "t.txt").write_text("\n".join(texts), encoding="utf-8")
    reading = Reading(file=tmp_path / "t.txt")
    predict(PredictConfig(model=made.folder, reading=reading, out=tmp_path / "o.jsonl", running=Running(threads=1)))
    found = [json.loads(line)["label"] for line in (tmp_path / "o.jsonl").read_text(encoding="utf-8").splitlines()]
    assert found == [loaded.model.config.id2label[label] for label in expected.tolist()]


def test_a_pair_is_cut_and_an_unknown_way_is_refused(trained: Path, tmp_path: Path) -> None:
    rows = [{"premise": "good film", "hypothesis": "bad " * 30}, {"premise": "film", "hypothesis": "bad"}]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    out = tmp_path / "o.jsonl"
    reading = Reading(file=tmp_path / "p.jsonl")
    predict(PredictConfig(model=trained, reading=reading, out=out, running=Running(threads=1)))
    assert len(out.read_text(encoding="utf-8").splitlines()) == 2
    config = (trained / "config.json").read_text(encoding="utf-8").replace('"windows"', '"winds"')
    (trained / "config.json").write_text(config, encoding="utf-8")
    with pytest.raises(UserError, match=r"way to read long texts .* 'winds'"):
        predict(PredictConfig(model=trained, text=("good",), running=Running(threads=1)))


def test_what_is_made_smaller_keeps_its_length(
    tmp_path: Path,
    tiny_bert: Callable[..., PreTrainedModel],
    tiny_tokenizer: BertTokenizerFast,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = tiny_bert(max_position_embeddings=512, id2label=dict(enumerate("abc")), label2id={"a": 0, "b": 1, "c": 2})
    card = CardText(title="m", description="", task="t")
    save(model, tiny_tokenizer, tmp_path / "m", card=card, max_length=300)
    tiny_tokenizer.backend_tokenizer.no_truncation()
    rows = "".join(f"{'good ' * (190 + 3 * n)},{'abc'[n % 3]}\n" for n in range(40))
    (tmp_path / "letters.csv").write_text("text,label\n" + rows)
    compress(
        CompressConfig(
            model=str(tmp_path / "m"),
            data=TaskOptions(task=str(tmp_path / "letters.csv")),
            compress=CompressOptions(trim_vocabulary=True, keep_frequent=0),
            out=tmp_path / "runs" / "small",
            reports=tmp_path / "reports",
            speed=False,
        )
    )
    assert trained_length(tmp_path / "runs" / "small" / "1-trim" / "model") == 300
    said = capsys.readouterr().out
    assert "was trained to: --max-length 300" in said
    assert "texts were longer than 300 pieces and cut" in said
