"""Models in 8-bit integers and in bf16 that stay in torch: for comparison, and for those who cannot leave torch."""

import copy
import warnings
from collections.abc import Collection

import torch
from torch import nn
from transformers import PreTrainedModel

from common.errors import UserError, unknown_name
from common.hardware import bf16_pays
from common.quantised import refuse_int8


def torch_int8(model: PreTrainedModel, *, exclude: Collection[str] = ()) -> PreTrainedModel:
    """A copy whose linear maps are dynamic int8: weights with one scale a column, activations with one a batch.

    Tables of pieces stay in fp32, and so does the last map, which gives the outputs. It cannot be saved as safetensors:
    make it anew from the model's folder.

    Args:
        model: on the CPU; it is left as it is.
        exclude: names of modules that stay in fp32 with all that is in them, as in "bert.encoder.layer.0".

    Raises:
        UserError: a name in `exclude` that no module has, or a model that is not on the CPU or in int8 already.
    """
    if model.device.type != "cpu":
        raise UserError(f"int8 runs on the CPU, and the model is on {model.device}: move it with .cpu() first")
    refuse_int8(model, "quantised again")
    names = [name for name, _ in model.named_modules()]
    for name in exclude:
        if name not in names:
            raise unknown_name("module", name, names)
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    chosen = [name for name in linear[:-1] if not any(f"{name}.".startswith(f"{part}.") for part in exclude)]
    with warnings.catch_warnings():
        # torch.ao is to move to torchao, whose dynamic int8 was slower on CPUs.
        warnings.simplefilter("ignore")
        from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

        return quantize_dynamic(copy.deepcopy(model).eval(), dict.fromkeys(chosen, per_channel_dynamic_qconfig))


def torch_bf16(model: PreTrainedModel) -> PreTrainedModel:
    """A copy with weights and arithmetic in bf16: half the bytes.

    Raises:
        UserError: this processor would emulate it, and be slower than in fp32.
    """
    if model.device.type == "cpu" and not bf16_pays():
        raise UserError("this processor has no bf16 products (AVX512-BF16 or AMX) and would emulate them: use fp32")
    return copy.deepcopy(model).eval().to(torch.bfloat16)
