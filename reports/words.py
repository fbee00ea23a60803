"""Numbers and comparisons as a reader wants them: few digits, units, a true minus sign, words for directions."""

import re
from dataclasses import dataclass

from reports.record import Interval

MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"

_MOST_DIGITS = 6
"""What is smaller still is the noise of computing."""

_PERCENT_METRICS = {"accuracy", "f1", "precision", "recall", "em", "exact"}
_LABELS = {
    "pearson_spearman": "mean of Pearson and Spearman",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "matthews": "Matthews",
    "f1": "F1",
    "mse": "MSE",
    "rmse": "RMSE",
    "mae": "MAE",
}


@dataclass(frozen=True, kw_only=True)
class MetricStyle:
    """How the values of one metric are written."""

    label: str
    percent: bool
    """Fractions written as percent, their differences as points; other metrics as they are."""

    def value(self, value: float) -> str:
        """Without unit.

        >>> metric_style("accuracy").value(0.8412)
        '84.1'
        """
        return number(100 * value, 1) if self.percent else number(value, 3)

    def signed(self, value: float) -> str:
        """A difference, or an end of one's interval.

        >>> metric_style("accuracy").signed(0.0003), metric_style("accuracy").signed(-0.0003)
        ('+0.03', '\N{MINUS SIGN}0.03')
        """
        text = self._apart(value)
        return text if text.startswith(MINUS) or not text.strip("0.,") else f"+{text}"

    def interval(self, interval: Interval) -> str:
        """The two ends: "-2.5 to -1.1"."""
        return f"{self.signed(interval.low)} to {self.signed(interval.high)}"

    def difference(self, value: float) -> str:
        """A size without sign, with its unit: "2.1 points"."""
        return f"{self._apart(abs(value))} points" if self.percent else self._apart(abs(value))

    def _apart(self, value: float) -> str:
        """With as many more digits as part it from zero: what is said of a difference rests on its sign."""
        shown, least = (100 * value, 1) if self.percent else (value, 3)
        texts = (number(shown, digits) for digits in range(least, _MOST_DIGITS + 1))
        return next((text for text in texts if text.strip("0.,")), self.value(0.0))

    @property
    def heading(self) -> str:
        return f"{self.label}, %" if self.percent else self.label


def metric_style(name: str) -> MetricStyle:
    """Accuracy, F1, precision, recall and exact match in percent; correlations and errors as they are."""
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    label = _LABELS.get(name) or " ".join(_LABELS.get(word, word) for word in name.split("_"))
    return MetricStyle(label=label, percent=bool(words & _PERCENT_METRICS))


def constant_answer(kind: str) -> str:
    """What a model without any input would say, for each kind of task."""
    return {"regression": "training mean", "multilabel": "most frequent labels"}.get(kind, "most frequent class")


def number(value: float, digits: int) -> str:
    """Fixed digits, thousands apart, and no minus before a rounded zero.

    >>> number(1234.56, 1), number(-0.001, 1)
    ('1,234.6', '0.0')
    """
    text = f"{abs(value):,.{digits}f}"
    return f"{MINUS}{text}" if value < 0 and text.strip("0.,") else text


def significant(value: float) -> str:
    """Three significant digits without exponent for everyday sizes.

    >>> significant(0.8412), significant(12.345), significant(1234.5), significant(0.0000312)
    ('0.841', '12.3', '1,234', '3.12e-05')
    """
    if value == 0:
        return "0"
    # Rounded first: 9.996 is written 10.0, not 10.00.
    size = float(f"{abs(value):.3g}")
    if size < 0.001 or size >= 1e7:
        return f"{value:.3g}".replace("-", MINUS, 1) if value < 0 else f"{value:.3g}"
    return number(value, 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3)


def scaled(value: float, unit: str = "") -> str:
    """With the prefix that leaves one to three digits before the point, decimal (1 MB = 1,000,000 bytes).

    >>> scaled(14350248), scaled(57400000, "B"), scaled(640)
    ('14.4 M', '57.4 MB', '640')
    """
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        # Half a last digit below the border rounds up to it: 999,960 reads 1.00 M, not 1,000 k.
        if value >= factor * 0.9995:
            return f"{significant(value / factor)} {prefix}{unit}"
    return f"{value:,.0f} {unit}".strip()


def duration(seconds: float) -> str:
    """In the two units that matter.

    >>> duration(4.24), duration(192), duration(7384)
    ('4.2 s', '3 min 12 s', '2 h 3 min')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def percent(fraction: float) -> str:
    """With as many digits as keep what is less than the whole from reading as the whole.

    >>> percent(0.8412), percent(1.0), percent(0.99997)
    ('84.1 %', '100.0 %', '99.997 %')
    """
    shown = 100 * fraction
    digits = next((few for few in range(1, _MOST_DIGITS) if number(shown, few) != number(100, few)), 1)
    return f"{number(shown, digits if fraction < 1 else 1)} %"


def times(ratio: float) -> str:
    """How many times: two decimals where one would make of 1.05 a tenth.

    >>> times(12.34), times(1.05), times(0.8)
    ('12.3\N{MULTIPLICATION SIGN}', '1.05\N{MULTIPLICATION SIGN}', '0.80\N{MULTIPLICATION SIGN}')
    """
    return f"{ratio:,.{2 if ratio < 1.2 else 1 if ratio < 100 else 0}f}{TIMES}"


def p_value(value: float) -> str:
    """Three decimals, or that it is below them.

    >>> p_value(0.0421), p_value(0.00002)
    ('0.042', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def compared(teacher: float, model: float, *, less: str, more: str, same: str) -> str:
    """How a cost stands to the teacher's, in words; within 5 % counts as the same.

    >>> compared(30.0, 10.0, less="faster", more="slower", same="as fast")
    '3.0× faster'
    >>> compared(10.0, 13.0, less="faster", more="slower", same="as fast")
    '1.3× slower'
    """
    if min(teacher, model) <= 0:
        return ""
    ratio = max(teacher, model) / min(teacher, model)
    if ratio < 1.05:
        return same
    return f"{times(ratio)} {less if model < teacher else more}"
