"""What all commands of a study have in common, and the refusal of one that has something else."""

from collections.abc import Sequence
from pathlib import Path

import optuna

from common.errors import UserError
from distill.study_config import StudyConfig
from distill.study_objectives import directions
from distill.study_space import Space
from distill.transfer_sets import weights_digest
from teacher.data import TaskData
from teacher.loop_config import resolve_precision
from teacher.sources import resolve

NOT_GIVEN = ("None", "none")
WEIGHTS = "weights of --teacher"
_LONG = ("long", "stride")
"""Options of the task that decide how its texts are cut, beside --max-length: the rows are the same for all of them."""
_FREE = ("trials", "timeout", "sampler", "seed", "fix", "range", "space")
"""Options that may change from one command of a study to the next; what narrows the space is in its parts."""


def opened(
    config: StudyConfig,
    name: str,
    space: Space,
    data: TaskData,
    storage: optuna.storages.BaseStorage,
    *,
    options: Sequence[str],
) -> optuna.Study:
    """The study in the store, new or gone on with; of its target are these `options`, fields of the configuration.

    Raises:
        UserError: a study of that name with other settings.
    """
    study = optuna.create_study(
        study_name=name, storage=storage, directions=directions(config.searching), load_if_exists=True
    )
    wanted = _identity(config, space, data, options)
    begun_with = _completed(study.user_attrs.get("identity", wanted), wanted)
    changed = [key for key in wanted | begun_with if begun_with.get(key) != wanted.get(key)]
    if changed:
        raise UserError(
            f"study {name} was begun with other settings ({', '.join(changed[:4])}): repeat them, or choose "
            "another --name"
        )
    study.set_user_attr("identity", wanted)
    return study


def _completed(stored: dict[str, str], wanted: dict[str, str]) -> dict[str, str]:
    """What a study was begun with; what older ones have not noted is as it is now."""
    # The first is always noted where these are: a study without it is one of before.
    cut = [f"--{name}" for name in _LONG if f"--{_LONG[0]}" not in stored]
    later = {key: wanted[key] for key in ("--precision", WEIGHTS, *cut) if key in wanted}
    noted = {key: value for key, value in stored.items() if value not in NOT_GIVEN}
    return later | {key: value for key, value in noted.items() if (key, value) != ("--precision", "auto")}


def _identity(config: StudyConfig, space: Space, data: TaskData, targets: Sequence[str]) -> dict[str, str]:
    """All that trials of one study must have in common, by flag or part of the space."""
    options = {key: str(value) for key, value in vars(config.searching).items() if key not in _FREE}
    every = {
        **{f"--{key.replace('_', '-')}": value for key, value in options.items()},
        **{f"--{key.replace('_', '-')}": str(getattr(config, key)) for key in ("teacher", *targets)},
        "--precision": resolve_precision(config.precision),
        **{f"space: {name}": part.words for name, part in space.items() if not part.idle},
        **{f"--{key.replace('_', '-')}": str(value) for key, value in vars(config.finetuning).items()},
        **{flag: str(value) for flag, value in config.scratch.given.items()},
        "--objective": ",".join(config.searching.objectives),
        **{f"--{key.replace('_', '-')}": str(getattr(config.data, key)) for key in ("max_length", *_LONG)},
        "--task": data.fingerprint,
    }
    if Path(config.teacher).is_dir():
        every[WEIGHTS] = weights_digest(resolve(config.teacher))
    # Options that are not given are as if they were not there yet.
    return {key: value for key, value in every.items() if value not in NOT_GIVEN}
