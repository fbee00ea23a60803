"""Distil a student on text alone: `python -m distill.general --student tiny --teacher minilm --out DIR`."""

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import PretrainedConfig, PreTrainedModel

from common.command import run_command
from common.errors import UserError
from common.families import max_length
from common.progress import say
from distill.distiller import without_dropout
from distill.general_config import GeneralConfig
from distill.general_folder import DONE, write_student
from distill.general_objective import TextDistiller
from distill.general_text import masked_batches, sequences_of
from distill.layers import check_attention
from distill.projections import fitted_projection
from distill.shapes import any_depth, planned_student
from distill.text import text_batches
from students.activations import gather_activations
from students.albert import sharing_note
from students.build import encoder
from students.masked import build_encoder, head_from_teacher
from students.presets import StudentConfig
from teacher.batches import Batches
from teacher.corpus import Corpus, load_corpus
from teacher.loop import Outcome, train
from teacher.pretrain_folder import open_work, sole_work
from teacher.pretrained import Pretrained, load_pretrained
from teacher.ranks import refuse_several
from teacher.rows import only_rows
from teacher.scratch import encoder_for, expected_config, expected_weights

SAMPLE = 8
"""Batches that first weights and projection are made by."""

EXAMPLES = """
  python -m distill.general --student tiny --teacher minilm --out runs/tiny-general
  python -m distill.general --student distil --teacher scratch --text FOLDER --epochs 3 --out runs/distil-general
  python -m distill.run --student tiny --student-from runs/tiny-general --task reviews.csv
"""


def main(config: GeneralConfig) -> None:
    """Distil, unless a student of these settings lies there already."""
    refuse_several("distill.general")
    corpus = load_corpus(config.text)
    settings = config.settings() | {"corpus_fingerprint": corpus.fingerprint()}
    weights = expected_weights(config.teacher)
    if weights is not None:
        settings["teacher_weights"] = weights
    with sole_work(config.out, settings, DONE) as needed:
        if needed:
            distil(config, corpus, settings)
        else:
            say(f"{config.out} is distilled with these settings already: reused. For another one choose another --out")
    say(f"student: {config.out}")


def distil(config: GeneralConfig, corpus: Corpus, settings: dict[str, Any]) -> None:
    """The recipe: teacher, text, student, losses, folder. While it runs, everything is in OUT-unfinished.

    Raises:
        UserError: a student or a layer map that the teacher does not allow, soft losses with a teacher that has no
        head for masked pieces, an interrupted run without --resume, no text.
    """
    expected = expected_config(config.teacher, scratch=config.scratch)
    _layers(config, planned_student(config.student, expected, config.shape, start=config.start), expected)
    # Before a teacher is pretrained: what lies there may be in the way.
    work = open_work(config.out, settings, resume=config.resume)
    with work.unless_refused():
        teacher = _teacher(config)
        student = planned_student(config.student, teacher.model.config, config.shape, start=config.start)
        length = min(config.length, max_length(teacher.model.config))
        if length < config.length:
            say(f"note: --length {config.length}: the teacher has positions for {length} pieces, so that is the length")
        wanted = None if config.wanted_steps is None else config.wanted_steps * config.batch_size
        sequences = sequences_of(corpus, teacher.tokenizer, length=length, wanted=wanted)
        model, objective = _student(config, student, teacher, sequences)
    batches = _batches(config, teacher, sequences)
    steps = config.wanted_steps or math.ceil((config.epochs or 1) * batches.steps_per_epoch)
    # All pieces are predicted where some are masked: then all rows of the table are in use.
    ids = torch.from_numpy(np.unique(np.concatenate([*sequences, [teacher.tokenizer.pad_token_id]])))
    rows = contextlib.nullcontext() if config.masked else only_rows(encoder(model), ids)
    with rows, contextlib.nullcontext() if config.dropout else without_dropout(model):
        outcome = train(
            objective, batches, config.loop(steps), work.folder / "training", label=f"general {config.student}"
        )
    summary = _summary(config, student, teacher, model, outcome) | {
        "length": length,
        "sequences": len(sequences),
        "pieces": sum(map(len, sequences)),
    }
    write_student(config.out, model, teacher.tokenizer, settings=settings, summary=summary, work=work)


