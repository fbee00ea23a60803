"""The command that makes a finished model smaller: a chain on a toy task, killed and resumed, and bad input."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from e2e.conftest import kill_when, quick
from safetensors.torch import load_file
from transformers import PreTrainedModel

from common.artifact import load
from common.command import run_command
from distill.compress import main
from distill.compress_config import CompressConfig
from distill.config import RunConfig
from distill.measure import count_parameters
from distill.run import main as run_main
from reports.record import CompressionRow, Record
from students.pruned_shape import shape_of

RATE = ("--recovery-rate", "1e-3")


def options_for(tmp_path: Path, reviews: Path, teacher: Path, *more: object) -> list[str]:
    places = [
        "--model",
        teacher,
        "--task",
        reviews,
        "--out",
        tmp_path / "runs" / "small",
        "--reports",
        tmp_path / "reports",
    ]
    settings = ["--precision", "fp32", "--checkpoint-every", "2"]
    return [str(option) for option in (*places, *settings, *more)]


def short(tmp_path: Path, reviews: Path, teacher: Path, *more: object) -> list[str]:
    """Options of a run whose student need not be good."""
    return quick(tmp_path, reviews, teacher, "--student", "tiny", "--no-twins", "--budget", "0.03", *more)


def compress(*options: str) -> int:
    return run_command(main, CompressConfig, arguments=options)


def test_the_whole_chain_is_measured_and_runs_without_torch_at_its_end(
    tmp_path: Path,
    reviews: Path,
    fine_tuned: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("distill.measure.MOST_REPEATS", 4)
    monkeypatch.setattr("distill.measure.WARM_UP_SECONDS", 0.0)
    pytest.importorskip("onnxruntime")
    steps = ["--trim-vocabulary", "--keep-frequent", "0", "--prune", "0.5", "--prune-steps", "2", *RATE]
    options = options_for(tmp_path, reviews, fine_tuned, *steps, "--int8", "--max-drop", "0.5")
    assert compress(*options) == 0
    output = capsys.readouterr().out
    (chain,) = Record.load(tmp_path / "runs" / "small" / "record.json").compression
    assert any(row.precision == "int8" and row.runtime.startswith("torch") for row in chain.rows)
    rows = [row for row in chain.rows if row.precision not in ("bf16", "int8")]
    assert [(row.role, row.step, row.precision) for row in rows] == [
        ("reference", "unchanged", "fp32"),
        ("baseline", "unchanged, ONNX", "fp32"),
        ("baseline", "unchanged, int8", "int8 dynamic"),
        ("chain", "vocabulary trimmed", "fp32"),
        ("chain", "pruned 50% of parameters", "fp32"),
        ("chain", "ONNX", "fp32"),
        ("chain", "int8", "int8 dynamic"),
    ]
    first, trimmed, pruned, exported, shipped = rows[0], *rows[3:]
    assert trimmed.parameters < first.parameters
    assert "pieces stay" in trimmed.notes[0]
    _pruned_to_half(first, pruned, fine_tuned)
    assert exported.notes == ("2 attentions fused",)
    assert exported.value == pytest.approx(pruned.value)
    assert shipped.value > 0.7
    assert shipped.parameters == pruned.parameters
    assert {path.suffix for path in Path(shipped.folder).iterdir()} <= {".json", ".md", ".onnx"}
    assert f"{shipped.value:.4f}" in output
    page = (tmp_path / "reports" / "small.html").read_text(encoding="utf-8")
    assert "step by step" in page
    assert "pruned 50% of parameters" in page
    before = (Path(pruned.folder) / "model.safetensors").stat().st_mtime_ns
    for more in ([], ["--no-speed"]):
        assert compress(*options, *more) == 0
        output = capsys.readouterr().out
        assert "all of it was done and measured before" in output
        assert f"{shipped.value:.4f}" in output
        assert Record.load(tmp_path / "runs" / "small" / "record.json").compression == (chain,)
    (tmp_path / "runs" / "small" / "record.json").unlink()
    assert compress(*options, "--no-speed") == 0
    assert capsys.readouterr().out.count("done before") == 6
    assert (Path(pruned.folder) / "model.safetensors").stat().st_mtime_ns == before
    assert compress(*options, "--importance", "random") == 2
    assert "holds a run with other settings" in capsys.readouterr().err


def _pruned_to_half(first: CompressionRow, pruned: CompressionRow, teacher: Path) -> None:
    assert first.value > 0.9
    assert pruned.value > 0.8
    assert pruned.retained == pytest.approx(pruned.value / first.value)
    cells = {(cell.batch, cell.length, cell.threads) for cell in pruned.latency}
    assert cells == {(1, 16, 1), (1, 128, 1), (32, 128, 1)}
    small, whole = load(Path(pruned.folder))[0], load(teacher)[0]
    assert count_parameters(small) == pruned.parameters
    assert shape_of(small).encoder_parameters <= shape_of(whole).encoder_parameters / 2
    assert pruned.bytes_on_disk < first.bytes_on_disk


def test_killed_in_recovery_and_resumed_to_the_same_weights(
    tmp_path: Path, reviews: Path, fine_tuned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against an uninterrupted run in a folder of its own."""
    options = options_for(tmp_path, reviews, fine_tuned, "--prune", "0.5", "--prune-steps", "1", *RATE, "--no-speed")
    whole = [str(tmp_path / "runs" / "whole") if option.endswith("small") else option for option in options]
    assert compress(*whole) == 0
    own = tmp_path / "runs" / "small" / "1-prune"
    kill_when(own, "prune-1/training/step-*/state.json", "distill.compress", *options)
    assert not (own / "step.json").exists()
    capsys.readouterr()
    assert compress(*options) == 0
    assert "going on from" in capsys.readouterr().out
    folders = [tmp_path / "runs" / name / "1-prune" / "model" / "model.safetensors" for name in ("whole", "small")]
    one, other = map(load_file, folders)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([], ["nothing to do", "--prune"]),
        (["--prune", "1.5"], ["--prune 1.5", "below 1"]),
        (["--prune", "0.5", "--prune-parts", "heads,fnn"], ["unknown part to prune 'fnn'", "'ffn'"]),
        (["--prune", "0.99", "--prune-parts", "ffn", "--no-recovery"], ["at most", "--prune-parts"]),
        (
            ["--prune", "0.5", "--prune-steps", "0", "--recovery-epochs", "0"],
            ["--prune-steps 0", "--recovery-epochs 0"],
        ),
        (["--prune", "0.5", "--teacher", "./nowhere"], ["./nowhere"]),
        (["--prune", "0.5", "--teacher", "testz"], ["--teacher testz does not exist", "Near it: tests", "the hub"]),
    ],
)
def test_a_mistake_gives_one_message_and_code_2(
    tmp_path: Path,
    reviews: Path,
    tiny_bert: Callable[..., PreTrainedModel],
    tiny_tokenizer,
    changes: list[str],
    words: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    labels = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
    folder = tmp_path / "model"
    tiny_bert(labels=2, **labels).save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    assert compress(*options_for(tmp_path, reviews, folder), *changes) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in words), message
    assert not (tmp_path / "runs" / "small").exists(), "the name is free for another try"


