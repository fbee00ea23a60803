"""Multiple choice: files in their many forms, batches, and choices that are not there."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AlbertConfig,
    AlbertForMultipleChoice,
    BertForMultipleChoice,
    BertTokenizerFast,
    DistilBertConfig,
    DistilBertForMultipleChoice,
    PreTrainedModel,
)

from common.errors import UserError
from distill.distiller import Distiller
from distill.flops import flops
from distill.stages import Stage
from teacher.data import Example, TaskData, load_task
from teacher.prepare import NO_CHOICE, Prepared, predict_logits, prepare
from teacher.tasks import task_for


def _task(*examples: Example, most: int):
    return task_for(
        TaskData(
            name="toy",
            kind="choices",
            labels=tuple(map(str, range(1, most + 1))),
            metric="accuracy",
            splits=dict.fromkeys(("train", "select", "evaluate"), examples),
            origins={},
            fingerprint="0",
            sources={},
        )
    )


@pytest.fixture
def prepared(tiny_tokenizer: BertTokenizerFast) -> Prepared:
    examples = [
        Example("the film is", None, 1, ("good", "bad and boring", "great")),
        Example("the plot", None, 0, ("is", "of the music")),
        Example("a very funny actor is in the film", None, 2, ("good", "it", "this")),
    ]
    return prepare(_task(*examples, most=3), tiny_tokenizer, 16)


def _rows(*rows: dict) -> str:
    return "\n".join(map(json.dumps, rows))


SWAG = "n,video-id,sent1,sent2,ending0,ending1,ending2,ending3,label\n" + "\n".join(
    f'{n},v,"The film, {n}.",It,is a,is b,is c,is d,{n % 4}' for n in range(12)
)
FORMS = {
    "swag.csv": SWAG,
    "lists.jsonl": _rows(
        *(
            {
                "context": f"The film, {n}.",
                "question": "It",
                "options": [f"is {c}" for c in "abcd"],
                "answer": "ABCD"[n % 4],
            }
            for n in range(12)
        )
    ),
    "arc.json": json.dumps(
        [
            {
                "passage": f"The film, {n}.",
                "question": "It",
                "choices": {"text": [f"is {c}" for c in "abcd"], "label": ["1", "2", "3", "4"]},
                "answerKey": str(n % 4 + 1),
            }
            for n in range(12)
        ]
    ),
    "numbers.tsv": "premise\tquestion\tchoice1\tchoice2\tchoice3\tchoice4\tlabel\n"
    + "\n".join(f"The film, {n}.\tIt\tis a\tis b\tis c\tis d\t{n % 4 + 1}" for n in range(12)),
    "texts.jsonl": _rows(
        *(
            {
                "context": f"The film, {n}.",
                "question": "It",
                "choices": [f"is {c}" for c in "abcd"],
                "answer": f"is {'abcd'[n % 4]}",
            }
            for n in range(12)
        )
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_one_task_in_many_forms(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FORMS[name], encoding="utf-8")
    data = load_task(str(tmp_path / name))
    assert (data.kind, data.metric, data.labels) == ("choices", "accuracy", ("1", "2", "3", "4"))
    rows = {row.text: row for rows in data.splits.values() for row in rows}
    assert len(rows) == 12
    for n in range(12):
        row = rows[f"The film, {n}."]
        assert row.detail == ("It is a", "It is b", "It is c", "It is d")
        assert row.label == n % 4


def test_choices_may_be_more_than_nine_and_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = [f"choice{n}" for n in range(1, 12)]
    lines = [",".join(["question", *reversed(names), "answer"])]
    lines += [",".join([f"q{n}", *(f"is {c}" for c in range(11, 0, -1)), f"is {1 + n % 11}"]) for n in range(33)]
    path = tmp_path / "many.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for rows in load_task(str(path)).splits.values():
        for row in rows:
            assert row.detail == tuple(f"is {c}" for c in range(1, 12))
            assert row.label == int(row.text[1:]) % 11


def test_a_file_of_choices_may_have_semicolons(tmp_path: Path) -> None:
    names = [f"option{place}" for place in range(1, 12)]
    rows = [";".join([f"context {n}", *(f"{name} of {n}" for name in names), str(n % 9 + 1)]) for n in range(20)]
    path = tmp_path / "many.csv"
    path.write_text("\n".join([";".join(["context", *names, "label"]), *rows]))
    data = load_task(str(path))
    assert (data.kind, len(data.labels)) == ("choices", 11)
    example = data.splits["train"][0]
    assert [choice.split()[0] for choice in example.detail] == names


@pytest.mark.parametrize("choices", ["234", "BCA"])
def test_answers_that_are_texts_are_not_numbers_or_letters(tmp_path: Path, choices: str) -> None:
    rows = [{"question": f"sum {n}", "choices": list(choices), "answer": choices[n % 3]} for n in range(12)]
    path = tmp_path / "sums.jsonl"
    path.write_text(_rows(*rows), encoding="utf-8")
    data = load_task(str(path))
    found = {row.text: row.label for rows in data.splits.values() for row in rows}
    assert found == {f"sum {n}": n % 3 for n in range(12)}
    assert ("answer says the text of a choice, and not its number" in data.notes) == (choices == "234")


@pytest.mark.parametrize("answer", ["", None])
def test_a_row_without_an_answer_is_refused(tmp_path: Path, answer: str | None) -> None:
    choices = [{"text": "good"}, {"text": "bad"}]
    rows = [{"question": f"q{n}", "choices": choices, "answer": "01"[n % 2]} for n in range(12)]
    rows[3]["answer"] = answer
    (tmp_path / "train.jsonl").write_text(_rows(*rows), encoding="utf-8")
    with pytest.raises(UserError, match=r"train.jsonl:4: the answer '' is none of the 2 choices"):
        load_task(str(tmp_path / "train.jsonl"))


def test_questions_about_one_context_stay_together_and_are_not_repeats(tmp_path: Path) -> None:
    rows = [
        {"article": f"article {n // 3}", "question": f"q{n}", "options": [f"a{n}", f"b{n}"], "answer": 0}
        for n in range(36)
    ]
    (tmp_path / "race.jsonl").write_text(_rows(*rows), encoding="utf-8")
    data = load_task(str(tmp_path / "race.jsonl"))
    assert sum(map(len, data.splits.values())) == 36
    texts = [{row.text for row in rows} for rows in data.splits.values()]
    assert sum(map(len, texts)) == 12


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"answer": "E"}, ":13: the answer 'E' is none of the 2 choices"),
        ({"choices": ["x"]}, ":13: two choices or more"),
        ({"choices": ["x", 3]}, ":13: a list of texts was expected"),
        ({"context": ""}, ":13: neither a context nor a question"),
    ],
)
def test_faults_are_told_by_line(tmp_path: Path, row: dict, message: str) -> None:
    rows = [{"context": f"c{n}", "choices": ["x", "y"], "answer": n % 2} for n in range(12)]
    (tmp_path / "a.jsonl").write_text(_rows(*rows, rows[0] | row), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        load_task(str(tmp_path / "a.jsonl"))


def test_a_batch_holds_the_choices_one_below_the_other(prepared: Prepared, tiny_tokenizer: BertTokenizerFast) -> None:
    batch = prepared.task.collate(prepared.splits["train"], [0, 1], prepared.pad)
    assert batch["input_ids"].shape == batch["attention_mask"].shape == batch["token_type_ids"].shape
    assert batch["choices"].tolist() == [[True, True, True], [True, True, False]]
    assert batch["labels"].tolist() == [1, 0]
    expected = tiny_tokenizer("the film is", "bad and boring")
    length = len(expected["input_ids"])
    assert batch["input_ids"][1].tolist()[:length] == expected["input_ids"]
    assert batch["token_type_ids"][1].tolist()[:length] == expected["token_type_ids"]
    assert int(batch["attention_mask"][1].sum()) == length
    assert prepared.splits["train"].lengths[0] == int(batch["attention_mask"][:3].sum())
    assert prepared.splits["train"].pairs[0] == int((batch["attention_mask"][:3].sum(1) ** 2).sum())


def test_a_choice_that_is_not_there_is_never_chosen(
    prepared: Prepared, tiny_bert: Callable[..., PreTrainedModel]
) -> None:
    model = tiny_bert(model_class=BertForMultipleChoice, labels=1)
    logits = predict_logits(model, prepared, "train", batch_size=2)
    assert logits.shape == (3, 3)
    assert logits[1, 2] == NO_CHOICE
    assert (logits[[0, 2]] > NO_CHOICE).all()
    assert prepared.decode(np.array([[1.0, 1.0, 0.0], [0, 1, NO_CHOICE], [0, 0, 3]]), "train").tolist() == [0, 1, 2]
    alone = model(
        **{
            k: torch.tensor([v])
            for k, v in prepared.tokenizer(["the plot"] * 2, ["is", "of the music"], padding=True).items()
        }
    )
    np.testing.assert_allclose(logits[1, :2], alone.logits[0].detach().numpy(), atol=1e-5)


ALL = dict.fromkeys(
    ("hard", "soft", "embedding", "hidden", "attention", "attention_kl", "relations", "pkd", "cosine"), 1.0
)


def _students(vocabulary: int) -> dict[str, PreTrainedModel]:
    albert = AlbertConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        embedding_size=8,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        num_labels=1,
    )
    distil = DistilBertConfig(vocab_size=vocabulary, dim=32, n_layers=2, n_heads=4, hidden_dim=64, num_labels=1)
    return {"albert": AlbertForMultipleChoice(albert), "distilbert": DistilBertForMultipleChoice(distil)}


@pytest.mark.parametrize("family", ["bert", "albert", "distilbert"])
def test_every_loss_is_one_number_and_reaches_the_student(
    family: str, prepared: Prepared, tiny_bert: Callable[..., PreTrainedModel]
) -> None:
    teacher = tiny_bert(model_class=BertForMultipleChoice, labels=1, layers=4)
    student = (
        tiny_bert(model_class=BertForMultipleChoice, labels=1, seed=1)
        if family == "bert"
        else _students(teacher.config.vocab_size)[family].eval()
    )
    stage = Stage(
        name="all", description="", teacher="finetuned", data="train", losses=ALL, learning_rate=1e-3, layers="uniform"
    )
    distiller = Distiller(student, teacher, stage, prepared.task, projection=torch.nn.Identity())
    batch = prepared.task.collate(prepared.splits["train"], [0, 1, 2], prepared.pad)
    terms = distiller(batch)
    assert all(torch.isfinite(terms[name]) for name in ALL)
    sum(terms[name] for name in ALL).backward()
    assert all(torch.isfinite(p.grad).all() for p in student.parameters() if p.grad is not None)
    # Of one's own outputs there is nothing to learn.
    same = Distiller(teacher, teacher, stage, prepared.task, projection=torch.nn.Identity())
    learned = {name: value for name, value in same(batch).items() if name in ALL and name != "hard"}
    assert all(float(value) == pytest.approx(0, abs=1e-5) for name, value in learned.items())


def test_operations_are_counted_for_one_choice(tiny_bert: Callable[..., PreTrainedModel]) -> None:
    model = tiny_bert(model_class=BertForMultipleChoice, labels=1)
    other = tiny_bert(labels=1)
    assert flops(model, batch=3, length=16) == flops(other, batch=3, length=16)
