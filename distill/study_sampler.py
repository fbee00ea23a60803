"""How the trials of a study are drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from distill.study_config import SearchOptions


class TrialSampler(BaseSampler):
    """Draws every trial with random numbers of its own, by the study's seed and the trial's number.

    So no two sittings, workers or machines draw the same, and a trial's draws do not depend on who takes it.
    """

    def __init__(self, options: SearchOptions) -> None:
        self._options = options
        self._own = _sampler(options, options.seed)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        # Not a sum, by which trial 1 of one seed would be trial 0 of the next.
        mixed = np.random.SeedSequence((self._options.seed, trial.number)).generate_state(1)
        self._own = _sampler(self._options, int(mixed[0]))
        self._own.before_trial(study, trial)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._own.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._own.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._own.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        self._own.after_trial(study, trial, state, values)


def _sampler(options: SearchOptions, seed: int) -> BaseSampler:
    if options.sampler == "random":
        return RandomSampler(seed=seed)
    if options.sampler == "nsga2":
        population = max(4, min(50, options.trials // 4))
        return NSGAIISampler(population_size=population, seed=seed)
    startup = max(4, min(10, options.trials // 3))
    return TPESampler(seed=seed, n_startup_trials=startup, multivariate=True)
