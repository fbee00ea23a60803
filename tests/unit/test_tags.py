"""Token classification: schemes, files, alignment of words and pieces, losses, scores."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2, IOBES
from transformers import BertTokenizerFast

from common.bootstrap import bootstrap_difference, bootstrap_sums_difference
from common.errors import UserError
from distill.losses import soft_binary, soft_logits, soft_positions
from teacher.data import TaskData, load_task
from teacher.schemes import canonical, scheme_of
from teacher.tasks import task_for
from teacher.tasks.tags import IGNORED, Tags
from teacher.word_pieces import first_pieces

WORDS = ["good", "film", "bad", "plot", "actor", "music", "story"]
SCHEMES = {"IOB2": IOB2, "BIOES": IOBES}


def _columns(path: Path, sentences: int = 40) -> Path:
    """Each "actor" a person, "plot story" a work of two words."""
    lines = ["-DOCSTART- -X- O", ""]
    for number in range(sentences):
        tail = WORDS[number % 3]
        lines += [f"the DT O\nactor NN B-PER\nplot NN B-WORK\nstory NN I-WORK\nw{number} NN O\n{tail} JJ O", ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def _task(path: Path) -> Tags:
    task = task_for(load_task(str(path)))
    assert isinstance(task, Tags)
    return task


def test_columns_are_found_by_their_look(tmp_path: Path) -> None:
    task = _task(_columns(tmp_path / "data.txt"))
    assert task.data.labels == ("O", "B-PER", "B-WORK", "I-WORK")
    assert (task.kind, task.data.metric, task.scheme) == ("tags", "entity_f1", "IOB2")
    first = task.data.splits["train"][0]
    assert [first.text[start:end] for start, end in first.detail][:4] == ["the", "actor", "plot", "story"]
    assert [task.data.labels[tag] for tag in first.label] == ["O", "B-PER", "B-WORK", "I-WORK", "O", "O"]
    assert sum(map(len, task.data.splits.values())) == 40


@pytest.mark.parametrize(("first", "words"), [("#hello UH O", 7), ("# sentence 1 of a text", 6), ("# newdoc", 6)])
def test_a_first_line_with_a_hash_is_a_word_where_it_has_the_columns_of_one(
    first: str, words: int, tmp_path: Path
) -> None:
    path = _columns(tmp_path / "data.conll")
    lines = path.read_text(encoding="utf-8").split("\n")[2:]
    path.write_text("\n".join([first, *lines]), encoding="utf-8")
    rows = [row for split in load_task(str(path)).splits.values() for row in split]
    assert sum(len(row.label) for row in rows) == 39 * 6 + words
    assert any(row.text.startswith("#hello the actor") for row in rows) == (words == 7)


def test_other_columns_may_be_named(tmp_path: Path) -> None:
    task = task_for(load_task(str(_columns(tmp_path / "data.conll")), label_column="2"))
    assert (task.data.metric, set(task.data.labels)) == ("accuracy", {"DT", "NN", "JJ"})
    with pytest.raises(UserError, match=r"no column '4'.*1 to 3"):
        load_task(str(tmp_path / "data.conll"), label_column="4")


def test_parts_of_speech_in_columns_are_tags_and_a_list_of_words_is_not(tmp_path: Path) -> None:
    sentence = "the\tDT\nactor\tNN\nis\tVB\ngood {}\n\n"
    path = tmp_path / "pos.txt"
    path.write_text("".join(sentence.format(f"{n}\tJJ").replace(" ", "") for n in range(20)), encoding="utf-8")
    data = load_task(str(path))
    assert (data.kind, data.metric, set(data.labels)) == ("tags", "accuracy", {"DT", "NN", "VB", "JJ"})
    assert sum(map(len, data.splits.values())) == 20
    path.write_text("".join(f"word{n}\t{'ab'[n % 2]}\n\n" for n in range(40)), encoding="utf-8")
    assert load_task(str(path)).kind == "classification"


def test_a_line_with_a_column_missing_is_named(tmp_path: Path) -> None:
    path = _columns(tmp_path / "data.conll")
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[4] = "plot"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(UserError, match=r"data.conll:5 has 1 column where 3 were expected"):
        load_task(str(path))


@pytest.mark.parametrize("tag", ["B-big dog", " "])
def test_a_tag_is_one_word(tmp_path: Path, tag: str) -> None:
    path = tmp_path / "data.conll"
    path.write_text(f"the\tO\tO\ndog\t{tag}\tO\n", encoding="utf-8")
    with pytest.raises(UserError, match=rf"data.conll:2: a tag without spaces was expected, found '{tag.strip()}'"):
        load_task(str(path), label_column="2")


def test_a_test_file_without_tags_is_left_out(tmp_path: Path) -> None:
    rows = [{"tokens": ["Ada", str(n)], "tags": ["B-X", "O"]} for n in range(20)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "test.jsonl").write_text(json.dumps({"tokens": ["Ada", "is"]}))
    data = load_task(str(tmp_path))
    assert "test.jsonl has no tags, so it is not used" in data.notes
    assert sum(map(len, data.splits.values())) == 20


def test_tags_that_train_lacks_are_named(tmp_path: Path) -> None:
    _columns(tmp_path / "train.txt")
    (tmp_path / "test.txt").write_text("the DT O\nfilm NN B-NEW\n\nthe DT O\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"test.txt:1 has the tag 'B-NEW', which train lacks"):
        load_task(str(tmp_path))


def test_objects_with_tokens_or_spans_say_the_same(tmp_path: Path) -> None:
    listed, spanned = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    rows = [(["the", f"w{n}", "actor", "plot", "story"], ["O", "O", "B-PER", "B-WORK", "I-WORK"]) for n in range(20)]
    listed.write_text("\n".join(json.dumps({"tokens": words, "ner_tags": tags}) for words, tags in rows))
    lines = []
    for words, _ in rows:
        text = " ".join(words)
        spans = [(text.index("actor"), "actor", "PER"), (text.index("plot"), "plot story", "WORK")]
        objects = [{"start": start, "end": start + len(span), "label": label} for start, span, label in spans]
        lines.append(json.dumps({"text": text, "entities": objects}))
    spanned.write_text("\n".join(lines))
    first, second = (load_task(str(path)) for path in (listed, spanned))
    assert first.splits == second.splits and first.labels == second.labels


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([{"start": 0, "end": 2, "label": "X"}], "does not begin and end with a word"),
        ([{"start": 0, "end": 99, "label": "X"}], "not within the text"),
        ([{"start": 0, "end": 3, "label": "X"}, {"start": 0, "end": 9, "label": "Y"}], "overlaps another"),
        ([{"start": 0, "label": "X"}], "a span needs start and end"),
        ([[0, 1]], "a span needs start and end"),
        ([5], "a span needs start and end"),
    ],
)
def test_spans_with_a_fault_are_named(tmp_path: Path, spans: list[dict[str, object]], message: str) -> None:
    good = json.dumps({"text": "the actor", "spans": [{"start": 4, "end": 9, "label": "X"}]})
    path = tmp_path / "d.jsonl"
    path.write_text(good + "\n" + json.dumps({"text": "the actor", "spans": spans}))
    with pytest.raises(UserError, match=rf"d.jsonl:2.*{message}"):
        load_task(str(path))


def test_schemes_are_told_apart_and_brought_into_one() -> None:
    assert scheme_of([["O", "B-X", "I-X", "B-X"]]) == "IOB2"
    assert scheme_of([["I-X", "I-X", "O"], ["I-X", "B-X"]]) == "IOB"
    assert scheme_of([["B-X", "E-X", "S-X"]]) == "BIOES"
    assert scheme_of([["B-X", "M-X", "E-X"]]) == "BMES"
    assert scheme_of([["B-X", "L-X", "U-X"]]) == "BILOU"
    assert scheme_of([["NN", "DT"]]) is None
    assert canonical([["I-X", "B-X", "I-Y"]], "IOB") == [["B-X", "B-X", "B-Y"]]
    assert canonical([["B-X", "I-X", "O"], ["O", "B-X", "I-Y"], ["O", "I-X", "I-X"]], "IOB") == [
        ["B-X", "I-X", "O"],
        ["O", "B-X", "B-Y"],
        ["O", "B-X", "I-X"],
    ], "an ill-formed tag in one sentence of IOB2 changes no other"
    assert canonical([["B-X", "L-X", "U-X"]], "BILOU") == [["B-X", "E-X", "S-X"]]


def test_a_word_begins_at_its_first_piece() -> None:
    offsets = np.array([[0, 0], [0, 2], [2, 5], [6, 7], [0, 0]])
    special = np.array([True, False, False, False, True])
    words = np.array([[0, 5], [6, 7], [8, 9]])
    assert first_pieces(offsets, special, words).tolist() == [1, 3, -1]
    # A piece may begin with the space before its word.
    spaced = np.array([[0, 3], [3, 6]])
    assert first_pieces(spaced, np.zeros(2, dtype=bool), np.array([[0, 3], [4, 6]])).tolist() == [0, 1]
    assert first_pieces(offsets[:1], special[:1], words).tolist() == [-1, -1, -1]


def test_labels_stand_at_first_pieces_and_long_sentences_are_cut(
    tmp_path: Path, tiny_tokenizer: BertTokenizerFast
) -> None:
    task = _task(_columns(tmp_path / "data.txt"))
    rows = task.data.splits["train"][:2]
    whole, cut = task.encode(rows, tiny_tokenizer, 32), task.encode(rows, tiny_tokenizer, 5)
    batch = task.collate(whole, [0, 1], tiny_tokenizer.pad_token_id)
    for row, labels in zip(rows, batch["labels"], strict=True):
        assert labels[labels != IGNORED].tolist() == list(row.label)
    assert batch["labels"][0, 0] == IGNORED and batch["labels"].shape == batch["input_ids"].shape
    assert (whole.truncated, cut.truncated) == (0, 2)
    assert task.weights(whole).tolist() == [6, 6] and task.weights(cut).tolist() == [3, 3]
    logits = np.zeros((2, 5, 4), dtype=np.float32)
    logits[..., 1] = 1
    # What was cut off is answered with no entity.
    assert [tags.tolist() for tags in task.decode(logits, cut)] == [[1, 1, 1, 0, 0, 0]] * 2


def test_loss_is_a_mean_over_words(tmp_path: Path) -> None:
    task = _task(_columns(tmp_path / "data.txt"))
    logits, labels = torch.randn(2, 5, 4), torch.tensor([[IGNORED, 1, 2, IGNORED, 0], [IGNORED, 3, *[IGNORED] * 3]])
    picked = [(0, 1, 1), (0, 2, 2), (0, 4, 0), (1, 1, 3)]
    expected = -torch.stack([logits[row, place].log_softmax(-1)[tag] for row, place, tag in picked]).mean()
    torch.testing.assert_close(task.loss(logits, labels), expected)
    assert task.loss(logits, torch.full((2, 5), IGNORED)) == 0


def _scored(scheme: str) -> Tags:
    letters = "BI" if scheme == "IOB2" else "BIES"
    labels = ("O", *(f"{letter}-{name}" for name in ("X", "Y") for letter in letters))
    data = TaskData(
        name="t", kind="tags", labels=labels, metric="entity_f1", splits={}, origins={}, fingerprint="", sources={}
    )
    return Tags(data)


@settings(max_examples=40, deadline=None)
@given(scheme=st.sampled_from(["IOB2", "BIOES"]), seed=st.integers(0, 10_000))
def test_entity_f1_is_seqevals_strict_one(scheme: str, seed: int) -> None:
    task, rng = _scored(scheme), np.random.default_rng(seed)
    sides: list[np.ndarray] = []
    for _ in range(2):
        side = np.empty(6, dtype=object)
        for place in range(6):
            side[place] = rng.integers(0, len(task.data.labels), size=place + 1)
        sides.append(side)
    given_tags, right = ([[task.data.labels[tag] for tag in row] for row in side] for side in sides)
    expected = f1_score(right, given_tags, mode="strict", scheme=SCHEMES[scheme], zero_division=0)
    assert task.metrics(*sides)["entity_f1"] == pytest.approx(expected)
    assert task.from_counts(task.counts(*sides).sum(axis=0)) == pytest.approx(expected)


def test_a_bootstrap_of_counts_is_that_of_the_metric() -> None:
    task, rng = _scored("IOB2"), np.random.default_rng(0)
    sides = []
    for _ in range(3):
        side = np.empty(30, dtype=object)
        for place in range(30):
            side[place] = rng.integers(0, 3, size=4)
        sides.append(side)
    model, other, right = sides
    metric = lambda given, actual: task.metrics(given, actual)["entity_f1"]  # noqa: E731
    slow = bootstrap_difference([model], [other], right, metric, resamples=200)
    fast = bootstrap_sums_difference(
        [task.counts(model, right)], [task.counts(other, right)], task.from_counts, resamples=200
    )
    assert (fast.difference, fast.low, fast.high) == pytest.approx((slow.difference, slow.low, slow.high))


def test_soft_positions_is_the_soft_loss_over_what_is_valid() -> None:
    student, teacher = torch.randn(3, 6, dtype=torch.float64), torch.randn(3, 6, dtype=torch.float64)
    valid = torch.tensor([[False, True, True, True, False, False]] * 3)
    expected = soft_logits(student[:, 1:4], teacher[:, 1:4], 2.0)
    torch.testing.assert_close(soft_positions(student, teacher, 2.0, valid), expected)
    wild = torch.where(valid, teacher, torch.full_like(teacher, 1e6))
    torch.testing.assert_close(soft_positions(student, wild, 2.0, valid), expected)


def test_soft_binary_has_the_gradient_of_the_binary_cross_entropy() -> None:
    student = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(4, 3, dtype=torch.float64)
    temperature = 2.0
    ours = soft_binary(student, teacher, temperature)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(
        student / temperature, (teacher / temperature).sigmoid(), reduction="sum"
    )
    (first,) = torch.autograd.grad(ours, student)
    (second,) = torch.autograd.grad(temperature**2 * entropy / 4, student)
    torch.testing.assert_close(first, second)
    assert float(soft_binary(teacher, teacher, temperature)) == 0
