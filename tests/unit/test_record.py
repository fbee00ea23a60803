"""Records come back as they were saved, and a wrong one is refused by the name of what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit import record_factory

from common.errors import UserError
from reports.record import Record


@pytest.mark.parametrize("make", [record_factory.rich, record_factory.regression, record_factory.minimal])
def test_round_trip(make: Callable[[], Record], tmp_path: Path) -> None:
    record = make()
    record.save(tmp_path / "record.json")
    assert Record.load(tmp_path / "record.json") == record


def damaged(tmp_path: Path, damage: Callable[[dict], Any]) -> Path:
    path = tmp_path / "record.json"
    record_factory.rich().save(path)
    value = json.loads(path.read_text(encoding="utf-8"))
    damage(value)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda value: value.update(extra=1), ["unknown field 'extra'"]),
        (lambda value: value["task"].update(labelz=[]), [".task", "'labelz'", "did you mean 'labels'"]),
        (lambda value: value["models"][1]["quality"].pop("n"), [".models[1].quality", "'n' is missing"]),
        (
            lambda value: value["models"][0]["size"].update(flops="many"),
            [".models[0].size.flops", "expected int", "many"],
        ),
        (lambda value: value["task"].update(rows=[1]), [".task.rows", "expected an object"]),
        (lambda value: value.update(models={}), [".models", "expected a list"]),
        (lambda value: value.update(schema_version=99), ["schema 99", "run the command again"]),
        (lambda value: value.pop("schema_version"), ["schema_version was expected"]),
    ],
)
def test_a_wrong_record_is_refused_by_name(damage: Callable[[dict], Any], words: list[str], tmp_path: Path) -> None:
    path = damaged(tmp_path, damage)
    with pytest.raises(UserError) as caught:
        Record.load(path)
    assert all(word in str(caught.value) for word in [str(path), *words])


def test_not_json_and_not_there(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text('{"schema_version": 1, "na', encoding="utf-8")
    for name in ("half.json", "absent.json"):
        with pytest.raises(UserError, match=name):
            Record.load(tmp_path / name)


def test_not_a_number_is_never_written(tmp_path: Path) -> None:
    record = record_factory.minimal()
    object.__setattr__(record.task, "majority", float("nan"))
    with pytest.raises(ValueError, match="JSON"):
        record.save(tmp_path / "record.json")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_model_names_the_known() -> None:
    with pytest.raises(UserError, match="did you mean 'tiny'"):
        record_factory.minimal().model("tinny")
