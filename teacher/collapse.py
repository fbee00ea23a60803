"""Watches a pretraining for the failure of its kind: a model that has learned how frequent pieces are, and no context.

Layers with the normalisation after the sum (BERT's) fall back to that when the peak rate is too high for the batch, and
stay there: the loss stands at the entropy of the pieces' frequencies. The run goes on for hours all the same.
"""

from collections import deque
from collections.abc import Mapping

from common.progress import say

MARGIN = 0.1
"""Nats below the entropy of the frequencies from which on context has been learned."""

STILL = 0.05
"""Nats by which the loss must have fallen from one window to the next, or it stands still."""

WINDOW = 10
"""Rows of the history, a hundredth of the steps each."""


class CollapseWatch:
    """Told the rows of a history, it warns once.

    Args:
        label: of the run, for the message.
        unigram: entropy of the pieces' frequencies, in nats; infinite: not known, nothing is said.
        warm: steps of the warm-up, before which nothing is expected.
        rate: the peak of the learning rate.
        term: the loss to watch, that of predicted pieces.
    """

    def __init__(self, label: str, *, unigram: float, warm: int, rate: float, term: str = "mlm") -> None:
        self._label, self._unigram, self._warm, self._rate, self._term = label, unigram, warm, rate, term
        self._losses: deque[float] = deque(maxlen=2 * WINDOW)
        self._warned = False

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        if self._warned or self._term not in values or step <= self._warm:
            return
        self._losses.append(values[self._term])
        if len(self._losses) < 2 * WINDOW:
            return
        losses = list(self._losses)
        before, now = sum(losses[:WINDOW]) / WINDOW, sum(losses[WINDOW:]) / WINDOW
        if now > self._unigram - MARGIN and now > before - STILL:
            self._warned = True
            say(f"warning: {self._label}: {self._message(step, now)}")

    def _message(self, step: int, loss: float) -> str:
        return (
            f"collapsed to piece frequencies: at step {step:,} the loss {self._term!r} stands still at {loss:.2f}, "
            f"and frequencies alone, without any context, give {self._unigram:.2f}. In the first hundreds of steps "
            "that may pass; later the peak rate is too high for the batch: stop it (Ctrl-C) and start anew with a "
            f"lower --learning-rate (now {self._rate:g}; try a third), a longer --warmup, or a larger --batch-size or "
            "--accumulation"
        )
