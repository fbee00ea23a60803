"""Weights that begin where PyTorch has tensors begin, so that a model computes the same wherever it came from."""

from typing import TypeVar

from transformers import PreTrainedModel

Model = TypeVar("Model", bound=PreTrainedModel)

LINE = 64
"""Bytes of a processor's cache line, at whose start PyTorch has every tensor begin."""


def aligned(model: Model) -> Model:
    """The model, with weights that do not begin a cache line moved to memory of their own.

    Those that are read from a safetensors file lie as they do in the file. Some processors (an AMD EPYC with AVX512)
    then round otherwise, so that a model would differ from itself before it was saved, and take 1 % longer for a short
    text.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.data_ptr() % LINE:
            tensor.data = tensor.data.clone()
    return model
