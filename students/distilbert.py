"""DistilBERT (arXiv 1910.01108), and its weights from layers of a BERT teacher."""

from typing import Any

import torch
from transformers import DistilBertConfig, PretrainedConfig, PreTrainedModel

from common.output_layer import output_layer
from students.activations import Activations
from students.mapping import DISTILBERT_LAYER
from students.presets import StudentConfig
from students.weights import check_same_width, copy_layer, copy_mean, same_head


def configuration(config: StudentConfig, teacher: PretrainedConfig, **head: Any) -> DistilBertConfig:
    """The transformers configuration; vocabulary, positions, activation and dropouts are the teacher's."""
    head_dropout = teacher.classifier_dropout if teacher.classifier_dropout is not None else teacher.hidden_dropout_prob
    return DistilBertConfig(
        vocab_size=teacher.vocab_size,
        max_position_embeddings=teacher.max_position_embeddings,
        n_layers=config.layers,
        n_heads=config.heads,
        dim=config.hidden,
        hidden_dim=config.ffn,
        activation=teacher.hidden_act,
        dropout=teacher.hidden_dropout_prob,
        attention_dropout=teacher.attention_probs_dropout_prob,
        seq_classif_dropout=head_dropout,
        pad_token_id=teacher.pad_token_id,
        bos_token_id=teacher.bos_token_id,
        eos_token_id=teacher.eos_token_id,
        **head,
    )


@torch.no_grad()
def copy(
    student: PreTrainedModel, teacher: PreTrainedModel, config: StudentConfig, activations: Activations | None
) -> None:
    """Embeddings and `config.teacher_layers` of the teacher into the student, in place.

    - DistilBERT has no segment table: the row of segment 0 is added to every position, so that the embedding output for
      a single sentence equals the teacher's. (The published extraction script drops that row.) Second sentences of a
      pair look like first ones from here on.
    - DistilBERT's LayerNorms have a fixed epsilon of 1e-12, which is BERT's usual one.
    - The head: the teacher's pooler becomes `pre_classifier`, and its classifier the classifier where the labels agree.
      BERT puts a tanh between them and DistilBERT a ReLU, so negative pooled values are lost: this is a start, no copy.

    `activations` are not needed here.

    Raises:
        UserError: another width, head count or FFN than the teacher's.
    """
    check_same_width(config, teacher.config)
    ours: Any = student.base_model
    theirs: Any = teacher.base_model
    copy_mean(ours.embeddings.word_embeddings, [theirs.embeddings.word_embeddings])
    copy_mean(ours.embeddings.LayerNorm, [theirs.embeddings.LayerNorm])
    copy_mean(ours.embeddings.position_embeddings, [theirs.embeddings.position_embeddings])
    ours.embeddings.position_embeddings.weight += theirs.embeddings.token_type_embeddings.weight[0].float().cpu()
    for layer, index in zip(ours.transformer.layer, config.teacher_layers or (), strict=True):
        copy_layer(layer, [theirs.encoder.layer[index]], DISTILBERT_LAYER)
    if theirs.pooler is not None and hasattr(student, "pre_classifier"):
        copy_mean(student.get_submodule("pre_classifier"), [theirs.pooler.dense])
    if same_head(student, teacher):
        copy_mean(output_layer(student), [output_layer(teacher)])


def copy_masked_head(
    student: Any, teacher: PreTrainedModel, config: StudentConfig, activations: Activations | None
) -> None:
    """The teacher's masked-language head into the student's, in place; its table of pieces is tied to the student's.

    `config` and `activations` are not needed here.
    """
    theirs: Any = teacher.get_submodule("cls.predictions")
    copy_mean(student.vocab_transform, [theirs.transform.dense])
    copy_mean(student.vocab_layer_norm, [theirs.transform.LayerNorm])
    with torch.no_grad():
        student.vocab_projector.bias.copy_(theirs.bias)
