"""Floating-point operations of a forward pass: counted while it runs, and by hand.

A multiply-add is 2 operations. Only matrix products count, attention's own (QK^T and AV) included; biases, norms,
softmax and table look-ups do not.
"""

import contextlib
from collections.abc import Iterable, Iterator

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import PretrainedConfig, PreTrainedModel

from common.errors import UserError, unknown_name
from common.families import max_length
from common.heads import CHOICE, head_of_model
from common.pooled import plain_type


def flops(model: PreTrainedModel, *, batch: int = 1, length: int = 128) -> int:
    """Operations of one forward pass over `batch` sequences of `length` real tokens, counted by torch.

    The pass runs with eager attention, since torch counts the fused one of CPUs as zero; the model is left as it was.

    Raises:
        UserError: `length` is more than the model's positions.
    """
    positions = max_length(model.config)
    if length > positions:
        raise UserError(
            f"FLOPs at length {length} asked of a model with {positions} positions: choose a shorter length"
        )
    attention = model.config._attn_implementation
    # No inference mode here: it keeps linear layers whole, and the counter then misses them. Gradients are on, since
    # without them the counter fails where a module is given a weight, as those of DeBERTa v1 are.
    with evaluation_mode([model]), torch.enable_grad(), FlopCounterMode(display=False) as counter:
        try:
            model.set_attn_implementation("eager")
            model(**random_batch(model, batch=batch, length=length))
        finally:
            model.set_attn_implementation(attention)
    return int(counter.get_total_flops())


def flops_by_hand(config: PretrainedConfig, *, batch: int = 1, length: int = 128) -> int:
    """The same number from the configuration of a BERT, DistilBERT or ALBERT for sequence classification.

    A layer of width H with feed-forward width F at length L: 2L(4H^2 + 2HF) + 4L^2 H. The heads: pooler (BERT,
    ALBERT) or pre-classifier (DistilBERT) 2H^2, classifier 2H x labels. ALBERT adds 2LEH for the map from its embedding
    width E.

    Raises:
        UserError: another family.
    """
    inner = {"bert": "intermediate_size", "albert": "intermediate_size", "distilbert": "hidden_dim"}
    family = plain_type(config)
    if family not in inner:
        raise unknown_name("model type for FLOPs by hand", family, inner)
    hidden, feed_forward = config.hidden_size, getattr(config, inner[family])
    layer = 2 * length * (4 * hidden**2 + 2 * hidden * feed_forward) + 4 * length**2 * hidden
    embedding = 2 * length * config.embedding_size * hidden if family == "albert" else 0
    head = 2 * hidden**2 + 2 * hidden * config.num_labels
    return batch * (embedding + config.num_hidden_layers * layer + head)


def random_batch(model: PreTrainedModel, *, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Seeded input_ids and attention_mask (batch, length), all tokens real: what every encoder takes, and full work.

    (batch, 1, length) for a head that scores choices: one choice each.
    """
    generator = torch.Generator().manual_seed(0)
    # Id 0 is padding in most vocabularies, and RoBERTa derives positions from it.
    input_ids = torch.randint(2, int(model.config.vocab_size), (batch, length), generator=generator)
    if head_of_model(model) == CHOICE:
        input_ids = input_ids[:, None]
    return {"input_ids": input_ids.to(model.device), "attention_mask": torch.ones_like(input_ids, device=model.device)}


@contextlib.contextmanager
def evaluation_mode(models: Iterable[nn.Module]) -> Iterator[None]:
    """All modules in eval mode; afterwards each in the mode it had, also where parts of a model were frozen in eval."""
    before = [(module, module.training) for model in models for module in model.modules()]
    try:
        for module, _ in before:
            module.training = False
        yield
    finally:
        for module, training in before:
            module.training = training
