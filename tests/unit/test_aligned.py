"""Models that are read lie in memory as those that were made here."""

from collections.abc import Callable
from pathlib import Path

import torch
from toy import toy_task
from transformers import AutoModelForSequenceClassification, BertTokenizerFast, PreTrainedModel

from common.aligned import LINE, aligned
from common.artifact import CardText, load, save
from teacher.sources import load_for_task


def _beside(model: PreTrainedModel) -> int:
    """Tensors that do not begin a cache line."""
    return sum(tensor.data_ptr() % LINE != 0 for tensor in (*model.parameters(), *model.buffers()))


def test_weights_that_are_read_begin_cache_lines(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    names = {"id2label": dict(enumerate("abc")), "label2id": {"a": 0, "b": 1, "c": 2}}
    made = tiny_bert(**names)
    save(made, tiny_tokenizer, tmp_path / "m", card=CardText(title="m", description="", task="t"))
    read = [load(tmp_path / "m")[0], load_for_task(str(tmp_path / "m"), toy_task(), 0).model]
    assert [_beside(model) for model in (made, *read)] == [0, 0, 0]
    batch = tiny_tokenizer(["a good film"], return_tensors="pt")
    with torch.inference_mode():
        assert all(torch.equal(model.eval()(**batch).logits, made(**batch).logits) for model in read)


def test_tied_weights_stay_tied_and_values_stay(tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel]) -> None:
    made = tiny_bert()
    made.save_pretrained(tmp_path)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    layers = model.bert.encoder.layer
    layers[1].output.dense.weight = layers[0].output.dense.weight
    storage = torch.empty(made.config.hidden_size + 1)
    layers[0].output.dense.bias.data = storage[1:].copy_(layers[0].output.dense.bias.data)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert _beside(model) > 0
    assert aligned(model) is model
    assert _beside(model) == 0
    assert layers[1].output.dense.weight is layers[0].output.dense.weight
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
