"""Extractive questions: files, windows, losses, decoding and scores on hand-made hard cases."""

import dataclasses
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch
from torch.nn import functional
from transformers import BertForQuestionAnswering, BertTokenizerFast

from common.errors import UserError
from distill.committee import other_answers
from distill.soft import FORMS
from teacher.answer_scores import answer_scores, normalised, word_f1
from teacher.cross_validation import cross_validated
from teacher.data import Example, TaskData, load_task
from teacher.folds import fold_data
from teacher.options import FinetuneOptions
from teacher.prepare import Prepared, predict_logits, prepare, settings_of, tune
from teacher.questions import Answer, Gold
from teacher.spans import best_rows, best_spans, best_threshold
from teacher.tasks import task_for
from teacher.tasks.questions import IGNORED, THRESHOLD, EncodedQuestions, Questions
from teacher.tokenizer import train_wordpiece


def _example(question: str, context: str, *answers: str) -> Example:
    gold = Gold(answers=tuple(Answer(text, context.index(text)) for text in answers), id="q", article="a")
    return Example(question, context, answers[0] if answers else "", gold)


def _task(*examples: Example, stride: int | None = None) -> Questions:
    data = TaskData(
        name="toy",
        kind="questions",
        labels=(),
        metric="f1",
        splits=dict.fromkeys(("train", "select", "evaluate"), examples),
        origins={},
        fingerprint="0",
        sources={},
        stride=stride,
    )
    task = task_for(data)
    assert isinstance(task, Questions)
    return task


def _squad(path: Path, articles: Sequence[Sequence[tuple[str, list[dict]]]]) -> Path:
    """Articles of contexts with their questions."""
    data = [
        {"title": f"t{number}", "paragraphs": [{"context": context, "qas": qas} for context, qas in article]}
        for number, article in enumerate(articles)
    ]
    path.write_text(json.dumps({"version": "v2.0", "data": data}), encoding="utf-8")
    return path


def _asked(name: str, *answers: tuple[str, int], impossible: bool = False) -> dict:
    given = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": f"what is {name}?", "answers": given, "is_impossible": impossible}


def test_a_file_is_split_by_article_and_no_context_stands_in_two_splits(tmp_path: Path) -> None:
    articles = []
    for number in range(12):
        texts = [f"text {number} {part} is a film" for part in range(3)]
        if number in (3, 7):
            texts.append("a text of two articles")
        articles.append(
            [
                (text, [_asked(f"{number}-{index}-{n}", (text[:4], 0)) for n in range(2)])
                for index, text in enumerate(texts)
            ]
        )
    data = load_task(str(_squad(tmp_path / "all.json", articles)))
    assert (data.kind, data.metric, data.name) == ("questions", "f1", "all")
    contexts = {split: {row.pair for row in rows} for split, rows in data.splits.items()}
    titles = {split: {row.detail.article for row in rows} for split, rows in data.splits.items()}
    assert all(contexts.values())
    for one, other in itertools.combinations(contexts, 2):
        assert not contexts[one] & contexts[other]
        assert not titles[one] & titles[other]
    # The two that share a context stay together.
    assert sum({"t3", "t7"} <= found for found in titles.values()) == 1
    assert sum(len(rows) for rows in data.splits.values()) == sum(2 * len(article) for article in articles)
    for fold in fold_data(data, 3, seed=0):
        assert not {row.detail.article for row in fold.splits["evaluate"]} & {
            row.detail.article for row in (*fold.splits["train"], *fold.splits["select"])
        }


def test_folds_are_refused_where_a_threshold_has_to_be_found(tmp_path: Path) -> None:
    articles = [
        [(f"text {n} is a film", [_asked(f"{n}", ("text", 0)), _asked(f"no {n}", impossible=True)])] for n in range(12)
    ]
    data = load_task(str(_squad(tmp_path / "all.json", articles)))

    def fit(*_: object) -> NoReturn:
        raise AssertionError("nothing is to be trained")

    with pytest.raises(UserError, match=r"--folds: all needs rows that are not learned from .* leave --folds out"):
        cross_validated(data, FinetuneOptions(), 3, 0, fit=fit, out=tmp_path / "out")


