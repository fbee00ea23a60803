"""A recipe's stages, put on the sets of examples that the user gave."""

import dataclasses
from collections.abc import Mapping

from common.errors import UserError
from distill.stages import Stage
from distill.transfer_options import TransferOptions


def on_sets(student: str, stages: tuple[Stage, ...], options: TransferOptions, kind: str) -> tuple[Stage, ...]:
    """The same stages; those that learn from the fine-tuned teacher on the training rows draw from all given sets.

    Augmented texts already hold the training texts, so that a stage without labels takes them alone, and one with
    labels both. The outputs of a regression are learned on the original texts (TinyBERT, arXiv 1909.10351, section
    4.2), or with the unlabelled.

    Raises:
        UserError: a stage with labels ("hard") that would have none.
    """
    return tuple(_on_sets(student, stage, options, kind) for stage in stages)


def _on_sets(student: str, stage: Stage, options: TransferOptions, kind: str) -> Stage:
    if stage.data != "train" or stage.teacher == "none":
        return stage
    mix = _mix(student, stage, options, kind)
    if tuple(mix) == ("labeled",):
        return stage
    if tuple(mix) == ("augmented",):
        return dataclasses.replace(stage, data="augmented")
    return dataclasses.replace(stage, data="mixed", mix=mix)


def _mix(student: str, stage: Stage, options: TransferOptions, kind: str) -> Mapping[str, float | None]:
    original_only = kind == "regression" and "soft" in stage.losses
    sets = [name for name in options.sets if not (name == "augmented" and original_only)]
    if options.shares is not None:
        kept: dict[str, float | None] = {name: share for name, share in options.shares.items() if name in sets}
        if "hard" in stage.losses and "labeled" not in kept:
            raise UserError(
                f"student {student}: its stage {stage.name!r} weighs labels (hard), which only the labelled rows have: "
                "give them a share in --mix, as in labeled=1"
            )
        return kept or {"labeled": None}
    if "augmented" in sets and "hard" not in stage.losses:
        sets.remove("labeled")
    return dict.fromkeys(sets, None)
