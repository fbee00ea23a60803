"""Options of predictions that a model has no use for: refused, since leaving them out in silence would mislead."""

from collections.abc import Sequence

from common.entries import PAIRS
from common.errors import UserError
from distill.predict_answers import Answering, Head
from distill.predict_texts import Text

MEANT_FOR = {
    "top": "models that give classes or labels of texts",
    "threshold": "multi-label models, of which a text may have several labels",
}


def refuse_meaningless(head: Head, options: Answering, *, where: str, second: str | None, choices: bool) -> None:
    """Refuse what has no meaning for a model's head. `second` is the option that says where second texts are.

    Raises:
        UserError: names the option and `where` the model is.
    """
    for name, meant in MEANT_FOR.items():
        value = getattr(options, name)
        if value is not None and name not in head.heeds:
            raise UserError(f"--{name} {value} is for {meant}; {where} holds none: leave it out")
    if choices and head.rows != "choices":
        raise UserError(f"--choices are for models of multiple choice; {where} holds none: leave them out")
    if second is not None and not _reads_pairs(head):
        raise UserError(f"{second} is for models of pairs of texts; {where} was trained on single texts: leave it out")


def require_paired(head: Head, texts: Sequence[Text], *, where: str) -> None:
    """Raise UserError for the first text alone where the model was trained on pairs, as its config.json says, and for
    the first pair where it was not.
    """
    wanted = head.rows == "texts" and head.config.get(PAIRS) is True
    for text in texts:
        if text.pair is not None and not _reads_pairs(head):
            raise UserError(
                f"line {text.line} has two texts, and {where} was trained on single texts: name the column with the "
                "text (--text-column)"
            )
        if text.pair is None and wanted:
            raise UserError(
                f"line {text.line} has one text, and {where} was trained on pairs of texts: give the second one with "
                "--pair, or as a column (--pair-column)"
            )


def _reads_pairs(head: Head) -> bool:
    """Also where nothing says that it does not."""
    return head.pairs and bool(head.config.get(PAIRS, True))