def test_an_answer_beside_its_place_is_repaired_and_told(tmp_path: Path) -> None:
    context = "The  good\nfilm was made by a great actor, and the film was good"
    rows = [
        {"id": str(n), "question": f"q {n}", "context": context, "answers": {"text": [text], "answer_start": [start]}}
        for n, (text, start) in enumerate(
            [("good film", 5), ("film", 12), (" great ", 27), ("made", 99), ("film was good", 51)] * 3
        )
    ]
    for row in rows:
        row["context"] = f"{context} {row['id']}"
    path = tmp_path / "flat.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    data = load_task(str(path))
    found = {row.text: row.detail.answers[0] for rows in data.splits.values() for row in rows}
    assert found["q 0"] == Answer("good\nfilm", 5)
    assert found["q 1"] == Answer("film", 10)
    assert found["q 2"].text == "great"
    assert all(
        row.pair[answer.start :].startswith(answer.text)
        for rows in data.splits.values()
        for row in rows
        for answer in row.detail.answers
    )
    assert any("stood beside the place" in note for note in data.notes)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([("piano", 3)], "train.json:1 (question x): the answer 'piano' does not stand in its context"),
        ([("a", 40)], "does not stand at character 40"),
    ],
)
def test_an_answer_that_stands_nowhere_is_refused(tmp_path: Path, answers: list[tuple[str, int]], message: str) -> None:
    context = "a film is a film" + " but" * 20
    path = _squad(tmp_path / "train.json", [[(context, [_asked("x", *answers)])]])
    with pytest.raises(UserError, match=message.replace("(", r"\(").replace(")", r"\)")):
        load_task(str(path))


def test_broken_files_are_told_by_place(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"data": [{"title": "t", "paragraphs": [{"qas": []}]}]}', encoding="utf-8")
    with pytest.raises(UserError, match="'context' was expected, found qas"):
        load_task(str(path))


def test_a_question_or_context_that_is_null_is_left_out(tmp_path: Path) -> None:
    rows = [{"question": f"who {n}", "context": f"it is {n}", "answers": [str(n)]} for n in range(30)]
    rows += [rows[0] | {"question": None}, {"question": "who", "context": float("nan"), "answers": []}]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    data = load_task(str(path))
    assert sum(map(len, data.splits.values())) == 30
    assert "2 questions without words, or about an empty text, left out" in data.notes


@pytest.mark.parametrize("stride", [None, 0, 2])
def test_windows_hold_the_whole_context_and_every_answer_once_or_more(
    tiny_tokenizer: BertTokenizerFast, stride: int | None
) -> None:
    context = "the film is good and the plot is boring and the music is very funny and great to the actor"
    example = _example("is it", context, "very funny")
    task = _task(example, _example("is it", "the plot", "plot"), stride=stride)
    encoded = task.encode(task.data.splits["train"], tiny_tokenizer, 16)
    assert encoded.example.tolist() == [0] * (len(encoded) - 1) + [1]
    assert max(encoded.lengths) <= 16
    assert {int(place) for offsets in encoded.offsets[:-1] for place in offsets[:, 0]} == {
        place for place, letter in enumerate(context) if letter != " " and (place == 0 or context[place - 1] == " ")
    }
    shared = 5 if stride is None else stride
    for one, other in itertools.pairwise(encoded.offsets[:-1]):
        assert (
            len(set(map(tuple, one.tolist())) & set(map(tuple, other.tolist()))) >= min(shared, len(other) - 1, 4) - 1
        )
    for row, (start, end) in enumerate(encoded.labels[:-1]):
        inside = encoded.offsets[row]
        holds = inside[0, 0] <= context.index("very") and inside[-1, 1] >= context.index("funny") + 5
        pieces = tiny_tokenizer.convert_ids_to_tokens(encoded.input_ids[row][start : end + 1])
        assert pieces == (["very", "funny"] if holds else ["[CLS]"])
    assert (encoded.labels[:-1, 0] > 0).any() or stride == 0


def test_an_answer_that_a_window_cuts_is_not_in_it(tiny_tokenizer: BertTokenizerFast) -> None:
    context = "film " * 7 + "good bad " + "plot " * 7
    task = _task(_example("it", context, "good bad"), stride=0)
    encoded = task.encode(task.data.splits["train"], tiny_tokenizer, 12)
    assert len(encoded) == 2
    assert encoded.labels.tolist() == [[0, 0], [0, 0]]


def test_a_long_question_is_cut_and_counted(tiny_tokenizer: BertTokenizerFast) -> None:
    task = _task(_example("this is " * 50, "the film is good " * 9, "good"), _example("it", "it is good", "good"))
    encoded = task.encode(task.data.splits["train"], tiny_tokenizer, 8)
    assert encoded.truncated == 1
    assert max(encoded.lengths) <= 8
    assert min(len(offsets) for offsets in encoded.offsets) >= 1
    prepared = Prepared(task=task, tokenizer=tiny_tokenizer, splits={"train": encoded}, max_length=8)
    assert prepared.truncations() == ["1 of 2 train questions left too few of 8 pieces for the context and were cut"]


def _logits(encoded: EncodedQuestions, *peaks: tuple[int, int, float]) -> np.ndarray:
    """(row, piece, value) for starts and ends both, -5 elsewhere."""
    logits = np.full((len(encoded), int(encoded.lengths.max()), 2), -5.0, dtype=np.float32)
    for row, piece, value in peaks:
        logits[row, piece] = value
    return logits


