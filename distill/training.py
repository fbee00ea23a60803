"""One student trained once: its stages in order, each resumable, and its answers to the evaluation split."""

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from common.artifact import CardText, save
from common.files import new_folder, write_json
from common.progress import say
from distill.cache import StoredFeatures
from distill.distiller import Distiller, without_dropout
from distill.job import Job, Shared
from distill.journal import Journal
from distill.layers import layer_map
from distill.mixture import MixedBatches
from distill.precompute import looked_at, storable
from distill.projections import fitted_projection, width
from distill.reading import source_of_weights
from distill.stage_batches import StageBatches, stage_batches
from distill.stages import Stage
from distill.transfer_sets import with_sets
from distill.two_tokenizers import tokenizer_at
from students.activations import gather_activations
from students.albert import sharing_note
from students.build import build_student
from teacher.batches import Batches
from teacher.checkpoint import Checkpoints
from teacher.class_weights import class_weights
from teacher.head import standardised_head
from teacher.loop import Outcome, train
from teacher.loop_config import resolve_precision
from teacher.prepare import Prepared, predict_logits, prepare, tune
from teacher.rows import only_rows
from teacher.sources import Loaded, load_for_task
from teacher.tasks import task_for
from teacher.tasks.base import Encoded


def run_job(job: Job, shared: Shared) -> None:
    """Train, save the model folder, and write the answers; what an earlier sitting finished is not done again."""
    if job.finished:
        return
    task = task_for(shared.data)
    teacher = load_for_task(shared.teacher, task, seed=0)
    tokenizer = teacher.tokenizer
    if shared.student_tokenizer is not None:
        tokenizer = tokenizer_at(shared.student_tokenizer, "--student-tokenizer")
    prepared = prepare(task, tokenizer, shared.max_length)
    student = _first_weights(job, teacher, prepared)
    wanted = {name for stage in job.stages for name in stage.sets if name in shared.sets}
    prepared = with_sets(prepared, {name: shared.sets[name] for name in sorted(wanted)})
    for stage in job.stages:
        _run_stage(stage, job, student, teacher, prepared, shared)
    tune(student, prepared)
    logits = predict_logits(student, prepared, "evaluate")
    count = len(prepared.splits["evaluate"].references)
    value = prepared.metrics(logits, "evaluate")[task.data.metric]
    save(
        student,
        tokenizer,
        job.model_folder,
        replace=True,
        max_length=prepared.max_length,
        pairs=task.pairs,
        card=CardText(
            title=f"{task.data.name}: {job.student.name}",
            description=_describe(job),
            teacher=shared.teacher_origin,
            task=task.data.name,
            quality={f"{task.data.metric} (evaluate, n = {count:,})": value},
        ),
    )
    with new_folder(job.folder / "answers") as target:
        np.save(target / "evaluate.npy", logits)
    for stage in job.stages:
        Checkpoints.clear(job.folder / stage.name)
    write_json(job.folder / "job.json", {"seed": job.seed, task.data.metric: value})
    for stage in job.stages:
        shutil.rmtree(job.folder / stage.name / "final", ignore_errors=True)


def _describe(job: Job) -> str:
    return " ".join(filter(None, (*(stage.words for stage in job.stages), sharing_note(job.student))))


def _first_weights(job: Job, loaded: Loaded, prepared: Prepared) -> PreTrainedModel:
    """The student before training; what it is cut or factorised by is seen on the first training texts."""
    teacher = loaded.model
    if prepared.tokenizer is not loaded.tokenizer:
        teacher = source_of_weights(teacher, loaded.tokenizer, prepared)
    activations = gather_activations(teacher, prepared.sample(8)) if job.student.start in ("prune", "svd") else None
    return build_student(job.student, teacher, seed=job.seed, activations=activations, length=prepared.max_length)


def _run_stage(
    stage: Stage, job: Job, student: PreTrainedModel, finetuned: Loaded, prepared: Prepared, shared: Shared
) -> None:
    """Train `student` in place, or load what the finished stage left."""
    folder = job.folder / stage.name
    if (folder / "stage.json").is_file():
        _load(student, folder)
        return
    teacher = _teacher_of(stage, finetuned.model, prepared, shared)
    found = stage_batches(stage, job, prepared, finetuned.tokenizer, shared)
    batches = found.batches
    distiller = _distiller(stage, student, teacher, prepared, found, shared, folder, finetuned.tokenizer)
    precision = resolve_precision(shared.precision)
    undropped = contextlib.nullcontext() if stage.dropout else without_dropout(student)
    with only_rows(student, found.ids), undropped, standardised_head(student, prepared.task):
        outcome = train(
            distiller,
            batches,
            stage.loop(
                examples=len(batches.lengths),
                seed=job.seed,
                precision=precision,
                checkpoint_every=shared.checkpoint_every,
            ),
            folder,
            label=f"{job.name}: {stage.name}",
            evaluate=(lambda: prepared.score(student, "select", precision)) if stage.select else None,
        )
    _finish(student, outcome, folder, examples=len(batches.lengths))


