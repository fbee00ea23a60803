"""The main command: a task and a teacher to compared students, with a report. Reads top to bottom as the recipe."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.command import run_command
from common.errors import UserError
from common.families import max_length as longest
from common.files import sole_use
from common.progress import say
from distill.answers import check_outputs, stand_in, teacher_logits
from distill.as_trained import with_task
from distill.committee import check_others, read_otherwise
from distill.comparison import compared
from distill.compress_checks import check_students
from distill.compress_students import compressed_students
from distill.compress_summary import chain_table
from distill.config import RunConfig
from distill.contest import check_recipes, planned_students
from distill.drawn import drawn
from distill.job import Job, Shared
from distill.pace import on_equal_time
from distill.plan import pieces_a_text, plan, students_for
from distill.precompute import drop_insides, insides
from distill.runs import drop_if_unused, open_run
from distill.summary import closing_table
from distill.teacher_outputs import TeacherOutputs
from distill.transfer import TransferInputs, digests, read_inputs, set_sizes, transfer_sets
from distill.transfer_sets import TransferSet
from distill.two_tokenizers import Reader, expected_reader, reader_notes, students_reader
from distill.workers import run_jobs
from reports.build import build_reports, check_place
from reports.record import Record
from teacher.data import BUILT_IN, TaskData, describe
from teacher.difference import majority
from teacher.loop_config import resolve_precision
from teacher.ranks import refuse_several
from teacher.ready import Teacher, owned, ready_teacher, teacher_key
from teacher.scratch import encoder_for, expected_config
from teacher.tasks import TASKS, task_for

EXAMPLES = """
  python -m distill.run --student tiny
  python -m distill.run --student tiny,distil,albert --seeds 3
  python -m distill.run --student distil --task reviews.csv --teacher bert-base-uncased
  python -m distill.run --student distil --recipe fast,pkd,minilmv2
  python -m distill.run --student tiny --task sst2 --data-dir GLUE --teacher minilm
  python -m distill.run --student albert --sharing attention --task reviews.csv
  python -m distill.run --student tiny --task reviews.csv --prune 0.5
  python -m distill.run --student tiny --layers 3 --hidden 192 --task reviews.csv
