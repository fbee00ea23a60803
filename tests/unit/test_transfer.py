"""Sets of examples in a run folder, the options for them, and the stages that use them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from toy import toy_task
from transformers import BertConfig

from common.errors import UserError
from distill.augment import Augmented
from distill.committee import CommitteeOptions
from distill.config import DistilOptions, RunConfig
from distill.contest import check_recipes
from distill.recipes import RECIPES, twin_recipe
from distill.stages import Stage
from distill.transfer import digests, read_inputs
from distill.transfer_options import TransferOptions
from distill.transfer_sets import read_examples, stored_set, write_set
from distill.transfer_stages import on_sets

ROWS = [
    Augmented("a \N{HORSE FACE}\u2028 b", None, 0),
    Augmented("a c", None, 0),
    Augmented("x", "y", 1),
    Augmented("x", "z", 1),
    Augmented("q" * 999, "y", 1),
]


def test_a_set_comes_back_as_it_was_written(tmp_path: Path) -> None:
    written = write_set(tmp_path / "set", "key", ROWS, name="augmented", origin="made up")
    assert stored_set(tmp_path / "set", "key") == written
    assert [(example.text, example.pair) for example in read_examples(tmp_path / "set")] == [row[:2] for row in ROWS]
    first, second = written.card.preview
    assert (first.text, first.versions) == (ROWS[0].text, ("a c",))
    assert (second.text, second.pair, second.versions[0]) == ("x", "y", "z")
    assert len(second.versions[1]) == 400


def test_another_key_or_a_damaged_set_is_not_reused(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    assert stored_set(folder, "key") is None
    write_set(folder, "key", ROWS, name="augmented", origin="made up")
    assert stored_set(folder, "other") is None
    (folder / "set.json").write_text('{"key": "key"')
    assert stored_set(folder, "key") is None


def test_a_set_that_is_cut_off_leaves_nothing_and_the_old_one_stays(tmp_path: Path) -> None:
    def cut() -> Iterator[Augmented]:
        yield ROWS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_set(tmp_path / "set", "key", cut(), name="augmented", origin="made up")
    assert list(tmp_path.iterdir()) == []
    old = write_set(tmp_path / "set", "old", ROWS, name="augmented", origin="made up")
    with pytest.raises(KeyboardInterrupt):
        write_set(tmp_path / "set", "key", cut(), name="augmented", origin="made up")
    assert stored_set(tmp_path / "set", "old") == old
    assert json.loads((tmp_path / "set" / "set.json").read_text())["key"] == "old"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "more.txt"
    path.write_text("one\n")
    return path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"augment": -1}, "--augment -1"),
        ({"augment_mlm": "x"}, "give --augment N too"),
        ({"allow_missing": True}, "is for --teacher-outputs"),
        ({"augment": 1, "teacher_outputs": Path("o.csv")}, "has no answer"),
        ({"mix": "labeled=1"}, "needs something to mix"),
        ({"augment": 1, "mix": "labled=1"}, "did you mean 'labeled'"),
        ({"augment": 1, "mix": "labeled=1,augmented=none"}, "a share above 0"),
        ({"augment": 1, "mix": "labeled=1,augmented=0"}, "a share above 0"),
        ({"augment": 1, "mix": "labeled=1,labeled=1"}, "twice"),
        ({"augment": 1, "mix": "labeled=1,unlabeled=1"}, "give --unlabeled FILE"),
        ({"augment": 1, "mix": "labeled=1"}, "takes nothing from augmented"),
    ],
)
def test_options_that_do_not_go_together(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        TransferOptions(**options)


def test_files_that_a_run_reads_are_known_by_what_is_in_them(texts: Path, tmp_path: Path) -> None:
    options = TransferOptions(unlabeled=texts, teacher_outputs=tmp_path / "outputs.csv")
    (tmp_path / "outputs.csv").write_text("text,a,b\n")
    config = RunConfig(transfer=options)
    before = digests(config)
    assert list(before) == ["--unlabeled", "--teacher-outputs"]
    texts.write_text("two\n")
    after = digests(config)
    assert after["--teacher-outputs"] == before["--teacher-outputs"]
    assert after["--unlabeled"] != before["--unlabeled"]
    assert digests(RunConfig()) == {}


def test_general_text_that_a_run_reads_is_there_and_known_by_what_is_in_it(texts: Path) -> None:
    config = RunConfig(distilling=DistilOptions(text=str(texts)))
    before = digests(config)
    assert list(before) == ["--text"]
    texts.write_text("two\n")
    assert digests(config) != before
    with pytest.raises(UserError, match="--text nowhere"):
        read_inputs(RunConfig(distilling=DistilOptions(text="nowhere.txt")), toy_task().data)


def test_texts_that_no_stage_reads_are_refused(texts: Path) -> None:
    teacher = BertConfig(num_hidden_layers=4)

    def check(student: str, kind: str = "classification", *, encoder: str = "minilm", **options: object) -> None:
        transfer = TransferOptions(augment=options.pop("augment", 0), mix=options.pop("mix", None))  # type: ignore[arg-type]
        distilling = DistilOptions(**options)  # type: ignore[arg-type]
        check_recipes(
            RunConfig(student=student, teacher=encoder, transfer=transfer, distilling=distilling), kind, teacher
        )

    for kept in ({"text": str(texts)}, {"text_length": 100}):
        check("tiny", **kept)
        check("tiny,distil", **kept)
        with pytest.raises(UserError, match=r"^--text.*no stage of these students reads general text"):
            check("distil", **kept)
    # It is what a teacher from nothing is pretrained on.
    check("distil", encoder="scratch", text=str(texts))
    check("tiny", "regression", augment=3)
    for mix in (None, "labeled=1,augmented=2"):
        with pytest.raises(UserError, match=r"^--augment 3: no stage of these students draws from such texts"):
            check("distil", "regression", augment=3, mix=mix)


def test_models_that_a_run_reads_are_known_by_their_weights(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "model.safetensors").write_bytes(name.encode())
    others = CommitteeOptions(more_teachers=f"{tmp_path / 'a'},{tmp_path / 'b'}")
    config = RunConfig(teacher=str(tmp_path / "a"), committee=others)
    before = digests(config)
    assert list(before) == ["--teacher", "--more-teachers"]
    (tmp_path / "b" / "model.safetensors").write_bytes(b"other")
    after = digests(config)
    assert after["--teacher"] == before["--teacher"]
    assert after["--more-teachers"] != before["--more-teachers"]


def _stages(student: str, options: TransferOptions, kind: str = "classification") -> dict[str, Stage]:
    return {stage.name: stage for stage in on_sets(student, RECIPES[student](), options, kind)}


def test_without_options_recipes_stay_as_they_are() -> None:
    for name, recipe in RECIPES.items():
        assert on_sets(name, recipe(), TransferOptions(), "classification") == recipe()


def test_stages_with_labels_draw_from_the_labelled_rows_beside_augmented_ones() -> None:
    stages = _stages("tiny", TransferOptions(augment=2))
    assert {name: stage.data for name, stage in stages.items()} == {
        "general": "text",
        "intermediate": "augmented",
        "prediction": "mixed",
    }
    assert stages["prediction"].mix == {"labeled": None, "augmented": None}
    published = _stages("tinybert", TransferOptions(augment=2))
    assert [stage.data for stage in published.values()] == ["text", "augmented", "augmented"]
    stages = _stages("tiny", TransferOptions(augment=2), "regression")
    assert (stages["intermediate"].data, stages["prediction"].data) == ("augmented", "train")
    assert _stages("distil", TransferOptions(augment=2))["distil"].mix == {"labeled": None, "augmented": None}
    mixed = _stages("distil", TransferOptions(augment=2, mix="labeled=1,augmented=3"))["distil"]
    assert (mixed.data, mixed.mix) == ("mixed", {"labeled": 1.0, "augmented": 3.0})
    with pytest.raises(UserError, match="give them a share"):
        _stages("distil", TransferOptions(augment=2, mix="augmented=3"))


def test_unlabelled_text_joins_every_stage_with_the_teacher(texts: Path) -> None:
    options = TransferOptions(unlabeled=texts)
    assert _stages("distil", options)["distil"].mix == {"labeled": None, "unlabeled": None}
    assert _stages("tiny", options)["general"].data == "text"
    both = TransferOptions(unlabeled=texts, augment=1)
    assert _stages("tiny", both)["prediction"].mix == {"labeled": None, "unlabeled": None, "augmented": None}
    assert _stages("tiny", both)["intermediate"].mix == {"unlabeled": None, "augmented": None}
    assert _stages("tiny", both, "regression")["prediction"].mix == {"labeled": None, "unlabeled": None}


def test_stages_with_labels_are_refused_where_there_are_none() -> None:
    def stage(**changes: object) -> Stage:
        return Stage(name="x", description="", teacher="finetuned", learning_rate=1e-4, **changes)

    assert stage(data="augmented", losses={"soft": 1.0}).sets == ("augmented",)
    with pytest.raises(UserError, match="augmented examples have none"):
        stage(data="augmented", losses={"soft": 1.0, "hard": 1.0})
    with pytest.raises(UserError, match="unlabeled and augmented examples have none"):
        stage(data="mixed", mix={"unlabeled": 1.0, "augmented": None}, losses={"hard": 1.0})
    for data, mix in (("mixed", {}), ("train", {"labeled": 1.0})):
        with pytest.raises(UserError, match="belong to mixed data"):
            stage(data=data, mix=mix, losses={"soft": 1.0})


def test_a_twin_has_as_many_steps_as_stages_on_larger_sets() -> None:
    stages = on_sets("tiny", RECIPES["tiny"](), TransferOptions(augment=2), "classification")
    sizes = {"labeled": 320, "augmented": 800}
    options = {"seed": 0, "precision": "fp32", "checkpoint_every": 10}
    expected = sum(stage.loop(examples=800, **options).steps or 0 for stage in stages[1:])
    assert twin_recipe(stages, sizes)[0].loop(examples=320, **options).steps == expected
