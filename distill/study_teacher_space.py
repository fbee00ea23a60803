"""What a study of fine-tuning a teacher draws: every part with its bounds, and the options that they are."""

import dataclasses
from collections.abc import Mapping

from transformers import PretrainedConfig

from common.heads import SEQUENCE
from common.pooled import POOLED, plain_type
from common.pooling import POOLINGS
from distill.study_space import Part, Space, Value
from teacher.options import FinetuneOptions
from teacher.tasks import TASKS

UNFROZEN = "none"


def teacher_space(options: FinetuneOptions, encoder: PretrainedConfig, kind: str) -> Space:
    """The space around these options, for an encoder of this configuration on a task of this kind."""
    rate = options.teacher_learning_rate
    head = 1.0 if options.teacher_head_rate is None else options.teacher_head_rate / rate
    parts = [
        Part(name="learning_rate", default=rate, low=min(rate, 1e-5), high=max(rate, 5e-4), log=True),
        _choices("epochs", options.teacher_epochs, (1.0, 2.0, 3.0, 5.0)),
        _batch(options),
        _choices("layer_decay", options.teacher_layer_decay, (0.8, 0.9, 0.95, 1.0)),
        Part(name="head_factor", default=head, low=min(head, 1.0), high=max(head, 10.0), log=True),
        _freezing(options, encoder),
        _choices("dropout", _dropout(options, encoder), (0.0, 0.1, 0.2)),
    ]
    if TASKS[kind].head_kind == SEQUENCE and plain_type(encoder) in POOLED:
        parts.append(Part(name="pooling", default=options.teacher_pooling, choices=POOLINGS))
    return {part.name: part for part in parts}


def _choices(name: str, default: float, usual: tuple[float, ...]) -> Part:
    return Part(name=name, default=default, choices=tuple(sorted({default, *usual})))


def _batch(options: FinetuneOptions) -> Part:
    """Examples a step, or pieces where the options count in these."""
    tokens, size = options.teacher_batch_tokens, options.teacher_batch
    if tokens is not None:
        return Part(name="batch_tokens", default=tokens, choices=(max(1, tokens // 2), tokens, tokens * 2))
    return Part(name="batch", default=size, choices=(max(1, size // 2), size, size * 2))


def _freezing(options: FinetuneOptions, encoder: PretrainedConfig) -> Part:
    """Nothing, the embeddings, or the lowest third or half of the layers too; shared layers are one."""
    layers = int(getattr(encoder, "num_hidden_groups", encoder.num_hidden_layers))
    default = UNFROZEN if options.teacher_freeze is None else str(options.teacher_freeze)
    usual = (UNFROZEN, "0", str(layers // 3), str(layers // 2))
    return Part(name="freeze", default=default, choices=tuple(dict.fromkeys((*usual, default))))


def _dropout(options: FinetuneOptions, encoder: PretrainedConfig) -> float:
    """As given, or as the encoder's configuration says; DistilBERT and ModernBERT have names of their own for it."""
    if options.teacher_dropout is not None:
        return options.teacher_dropout
    names = ("hidden_dropout_prob", "dropout", "mlp_dropout")
    return float(next((getattr(encoder, name) for name in names if hasattr(encoder, name)), 0.1))


def finetune_options(given: FinetuneOptions, settings: Mapping[str, Value]) -> FinetuneOptions:
    """The settings of a trial as options of teacher.finetune; what they do not say is as it was given."""
    values = {f"teacher_{name}": value for name, value in settings.items() if name not in ("head_factor", "freeze")}
    if "head_factor" in settings:
        rate = float(settings.get("learning_rate", given.teacher_learning_rate))
        factor = float(settings["head_factor"])
        values["teacher_head_rate"] = None if factor == 1 else factor * rate  # type: ignore[assignment]
    if "freeze" in settings:
        freeze = settings["freeze"]
        values["teacher_freeze"] = None if freeze == UNFROZEN else int(freeze)  # type: ignore[assignment]
    return dataclasses.replace(given, **values)  # type: ignore[arg-type]