def test_a_model_without_a_head_is_refused(
    tmp_path: Path, reviews: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compress(*options_for(tmp_path, reviews, encoder, "--prune", "0.5")) == 2
    assert "has no head that is trained for the task" in capsys.readouterr().err


def test_one_command_distils_and_prunes(tmp_path: Path, reviews: Path, fine_tuned: Path) -> None:
    options = short(tmp_path, reviews, fine_tuned, "--prune", "0.4", "--prune-steps", "1")
    assert run_command(run_main, RunConfig, arguments=options) == 0
    folder = tmp_path / "runs" / "reviews-tiny"
    record = Record.load(folder / "record.json")
    (chain,) = record.compression
    names = [row.step for row in chain.rows if row.precision == "fp32"]
    assert names == ["teacher", "tiny", "pruned 40% of parameters"]
    assert chain.rows[0].value == pytest.approx(record.model("teacher").quality.value)
    assert chain.rows[-1].parameters < record.model("tiny").size.parameters
    assert load(folder / "shipped" / "tiny" / "1-prune" / "model")
    assert "tiny, step by step" in (tmp_path / "reports" / "reviews-tiny.html").read_text(encoding="utf-8")


def test_a_target_out_of_reach_does_not_cost_the_students(
    tmp_path: Path, reviews: Path, fine_tuned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most are refused beforehand; milliseconds may differ afterwards."""
    options = short(tmp_path, reviews, fine_tuned, "--prune", "0.99")
    assert run_command(run_main, RunConfig, arguments=options) == 2
    assert not (tmp_path / "runs").exists()
    monkeypatch.setattr("distill.run.check_students", lambda *arguments: None)
    assert run_command(run_main, RunConfig, arguments=options) == 0
    record = Record.load(tmp_path / "runs" / "reviews-tiny" / "record.json")
    assert record.compression == ()
    assert "tiny was not compressed: --prune: at most" in record.failures[0]
