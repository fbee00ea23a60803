"""Teachers of other families in BERT's terms: what their settings and weights are called there.

RoBERTa, XLM-R, CamemBERT, ELECTRA (where its embeddings are as wide as its layers) and DistilBERT are BERTs with other
names: in BERT's class their weights compute the same hidden states. DeBERTa, ModernBERT, ALBERT and an ELECTRA with
narrow embeddings compute something else, and only their table of pieces can be taken over.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
import transformers
from accelerate import init_empty_weights
from torch import Tensor
from transformers import BertConfig, BertModel, PretrainedConfig, PreTrainedModel

from common.families import family_of, max_length
from common.heads import AUTO_CLASSES
from common.pooled import plain_type

RELATIVE_LENGTH = 512
"""Positions of a student whose teacher has no table of them, and takes texts of any length."""

DISTILBERT_LAYER = {
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}
"""Part of a BERT layer to the same part of a DistilBERT layer."""

ALBERT_LAYER = {
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.dense",
    "attention.output.LayerNorm": "attention.LayerNorm",
    "intermediate.dense": "ffn",
    "output.dense": "ffn_output",
    "output.LayerNorm": "full_layer_layer_norm",
}
"""Part of a BERT layer to the same part of an ALBERT layer."""

_HEAD = {
    r"^classifier\.dense\.": "bert.pooler.dense.",
    r"^classifier\.out_proj\.": "classifier.",
}
_ROBERTA = {
    r"^roberta\.": "bert.",
    r"^lm_head\.dense\.": "cls.predictions.transform.dense.",
    r"^lm_head\.layer_norm\.": "cls.predictions.transform.LayerNorm.",
    r"^lm_head\.decoder\.": "cls.predictions.decoder.",
    r"^lm_head\.bias$": "cls.predictions.bias",
    **_HEAD,
}
BERT_NAMES: Mapping[str, Mapping[str, str]] = {
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "electra": {
        r"^electra\.": "bert.",
        r"^generator_predictions\.dense\.": "cls.predictions.transform.dense.",
        r"^generator_predictions\.LayerNorm\.": "cls.predictions.transform.LayerNorm.",
        r"^generator_lm_head\.bias$": "cls.predictions.bias",
        r"^generator_lm_head\.weight$": "cls.predictions.decoder.weight",
        r"^sequence_summary\.summary\.": "bert.pooler.dense.",
        **_HEAD,
    },
    "distilbert": {
        r"^distilbert\.transformer\.": "bert.encoder.",
        r"^distilbert\.": "bert.",
        r"^pre_classifier\.": "bert.pooler.dense.",
        r"^vocab_transform\.": "cls.predictions.transform.dense.",
        r"^vocab_layer_norm\.": "cls.predictions.transform.LayerNorm.",
        r"^vocab_projector\.bias$": "cls.predictions.bias",
        r"^vocab_projector\.weight$": "cls.predictions.decoder.weight",
        **{rf"(\.layer\.\d+)\.{re.escape(theirs)}\.": rf"\1.{ours}." for ours, theirs in DISTILBERT_LAYER.items()},
    },
}
"""Model type to: the beginning, or a part, of a weight's name to what BERT has there, replaced one after the other."""

_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "intermediate_size": ("intermediate_size", "hidden_dim"),
    "hidden_act": ("hidden_act", "activation", "hidden_activation"),
    "hidden_dropout_prob": ("hidden_dropout_prob", "dropout", "mlp_dropout"),
    "attention_probs_dropout_prob": ("attention_probs_dropout_prob", "attention_dropout"),
    "classifier_dropout": ("classifier_dropout", "classifier_dropout_prob", "seq_classif_dropout", "cls_dropout"),
    "layer_norm_eps": ("layer_norm_eps", "norm_eps"),
    "initializer_range": ("initializer_range",),
}
"""BERT's name of a setting to what the families call it."""


