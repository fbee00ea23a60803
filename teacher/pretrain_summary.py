"""What a finished pretraining says of itself."""

import math
from typing import Any

from common.progress import say
from teacher.batches import Batches
from teacher.loop import Outcome
from teacher.pretrain_data import PretrainData, unigram_loss


def summarise(
    data: PretrainData, batches: Batches, outcome: Outcome, held_out: dict[str, float], *, accumulation: int
) -> dict[str, Any]:
    """Figures for pretraining.json. Tokens are real ones: specials counted, padding not; losses are in nats."""
    tokens = served_tokens(batches, outcome.steps * accumulation)
    unigram = unigram_loss(data.learned)
    return {
        "steps": outcome.steps,
        "tokens": tokens,
        "seconds": outcome.seconds,
        "tokens_per_second": tokens / outcome.seconds,
        "vocabulary": len(data.tokenizer),
        "cased": not getattr(data.tokenizer, "do_lower_case", False),
        "documents_learned": len(data.learned),
        "documents_held_out": len(data.held_out),
        "pieces_learned": len(data.learned.ids),
        "unigram_loss": unigram,
        "held_out": held_out,
        "notes": lessons(held_out, unigram),
    }


def served_tokens(batches: Batches, count: int) -> int:
    """Real tokens of the first `count` batches."""
    total = 0
    for epoch in range(math.ceil(count / batches.steps_per_epoch)):
        rest = count - epoch * batches.steps_per_epoch
        total += sum(int(batches.lengths[batch].sum()) for batch in batches.plan(epoch)[:rest])
    return total


def lessons(held_out: dict[str, float], unigram: float) -> list[str]:
    """What was not learned, in words; empty where all is well."""
    notes = []
    if held_out["mlm_loss"] > unigram - 0.1:
        notes.append(
            f"the loss of masked pieces on held-out text is {held_out['mlm_loss']:.2f}, no better than the "
            f"{unigram:.2f} that piece frequencies alone reach: no context was learned. Train longer; if the curve "
            "stood still, lower --learning-rate"
        )
    if held_out["nsp_accuracy"] < min(0.99, held_out["nsp_majority"] + 0.01):
        notes.append(
            f"the accuracy of next sentence on held-out text is {held_out['nsp_accuracy']:.3f}, and the more frequent "
            f"answer alone reaches {held_out['nsp_majority']:.3f}: that is not learned yet"
        )
    return notes


def report(summary: dict[str, Any]) -> None:
    """The closing lines of the command."""
    held_out = summary["held_out"]
    say(
        f"held out: masked pieces loss {held_out['mlm_loss']:.3f} (frequencies alone {summary['unigram_loss']:.3f}), "
        f"accuracy {held_out['mlm_accuracy']:.3f}; next sentence accuracy {held_out['nsp_accuracy']:.3f} "
        f"(more frequent answer {held_out['nsp_majority']:.3f}); {summary['tokens_per_second']:,.0f} tokens a second"
    )
    for note in summary["notes"]:
        say(f"warning: {note}")
