"""The real files beside the checkout load as they are."""

from pathlib import Path

import pytest

from common.errors import UserError
from teacher.data import load_task

EXPECTED = {
    "glue/cola": ("cola", 2, "matthews", 1043, 8551),
    "glue/mrpc": ("mrpc", 2, "f1", 408, 3668),
    "glue/rte": ("rte", 2, "accuracy", 277, 2490),
    "glue/stsb": ("stsb", 0, "pearson_spearman", 1500, 5749),
    "glue/sst2": ("sst2", 2, "accuracy", 872, 67349),
    "banking77": ("banking77", 77, "accuracy", 3080, 10003),
    "chnsenticorp": ("chnsenticorp", 2, "accuracy", 1200, 9600),
}


@pytest.mark.parametrize("folder", EXPECTED)
def test_folder(shared_data: Path, folder: str) -> None:
    """Name, classes, metric and evaluation rows; the rest of the train file trains, selects, or leaves with a note."""
    name, classes, metric, evaluate, train = EXPECTED[folder]
    task = load_task(str(shared_data / folder))
    assert (task.name, len(task.labels), task.metric) == (name, classes, metric)
    assert len(task.splits["evaluate"]) == evaluate
    removed = sum(int(note.split()[0].replace(",", "")) for note in task.notes if " removed, since" in note)
    assert len(task.splits["train"]) + len(task.splits["select"]) + removed == train
    assert len({len(row.text) for row in task.splits["train"]}) > 20
    assert all((row.pair is not None) == (name in ("mrpc", "rte", "stsb")) for row in task.splits["evaluate"])


def test_sms_spam(shared_data: Path) -> None:
    task = load_task(str(shared_data / "sms_spam"), rows=500)
    assert task.labels == ("Ham", "Spam") and len(task.splits["train"]) == 500
    assert any("exact duplicates removed" in note for note in task.notes)


@pytest.mark.parametrize("folder", ["xquad", "novels"])
def test_other_data_is_refused_in_one_line(shared_data: Path, folder: str) -> None:
    with pytest.raises(UserError, match=folder) as caught:
        load_task(str(shared_data / folder))
    assert "\n" not in str(caught.value)


def test_conll_is_read_as_it_is(shared_data: Path) -> None:
    task = load_task(str(shared_data / "conll2003"), rows=500)
    assert (task.kind, task.metric) == ("tags", "entity_f1")
    assert task.labels == ("O", "B-LOC", "I-LOC", "B-MISC", "I-MISC", "B-ORG", "I-ORG", "B-PER", "I-PER")
    assert (len(task.splits["train"]), len(task.splits["evaluate"])) == (500, 3453)
    names = [task.labels[tag] for row in task.splits["evaluate"] for tag in row.label]
    # The test part has 5,648 entities (Tjong Kim Sang and De Meulder 2003, table 2).
    assert sum(name.startswith("B-") for name in names) == 5648