def _teacher(config: GeneralConfig) -> Pretrained:
    """The teacher before fine-tuning; refused where it lacks the head that the losses are about."""
    source = encoder_for(
        config.teacher,
        config.runs / "teachers",
        corpus=config.text,
        precision=config.precision,
        checkpoint_every=config.checkpoint_every,
        scratch=config.scratch,
    )
    teacher = load_pretrained(source)
    if "soft" in config.terms and not teacher.masked:
        others = ",".join(f"{name}={weight:g}" for name, weight in config.terms.items() if name != "soft")
        raise UserError(
            f"--teacher {source} has no head for masked pieces, which the loss 'soft' needs: give one that was "
            "pretrained on them (--teacher scratch, or a folder of python -m teacher.pretrain), leave soft out "
            f"(--losses {others or 'hidden'}), or take --losses embedding,hidden,attention, which are tiny's"
        )
    if teacher.finetuned:
        say(f"note: {source} is fine-tuned for a task: its student is less general than one of a pretrained teacher")
    return teacher


def _student(
    config: GeneralConfig, student: StudentConfig, teacher: Pretrained, sequences: Sequence[np.ndarray]
) -> tuple[PreTrainedModel, TextDistiller]:
    """The student with its first weights, and what it learns."""
    plain = text_batches(sequences, int(teacher.tokenizer.pad_token_id), batch_size=32, seed=0)
    sample = [plain.collate(indices.tolist(), 0) for indices in plain.plan(0)[:SAMPLE]]
    started = student.start in ("prune", "svd")
    model = build_encoder(
        student,
        teacher.model,
        seed=config.seed,
        activations=gather_activations(teacher.model, sample) if started else None,
        masked=config.masked or (teacher.masked and head_from_teacher(student)),
        teacher_masked=teacher.masked,
    )
    layers = _layers(config, student, teacher.model.config)
    projection = fitted_projection(encoder(model), encoder(teacher.model), sample, layers)
    objective = TextDistiller(
        model,
        teacher.model,
        weights=config.terms,
        layers=layers,
        projection=projection,
        temperature=config.temperature,
    )
    return model, objective


def _layers(config: GeneralConfig, student: StudentConfig, teacher: PretrainedConfig) -> tuple[int, ...]:
    """The teacher layer of each student layer."""
    layers = any_depth(config.layer_map, student.layers, teacher.num_hidden_layers)
    if "attention" in config.terms:
        check_attention(layers)
    return layers


def _batches(config: GeneralConfig, teacher: Pretrained, sequences: Sequence[np.ndarray]) -> Batches:
    if config.masked:
        return masked_batches(sequences, teacher.tokenizer, batch_size=config.batch_size, seed=config.seed)
    pad = int(teacher.tokenizer.pad_token_id)
    return text_batches(sequences, pad, batch_size=config.batch_size, seed=config.seed)


def _summary(
    config: GeneralConfig, student: StudentConfig, teacher: Pretrained, model: PreTrainedModel, outcome: Outcome
) -> dict[str, Any]:
    """What general.json and the card say beside the settings."""
    last = outcome.history[-1].values
    head = "trained" if config.masked else "the teacher's, adapted to this shape, not trained further"
    return {
        "student": student.name,
        "family": student.family,
        "architecture": type(model).__name__,
        "shape": f"{student.layers} layers of {student.hidden}, {student.heads} heads, FFN {student.ffn}",
        "start": student.start,
        "teacher": config.teacher,
        "text": config.text,
        "masked_text": config.masked,
        "head": head if model is not encoder(model) else None,
        "parameters": model.num_parameters(),
        "note": sharing_note(student),
        "last_losses": {name: last[name] for name in config.terms},
        **outcome.summary(),
    }


if __name__ == "__main__":
    raise SystemExit(run_command(main, GeneralConfig, examples=EXAMPLES))
