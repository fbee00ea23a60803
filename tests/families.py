"""Tiny encoders with random weights: of every family that is pretrained further, and that a teacher may be of."""

from collections.abc import Callable

import torch
from transformers import (
    AlbertConfig,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    CamembertConfig,
    DebertaConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    ModernBertConfig,
    PretrainedConfig,
    PreTrainedModel,
    RobertaConfig,
    XLMRobertaConfig,
)

from students.importance import Scores
from students.pruned_shape import EncoderShape

_SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_POSITIONS = {"max_position_embeddings": 64}
_ROBERTA = {**_SHAPE, "max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1}

_DISENTANGLED = {"relative_attention": True, "position_biased_input": False, "type_vocab_size": 0}

KINDS = ("bert", "roberta", "xlm-roberta", "electra", "distilbert", "albert")
BERT_LIKE = ("bert", "roberta", "xlm-roberta", "camembert", "electra-wide", "distilbert")
"""Whose layers and embeddings are a BERT's."""
TEACHERS = (*BERT_LIKE, "electra", "albert", "deberta", "deberta-v2", "modernbert")
"""ModernBERT's local layers see 4 pieces to either side."""


def tiny_config(kind: str, vocabulary: int = 120) -> PretrainedConfig:
    """Two layers of 32, 64 pieces long."""
    configs = {
        "bert": lambda: BertConfig(vocab_size=vocabulary, **_SHAPE, **_POSITIONS),
        "roberta": lambda: RobertaConfig(vocab_size=vocabulary, **_ROBERTA),
        "xlm-roberta": lambda: XLMRobertaConfig(vocab_size=vocabulary, **_ROBERTA),
        "electra": lambda: ElectraConfig(vocab_size=vocabulary, embedding_size=16, **_SHAPE, **_POSITIONS),
        "distilbert": lambda: DistilBertConfig(
            vocab_size=vocabulary, dim=32, n_layers=2, n_heads=4, hidden_dim=64, **_POSITIONS
        ),
        "albert": lambda: AlbertConfig(vocab_size=vocabulary, embedding_size=16, **_SHAPE, **_POSITIONS),
    }
    return (configs | _teacher_configs(vocabulary))[kind]()


def _teacher_configs(vocabulary: int) -> dict[str, Callable[[], PretrainedConfig]]:
    return {
        "camembert": lambda: CamembertConfig(vocab_size=vocabulary, **_ROBERTA),
        "electra-wide": lambda: ElectraConfig(vocab_size=vocabulary, embedding_size=32, **_SHAPE, **_POSITIONS),
        "deberta": lambda: DebertaConfig(
            vocab_size=vocabulary, pos_att_type=["c2p", "p2c"], **_DISENTANGLED, **_SHAPE, **_POSITIONS
        ),
        "deberta-v2": lambda: DebertaV2Config(
            vocab_size=vocabulary,
            pos_att_type=["p2c", "c2p"],
            position_buckets=8,
            share_att_key=True,
            norm_rel_ebd="layer_norm",
            **_DISENTANGLED,
            **_SHAPE,
            **_POSITIONS,
        ),
        "modernbert": lambda: ModernBertConfig(
            vocab_size=vocabulary,
            local_attention=8,
            global_attn_every_n_layers=2,
            **dict.fromkeys(("pad_token_id",), 0),
            **dict.fromkeys(("cls_token_id", "bos_token_id"), 2),
            **dict.fromkeys(("sep_token_id", "eos_token_id"), 3),
            **_SHAPE,
            **_POSITIONS,
        ),
    }


def tiny_classifier(kind: str, vocabulary: int = 120, **changes: object) -> PreTrainedModel:
    """In evaluation mode, of three labels; all weights drawn, so that no bias is 0 and no LayerNorm 1."""
    config = tiny_config(kind, vocabulary)
    for name, value in {"num_labels": 3, **changes}.items():
        setattr(config, name, value)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = AutoModelForSequenceClassification.from_config(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def tiny_masked_model(kind: str, vocabulary: int = 120) -> PreTrainedModel:
    """In evaluation mode. Heads have biases that are not 0, as after training."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForMaskedLM.from_config(tiny_config(kind, vocabulary))
        bias = model.get_output_embeddings().bias
        with torch.no_grad():
            bias.copy_(torch.randn(len(bias)))
    return model.eval()


def flat_scores(shape: EncoderShape) -> Scores:
    """Every part as important as every other."""
    return Scores(
        heads=tuple(torch.ones(count) for count in shape.heads),
        ffn=tuple(torch.ones(count) for count in shape.ffn),
        hidden=torch.ones(shape.hidden),
        layers=torch.ones(len(shape.heads)),
        pooler=torch.ones(shape.hidden),
    )