def in_bert_terms(teacher: PretrainedConfig, *, length: int = RELATIVE_LENGTH) -> PretrainedConfig:
    """The teacher's configuration as a BERT's, with the shape, pieces, dropouts and labels that it has.

    Positions are those that texts may take: RoBERTa's table of 514 serves 512. Where there is no table they are 512, or
    `length` where texts are longer. A BERT's own is given back as it is.

    Raises:
        UserError: a family that is not known, or a decoder.
    """
    family = family_of(teacher)
    if plain_type(teacher) == "bert":
        return teacher
    found = {
        name: value
        for name, theirs in _SETTINGS.items()
        if (value := next((given for other in theirs if (given := getattr(teacher, other, None)) is not None), None))
        is not None
    }
    positions = max_length(teacher)
    return BertConfig(
        vocab_size=teacher.vocab_size,
        hidden_size=teacher.hidden_size,
        num_hidden_layers=teacher.num_hidden_layers,
        num_attention_heads=teacher.num_attention_heads,
        max_position_embeddings=positions if family.positions else min(positions, max(length, RELATIVE_LENGTH)),
        type_vocab_size=family.segments or max(1, int(getattr(teacher, "type_vocab_size", 1))),
        pad_token_id=teacher.pad_token_id,
        bos_token_id=teacher.bos_token_id,
        eos_token_id=teacher.eos_token_id,
        id2label=teacher.id2label,
        label2id=teacher.label2id,
        problem_type=teacher.problem_type,
        **found,
    )


def has_bert_layers(teacher: PretrainedConfig) -> bool:
    """Whether layers and embeddings of such a teacher are a BERT's, whatever they are called."""
    if getattr(teacher, "embedding_size", teacher.hidden_size) != teacher.hidden_size:
        return False
    return plain_type(teacher) == "bert" or plain_type(teacher) in BERT_NAMES


def as_bert(teacher: PreTrainedModel) -> PreTrainedModel:
    """The teacher in BERT's class, in evaluation mode; its weights are shared, not copied. A BERT is given back as it
    is.

    Hidden states are the teacher's. So are logits, but for a classifier of ELECTRA or DistilBERT: they have another
    activation where BERT's pooler has a tanh.

    Raises:
        ValueError: a teacher without BERT's layers.
    """
    if plain_type(teacher.config) == "bert":
        return teacher
    if not has_bert_layers(teacher.config):
        raise ValueError(f"{type(teacher).__name__} has no layers of BERT's kind")
    with init_empty_weights():
        bert: Any = _bert_class(teacher)(in_bert_terms(teacher.config))
    bert.load_state_dict(_bert_weights(teacher, bert), strict=False, assign=True)
    bert.tie_weights()
    if any(parameter.is_meta for name, parameter in bert.named_parameters() if "pooler" in name):
        bert.base_model.pooler = None
    empty = [name for name, parameter in bert.named_parameters() if parameter.is_meta]
    if empty:
        raise ValueError(f"{type(teacher).__name__} has no weights for {', '.join(empty[:3])}")
    return bert.eval()


def _bert_class(teacher: PreTrainedModel) -> type[PreTrainedModel]:
    """BERT's class with the same kind of head; without a head where BERT has none such."""
    name = type(teacher).__name__
    head = next((head for head in (*AUTO_CLASSES, "ForMaskedLM") if name.endswith(head)), None)
    return getattr(transformers, f"Bert{head}") if head is not None else BertModel


def _bert_weights(teacher: PreTrainedModel, bert: PreTrainedModel) -> dict[str, Tensor]:
    """The teacher's weights by the names that they have in `bert`."""
    prefix = f"{teacher.base_model_prefix}." if teacher.base_model is teacher else ""
    state = {
        bert_name(prefix + name, plain_type(teacher.config)): tensor for name, tensor in teacher.state_dict().items()
    }
    positions = "bert.embeddings.position_embeddings.weight"
    # Where positions count from the padding's id on, the rows before the first place are for padding alone.
    state[positions] = state[positions][-bert.config.max_position_embeddings :]
    width = bert.config.hidden_size
    state.setdefault("bert.embeddings.token_type_embeddings.weight", torch.zeros(bert.config.type_vocab_size, width))
    if bert.base_model is bert:
        return {name.removeprefix("bert."): tensor for name, tensor in state.items()}
    return state


def bert_name(name: str, family: str) -> str:
    """What BERT calls a weight of a model of that family, head included.

    >>> bert_name("roberta.encoder.layer.0.output.dense.bias", "roberta")
    'bert.encoder.layer.0.output.dense.bias'
    >>> bert_name("distilbert.transformer.layer.11.ffn.lin1.weight", "distilbert")
    'bert.encoder.layer.11.intermediate.dense.weight'
    """
    for theirs, ours in BERT_NAMES[family].items():
        name = re.sub(theirs, ours, name)
    return name
