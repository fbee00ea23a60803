"""Teachers of every family: their weights in BERT's class, and every loss that they support, padded and not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from families import BERT_LIKE, TEACHERS, tiny_classifier, tiny_config
from toy import toy_task
from transformers import BertForSequenceClassification

from common.families import max_length, scored_layers
from distill.distiller import Distiller
from distill.outputs import features
from distill.projections import fitted_projection
from distill.stages import Stage
from distill.substitutes import answerable
from distill.terms import TERMS
from students.build import build_student
from students.mapping import as_bert
from students.presets import STUDENTS, StudentConfig, student_preset
from teacher.attention import use_training_attention

Make = Callable[..., BertForSequenceClassification]
TOLERANCE = 2e-5
"""Of losses and hidden states in fp32, relative and absolute."""


def _batch(pad: int, *, length: int, lengths: tuple[int, ...]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(5, 90, (len(lengths), max(lengths)), generator=generator)
    ids = torch.nn.functional.pad(ids, (0, length - max(lengths)), value=pad)
    mask = (torch.arange(length)[None, :] < torch.tensor(lengths)[:, None]).long()
    return {
        "input_ids": torch.where(mask.bool(), ids, pad),
        "attention_mask": mask,
        "token_type_ids": torch.zeros_like(ids),
        "labels": torch.arange(len(lengths)) % 3,
        "index": torch.arange(len(lengths)),
    }


RAGGED = {"length": 14, "lengths": (12, 7, 3)}


@pytest.mark.parametrize("kind", BERT_LIKE)
@pytest.mark.parametrize("head", ["SequenceClassification", "TokenClassification", "QuestionAnswering", "MaskedLM", ""])
def test_in_berts_class_the_weights_compute_the_same(kind: str, head: str) -> None:
    if head == "SequenceClassification":
        model = tiny_classifier(kind)
    else:
        auto: Any = getattr(transformers, f"AutoModelFor{head}" if head else "AutoModel")
        model = auto.from_config(tiny_config(kind)).eval()
    batch = _batch(model.config.pad_token_id, **RAGGED)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    view, valid = as_bert(model), batch["attention_mask"].bool()
    with torch.no_grad():
        theirs, ours = model(**inputs, output_hidden_states=True), view(**inputs, output_hidden_states=True)
    for first, second in zip(theirs.hidden_states, ours.hidden_states, strict=True):
        torch.testing.assert_close(second[valid], first[valid], rtol=TOLERANCE, atol=TOLERANCE)
    if kind not in ("electra-wide", "distilbert") or head != "SequenceClassification":
        place = valid if theirs[0].shape[:2] == valid.shape else ...
        torch.testing.assert_close(ours[0][place], theirs[0][place], rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("kind", BERT_LIKE)
def test_a_copy_of_every_layer_has_the_teachers_hidden_states(kind: str) -> None:
    teacher = tiny_classifier(kind)
    batch = _batch(teacher.config.pad_token_id, **RAGGED)
    config = StudentConfig(
        name="all", family="distilbert", layers=2, hidden=32, heads=4, ffn=64, teacher_layers=(0, 1), start="copy"
    )
    student = build_student(config, teacher, seed=0)
    own, other = (features(model, batch, hidden=True, attention=False).hidden for model in (student, teacher))
    for first, second in zip(own, other, strict=True):
        valid = batch["attention_mask"].bool()
        torch.testing.assert_close(first[valid], second[valid], rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", STUDENTS)
@pytest.mark.parametrize("kind", TEACHERS)
def test_every_student_is_made_from_every_teacher(kind: str, name: str) -> None:
    teacher = tiny_classifier(kind)
    config = student_preset(name, teacher.config)
    assert (config.start == "embeddings") == (kind not in BERT_LIKE)
    student = build_student(config, teacher, seed=0)
    assert student.config.max_position_embeddings == max_length(teacher.config) == 64
    assert student.config.id2label == teacher.config.id2label
    for entry in ("vocab_size", "pad_token_id", "bos_token_id", "eos_token_id"):
        assert getattr(student.config, entry) == getattr(teacher.config, entry), entry
    batch = _batch(teacher.config.pad_token_id, length=64, lengths=(64, 30))
    assert features(student, batch, hidden=False, attention=False).logits.isfinite().all()
    # What was taken over is no noise: products of pieces' rows go with the teacher's.
    fresh = build_student(student_preset(name, teacher.config), teacher, seed=1)
    tables = [model.get_input_embeddings().weight for model in (student, fresh)]
    assert torch.equal(*tables)


def _distiller(kind: str, tiny_bert: Make, losses: dict[str, float]) -> Distiller:
    teacher = tiny_classifier(kind)
    student = tiny_bert(layers=2, hidden=16, seed=2, vocab_size=120, pad_token_id=teacher.config.pad_token_id)
    stage = Stage(
        name="toy", description="", teacher="finetuned", data="train", losses=losses, learning_rate=1e-3, dropout=True
    )
    (stage,) = answerable((stage,), 2, teacher.config, 32)
    sample = [_batch(teacher.config.pad_token_id, **RAGGED)]
    projection = fitted_projection(student, teacher, sample, (1, 2))
    return Distiller(student, teacher, stage, toy_task(), projection=projection).eval()


@pytest.mark.parametrize("loss", TERMS)
@pytest.mark.parametrize("kind", TEACHERS)
def test_padding_changes_no_loss_of_any_family(kind: str, loss: str, tiny_bert: Make) -> None:
    distiller = _distiller(kind, tiny_bert, {loss: 1.0})
    replaced = loss in ("attention", "attention_kl") and kind in ("deberta", "deberta-v2", "modernbert")
    (name,) = ("relations",) if replaced else (loss,)
    pad = distiller._teacher[0].config.pad_token_id  # type: ignore[union-attr]
    plain, padded = (_batch(pad, length=length, lengths=(11, 11, 11)) for length in (11, 24))
    bare, filled = distiller(plain), distiller(padded)
    assert name in bare
    for part, value in bare.items():
        torch.testing.assert_close(filled[part], value, rtol=TOLERANCE, atol=TOLERANCE)
    bare[name].backward()
    gradients = [parameter.grad for parameter in distiller.student.parameters() if parameter.grad is not None]
    assert sum(float(gradient.abs().sum()) for gradient in gradients) > 0


@pytest.mark.parametrize("kind", ["deberta", "deberta-v2"])
def test_what_is_seen_of_disentangled_attention_is_what_it_computes_with(kind: str) -> None:
    """Without terms of positions the attention is softmax(QK / sqrt(d)) V, which the captured states must give."""
    model = tiny_classifier(kind, pos_att_type=[])
    batch = _batch(0, **RAGGED)
    use_training_attention(model)
    use_training_attention(model)
    contexts: list[torch.Tensor] = []
    for layer in model.base_model.encoder.layer:
        layer.attention.self.register_forward_hook(lambda module, inputs, output: contexts.append(output[0]))
    with torch.no_grad():
        seen = features(model, batch, hidden=False, attention=True).attention
    assert len(seen) == 2
    assert scored_layers(model.config, 32) == frozenset()
    keys = batch["attention_mask"].bool()
    for (query, key, _, value), context in zip(seen, contexts, strict=True):
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        weights = scores.masked_fill(~keys[:, None, None, :], float("-inf")).softmax(-1)
        torch.testing.assert_close((weights @ value).transpose(1, 2).flatten(2)[keys], context[keys])
