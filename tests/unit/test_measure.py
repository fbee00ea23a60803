"""Sizes counted exactly; latency and memory by shape and order, never by the clock."""

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    PretrainedConfig,
    PreTrainedModel,
)

from common.errors import UserError
from distill import measure, memory
from distill.flops import evaluation_mode
from distill.measure import (
    count_embedding_parameters,
    count_parameters,
    measure_latency,
    measure_size,
    measure_speed,
    weight_bytes,
)
from distill.memory import peak_memory

Make = Callable[..., PreTrainedModel]


@pytest.mark.parametrize(
    ("model_class", "config", "count"),
    [
        (BertModel, BertConfig(), 109_482_240),
        (DistilBertModel, DistilBertConfig(), 66_362_880),
        (AlbertModel, AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072), 11_683_584),
    ],
    ids=["bert", "distilbert", "albert"],
)
def test_published_counts(model_class: type[PreTrainedModel], config: PretrainedConfig, count: int) -> None:
    with torch.device("meta"):
        assert count_parameters(model_class(config)) == count


def test_tied_parameters_count_once() -> None:
    body = BertModel(_config(), add_pooling_layer=False)
    tied = BertForMaskedLM(_config())
    vocabulary, hidden = _config().vocab_size, _config().hidden_size
    head = hidden * hidden + hidden + 2 * hidden + vocabulary
    assert count_parameters(tied) == count_parameters(body) + head
    assert count_embedding_parameters(tied) == (vocabulary + 64 + 2) * hidden


def _config() -> BertConfig:
    return BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )


def test_size_of_a_saved_model(tiny_bert: Make, tmp_path: Path) -> None:
    model = tiny_bert()
    model.save_pretrained(tmp_path)
    size = measure_size(model, tmp_path)
    assert size.parameters == count_parameters(model)
    assert 4 * size.parameters < size.bytes_on_disk < 4 * size.parameters + 20_000
    assert size.bytes_on_disk == (tmp_path / "model.safetensors").stat().st_size
    assert size.flops > 0


def test_size_of_a_model_in_two_files_is_their_sum(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"12")
    (tmp_path / "b.safetensors").write_bytes(b"345")
    (tmp_path / "tokenizer.json").write_bytes(b"6789")
    assert weight_bytes(tmp_path) == 5


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no \.safetensors file"):
        weight_bytes(tmp_path)


def test_latency_has_every_cell_of_every_model(tiny_bert: Make) -> None:
    models = {"teacher": tiny_bert(layers=2).train(), "student": tiny_bert(layers=1)}
    before = torch.get_num_threads()
    rows = measure_latency(models, batches=(1, 2), lengths=(8, 16), threads=(1, 2), seconds=0.2)
    assert list(rows) == ["teacher", "student"]
    cells = [(row.threads, row.batch, row.length) for row in rows["student"]]
    assert cells == list(itertools.product((1, 2), (1, 2), (8, 16)))
    for row in itertools.chain(*rows.values()):
        assert 0 < row.p50_ms <= row.p95_ms
        assert measure.FEWEST_REPEATS <= row.repeats <= measure.MOST_REPEATS
        assert row.precision == "fp32"
        assert row.runtime == f"torch {torch.__version__.split('+')[0]}"
    assert torch.get_num_threads() == before
    assert models["teacher"].training
    assert not models["student"].training


def test_models_take_turns() -> None:
    order: list[str] = []
    calls = {name: (lambda name=name: order.append(name)) for name in "ABC"}
    times = measure._interleave(calls, until=0.0)
    timed = order[-3 * measure.FEWEST_REPEATS :]
    assert "".join(timed) == "ABC" * measure.FEWEST_REPEATS
    assert {len(row) for row in times.values()} == {measure.FEWEST_REPEATS}


def test_quick_calls_stop_at_the_most_repeats() -> None:
    times = measure._interleave({"A": lambda: None}, until=3600.0)
    assert len(times["A"]) == measure.MOST_REPEATS


