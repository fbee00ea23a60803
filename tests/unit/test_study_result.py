"""What a study's record says of its trials."""

import numpy as np
import optuna

from distill.study_objectives import SCORE
from distill.study_result import importances


def test_what_decides_is_what_the_best_trials_have_in_common_and_not_the_worst() -> None:
    study = optuna.create_study(direction="maximize")
    places = np.random.default_rng(0).random((100, 2))
    for best, worst in places.tolist():
        # Good trials are good by the one part, bad ones are bad by the other.
        score = best if best > 0.8 else -worst if worst > 0.8 else 0.5
        parts = {"best": best, "worst": worst}
        uniform = optuna.distributions.FloatDistribution(0.0, 1.0)
        study.add_trial(
            optuna.create_trial(
                params=parts, distributions=dict.fromkeys(parts, uniform), value=score, user_attrs={SCORE: score}
            )
        )
    found = importances(study)
    assert found["best"] > 0.9
