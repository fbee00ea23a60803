"""The kinds of head that predictions know: one class each, one line in the table `HEADS`."""

from collections.abc import Mapping
from typing import Any

from common.errors import UserError
from distill.predict_answers import Answering, Head
from distill.predict_choices import Choice
from distill.predict_sequence import MultiLabel, Regression, SingleLabel
from distill.predict_spans import SpanAnswers
from distill.predict_tags import WordTags

SEQUENCE = "ForSequenceClassification"
HEADS: dict[str, type[Head]] = {
    f"{SEQUENCE}: single_label_classification": SingleLabel,
    f"{SEQUENCE}: multi_label_classification": MultiLabel,
    f"{SEQUENCE}: regression": Regression,
    "ForTokenClassification": WordTags,
    "ForQuestionAnswering": SpanAnswers,
    "ForMultipleChoice": Choice,
}
"""The end of a model's class name, with its problem_type where the class has several."""


def head_for(config: Mapping[str, Any], options: Answering, where: str) -> Head:
    """The head that a model's config.json tells of.

    Raises:
        UserError: the model has none of these heads, or no labels.
    """
    architecture = str((config.get("architectures") or ["none"])[0])
    labels = [str(name) for _, name in sorted((config.get("id2label") or {}).items(), key=lambda pair: int(pair[0]))]
    key = next((key for key in HEADS if architecture.endswith(key)), None)
    if architecture.endswith(SEQUENCE):
        kind = config.get("problem_type") or ("regression" if len(labels) == 1 else "single_label_classification")
        key = f"{SEQUENCE}: {kind}"
    if key not in HEADS:
        raise UserError(
            f"{where} is a {architecture}: a model fine-tuned on a task was expected, with one of the heads "
            f"{', '.join(HEADS)}"
        )
    if not labels:
        raise UserError(f"{where} has no labels: id2label in its config.json should name every output")
    return HEADS[key](labels, options, config)
