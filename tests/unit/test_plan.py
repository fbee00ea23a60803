"""What is trained: batches are filled by the lengths of what a stage draws from."""

from collections.abc import Callable
from pathlib import Path

import pytest
from toy import toy_task
from transformers import BertTokenizerFast, PreTrainedModel

from distill.augment import Augmented
from distill.config import DistilOptions, RunConfig
from distill.plan import pieces_a_text, plan, students_for
from distill.transfer import set_sizes
from distill.transfer_options import TransferOptions
from distill.transfer_sets import TransferSet, write_set
from teacher.batches import mean_padded
from teacher.prepare import prepare
from teacher.ready import Teacher


@pytest.fixture
def teacher(tiny_tokenizer: BertTokenizerFast, tiny_bert: Callable[..., PreTrainedModel]) -> Teacher:
    return Teacher(
        model=tiny_bert(), prepared=prepare(toy_task(), tiny_tokenizer, 64), folder=Path("t"), origin="t", outcome=None
    )


def _texts(folder: Path, *words: int) -> TransferSet:
    rows = [Augmented(" ".join(["film"] * count), None, place) for place, count in enumerate(words)]
    return write_set(folder, "key", rows, name=folder.name, origin="made up")


@pytest.mark.parametrize(("mix", "share"), [(None, 0.75), ("labeled=1,unlabeled=1", 0.5)])
def test_batches_are_filled_by_what_is_drawn(teacher: Teacher, tmp_path: Path, mix: str | None, share: float) -> None:
    labeled = len(teacher.prepared.splits["train"])
    sets = {"unlabeled": _texts(tmp_path / "unlabeled", *[14] * (3 * labeled))}
    pieces = pieces_a_text(None, teacher, sets)
    assert pieces == {"labeled": mean_padded(teacher.prepared.splits["train"].lengths), "unlabeled": 16}
    config = RunConfig(
        student="distil",
        distilling=DistilOptions(recipe="distil", start="random"),
        transfer=TransferOptions(unlabeled=Path("more.txt"), mix=mix),
    )
    jobs = plan(
        config,
        teacher,
        students_for(config, teacher),
        set_sizes(teacher.prepared, sets),
        tmp_path,
        pieces=pieces,
    )
    expected = round(1024 / (share * 16 + (1 - share) * pieces["labeled"]))
    (stage,), (twin,) = (job.stages for job in jobs)
    assert 32 < expected != round(1024 / pieces["labeled"])
    assert (stage.data, stage.batch_size, stage.tokens) == ("mixed", expected, None)
    assert (twin.data, twin.batch_size, twin.tokens) == ("train", expected, None)
    assert twin.steps == stage.length(4 * labeled)


def test_texts_all_over_a_set_stand_for_it(teacher: Teacher, tmp_path: Path) -> None:
    sets = {"augmented": _texts(tmp_path / "augmented", *[2] * 1500, *[30] * 1500)}
    assert pieces_a_text(None, teacher, sets)["augmented"] == (8 + 32) / 2
