"""Where a study's trials are kept, and how each of them is run exactly once whatever dies.

A trial is a slot that was queued: workers on any machine take slots from the store, which gives each to one of them. A
slot whose worker died is queued again with the same settings.
"""

import os
import socket
import warnings
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
import psutil
from optuna.storages import BaseStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import Connection, Engine, event

from common.errors import UserError
from common.passwords import without_passwords
from common.words import first_line

HEARTBEAT, GRACE = 20, 120
"""Seconds between signs of life, and without one until a trial counts as dead: for workers on other machines."""
MOST_RETRIES = 3
"""Of a slot whose workers die: perhaps it is what they die of. The user may stop it as often as they like."""
SLOT, OWNER, SURPLUS, STOPS = "slot", "owner", "surplus", "stops"
"""User attributes of a trial: it was queued; who runs it; it was drawn beside the queue and not run; how many of its
attempts before the user stopped."""

with warnings.catch_warnings():
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    _retry = RetryHeartbeatStaleTrialCallback()


def _again(study: optuna.Study, trial: FrozenTrial, *, stopped: bool = False) -> bool:
    """Queue the slot of a trial that was cut off again, unless too many of its workers died; whether that was done.

    `trial` is a copy of the trial's own; `stopped`: by the user. It has no owner until a worker writes its name down:
    with the dead one's it would be taken for dead in the moments after a worker took it, while the sampler draws.
    """
    stops = trial.user_attrs.get(STOPS, 0) + stopped
    if 1 + len(trial.system_attrs.get("retry_history", ())) - stops > MOST_RETRIES:
        return False
    trial.user_attrs = {name: value for name, value in trial.user_attrs.items() if name != OWNER}
    if stops:
        trial.user_attrs[STOPS] = stops
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        _retry(study, trial)
    return True


def _stale(study: optuna.Study, trial: FrozenTrial) -> None:
    """What optuna calls for a trial without a sign of life."""
    _again(study, trial)


def open_storage(place: str | None, folder: Path) -> BaseStorage:
    """The store: journal:FILE, a file that ends in .log, an SQLAlchemy URL, or by default an SQLite file in `folder`.

    Raises:
        UserError: no such place, or a driver that is not installed.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    place = place or f"sqlite:///{folder / 'study.db'}"
    try:
        if place.startswith("journal:") or place.endswith(".log"):
            path = Path(place.removeprefix("journal:"))
            path.parent.mkdir(parents=True, exist_ok=True)
            _refuse_foreign(path)
            return JournalStorage(JournalFileBackend(str(path)))
        # A writer waits for another's transaction instead of failing.
        arguments = {"connect_args": {"timeout": 100}} if place.startswith("sqlite") else {"pool_pre_ping": True}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            store = RDBStorage(
                place,
                engine_kwargs=arguments,
                heartbeat_interval=HEARTBEAT,
                grace_period=GRACE,
                heartbeat_stale_trial_callback=_stale,
            )
        if place.startswith("sqlite"):
            _one_at_a_time(store.engine)
        return store
    except Exception as error:
        wanted = "expected journal:FILE or an SQLAlchemy URL such as sqlite:///study.db or postgresql+psycopg://HOST/DB"
        raise UserError(without_passwords(f"--storage {place}: {first_line(error)}; {wanted}")) from error


def _refuse_foreign(path: Path) -> None:
    """Raise ValueError where trials would be appended to a file of something else, or to a line that is cut off."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("rb") as file:
        if not file.readline().startswith(b'{"op_code":'):
            raise ValueError("the file holds something else than trials, and stays as it is")
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            raise ValueError("the last line of the file is cut off, perhaps by a full disk: remove that line")


def _one_at_a_time(engine: Engine) -> None:
    """Let every transaction of SQLite lock the file from its start.

    It has no locks of rows: two workers that both read a slot as waiting before either took it would run it twice.
    """

    def leave_transactions_to_us(connection: Any, record: Any) -> None:
        connection.isolation_level = None

    def lock(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", leave_transactions_to_us)
    event.listen(engine, "begin", lock)
    # Connections that were opened before know nothing of this.
    engine.dispose()


def owner() -> str:
    """Name this process, so that another one of this machine can see whether it still lives."""
    process = psutil.Process()
    return f"{socket.gethostname()}:{process.pid}:{process.create_time():.2f}"


def _dead(who: str) -> bool:
    """Whether a process of this machine has ended; of another machine nothing is known here."""
    host, pid, created = who.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    try:
        process = psutil.Process(int(pid))
        return process.status() == psutil.STATUS_ZOMBIE or f"{process.create_time():.2f}" != created
    except psutil.NoSuchProcess:
        return True


def _left(trial: FrozenTrial) -> bool:
    """Whether its worker has died, perhaps before it wrote down who it was."""
    if OWNER in trial.user_attrs:
        return _dead(trial.user_attrs[OWNER])
    started = trial.datetime_start
    return started is not None and (datetime.now() - started).total_seconds() > GRACE


def revive(study: optuna.Study, *, stopped: bool = False) -> int:
    """Queue the trials of dead workers of this machine again; how many. `stopped`: the user ended these workers."""
    found = 0
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if _left(trial):
            found += queue_again(study, trial.number, stopped=stopped)
    return found


def queue_again(study: optuna.Study, number: int, *, stopped: bool = False) -> bool:
    """Queue the slot of a trial that was cut off again, by the user where it was `stopped`.

    False where another command was faster, or too many of its workers have died.
    """
    try:
        study.tell(number, state=TrialState.FAIL)
    except (ValueError, optuna.exceptions.UpdateFinishedTrialError):
        return False
    return _again(study, study.get_trials(deepcopy=True)[number], stopped=stopped)


def top_up(study: optuna.Study, trials: int, *, first: Mapping[str, Any] | None = None) -> int:
    """Queue slots until there are `trials` in all; how many are waiting then. For one process at a time.

    The `first` of all is given its settings: a preset.
    """
    there = len(slots(study))
    for number in range(there, trials):
        study.enqueue_trial(dict(first or {}) if number == 0 else {}, user_attrs={SLOT: True})
    return waiting(study)


def slots(study: optuna.Study) -> list[FrozenTrial]:
    """The trials that count, one a slot: of one that was queued again only the last attempt."""
    every = [trial for trial in study.get_trials(deepcopy=False) if SLOT in trial.user_attrs]
    replaced = {number for trial in every for number in trial.system_attrs.get("retry_history", ())}
    return [trial for trial in every if trial.number not in replaced]


def waiting(study: optuna.Study) -> int:
    """Slots that no worker has taken."""
    return len(study.get_trials(deepcopy=False, states=(TrialState.WAITING,)))


def first_attempt(study: optuna.Study, number: int) -> int:
    """The number of the slot's first trial, by which its folder goes."""
    return int(study.get_trials(deepcopy=False)[number].system_attrs.get("failed_trial", number))