def test_larger_cells_get_more_time_by_the_root_of_their_work() -> None:
    small = measure._Cell(batch=1, length=16, threads=1)
    assert measure._Cell(batch=16, length=16, threads=1).share == 4 * small.share
    assert measure._Cell(batch=1, length=16, threads=2).share == small.share / 2


def test_models_are_measured_in_eval_mode_and_threads_come_back_after_a_failure(tiny_bert: Make) -> None:
    model = tiny_bert().train()
    seen: list[tuple[bool, bool, int]] = []

    def look(*arguments: object) -> None:
        seen.append((model.training, torch.is_inference_mode_enabled(), torch.get_num_threads()))
        raise RuntimeError("in the middle")

    handle = model.register_forward_pre_hook(look)
    with pytest.raises(RuntimeError, match="in the middle"):
        measure_latency({"model": model}, threads=(2,), seconds=0.0)
    handle.remove()
    assert seen == [(False, True, 2)]
    assert model.training
    assert torch.get_num_threads() == 1


def test_evaluation_mode_restores_each_module() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Dropout()).train()
    model[0].eval()
    with evaluation_mode([model]):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == [True, False, True]


def test_bf16_runs_under_autocast(tiny_bert: Make) -> None:
    model = tiny_bert()
    kinds: set[torch.dtype] = set()
    model.classifier.register_forward_hook(lambda module, inputs, output: kinds.add(output.dtype))
    (row,) = measure_latency({"m": model}, batches=(1,), lengths=(8,), threads=(1,), precision="bf16", seconds=0.0)["m"]
    assert row.precision == "bf16"
    assert kinds == {torch.bfloat16}


def test_lengths_beyond_the_positions_are_left_out(tiny_bert: Make) -> None:
    models = {"long": tiny_bert(), "short": tiny_bert(max_position_embeddings=16)}
    rows = measure_latency(models, batches=(1,), lengths=(16, 17), threads=(1,), seconds=0.0)
    assert [[row.length for row in rows[name]] for name in models] == [[16], [16]]


def test_unknown_precision_and_other_devices_are_refused(tiny_bert: Make) -> None:
    with pytest.raises(UserError, match="fp32 or bf16"):
        measure_latency({}, precision="int4")
    with pytest.raises(UserError, match="'m' is on meta"):
        measure_latency({"m": tiny_bert().to("meta")})


def test_peak_memory_holds_the_weights_whatever_this_process_used(tmp_path: Path) -> None:
    config = _config()
    config.vocab_size = 400_000
    BertModel(config).save_pretrained(tmp_path)
    ours = torch.ones(1 << 26)  # 256 MiB here, which must not show in the other process
    peak = peak_memory(tmp_path, batch=1, length=8)
    del ours
    if sys.platform == "win32":
        assert peak is None
        return
    weights = weight_bytes(tmp_path)
    assert peak is not None
    assert 0.9 * weights < peak < 5 * weights


def test_peak_memory_that_fails_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")

    def fail(command: list[str], **options: object) -> None:
        raise subprocess.CalledProcessError(1, command, stderr="Traceback\nOSError: damaged weights\n")

    monkeypatch.setattr(memory.subprocess, "run", fail)
    assert peak_memory(tmp_path) is None
    assert "was not measured: OSError: damaged weights" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"no config\.json"):
        peak_memory(tmp_path / "absent")


def test_speed_joins_latency_and_memory(tiny_bert: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "peak_memory", lambda folder, threads: len(folder.name))
    models = {"teacher": tiny_bert(), "student": tiny_bert(layers=1)}
    speed = measure_speed(models, {"teacher": tmp_path / "long name", "student": tmp_path / "short"}, seconds=0.1)
    assert {name: row.peak_memory_bytes for name, row in speed.items()} == {"teacher": 9, "student": 5}
    assert all({row.batch for row in card.latency} == {1, 32} for card in speed.values())
