"""A tiny encoder with a head for masked pieces, of every family that is pretrained further, with random weights."""

import torch
from transformers import (
    AlbertConfig,
    AutoModelForMaskedLM,
    BertConfig,
    DistilBertConfig,
    ElectraConfig,
    PretrainedConfig,
    PreTrainedModel,
    RobertaConfig,
    XLMRobertaConfig,
)

_SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_POSITIONS = {"max_position_embeddings": 64}
_ROBERTA = {**_SHAPE, "max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1}

KINDS = ("bert", "roberta", "xlm-roberta", "electra", "distilbert", "albert")


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
    return configs[kind]()


def tiny_masked_model(kind: str, vocabulary: int = 120) -> PreTrainedModel:
    """In evaluation mode. Heads have biases that are not 0, as after training."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForMaskedLM.from_config(tiny_config(kind, vocabulary))
        bias = model.get_output_embeddings().bias
        with torch.no_grad():
            bias.copy_(torch.randn(len(bias)))
    return model.eval()
