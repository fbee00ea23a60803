"""int8 and bf16 in torch: near the model, which is left as it is."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from transformers import BertTokenizerFast, PreTrainedModel

from common.errors import UserError
from students import quantize_torch
from students.quantize_torch import torch_bf16, torch_int8

Make = Callable[..., PreTrainedModel]


def logits(model: PreTrainedModel, tokenizer: BertTokenizerFast) -> torch.Tensor:
    batch = tokenizer(["a good film", "bad plot and boring music"], padding=True, return_tensors="pt")
    with torch.no_grad():
        return model(**batch).logits.float()


def plain(model: PreTrainedModel) -> list[str]:
    return [name for name, module in model.named_modules() if type(module) is nn.Linear]


def test_int8_is_near_and_leaves_the_last_map_and_the_model(tiny_bert: Make, tiny_tokenizer: BertTokenizerFast) -> None:
    model = tiny_bert(initializer_range=0.3)
    before = logits(model, tiny_tokenizer)
    quantised = torch_int8(model)
    assert plain(quantised) == ["classifier"]
    difference = (logits(quantised, tiny_tokenizer) - before).abs().max()
    assert 0 < difference < 0.3 * before.std()
    assert torch.equal(logits(model, tiny_tokenizer), before)


def test_excluded_modules_stay(tiny_bert: Make) -> None:
    quantised = torch_int8(tiny_bert(), exclude=["bert.encoder.layer.1", "bert.pooler"])
    names = plain(quantised)
    assert len(names) == 8
    assert all(name.startswith(("bert.encoder.layer.1.", "bert.pooler.", "classifier")) for name in names)
    with pytest.raises(UserError, match=r"did you mean 'bert\.pooler'"):
        torch_int8(tiny_bert(), exclude=["bert.poller"])


def test_int8_wants_the_cpu(tiny_bert: Make) -> None:
    with pytest.raises(UserError, match="the model is on meta"):
        torch_int8(tiny_bert().to("meta"))


def test_bf16_is_near_and_refused_where_it_is_emulated(
    tiny_bert: Make, tiny_tokenizer: BertTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_bert(initializer_range=0.3)
    monkeypatch.setattr(quantize_torch, "bf16_pays", lambda: True)
    half = torch_bf16(model)
    assert {parameter.dtype for parameter in half.parameters()} == {torch.bfloat16}
    torch.testing.assert_close(logits(half, tiny_tokenizer), logits(model, tiny_tokenizer), atol=0.1, rtol=0)
    monkeypatch.setattr(quantize_torch, "bf16_pays", lambda: False)
    with pytest.raises(UserError, match="would emulate"):
        torch_bf16(model)