def _distiller(
    stage: Stage,
    student: PreTrainedModel,
    teacher: PreTrainedModel,
    prepared: Prepared,
    found: StageBatches,
    shared: Shared,
    folder: Path,
    tokenizer: PreTrainedTokenizerBase,
) -> Distiller:
    """What the stage trains; `folder` is the stage's, `tokenizer` the teacher's."""
    batches = found.batches
    logits = _teacher_logits(stage.sets, shared) if "soft" in stage.losses else None
    twofold = prepared.task.per_position and tokenizer is not prepared.tokenizer
    if logits is not None and twofold:
        logits = _carried(logits, stage, prepared, tokenizer, shared.max_length)
    encoded = _encoded(stage, batches, prepared)
    return Distiller(
        student,
        teacher if stage.layered else None,
        stage,
        prepared.task,
        projection=_projection(stage, student, teacher, prepared, found)
        if stage.needs("hidden")
        else torch.nn.Identity(),
        teacher_logits=logits,
        voices=shared.voices,
        labeled=torch.from_numpy(batches.mixed.labeled) if isinstance(batches, MixedBatches) else None,
        answered=~logits.isnan().any(dim=-1) if logits is not None and shared.outputs_only else None,
        lengths=found.lengths,
        entries=None if encoded is None else prepared.task.weights(encoded),
        pairs=None if encoded is None else encoded.pairs,
        carried=twofold or shared.carried,
        sample=found.first(4) if stage.layers == "nearest" else (),
        class_weights=class_weights(shared.class_weights, prepared),
        stored=_stored(stage, student, teacher, shared),
        journal=Journal(folder),
        norms=shared.gradient_norms,
    )


def _encoded(stage: Stage, batches: Batches, prepared: Prepared) -> Encoded | None:
    """The examples that the stage draws from; None where it reads general text."""
    if not stage.sets:
        return None
    return batches.mixed.encoded if isinstance(batches, MixedBatches) else prepared.splits["train"]


def _stored(stage: Stage, student: PreTrainedModel, teacher: PreTrainedModel, shared: Shared) -> StoredFeatures | None:
    """The teacher's insides, where they are kept and hold all that the stage looks at."""
    insides = shared.insides
    if insides is None or not storable(stage):
        return None
    wanted = looked_at(stage, student.config.num_hidden_layers, teacher.config.num_hidden_layers)
    return insides.open(teacher) if insides.wanted.serves(wanted) else None


def _teacher_logits(sets: Sequence[str], shared: Shared) -> torch.Tensor:
    """(n, outputs), or of several teachers (n, teachers, outputs): logits on these sets, one after the other."""
    return torch.from_numpy(np.concatenate([np.load(shared.teacher_logits[name]) for name in sets]))


def _carried(
    logits: torch.Tensor, stage: Stage, prepared: Prepared, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> torch.Tensor:
    """A teacher's logits on the labelled rows, a row of them a piece of its `tokenizer`, at the student's pieces."""
    if stage.sets != ("labeled",):
        raise ValueError(f"{stage.name}: only answers to labelled rows can be put at other pieces")
    theirs = prepared.task.encode(prepared.task.data.splits["train"], tokenizer, max_length)
    return torch.from_numpy(prepared.task.carried(logits.numpy(), theirs, prepared.splits["train"]))


def _teacher_of(stage: Stage, finetuned: PreTrainedModel, prepared: Prepared, shared: Shared) -> PreTrainedModel:
    if stage.teacher != "pretrained":
        return finetuned
    if shared.pretrained is None:
        say(f"{stage.name}: this teacher came fine-tuned, there is none before that: the fine-tuned one is used")
        return finetuned
    return load_for_task(shared.pretrained, prepared.task, seed=0).model


def _projection(
    stage: Stage, student: PreTrainedModel, teacher: PreTrainedModel, prepared: Prepared, found: StageBatches
) -> torch.nn.Module:
    if width(student) == width(teacher):
        return torch.nn.Identity()
    layers = layer_map(stage.layers, student.config.num_hidden_layers, teacher.config.num_hidden_layers)
    sample = found.first(8) if found.second else prepared.sample(8)
    return fitted_projection(student, teacher, sample, layers, shared=stage.projection == "shared")


def _finish(student: PreTrainedModel, outcome: Outcome, folder: Path, *, examples: int) -> None:
    with new_folder(folder / "final") as target:
        save_file(
            {name: value.detach().contiguous() for name, value in student.named_parameters()},
            target / "weights.safetensors",
        )
    write_json(folder / "stage.json", outcome.summary() | {"examples": examples})


def _load(student: PreTrainedModel, folder: Path) -> None:
    weights = load_file(folder / "final" / "weights.safetensors")
    with torch.no_grad():
        for name, parameter in student.named_parameters():
            parameter.copy_(weights[name])
