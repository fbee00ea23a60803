"""The course of a pretraining, whatever is learned: phases of length, how many steps, what is watched, what is kept."""

import contextlib
import copy
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from common.pretraining_record import HELD_OUT
from teacher.batches import Batches
from teacher.checkpoint import Checkpoints
from teacher.collapse import CollapseWatch
from teacher.history import Listen
from teacher.loop import SELECTION, Outcome, train
from teacher.objective import Objective
from teacher.phases import by_pieces, in_phases
from teacher.pretrain_config import PretrainConfig
from teacher.pretrain_folder import Work
from teacher.ranks import ranks
from teacher.scalars import Scalars

Figures = Callable[[], dict[str, float]]
"""Held-out figures of the model as it is now."""

Trained = TypeVar("Trained", bound=Objective)


def phased(config: PretrainConfig, steps: int, draw: Callable[[int, int], Batches]) -> Batches:
    """The batches of a run of `steps`; `draw` makes those of examples of a length, for so many that are wanted.

    With --long-length they are in two phases. A batch of the second holds as many pieces as the first's longest.
    """
    long = config.schedule.long_length
    if long is None or steps < 2:
        return draw(config.length, steps * config.examples_a_step)
    short_steps = max(1, min(steps - 1, round((1 - config.schedule.long_share) * steps)))
    first = draw(config.length, short_steps * config.examples_a_step)
    second = by_pieces(
        draw(long, (steps - short_steps) * config.examples_a_step), max(long, config.batch_size * config.length)
    )
    return in_phases(first, second, short_steps * config.accumulation)


def steps_in(
    config: PretrainConfig,
    objective: Objective,
    batches: Callable[[int], Batches],
    figures: Figures,
    trial: int = 12,
) -> int:
    """Steps that fit into config.minutes here and now, from the time of a few on a copy of the model.

    Where there are evaluations between them, one is timed too.
    """
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(
            copy.deepcopy(objective), batches(trial), config.loop(trial), Path(folder), label="time a few steps"
        )
    seconds, every = outcome.seconds / outcome.steps, config.schedule.evaluate_every
    if every is not None:
        started = time.monotonic()
        figures()
        seconds += (time.monotonic() - started) / every
    assert config.minutes is not None
    return max(1, math.floor(60 * config.minutes / seconds))


def run_course(
    config: PretrainConfig,
    objective: Objective,
    batches: Batches,
    steps: int,
    work: Work,
    *,
    unigram: float,
    figures: Figures,
) -> Outcome:
    """Train `objective` in place, to the last weights; the best by held-out loss lie in `work` if they are looked for.

    Args:
        config: of the run.
        objective: what is trained.
        batches: what on, in all phases.
        steps: how long.
        work: folder of the run.
        unigram: entropy of the pieces' frequencies, in nats.
        figures: names that end in _loss or _accuracy go to the history.
    """
    label = f"pretrain {config.size if config.start.source is None else Path(config.start.source).name}"
    # What is predicted where rare pieces are hidden more often is less even than the text.
    even = config.masking not in ("frequency", "domain")
    watch = CollapseWatch(
        label,
        unigram=unigram if even else math.inf,
        warm=round(config.schedule.warmup * steps),
        rate=config.peak,
        term=next(iter(objective.weights)),
    )
    with _listening(watch, config.schedule.tensorboard) as listen:
        return train(
            objective,
            batches,
            config.loop(steps),
            work.folder / "training",
            label=label,
            evaluate=None if config.schedule.evaluate_every is None else lambda: _noted(objective, figures()),
            keep_best=False,
            listen=listen,
        )


@contextlib.contextmanager
def _listening(watch: Listen, tensorboard: Path | None) -> Iterator[Listen]:
    if tensorboard is None or not ranks().is_main_process:
        yield watch
        return
    with contextlib.closing(Scalars(tensorboard)) as scalars:

        def both(step: int, values: Mapping[str, float]) -> None:
            watch(step, values)
            scalars(step, values)

        yield both


def _noted(objective: Objective, figures: Mapping[str, float]) -> dict[str, float]:
    """The figures under the names of the history, and the weighted loss, negated, to select by."""
    loss = sum(weight * figures.get(f"{name}_loss", 0.0) for name, weight in objective.weights.items())
    curves = {name: value for name, value in figures.items() if name.endswith(("_loss", "_accuracy"))}
    return {SELECTION: -loss} | {f"{HELD_OUT}{name.replace('_', ' ')}": value for name, value in curves.items()}


def best_of(objective: Trained, outcome: Outcome, work: Work) -> Trained | None:
    """A copy of `objective` with the weights of the best evaluation; None where these are the last ones."""
    if outcome.selected_step is None or outcome.selected_step == outcome.steps:
        return None
    best = copy.deepcopy(objective)
    Checkpoints(work.folder / "training", best, None).load_best(outcome.selected_step)
    return best
