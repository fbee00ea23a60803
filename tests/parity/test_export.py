"""An exported model gives the model's outputs, over ragged batches, for every family and head."""

import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from families import tiny_config, tiny_masked_model
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertTokenizerFast,
    PreTrainedModel,
)

from common.errors import UserError
from students.export import export_onnx
from students.onnx_folder import need
from students.onnx_graph import Graph
from students.quantize import quantise
from students.runtime import OnnxModel, padded_batch

HEADS = {
    "text": AutoModelForSequenceClassification,
    "pieces": AutoModelForTokenClassification,
    "spans": AutoModelForQuestionAnswering,
}
CASES = [("text", kind) for kind in ("bert", "roberta", "electra", "distilbert", "albert")]
CASES += [("pieces", "bert"), ("spans", "distilbert")]


def tiny_model(kind: str, head: str = "text", seed: int = 0) -> PreTrainedModel:
    """Random weights, with biases and norms that are not 0 and 1, so that none is taken for another."""
    torch.manual_seed(seed)
    model = HEADS[head].from_config(tiny_config(kind))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.eval()


@pytest.fixture(scope="module")
def bert(tiny_tokenizer: BertTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "m"
    export_onnx(tiny_model("bert"), tiny_tokenizer, folder, max_length=16)
    return folder


@pytest.mark.parametrize(("head", "kind"), CASES)
def test_outputs_are_the_models(head: str, kind: str, tiny_tokenizer: BertTokenizerFast, tmp_path: Path) -> None:
    model = tiny_model(kind, head)
    exported = export_onnx(model, tiny_tokenizer, tmp_path / "m", max_length=40)
    assert exported.difference < 1e-5
    fused = exported.info.fused
    assert fused["Attention"] + fused.get("MultiHeadAttention", 0) == 2
    runtime = OnnxModel(tmp_path / "m")
    for lengths in ([40, 3, 17], [5], [2, 9]):
        ids = [torch.randint(5, 100, (length,)).numpy() for length in lengths]
        types = [np.arange(length) // (length // 2 + 1) for length in lengths]
        batch = padded_batch(ids, types, padding=model.config.pad_token_id)
        takes = {name: torch.from_numpy(batch[name]) for name in exported.info.inputs}
        with torch.no_grad():
            expected = model(**takes)
        real = batch["attention_mask"].astype(bool)
        for name, output in runtime.run(batch).items():
            ours = expected[name].numpy()
            assert output.dtype == np.float32
            if head != "text":
                output, ours = output[real], ours[real]
            np.testing.assert_allclose(output, ours, atol=1e-5)
    _check_int8(tmp_path / "m", tmp_path / "q", batch)


def _check_int8(folder: Path, target: Path, batch: dict[str, np.ndarray]) -> None:
    result = quantise(folder, target)
    assert result.info.fused["QAttention"] >= 1
    ours, theirs = (OnnxModel(path).logits(batch) for path in (folder, target))
    assert 0 < np.abs(ours - theirs).max() < 0.5 * max(ours.std(), 0.1)


def test_nothing_of_this_machine_is_in_the_model(bert: Path) -> None:
    raw = (bert / "model.onnx").read_bytes()
    assert b"site-packages" not in raw
    assert str(Path.cwd()).encode() not in raw


def test_texts_that_are_no_pairs_need_no_segments(tiny_tokenizer: BertTokenizerFast, tmp_path: Path) -> None:
    model = tiny_model("bert")
    exported = export_onnx(model, tiny_tokenizer, tmp_path / "m", max_length=16, pairs=False)
    assert exported.info.inputs == ("input_ids", "attention_mask")
    batch = tiny_tokenizer(["good film", "a plot"], padding=True, return_tensors="np")
    with torch.no_grad():
        expected = model(**{name: torch.from_numpy(array) for name, array in batch.items()}).logits
    np.testing.assert_allclose(OnnxModel(tmp_path / "m").logits(batch), expected, atol=1e-5)


def test_what_is_after_the_last_attention_is_computed_for_the_first_position_alone(bert: Path) -> None:
    graph = Graph(onnx.load(bert / "model.onnx"))
    (last,) = graph.of_type("MultiHeadAttention")
    query = graph.producer(graph.producer(last.output[0]).input[0])
    product = graph.producer(query.input[0])
    assert graph.producer(product.input[0]).op_type == "Gather"
    assert len(graph.of_type("Attention")) == 1
    # Pieces, segments, the last layer's input, and what the head picks.
    assert len(graph.of_type("Gather")) == 4


def test_weights_that_layers_share_are_fused_and_there_once(tiny_tokenizer: BertTokenizerFast, tmp_path: Path) -> None:
    sizes = {"hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 512}
    config = AlbertConfig(vocab_size=len(tiny_tokenizer), embedding_size=32, max_position_embeddings=32, **sizes)
    model = AlbertForSequenceClassification(config).eval()
    exported = export_onnx(model, tiny_tokenizer, tmp_path / "m", max_length=16)
    assert exported.info.fused["Attention"] == 3
    assert "MultiHeadAttention" not in exported.info.fused
    assert exported.model_bytes < 4.1 * sum(parameter.numel() for parameter in model.parameters())
    graph = Graph(onnx.load(tmp_path / "m" / "model.onnx"))
    assert not graph.of_type("Transpose")
    picked = graph.reader(graph.of_type("Attention")[-1].output[0], "Gather")
    assert picked is not None and picked.output[0].endswith("_first")


def test_what_cannot_be_exported_is_said(tiny_tokenizer: BertTokenizerFast, tmp_path: Path) -> None:
    model = tiny_model("bert")
    with pytest.raises(UserError, match="3 to 64 was expected"):
        export_onnx(model, tiny_tokenizer, tmp_path / "m", max_length=65)
    with pytest.raises(UserError, match="BertForMaskedLM cannot be exported"):
        export_onnx(tiny_masked_model("bert"), tiny_tokenizer, tmp_path / "m", max_length=16)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match=r"something else \(mine.txt\)"):
        export_onnx(model, tiny_tokenizer, tmp_path / "notes", max_length=16, replace=True)
    assert not (tmp_path / "m").exists()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r"'onnxruntime', which is not installed: pip install 'distillery\[onnx\]'"):
        need("onnxruntime")


def test_a_damaged_folder_and_wrong_inputs_are_named(bert: Path, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "m")
    runtime = OnnxModel(tmp_path / "m")
    with pytest.raises(UserError, match="takes texts of 16 pieces, and this one has 17"):
        runtime.logits(padded_batch([np.ones(17, dtype=np.int64)]))
    with pytest.raises(UserError, match="token_type_ids is missing"):
        runtime.logits({name: np.ones((1, 3)) for name in ("input_ids", "attention_mask")})
    (tmp_path / "m" / "model.onnx").write_bytes(b"damaged")
    with pytest.raises(UserError, match=r"model\.onnx cannot be loaded"):
        OnnxModel(tmp_path / "m")
    (tmp_path / "m" / "onnx.json").write_text("{")
    with pytest.raises(UserError, match=r"onnx\.json is damaged"):
        OnnxModel(tmp_path / "m")
