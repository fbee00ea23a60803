"""An exported model gives the model's outputs, over ragged batches, for every family and head."""

from pathlib import Path

import numpy as np
import pytest
import torch
from families import tiny_config
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertTokenizerFast,
    PreTrainedModel,
)

from students.export import export_onnx
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


@pytest.mark.parametrize(("head", "kind"), CASES)
def test_outputs_are_the_models(head: str, kind: str, tiny_tokenizer: BertTokenizerFast, tmp_path: Path) -> None:
    model = tiny_model(kind, head)
    exported = export_onnx(model, tiny_tokenizer, tmp_path / "m", max_length=40)
    assert exported.difference < 1e-5
    assert exported.info.fused["Attention"] == 2
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