def test_decoding_cuts_the_original_text_whatever_its_signs(tiny_tokenizer: BertTokenizerFast) -> None:
    context = "\N{SNOWMAN} caf\u00e9 Na\u0131ve \U0001f600 GOOD\u2003film, (the) actor's \u6f14\u5458 plot"
    task = _task(_example("what", context, "GOOD\u2003film"))
    encoded = task.encode(task.data.splits["train"], tiny_tokenizer, 64)
    start, end = encoded.labels[0]
    logits = _logits(encoded)
    logits[0, start, 0] = logits[0, end, 1] = 5
    assert task.decode(logits, encoded).tolist() == ["GOOD\u2003film"]
    # A question, [SEP] and [CLS] are never part of an answer, and an answer never ends before it starts.
    logits[0, 0] = logits[0, 1] = logits[0, -1] = 50
    assert task.decode(logits, encoded).tolist() == ["GOOD\u2003film"]
    logits[0, end, 0], logits[0, start, 1] = 20, 20
    answer = task.decode(logits, encoded)[0]
    assert answer and context.index(answer) >= 0


def test_the_best_window_answers_and_ties_go_to_the_earliest(tiny_tokenizer: BertTokenizerFast) -> None:
    task = _task(_example("what", "the film is good and the plot is boring but funny", "good"))
    encoded = task.encode(task.data.splits["train"], tiny_tokenizer, 10)
    assert len(encoded) > 1
    first, last = encoded.first[0], len(encoded) - 1
    assert task.decode(_logits(encoded, (0, first, 1.0), (last, encoded.first[last], 2.0)), encoded)[0] != "the"
    tied = _logits(encoded, (0, first, 1.0), (0, first + 1, 1.0), (last, encoded.first[last], 1.0))
    assert task.decode(tied, encoded)[0] == "the"


def test_best_spans_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    logits = rng.integers(-3, 4, size=(40, 13, 2)).astype(np.float32)
    first, count = rng.integers(1, 6, size=40), rng.integers(0, 8, size=40)
    found = best_spans(logits, first, count, longest=4)
    for row in range(40):
        places = range(first[row], first[row] + count[row])
        spans = [(s, e) for s in places for e in places if s <= e < s + 4]
        if not spans:
            assert found.score[row] == -np.inf
            continue
        scores = [logits[row, s, 0] + logits[row, e, 1] for s, e in spans]
        # max() keeps the first, which has the earliest start and then the earliest end.
        best = max(range(len(spans)), key=scores.__getitem__)
        assert (found.score[row], found.start[row], found.end[row]) == (scores[best], *spans[best])


def test_best_rows_of_unordered_scores() -> None:
    assert best_rows(np.array([-np.inf, 2.0, 2.0, -np.inf]), np.array([0, 1, 1, 2])).tolist() == [0, 1, 3]


def test_the_loss_is_that_of_the_context_alone(tiny_tokenizer: BertTokenizerFast) -> None:
    example = _example("it is", "the film is good", "film is")
    task = _task(example, _example("it", "the plot"))
    encoded = task.encode(task.data.splits["train"], tiny_tokenizer, 32)
    batch = task.collate(encoded, [0, 1], 0)
    assert batch["labels"][0].tolist()[:9] == [0, IGNORED, IGNORED, IGNORED, 0, 1, 2, 0, IGNORED]
    assert batch["labels"][1].tolist()[:6] == [3, IGNORED, IGNORED, 0, 0, IGNORED]
    logits = torch.randn(2, batch["labels"].shape[1], 2, requires_grad=True)
    loss = task.loss(logits, batch["labels"])
    expected = torch.stack(
        [
            functional.cross_entropy(logits[row, places, side], torch.tensor(target))
            for row, places, targets in ((0, [0, 4, 5, 6, 7], (2, 3)), (1, [0, 3, 4], (0, 0)))
            for side, target in enumerate(targets)
        ]
    ).mean()
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert logits.grad is not None
    assert not logits.grad[batch["labels"] == IGNORED].any()
    soft = FORMS["spans"](logits.detach(), torch.randn_like(logits), 2.0, task.soft_positions(batch))
    assert soft > 0


def test_scores_follow_the_official_rules() -> None:
    assert normalised("An apple, the A-team's THE.") == "apple ateams"
    assert normalised("Theatre a\u2019b") == "theatre \u2019b"
    assert word_f1("the cat sat", "cat sat down") == pytest.approx(0.8)
    assert word_f1("to to to", "to be to") == pytest.approx(2 / 3)
    golds = [("in 1912", "1912"), (), (), ("the",), ("the", "x")]
    scores = answer_scores(["1912.", "", "something", "", ""], golds)
    assert scores.tolist() == [[1, 1], [1, 1], [0, 0], [1, 1], [0, 0]]


