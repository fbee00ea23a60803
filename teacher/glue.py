"""The GLUE tasks: their metrics, class names in index order, names on the hub, and columns of their files."""

from dataclasses import dataclass
from pathlib import Path

from teacher.readers import Table


@dataclass(frozen=True, kw_only=True)
class GlueTask:
    """One task as gluebenchmark.com distributes it. `labels` is in index order, empty for regression."""

    metric: str
    labels: tuple[str, ...]
    text: str
    """Column of the first text, in the files and on the hub; for the files see also `headerless`."""
    pair: str | None
    label: str
    """Column of the label in the files (on the hub always "label")."""
    header: frozenset[str] = frozenset()
    """Columns that only this task's files have: it is then known whatever the folder's name."""
    hub_text: str | None = None
    hub_pair: str | None = None
    headerless: tuple[str, ...] = ()
    """Names of the columns of files without a header."""


GLUE = {
    "cola": GlueTask(
        metric="matthews",
        labels=("unacceptable", "acceptable"),
        text="sentence",
        pair=None,
        label="label",
        headerless=("source", "label", "mark", "sentence"),
    ),
    "sst2": GlueTask(metric="accuracy", labels=("negative", "positive"), text="sentence", pair=None, label="label"),
    "mrpc": GlueTask(
        metric="f1",
        labels=("not_equivalent", "equivalent"),
        text="#1 String",
        pair="#2 String",
        label="Quality",
        header=frozenset({"Quality", "#1 ID", "#2 ID"}),
        hub_text="sentence1",
        hub_pair="sentence2",
    ),
    "qqp": GlueTask(
        metric="f1",
        labels=("not_duplicate", "duplicate"),
        text="question1",
        pair="question2",
        label="is_duplicate",
        header=frozenset({"qid1", "qid2", "is_duplicate"}),
    ),
    "stsb": GlueTask(
        metric="pearson_spearman",
        labels=(),
        text="sentence1",
        pair="sentence2",
        label="score",
        header=frozenset({"genre", "old_index", "score"}),
    ),
    "mnli": GlueTask(
        metric="accuracy",
        labels=("entailment", "neutral", "contradiction"),
        text="sentence1",
        pair="sentence2",
        label="gold_label",
        header=frozenset({"promptID", "gold_label"}),
        hub_text="premise",
        hub_pair="hypothesis",
    ),
    "qnli": GlueTask(
        metric="accuracy",
        labels=("entailment", "not_entailment"),
        text="question",
        pair="sentence",
        label="label",
    ),
    "rte": GlueTask(
        metric="accuracy",
        labels=("entailment", "not_entailment"),
        text="sentence1",
        pair="sentence2",
        label="label",
    ),
    "wnli": GlueTask(
        metric="accuracy",
        labels=("not_entailment", "entailment"),
        text="sentence1",
        pair="sentence2",
        label="label",
    ),
}
_SPELLINGS = {"sst-2": "sst2", "sst_2": "sst2", "sts-b": "stsb", "sts_b": "stsb"}
_COLA_MARKS = frozenset({"", "*", "**", "***", "?", "??", "*?", "?*", "#"})


def glue_name(name: str) -> str | None:
    """The GLUE task of a name in any of its spellings, or None.

    >>> glue_name("SST-2")
    'sst2'
    """
    lower = name.lower()
    lower = _SPELLINGS.get(lower, lower)
    return lower if lower in GLUE else None


def recognise(folder: Path, table: Table) -> str | None:
    """The GLUE task of a file: by its own columns, or by the folder's name if the columns do not contradict it."""
    header = set(table.records[0] if table.columns is None else table.columns)
    for name, task in GLUE.items():
        if task.header and task.header <= header:
            return name
    if _is_cola(table):
        return "cola"
    named = glue_name(folder.name)
    if named is None:
        return None
    task = GLUE[named]
    return named if {task.text, task.pair or task.text, task.label} <= header else None


def _is_cola(table: Table) -> bool:
    """Four columns without header: source, 0 or 1, the author's mark, sentence."""
    some = table.records[:200]
    return table.columns is None and all(
        len(record) == 4 and record[1] in ("0", "1") and record[2].strip() in _COLA_MARKS for record in some
    )
