"""Tags by a teacher with another tokenizer: its answers on a word are learned at the word's first piece in both."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from toy import toy_task
from toy_tokenizers import byte_level
from transformers import (
    BertForTokenClassification,
    BertTokenizerFast,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    RobertaConfig,
    RobertaForTokenClassification,
)

from common.artifact import save
from common.card import CardText
from common.errors import UserError
from distill.changes import ChangeOptions
from distill.committee import Voice, known_to_all, other_answers, read_otherwise
from distill.config import DistilOptions, RunConfig
from distill.contest import answers, check_recipes
from distill.distiller import Distiller
from distill.job import Job, Shared
from distill.plan import pieces_a_text
from distill.stages import Stage
from distill.training import run_job
from distill.two_tokenizers import Reader, students_reader
from students.presets import student_preset
from teacher.batches import mean_padded
from teacher.data import Example, TaskData
from teacher.options import TaskOptions
from teacher.prepare import Prepared, predict_logits, prepare
from teacher.ready import Teacher
from teacher.tasks import task_for
from teacher.tasks.tags import EncodedTags, Tags

Make = Callable[..., PreTrainedModel]
SENTENCES = (
    (["the", "actor", "playing", "is", "not-good"], ["O", "B-X", "I-X", "O", "O"]),
    (["boring"], ["B-X"]),
    (["story", "of", "a", "musical", "actor"], ["O", "O", "O", "B-X", "I-X"]),
    (["great", "films"], ["O", "B-X"]),
)
LABELS = 3
STAGE = Stage(
    name="s", description="", teacher="finetuned", data="train", losses={"soft": 1.0}, learning_rate=1e-3, dropout=False
)
VOICES = (Voice(weight=1.0, temperature=None),)


@pytest.fixture
def data() -> TaskData:
    labels = ("O", "B-X", "I-X")
    examples = []
    for words, tags in SENTENCES:
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        spans = tuple((int(end) - len(word), int(end)) for word, end in zip(words, ends, strict=True))
        examples.append(Example(" ".join(words), None, tuple(labels.index(tag) for tag in tags), spans))
    splits = {"train": tuple(examples), "select": tuple(examples[1:]), "evaluate": tuple(examples[:3])}
    return TaskData(
        name="t", kind="tags", labels=labels, metric="entity_f1", splits=splits, origins={}, fingerprint="", sources={}
    )


@pytest.fixture
def other(tmp_path: Path) -> PreTrainedTokenizerBase:
    (tmp_path / "bytes").mkdir()
    return byte_level(tmp_path / "bytes")


def _teacher(vocabulary: int) -> RobertaForTokenClassification:
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(0)
    labels = dict(enumerate(("O", "B-X", "I-X")))
    config = RobertaConfig(
        vocab_size=vocabulary, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1, id2label=labels, **shape
    )
    model = RobertaForTokenClassification(config).eval()
    with torch.no_grad():
        model.classifier.weight.mul_(50)
    return model


def _encoded(places: Sequence[Sequence[int]], lengths: Sequence[int]) -> EncodedTags:
    return EncodedTags(
        input_ids=[np.zeros(length, dtype=np.int64) for length in lengths],
        token_types=[np.zeros(length, dtype=np.int64) for length in lengths],
        labels=np.zeros(len(lengths)),
        max_length=32,
        truncated=0,
        places=[np.array(row) for row in places],
    )


def test_a_word_s_row_goes_to_its_first_piece(data: TaskData) -> None:
    task = task_for(data)
    theirs, own = _encoded([[1, 3, 4], [1, -1]], [6, 3]), _encoded([[2, 1, -1], [1, 3]], [4, 5])
    logits = np.arange(2 * 6 * 2, dtype=np.float32).reshape(2, 6, 2)
    found = task.carried(logits, theirs, own)
    nothing = [np.nan, np.nan]
    expected = [
        [nothing, [6, 7], [2, 3], nothing, nothing],
        [nothing, [14, 15], nothing, nothing, nothing],
    ]
    np.testing.assert_array_equal(found, np.array(expected, dtype=np.float32))
    several = task.carried(np.stack([logits, -logits], axis=1), theirs, own)
    np.testing.assert_array_equal(several, np.stack([found, -found], axis=1))


def _soft(
    student: nn.Module,
    prepared: Prepared,
    logits: np.ndarray,
    rows: Sequence[int],
    *,
    carried: bool,
    mark: float = 1.0,
    **options: Any,
) -> tuple[Tensor, Distiller]:
    batch = prepared.task.collate(prepared.splits["train"], list(rows), prepared.pad) | {"index": torch.tensor(rows)}
    distiller = Distiller(
        student,
        None,
        STAGE,
        prepared.task,
        projection=nn.Identity(),
        teacher_logits=torch.from_numpy(logits) * mark,
        entries=prepared.task.weights(prepared.splits["train"]),
        carried=carried,
        **options,
    )
    return distiller.eval()(batch)["soft"], distiller


def test_equal_tokenizers_give_the_loss_of_one(
    data: TaskData, tiny_bert: Make, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    tiny_tokenizer.save_pretrained(tmp_path / "twin")
    prepared = prepare(task_for(data), tiny_tokenizer, 40)
    twin = prepared.task.encode(data.splits["train"], BertTokenizerFast.from_pretrained(tmp_path / "twin"), 40)
    teacher, student = (tiny_bert(model_class=BertForTokenClassification, labels=LABELS, seed=seed) for seed in (1, 2))
    logits = predict_logits(teacher, prepared, "train")
    plain, _ = _soft(student, prepared, logits, range(4), carried=False)
    again, distiller = _soft(
        student, prepared, prepared.task.carried(logits, twin, prepared.splits["train"]), range(4), carried=True
    )
    assert float(plain.detach()) > 0
    assert torch.equal(plain, again)
    assert distiller.shares(np.array([0, 1]), np.arange(4)) == {"soft": 6 / 13}


def test_the_loss_is_the_mean_over_words_that_both_read(
    data: TaskData, other: PreTrainedTokenizerBase, tiny_bert: Make, tiny_tokenizer: BertTokenizerFast
) -> None:
    student, teacher = tiny_bert(model_class=BertForTokenClassification, labels=LABELS, seed=2), _teacher(len(other))
    # The student reads few pieces, so that it lacks the last words of long sentences.
    prepared, theirs = prepare(task_for(data), tiny_tokenizer, 7), prepare(task_for(data), other, 60)
    assert prepared.splits["train"].truncated > 0
    assert theirs.splits["train"].truncated == 0
    logits = predict_logits(teacher, theirs, "train")
    carried = prepared.task.carried(logits, theirs.splits["train"], prepared.splits["train"])
    found, distiller = _soft(student, prepared, carried, range(4), carried=True)
    parts = []
    for words, _ in SENTENCES:
        pieces = [_at_words(tokenizer, words, limit) for tokenizer, limit in ((tiny_tokenizer, 7), (other, 60))]
        with torch.no_grad():
            rows = [model(**read).logits[0] for model, (read, _) in zip((student, teacher), pieces, strict=True)]
        for own, goal in zip(pieces[0][1], pieces[1][1], strict=True):
            if own is not None and goal is not None:
                mine, yours = rows[0][own].log_softmax(-1), rows[1][goal].log_softmax(-1)
                parts.append((yours.exp() * (yours - mine)).sum())
    assert 8 <= len(parts) < 13
    torch.testing.assert_close(found, torch.stack(parts).mean(), rtol=1e-4, atol=1e-6)
    # Halves of a batch add up, though their words are not as many.
    halves = [_soft(student, prepared, carried, rows, carried=True)[0] for rows in ([0, 1], [2, 3])]
    shares = [distiller.shares(np.array(rows), np.arange(4))["soft"] for rows in ([0, 1], [2, 3])]
    assert sum(shares) == pytest.approx(1)
    torch.testing.assert_close(sum(share * half for share, half in zip(shares, halves, strict=True)), found)
    found.backward()
    gradients = [parameter.grad for parameter in student.parameters() if parameter.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert any(gradient.abs().max() > 0 for gradient in gradients)


def _at_words(
    tokenizer: PreTrainedTokenizerBase, words: Sequence[str], limit: int
) -> tuple[dict[str, Tensor], list[int | None]]:
    """A sentence as pieces, and the first piece of each word, found letter by letter."""
    text = " ".join(words)
    read = tokenizer(text, truncation=True, max_length=limit, return_tensors="pt", return_offsets_mapping=True)
    offsets = read.pop("offset_mapping")[0].tolist()
    first, start = [], 0
    for word in words:
        holding = [place for place, (begin, end) in enumerate(offsets) if begin <= start < end]
        first.append(holding[0] if holding else None)
        start += len(word) + 1
    return dict(read), first


def test_numbers_that_are_none_are_not_hidden_with_one_tokenizer(
    data: TaskData, tiny_bert: Make, tiny_tokenizer: BertTokenizerFast
) -> None:
    prepared = prepare(task_for(data), tiny_tokenizer, 40)
    student = tiny_bert(model_class=BertForTokenClassification, labels=LABELS)
    logits = predict_logits(student, prepared, "train")
    assert _soft(student, prepared, logits, [0, 1], carried=False, mark=float("nan"))[0].isnan()


def test_a_student_learns_a_tagger_of_other_pieces_and_is_read_by_its_own(
    data: TaskData, other: PreTrainedTokenizerBase, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    teacher, theirs = _teacher(len(other)), prepare(task_for(data), other, 60)
    save(teacher, other, tmp_path / "teacher", card=CardText(title="t", description="d", task="t"))
    tiny_tokenizer.save_pretrained(tmp_path / "own")
    np.save(tmp_path / "logits.npy", predict_logits(teacher, theirs, "train"))
    shared = Shared(
        data=data,
        teacher=str(tmp_path / "teacher"),
        teacher_origin="",
        teacher_logits={"labeled": tmp_path / "logits.npy"},
        voices=VOICES,
        sets={},
        pretrained=None,
        student_tokenizer=str(tmp_path / "own"),
        text="task",
        text_length=12,
        max_length=60,
        precision="fp32",
        checkpoint_every=100,
    )
    stage = Stage(
        name="soft",
        description="",
        teacher="finetuned",
        data="train",
        losses={"soft": 1.0, "hidden": 1.0},
        learning_rate=5e-3,
        dropout=False,
        epochs=30,
        select=False,
    )
    job = Job(
        student=student_preset("tiny", teacher.config),
        stages=(stage,),
        seed=0,
        folder=tmp_path / "tiny" / "seed-0",
        twin=False,
    )
    run_job(job, shared)
    losses = [json.loads(line) for line in (job.folder / "soft" / "history.jsonl").read_text().splitlines()]
    soft = [row["soft"] for row in losses if "soft" in row]
    assert 0 < soft[-1] < soft[0] / 2
    own = prepare(task_for(data), tiny_tokenizer, 60)
    expected = own.task.decode(np.load(job.answers), own.splits["evaluate"])
    found = answers([job], theirs)[0]
    assert [tags.tolist() for tags in found] == [tags.tolist() for tags in expected]
    assert [len(tags) for tags in found] == [len(tags) for tags in theirs.splits["evaluate"].references]


def test_a_further_teacher_of_other_pieces_speaks_of_words(
    data: TaskData, other: PreTrainedTokenizerBase, tiny_bert: Make, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    first, student = (tiny_bert(model_class=BertForTokenClassification, labels=LABELS, seed=seed) for seed in (1, 2))
    second = _teacher(len(other))
    save(second, other, tmp_path / "second", card=CardText(title="t", description="d", task="t"))
    assert read_otherwise([str(tmp_path / "second")], tiny_tokenizer, 40)
    assert not read_otherwise([str(tmp_path / "second")], other, 40)
    # The first teacher, and the student, read more of a sentence than the second.
    prepared, theirs = prepare(task_for(data), tiny_tokenizer, 40), prepare(task_for(data), other, 8)
    examples, settings = data.splits["train"], {"max_length": 8, "precision": "fp32"}
    own = predict_logits(first, prepared, "train")
    cut = other_answers(str(tmp_path / "second"), data, examples, tokenizer=tiny_tokenizer, **settings)
    further = np.full_like(own, np.nan)
    further[:, : cut.shape[1]] = cut
    stacked = known_to_all(np.stack([own, further], axis=1))
    spoken = predict_logits(second, theirs, "train")
    pairs = [
        (example, place, there)
        for example in range(4)
        for place, there in zip(
            prepared.splits["train"].places[example], theirs.splits["train"].places[example], strict=True
        )
        if there >= 0 and place < cut.shape[1] - 1
    ]
    assert 4 < len(pairs) < 13
    known = ~np.isnan(stacked).any(axis=-1)
    assert known.sum(axis=(0, 2)).tolist() == [len(pairs)] * 2
    for example, place, there in pairs:
        np.testing.assert_array_equal(stacked[example, 1, place], spoken[example, there])
    voices = (Voice(weight=0.75, temperature=None), Voice(weight=0.25, temperature=None))
    found, _ = _soft(student, prepared, stacked, range(4), carried=True, voices=voices)
    with torch.no_grad():
        mine = torch.from_numpy(predict_logits(student, prepared, "train")).log_softmax(-1)
    goals = torch.from_numpy(stacked).log_softmax(-1)
    parts = [
        voice.weight * (goals[example, row, place].exp() * (goals[example, row, place] - mine[example, place])).sum()
        for example, place, _ in pairs
        for row, voice in enumerate(voices)
    ]
    torch.testing.assert_close(found.detach(), torch.stack(parts).sum() / len(pairs), rtol=1e-4, atol=1e-6)


def test_a_further_teacher_with_fewer_positions_speaks_of_what_it_reads(
    data: TaskData, other: PreTrainedTokenizerBase, tiny_bert: Make, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    short = tiny_bert(model_class=BertForTokenClassification, labels=LABELS, max_position_embeddings=8)
    save(short, tiny_tokenizer, tmp_path / "short", card=CardText(title="t", description="d", task="t"))
    source = str(tmp_path / "short")
    assert read_otherwise([source], tiny_tokenizer, 40)
    assert not read_otherwise([source], tiny_tokenizer, 8)
    own = prepare(task_for(data), tiny_tokenizer, 40).splits["train"]
    settings = {"tokenizer": tiny_tokenizer, "max_length": 40, "precision": "fp32"}
    found = other_answers(source, data, data.splits["train"], **settings)
    assert found.shape[:2] == (len(own), own.lengths.max())
    known = ~np.isnan(found).any(axis=-1)
    assert known.any(axis=1).all()
    assert not known[:, 7:].any()
    windows = dataclasses.replace(toy_task().data, long="windows")
    names = {"id2label": dict(enumerate("abc")), "label2id": {"a": 0, "b": 1, "c": 2}}
    save(
        tiny_bert(max_position_embeddings=8, **names),
        tiny_tokenizer,
        tmp_path / "s",
        card=CardText(title="t", description="d", task="t"),
    )
    with pytest.raises(UserError, match="cuts other windows of a text than --teacher"):
        other_answers(str(tmp_path / "s"), windows, windows.splits["train"], **settings)


def test_batches_are_filled_by_the_pieces_of_the_students(
    data: TaskData,
    other: PreTrainedTokenizerBase,
    tiny_tokenizer: BertTokenizerFast,
    tiny_bert: Callable[..., PreTrainedModel],
) -> None:
    words = tuple((start, start + 5) for start in range(0, 72, 6))
    long = Example(" ".join(["ACTOR"] * 12), None, (0,) * 12, words)
    data = dataclasses.replace(data, splits={**data.splits, "train": (long, *data.splits["train"])})
    prepared = prepare(task_for(data), tiny_tokenizer, 40)
    teacher = Teacher(model=tiny_bert(), prepared=prepared, folder=Path("t"), origin="t", outcome=None)
    own = pieces_a_text(None, teacher, {})
    found = pieces_a_text(Reader(place="x", tokenizer=other), teacher, {})
    assert own == {"labeled": mean_padded(prepared.splits["train"].lengths)}
    assert found == {"labeled": mean_padded(prepare(task_for(data), other, 40).splits["train"].lengths)}
    assert found != own


def test_tags_can_be_had_and_answers_to_questions_cannot() -> None:
    config = RunConfig(student="distil", distilling=DistilOptions(recipe="distilbert"))
    teacher = RobertaConfig(num_hidden_layers=4)
    assert Tags.carries
    assert check_recipes(config, "tags", teacher, two=True) == ()
    with pytest.raises(UserError, match="the loss soft cannot be had with two tokenizers: outputs stand at pieces"):
        check_recipes(config, "questions", teacher, two=True)


def test_hidden_states_of_choices_are_not_compared() -> None:
    """Rows of multiple choice are not whole examples."""

    def check(*weights: str, two: bool) -> tuple[str, ...]:
        config = RunConfig(student="distil", changes=ChangeOptions(loss_weights=",".join(weights) or None))
        return check_recipes(config, "choices", RobertaConfig(num_hidden_layers=4), two=two)

    with pytest.raises(UserError, match=r"student distil: the loss cosine cannot .* leave it out \(--loss-weights cos"):
        check(two=True)
    assert check(two=False) == check("cosine=0", two=True) == ()


def test_windows_are_refused(tiny_tokenizer: BertTokenizerFast, other: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    def reader(long: Literal["windows", "head+tail"], teacher: PreTrainedTokenizerBase) -> Reader | None:
        distilling = DistilOptions(student_tokenizer=str(tmp_path / "bytes"))
        return students_reader(RunConfig(distilling=distilling, data=TaskOptions(long=long)), teacher)

    assert reader("windows", other) is None
    assert reader("head+tail", tiny_tokenizer) is not None
    with pytest.raises(UserError, match=r"--long windows: with --student-tokenizer .* tokenizers of their own"):
        reader("windows", tiny_tokenizer)
