"""What a finished pretraining says of itself."""

import itertools
from typing import Any

from common.progress import say
from teacher.batches import Batches
from teacher.loop import Outcome
from teacher.pretrain_card import figure_rows
from teacher.pretrain_data import unigram_loss
from teacher.pretrain_text import PretrainData


def summarise(
    data: PretrainData, batches: Batches, outcome: Outcome, held_out: dict[str, float], *, accumulation: int
) -> dict[str, Any]:
    """Figures for pretraining.json. Tokens are real ones: specials counted, padding not; losses are in nats."""
    tokens = served_tokens(batches, outcome.steps * accumulation)
    unigram = unigram_loss(data.learned)
    normalizer = data.tokenizer.backend_tokenizer.normalizer
    return {
        "steps": outcome.steps,
        "tokens": tokens,
        "seconds": outcome.seconds,
        "tokens_per_second": tokens / outcome.seconds,
        "vocabulary": len(data.tokenizer),
        "cased": normalizer is None or normalizer.normalize_str("A") == "A",
        "documents_learned": len(data.learned),
        "documents_held_out": len(data.held_out),
        "pieces_learned": len(data.learned.ids),
        "unigram_loss": unigram,
        "held_out": held_out,
        "notes": lessons(held_out, unigram),
    }


def served_tokens(batches: Batches, count: int) -> int:
    """Real tokens of the first `count` batches."""
    return sum(int(batches.lengths[batch].sum()) for batch in itertools.islice(batches.from_batch(0), count))


def lessons(held_out: dict[str, float], unigram: float) -> list[str]:
    """What was not learned, in words; empty where all is well."""
    notes = []
    for name, pieces in (("mlm", "masked"), ("generator", "masked"), ("ltr", "next")):
        loss = held_out.get(f"{name}_loss", 0.0)
        if loss > unigram - 0.1:
            notes.append(
                f"the loss of {pieces} pieces on held-out text is {loss:.2f}, no better than the {unigram:.2f} that "
                "piece frequencies alone reach: no context was learned. Train longer; if the curve stood still, lower "
                "--learning-rate"
            )
    for name, question in (("nsp", "next sentence"), ("sop", "sentence order"), ("rtd", "replaced pieces")):
        accuracy, majority = held_out.get(f"{name}_accuracy", 1.0), held_out.get(f"{name}_majority", 0.0)
        if accuracy < min(0.99, majority + 0.01):
            notes.append(
                f"the accuracy of {question} on held-out text is {accuracy:.3f}, and the more frequent answer alone "
                f"reaches {majority:.3f}: that is not learned yet"
            )
    return notes


def report(summary: dict[str, Any]) -> None:
    """The closing lines of the command."""
    figures = "; ".join(
        f"{figure.title} {value:.3f}" + ("" if baseline is None else f" (without context {baseline:.3f})")
        for figure, value, baseline in figure_rows(summary)
    )
    say(f"held out: {figures}; {summary['tokens_per_second']:,.0f} tokens a second")
    for note in summary["notes"]:
        say(f"warning: {note}")
