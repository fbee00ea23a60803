"""Fine-tune an encoder on a task: `python -m teacher.finetune --task sst2 --model minilm --out DIR`."""

from dataclasses import dataclass, field
from pathlib import Path

from common.command import run_command
from common.errors import UserError
from common.progress import say
from teacher.cross_validation import cross_validated
from teacher.data import TaskData, describe
from teacher.difference import majority
from teacher.loop_config import resolve_precision
from teacher.options import FinetuneOptions, TaskOptions
from teacher.prepare import predict_logits, settings_of
from teacher.ranks import ranks
from teacher.ready import Teacher, ready_teacher
from teacher.scratch import encoder_for
from teacher.scratch_options import ScratchOptions
from teacher.tasks import task_for

EXAMPLES = """
  python -m teacher.finetune --task pydocs --model minilm --out runs/teacher
  python -m teacher.finetune --task reviews.csv --label-column stars --model DIR --out runs/reviews
"""


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig:
    """Fine-tune an encoder on a task and write a model folder that transformers loads."""

    model: str = "auto"
    """auto (minilm if installed, else scratch), minilm, scratch (pretrained here first), a model folder, or a hub
    id."""
    out: Path
    """Run folder: the model goes to OUT/model. The same command again reuses it, or goes on where it was stopped."""
    data: TaskOptions = field(default_factory=TaskOptions)
    training: FinetuneOptions = field(default_factory=FinetuneOptions)
    scratch: ScratchOptions = field(default_factory=ScratchOptions)
    precision: str = "auto"
    """auto (bf16 where the processor multiplies it natively), fp32 or bf16."""
    folds: int | None = None
    """For small data: so many times, 5 say, fine-tune on all but one part of the rows and evaluate on that part; then
    make the model from all of them. Classes are dealt out evenly, equal texts together. The parts' models and
    folds.json are beside OUT, in OUT-folds."""


def main(config: FinetuneConfig) -> None:
    """The command."""
    config.scratch.refuse_unless_scratch(config.model, "--model")
    resolve_precision(config.precision)
    ranks()
    data = config.data.load()
    for line in describe(data):
        say(line)
    source = encoder_for(
        config.model,
        config.out.parent / "teachers",
        corpus="auto",
        precision=config.precision,
        checkpoint_every=200,
        data=data,
        scratch=config.scratch,
    )

    def fit(task: TaskData, options: FinetuneOptions, folder: Path) -> Teacher:
        return ready_teacher(
            source, task_for(task), options, folder, max_length=config.data.max_length, precision=config.precision
        )

    if config.folds is None:
        teacher = fit(data, config.training, config.out)
    else:
        teacher = cross_validated(data, config.training, config.folds, config.data.data_seed, fit=fit, out=config.out)
    if teacher.outcome is None:
        raise UserError(f"{config.model} is fine-tuned on this task already: use it as it is with --teacher")
    if not ranks().is_main_process:
        return
    metrics = teacher.prepared.metrics(predict_logits(teacher.model, teacher.prepared, "evaluate"), "evaluate")
    references = teacher.prepared.splits["evaluate"].references
    say(
        f"evaluate ({data.origins['evaluate']}, n = {len(references):,}): "
        + ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
    )
    if metrics[data.metric] <= (constant := majority(teacher.prepared.task, references)):
        say(f"warning: no better than always giving the same answer ({constant:.4f}): nothing of the task was learned")
    for name, value in settings_of(teacher.model, teacher.prepared.task).items():
        say(f"{name.replace('_', ' ')}: {value:.3f}, found on the selection split, and kept in the model's config.json")
    say(f"model: {teacher.folder}")


if __name__ == "__main__":
    raise SystemExit(run_command(main, FinetuneConfig, examples=EXAMPLES))
