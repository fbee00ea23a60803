"""What kind of head a model has, by the name of its class, and transformers' Auto class for it."""

from collections.abc import Sequence

from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PretrainedConfig,
    PreTrainedModel,
)

SEQUENCE, TOKENS, SPANS, CHOICE = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
AUTO_CLASSES = {
    SEQUENCE: AutoModelForSequenceClassification,
    TOKENS: AutoModelForTokenClassification,
    SPANS: AutoModelForQuestionAnswering,
    CHOICE: AutoModelForMultipleChoice,
}
"""End of a class name, which says the kind of head, to the class that loads any family with such a head."""


def head_of(names: Sequence[str] | None) -> str | None:
    """The kind of head, a key of AUTO_CLASSES, that these class names (a configuration's `architectures`) end in.

    >>> head_of(["BertForTokenClassification"]), head_of(["BertModel"]), head_of(None)
    ('ForTokenClassification', None, None)
    """
    return next((kind for kind in AUTO_CLASSES for name in names or () if name.endswith(kind)), None)


def head_of_model(model: PreTrainedModel) -> str:
    """The kind of head of a model; one without any counts as a classifier of texts."""
    return head_of([cls.__name__ for cls in type(model).__mro__]) or SEQUENCE


def head_of_config(config: PretrainedConfig) -> str:
    """The kind of head that a saved configuration names; without any that of a classifier of texts."""
    return head_of(config.architectures) or SEQUENCE