def test_metrics_tell_questions_with_and_without_answer_apart(tiny_tokenizer: BertTokenizerFast) -> None:
    task = _task(
        _example("what", "the film", "film"), _example("why", "the film"), _example("who", "an actor", "actor")
    )
    encoded = task.encode(task.data.splits["train"], tiny_tokenizer, 32)
    predictions = np.array(["the film", "film", "good actor"], dtype=object)
    metrics = task.metrics(predictions, encoded.references)
    assert metrics == pytest.approx(
        {
            "f1": (1 + 0 + 2 / 3) / 3,
            "exact_match": 1 / 3,
            "has_answer_f1": (1 + 2 / 3) / 2,
            "has_answer_exact_match": 0.5,
            "no_answer_f1": 0.0,
            "no_answer_exact_match": 0.0,
        }
    )
    assert task.from_counts(task.counts(predictions, encoded.references).sum(axis=0)) == pytest.approx(metrics["f1"])
    assert task.right(predictions, encoded.references).tolist() == [True, False, False]
    assert task.metrics(task.constant_predictions(encoded.references), encoded.references)["f1"] == pytest.approx(1 / 3)


def test_the_threshold_is_the_best_of_all() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        margin = rng.integers(-3, 4, size=7).astype(np.float32)
        answered, unanswered = rng.integers(0, 3, size=7) / 2, rng.integers(0, 2, size=7).astype(float)
        threshold = best_threshold(margin, answered, unanswered)
        worth = [np.where(margin > t, unanswered, answered).sum() for t in np.arange(-5, 5.01, 0.25)]
        assert np.where(margin > threshold, unanswered, answered).sum() == pytest.approx(max(worth))
    assert best_threshold(np.array([-1.0, 1.0]), np.ones(2), np.ones(2)) == 0


def test_the_threshold_lives_in_the_configuration(tmp_path: Path, tiny_bert, tiny_tokenizer: BertTokenizerFast) -> None:
    examples = [_example(f"what {n}", "the film is good", *(["good"] if n % 3 else [])) for n in range(12)]
    prepared = prepare(_task(*examples), tiny_tokenizer, 32)
    model = tiny_bert(model_class=BertForQuestionAnswering, labels=2)
    plain = predict_logits(model, prepared, "select")
    assert settings_of(model, prepared.task) == {}
    tune(model, prepared)
    model.save_pretrained(tmp_path)
    again = BertForQuestionAnswering.from_pretrained(tmp_path).eval()
    threshold = settings_of(again, prepared.task)[THRESHOLD]
    tuned = predict_logits(again, prepared, "select")
    np.testing.assert_allclose(tuned[:, 0], plain[:, 0] - threshold / 2, atol=1e-5)
    np.testing.assert_allclose(tuned[:, 1:], plain[:, 1:], atol=1e-6)
    best = prepared.metrics(tuned, "select")["f1"]
    assert best == pytest.approx(prepared.score(model, "select", "fp32"))
    for other in (-50.0, 50.0, 0.0):
        moved = prepared.task.tuned(plain, {THRESHOLD: other})
        assert prepared.metrics(moved, "select")["f1"] <= best + 1e-9


def test_answers_are_the_same_alone_and_in_company(tiny_bert, tiny_tokenizer: BertTokenizerFast) -> None:
    examples = [
        _example(f"what {n}", "the film is good and the plot is boring " * (1 + n % 4), "good") for n in range(9)
    ]
    task = _task(*examples)
    model = tiny_bert(model_class=BertForQuestionAnswering, labels=2)
    prepared = prepare(task, tiny_tokenizer, 24)
    together = prepared.decode(predict_logits(model, prepared, "train", batch_size=4), "train")
    for index, example in enumerate(examples):
        alone = dataclasses.replace(prepared, splits={"one": task.encode([example], tiny_tokenizer, 24)})
        assert alone.decode(predict_logits(model, alone, "one"), "one").tolist() == [together[index]]


def test_a_further_teacher_with_other_pieces_is_refused(
    tmp_path: Path, tiny_bert, tiny_tokenizer: BertTokenizerFast
) -> None:
    task = _task(*[_example(f"it {n}", "the film is good", "good") for n in range(3)])
    model = tiny_bert(model_class=BertForQuestionAnswering, labels=2, id2label={0: "start", 1: "end"})
    model.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    examples = task.data.splits["train"]
    settings = {"max_length": 24, "precision": "fp32"}
    answers = other_answers(str(tmp_path), task.data, examples, tokenizer=tiny_tokenizer, **settings)
    assert answers.shape[::2] == (3, 2)
    other = train_wordpiece(["good film it is"], vocabulary=30)
    with pytest.raises(
        UserError, match="has other pieces than --teacher, or reads fewer of them, and questions are learned"
    ):
        other_answers(str(tmp_path), task.data, examples, tokenizer=other, **settings)
