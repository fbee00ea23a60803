"""The page of a pretraining: held-out figures and curves, from the folder of the model alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from unit.page_parser import Page, page_of

from common.errors import UserError
from common.pretraining_record import PretrainingRecord
from reports.build import build_reports
from reports.pretraining_page import held_out_stacks, training_stacks

_FACTS: dict[str, Any] = {
    "settings": {"objective": "mlm+nsp", "size": "mini", "steps": 40},
    "steps": 40,
    "tokens": 68_000,
    "seconds": 20.0,
    "parameters": 5_479_746,
    "unigram_loss": 6.13,
    "corpus": "pydocs",
    "held_out": {
        "mlm_loss": 5.25,
        "mlm_accuracy": 0.205,
        "nsp_loss": 0.52,
        "nsp_accuracy": 0.731,
        "nsp_majority": 0.62,
        "masked": 8150,
        "pairs": 1000,
    },
    "notes": ["a note of the run"],
    "vocabulary": 8000,
    "cased": False,
    "random_pair_share": 0.6449,
}


def _write(folder: Path, *, evaluated: bool = True, **changes: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "pretraining.json").write_text(json.dumps(_FACTS | changes), encoding="utf-8")
    rows: list[dict[str, float]] = []
    for step in (10, 20, 30, 40):
        rows.append({"step": step, "mlm": 8 - step / 10, "nsp": 0.7, "loss": 9 - step / 10, "learning rate": 1e-3})
        if evaluated and step % 20 == 0:
            held_out = {"mlm loss": 6 - step / 50, "mlm accuracy": step / 200, "nsp accuracy": 0.5 + step / 200}
            named = {f"held-out {name}": value for name, value in held_out.items()}
            rows.append({"step": step, "selection metric": -6.0, **named})
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "history.jsonl").write_text(lines, encoding="utf-8")
    return folder / "pretraining.json"


def _built(runs: Path) -> Page:
    (page,) = build_reports(runs, runs.parent / "pages").pages
    return page_of(page)


def test_curves_are_those_of_the_history(tmp_path: Path) -> None:
    record = PretrainingRecord.load(_write(tmp_path / "mini"))
    mlm, nsp = held_out_stacks(record)
    assert mlm.title == "Held out: masked pieces (MLM)"
    accuracy, loss = mlm.panels
    assert (accuracy.lines[0].x, accuracy.lines[0].y) == ((20.0, 40.0), (10.0, 20.0))
    assert [line.y for line in loss.lines] == [(5.6, 5.2), (6.13, 6.13)]
    assert [(line.label, line.y) for line in nsp.panels[0].lines] == [
        ("held out", (60.0, 70.0)),
        ("without context", (62.0, 62.0)),
    ]
    (training,) = training_stacks(record)
    assert [panel.title for panel in training.panels] == ["loss", "learning rate"]
    assert {line.label: line.y for line in training.panels[0].lines} == {
        "mlm": (7.0, 6.0, 5.0, 4.0),
        "nsp": (0.7,) * 4,
        "total": (8.0, 7.0, 6.0, 5.0),
    }


def test_the_page_has_the_figures_and_the_index_names_it(tmp_path: Path) -> None:
    _write(tmp_path / "runs" / "mini", best_step=20)
    page = _built(tmp_path / "runs")
    assert "mini from random weights, objective mlm+nsp, on pydocs. 40 steps, 68.0 k tokens in 20.0 s" in page.text
    assert "a note of the run" in page.text and "whose weights lie in the folder best" in page.text
    rows = page.table("held out", "loss (nats)")
    assert rows["masked pieces (MLM)"] == {
        "held out": "masked pieces (MLM)",
        "loss (nats)": "5.25",
        "loss without context": "6.13",
        "accuracy, %": "20.5",
        "accuracy without context, %": "\N{EM DASH}",
    }
    assert rows["next sentence (NSP)"]["accuracy, %"] == "73.1"
    assert rows["next sentence (NSP)"]["accuracy without context, %"] == "62.0"
    made = page.table("name", "value")
    assert [made[name]["value"] for name in ("pieces in the vocabulary", "upper case and accents kept")] == [
        "8,000",
        "no",
    ]
    assert made["pairs with a random second text"]["value"] == "64.5 %"
    assert page.tags.count("figure") == 3
    index = page_of(tmp_path / "pages" / "index.html")
    assert "mini.html" in index.addresses
    assert index.table("run", "size or start")["mini"]["NSP accuracy, %"] == "73.1"


def test_without_evaluations_on_the_way_the_page_says_how_to_get_curves(tmp_path: Path) -> None:
    _write(tmp_path / "runs" / "mini", evaluated=False)
    page = _built(tmp_path / "runs")
    assert "--evaluate-every N of teacher.pretrain" in page.text
    assert page.tags.count("figure") == 1


def test_one_term_is_not_shown_beside_its_total(tmp_path: Path) -> None:
    path = _write(tmp_path / "mlm")
    path.with_name("history.jsonl").write_text('{"step": 5, "mlm": 7.0, "loss": 7.0}\n', encoding="utf-8")
    (training,) = training_stacks(PretrainingRecord.load(path))
    assert [line.label for line in training.panels[0].lines] == ["mlm"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / "pretraining.json").write_text("{", encoding="utf-8"), "is damaged"),
        (lambda folder: (folder / "pretraining.json").write_text("{}", encoding="utf-8"), "has no settings, steps"),
        (lambda folder: (folder / "history.jsonl").write_text("[1]\n", encoding="utf-8"), "line 1, is no row"),
        (lambda folder: (folder / "record.json").write_text("{}", encoding="utf-8"), "has another record too"),
    ],
)
def test_what_cannot_be_shown_costs_a_line_and_not_the_pages(tmp_path: Path, spoil: Any, words: str) -> None:
    _write(tmp_path / "runs" / "good")
    _write(tmp_path / "runs" / "bad")
    spoil(tmp_path / "runs" / "bad")
    built = build_reports(tmp_path / "runs", tmp_path / "pages")
    assert [page.stem for page in built.pages] == ["good"]
    assert any(words in problem and "bad" in problem for problem in built.broken)


def test_a_folder_without_a_history_has_no_curves(tmp_path: Path) -> None:
    path = _write(tmp_path / "runs" / "mini")
    path.with_name("history.jsonl").unlink()
    record = PretrainingRecord.load(path)
    assert not record.held_out and not record.training
    assert "mini" in _built(tmp_path / "runs").text


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"pretraining\.json is damaged"):
        PretrainingRecord.load(tmp_path / "pretraining.json")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"steps": 1.5}, "steps is '1.5'"),
        ({"held_out": None}, "held_out is 'None'"),
        ({"held_out": {"mlm_loss": "low"}}, "mlm_loss of held_out is 'low'"),
        ({"settings": []}, r"settings is '\[\]'"),
        ({"tokens": True}, "tokens is 'True'"),
    ],
)
def test_a_damaged_record_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        PretrainingRecord.load(_write(tmp_path / "mini", **changes))


def test_one_damaged_folder_does_not_end_the_build(tmp_path: Path) -> None:
    """A history of other bytes, and a field that only the page trips over: each costs a line on the index."""
    runs = tmp_path / "runs"
    _write(runs / "sound", evaluated=False)
    _write(runs / "bytes").with_name("history.jsonl").write_bytes(b'{"step": 1, "loss": 1.0}\n\xff\xfe\n')
    _write(runs / "odd", evaluated=False, vocabulary=["8000"])
    built = build_reports(runs, tmp_path / "pages")
    assert [path.name for path in built.pages] == ["sound.html"]
    unreadable, unshown = built.broken
    assert "history.jsonl is not readable as a history" in unreadable
    assert "odd: no page can be made of its record" in unshown
    index = page_of(built.index)
    assert not any("odd.html" in address for address in index.addresses)
    assert "no page can be made" in index.text
    with pytest.raises(UserError, match="odd: no page can be made of its record"):
        build_reports(runs, tmp_path / "pages", only="odd")