"""


def main(config: RunConfig) -> None:
    """The recipe: data, teacher, students, comparison, report."""
    refuse_several("distill.run")
    started = time.monotonic()
    precision = resolve_precision(config.precision)
    check_place(config.reports)
    config, data = with_task(config)
    # What cannot be done is said before a folder is made and minutes go into a teacher.
    reader = expected_reader(config, data)
    expected = expected_config(config.teacher, data, config.scratch)
    notes = check_recipes(config, data.kind, expected, paired=data.paired, two=reader is not None)
    check_students(config.compress, planned_students(config, expected), expected, TASKS[data.kind].head_kind)
    inputs = read_inputs(config, data)
    notes += check_others(config.committee.others, data, max_length=config.data.max_length, precision=precision)
    run = open_run(config, data.name, {"--task": data.fingerprint, **digests(config)})
    with sole_use(run):
        say(f"run: {run}")
        for line in (*describe(data), *(f"note: {note}" for note in notes)):
            say(line)
        try:
            teacher, pretrained = make_teacher(config, data, inputs.outputs)
            students = students_for(config, teacher)
            reader = students_reader(config, teacher.prepared.tokenizer)
        except UserError:
            drop_if_unused(run)
            raise
        notes += teacher_notes(config, teacher, inputs.outputs, precision)
        sets = transfer_sets(config, inputs, teacher, pretrained, run)
        sizes, pieces = set_sizes(teacher.prepared, sets), pieces_a_text(reader, teacher, sets)
        jobs = plan(config, teacher, students, sizes, run, pieces=pieces, two=reader is not None)
        notes += reader_notes(reader, teacher.prepared.tokenizer, carries=teacher.prepared.task.carries)
        shared = shared_by_all(config, data, teacher, pretrained, inputs, sets, run, reader, jobs)
        kept = insides(teacher, jobs, run, gigabytes=config.distilling.cache_gb, bf16=precision == "bf16")
        shared = dataclasses.replace(shared, insides=kept)
        if config.distilling.equal == "time":
            jobs = on_equal_time(jobs, shared, run, config.distilling.workers)
        run_jobs(jobs, shared, config.distilling.workers)
        drop_insides(run)
        chains, failures = compressed_students(config, run, teacher, jobs, outputs_only=inputs.outputs is not None)
        record = compared(config, run, teacher, jobs, inputs=inputs, sets=sets, notes=notes, started=started)
        record = dataclasses.replace(record, compression=chains, failures=(*record.failures, *failures))
        record.save(run / "record.json")
    show(record, config)


def show(record: Record, config: RunConfig) -> None:
    """The page, and the last lines of a run."""
    build_reports(config.runs, config.reports, only=record.name if (config.reports / "index.html").exists() else None)
    say(closing_table(record))
    for chain in record.compression:
        say(f"{chain.model}, step by step:")
        say(chain_table(chain, record.task.metric, higher_is_better=record.task.higher_is_better))
    say(f"report: {config.reports / f'{record.name}.html'}")


def shared_by_all(
    config: RunConfig,
    data: TaskData,
    teacher: Teacher,
    pretrained: str | None,
    inputs: TransferInputs,
    sets: Mapping[str, TransferSet],
    run: Path,
    reader: Reader | None = None,
    jobs: Sequence[Job] = (),
) -> Shared:
    """What every student's training needs; `reader` as of `students_reader`.

    Of the `jobs`, if they are known, follows what the teacher is asked.
    """
    precision = resolve_precision(config.precision)
    known = reader is None and config.distilling.equal != "time" and inputs.outputs is None
    asked = drawn(jobs, teacher.prepared, {name: entry.folder for name, entry in sets.items()}) if known else {}
    return Shared(
        data=data,
        teacher=str(teacher.folder),
        teacher_origin=teacher.origin,
        teacher_logits=teacher_logits(teacher, config.committee.others, sets, run, precision, inputs.outputs, asked),
        voices=config.committee.voices,
        carried=teacher.prepared.task.carries
        and read_otherwise(config.committee.others, teacher.prepared.tokenizer, teacher.prepared.max_length),
        outputs_only=inputs.outputs is not None,
        sets={name: entry.folder for name, entry in sets.items()},
        pretrained=pretrained,
        student_tokenizer=None if reader is None else reader.place,
        text=general_text(config),
        text_length=min(config.distilling.text_length, longest(teacher.model.config)),
        max_length=teacher.prepared.max_length,
        precision=config.precision,
        checkpoint_every=config.checkpoint_every,
        class_weights=config.changes.class_weights,
        gradient_norms=config.distilling.gradient_norms,
    )


def _encoder(config: RunConfig, data: TaskData) -> str:
    """The encoder that --teacher names, pretrained here first where that is asked for."""
    return encoder_for(
        config.teacher,
        config.runs / "teachers",
        corpus=config.distilling.text,
        precision=config.precision,
        checkpoint_every=config.checkpoint_every,
        data=data,
        scratch=config.scratch,
    )


def make_teacher(config: RunConfig, data: TaskData, outputs: TeacherOutputs | None) -> tuple[Teacher, str | None]:
    """The teacher for the task, and where its weights before fine-tuning are (None if it came fine-tuned)."""
    teachers = config.runs / "teachers"
    source = _encoder(config, data)
    if outputs is not None:
        return stand_in(source, data, outputs, config.data.max_length), None
    task = task_for(data)
    key = teacher_key(source, task, config.finetuning, config.data.max_length, config.precision)
    folder = teachers / f"{data.name}-{Path(source).name}-{key}"
    teacher = ready_teacher(
        source,
        task,
        config.finetuning,
        folder,
        max_length=config.data.max_length,
        precision=config.precision,
        checkpoint_every=config.checkpoint_every,
    )
    return (owned(teacher, folder, key), None) if teacher.outcome is None else (teacher, source)


def teacher_notes(
    config: RunConfig, teacher: Teacher, outputs: TeacherOutputs | None, precision: str
) -> tuple[str, ...]:
    """What a reader should know of the teacher; and how good it is is said."""
    notes = check_teacher(teacher, precision) if outputs is None else check_outputs(outputs, teacher)
    positions = longest(teacher.model.config)
    if config.distilling.text_length > positions:
        notes += (f"General text is cut at {positions} pieces and not at --text-length: the teacher reads no more.",)
    return notes if teacher.outcome else (*notes, *config.finetuning.useless("No teacher was fine-tuned here"))


def check_teacher(teacher: Teacher, precision: str) -> tuple[str, ...]:
    """Say how good the teacher is before anything is learned from it; a warning where a constant answer is as good."""
    prepared = teacher.prepared
    metric = prepared.task.data.metric
    value = prepared.score(teacher.model, "select", precision)
    constant = majority(prepared.task, prepared.splits["select"].references)
    say(f"teacher: {metric} {value:.4f} on the selection split (a constant answer: {constant:.4f})")
    if value > constant:
        return ()
    warning = "The teacher is no better than always giving the same answer: students can learn nothing from it."
    say(f"warning: {warning}")
    return (warning,)


def general_text(config: RunConfig) -> str:
    """Where general text comes from."""
    if config.distilling.text != "auto":
        return config.distilling.text
    return "pydocs" if config.data.task in BUILT_IN else "task"


if __name__ == "__main__":
    raise SystemExit(run_command(main, RunConfig, examples=EXAMPLES))
