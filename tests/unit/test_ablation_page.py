"""The page of an ablation of pretraining: what it claims, and what it leaves open."""

from dataclasses import replace
from pathlib import Path

import pytest
from unit import ablation_factory, record_factory
from unit.page_parser import Page, page_of

from common.ablation_record import AblationRecord, Series
from common.errors import UserError
from reports.ablation_charts import by_encoder, curves, differences, scores
from reports.ablation_words import notices
from reports.build import build_reports, command


def _built(folder: Path, record: AblationRecord) -> Page:
    record.save(folder / "runs" / record.name / "ablation.json")
    (page,) = build_reports(folder / "runs", folder / "out").pages
    return page_of(page)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return _built(tmp_path_factory.mktemp("ablation"), ablation_factory.record())


def test_a_record_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    record = ablation_factory.record()
    record.save(tmp_path / "ablation.json")
    assert AblationRecord.load(tmp_path / "ablation.json") == record


def test_no_row_claims_what_its_interval_does_not_carry(shown: Page) -> None:
    assert "MLM + NSP reaches 70.5 %: what the others are compared with." in shown.text
    assert (
        "MLM, no NSP – no difference to MLM + NSP is seen: +0.1 points, and the 95 % interval −0.8 to +1.0 includes "
        "zero." in shown.text
    )
    assert "left to right, no NSP is 4.2 points worse than MLM + NSP (95 % interval −5.6 to −2.8)." in shown.text


def test_rows_that_only_guess_are_named_first() -> None:
    record = ablation_factory.record()
    best = max(row.value for study in record.studies for row in study.rows)
    guessed = replace(record, task=replace(record.task, majority=best))
    assert "No better than one answer for all" not in " ".join(notices(record))
    found = [line for line in notices(guessed) if line.startswith("No better than one answer")]
    assert len(found) == 1
    assert all(row.name in found[0] for study in record.studies for row in study.rows)


def test_the_table_has_costs_and_held_out_figures(shown: Page) -> None:
    rows = shown.table("objective", "accuracy, %")
    first = rows["MLM + NSP what was done"]
    assert first == {
        "objective": "MLM + NSP what was done",
        "accuracy, %": "70.5 ± 0.4",
        "against MLM + NSP": "—",
        "seeds": "3",
        "steps": "2,000",
        "tokens": "3.40 M",
        "pretraining": "5 min 2 s",
        "learning the task": "1 min 14 s",
        "parameters": "5.40 M",
        "MLM loss": "4.52 6.71 without",
        "MLM accuracy, %": "28.3",
        "NSP accuracy, %": "71.4 56.1 without",
        "LTR loss": "—",
        "LTR accuracy, %": "—",
    }
    assert rows["left to right, no NSP what was done"]["LTR loss"] == "4.63 6.71 without"
    assert rows["most frequent class"]["accuracy, %"] == "23.1"


def test_what_must_be_known_stands_before_the_figures(shown: Page) -> None:
    for words in (
        "Equal steps: every encoder was pretrained for 2,000 steps.",
        "3 seeds a row, each pretrained anew.",
        "of the variance that seeds bring, 3 show about 67 %.",
        "ltr, seed 2: no context was learned.",
    ):
        assert shown.text.index(words) < shown.text.index("What is the next sentence worth?")
    for words in ("Left to right, the last piece is read.", "aa11bb22", "5f2c9a1be0774d13", "0123abcd+changes"):
        assert words in shown.text


def test_one_seed_is_said_to_be_one(tmp_path: Path) -> None:
    study = ablation_factory.objective()
    single = tuple(replace(row, spread=None, by_seed={"0": row.value}) for row in study.rows)
    record = ablation_factory.record(studies=(replace(study, rows=single),))
    record = replace(record, provenance=replace(record.provenance, seeds=(0,)))
    text = _built(tmp_path, record).text
    assert "One seed a row: the intervals are over examples alone." in text
    assert "is 4.2 points worse than MLM + NSP, with this one seed (95 %" in text
    assert "±" not in text


def test_charts_show_points_and_share_lines() -> None:
    record = ablation_factory.record()
    objective, features = record.studies
    strip = scores(objective, record)
    assert [mark.label for mark in strip.marks] == [row.name for row in objective.rows]
    first = strip.marks[0]
    assert first.value == pytest.approx(100 * objective.rows[0].value)
    assert first.high - first.value == pytest.approx(100 * (objective.rows[0].spread or 0))
    assert first.dots == pytest.approx((70.1, 70.9, 70.4))
    against = differences(objective, record)
    assert against is not None
    assert against.zero and [(mark.low, mark.high) for mark in against.marks] == [
        (pytest.approx(-0.8), pytest.approx(1.0)),
        (pytest.approx(-5.6), pytest.approx(-2.8)),
    ]
    assert differences(replace(objective, rows=objective.rows[:1]), record) is None
    shown = [(stack.title, [(panel.title, len(panel.lines)) for panel in stack.panels]) for stack in curves(objective)]
    assert shown == [
        ("Objective: masked pieces, held out", [("loss (nats)", 2), ("accuracy", 2)]),
        ("Objective: next sentence, held out", [("accuracy", 1)]),
        ("Objective: next pieces, held out", [("loss (nats)", 1), ("accuracy", 1)]),
    ]
    assert len(by_encoder(features)) == 1
    assert [line.label for line in curves(features)[0].panels[0].lines] == ["all rows"]


def test_the_page_is_a_single_offline_file_and_the_index_lists_it(tmp_path: Path) -> None:
    hostile = '"><img src=x onerror=alert(1)>'
    study = ablation_factory.objective()
    named = replace(study, notes=(hostile,), rows=tuple(replace(row, name=row.name + hostile) for row in study.rows))
    record = ablation_factory.record(studies=(named,), corpus=hostile)
    shown = _built(tmp_path, record)
    assert hostile in shown.text
    assert not {"img", "link", "iframe", "object", "image"} & set(shown.tags)
    assert all(address.startswith("#") or address.endswith(".html") for address in shown.addresses)
    assert "://" not in (tmp_path / "out/ablation.html").read_text(encoding="utf-8")
    index = page_of(tmp_path / "out/index.html")
    rows = index.table("run", "studies")
    assert rows["ablation"]["studies"] == "objective"
    assert rows["ablation"]["seeds"] == "3"
    assert "ablation.html" in index.addresses
    assert "No run has a record yet" not in index.text


def test_one_page_alone(tmp_path: Path) -> None:
    ablation_factory.record().save(tmp_path / "runs/ablation/ablation.json")
    record_factory.minimal().save(tmp_path / "runs/bare-tiny/record.json")
    places = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert command([*places, "--only", "ablation"]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["ablation.html", "index.html"]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda record: replace(record, studies=()), "lists no studies"),
        (lambda record: replace(record, schema_version=9), "record schema 9, this version reads 1"),
        (
            lambda record: replace(
                record,
                studies=(
                    replace(
                        record.studies[0],
                        rows=tuple(
                            replace(
                                row,
                                pretraining=replace(
                                    row.pretraining, curves=(Series(name="mlm_loss", steps=(1,), values=()),)
                                ),
                            )
                            for row in record.studies[0].rows
                        ),
                    ),
                ),
            ),
            "a curve with more steps than values",
        ),
    ],
)
def test_a_record_that_cannot_be_costs_a_line(damage, words: str, tmp_path: Path) -> None:
    damage(ablation_factory.record()).save(tmp_path / "runs/ablation/ablation.json")
    built = build_reports(tmp_path / "runs", tmp_path / "out")
    assert built.pages == ()
    assert words in built.broken[0]


def test_a_folder_with_two_records_keeps_the_run(tmp_path: Path) -> None:
    ablation_factory.record().save(tmp_path / "runs/bare-tiny/ablation.json")
    record_factory.minimal().save(tmp_path / "runs/bare-tiny/record.json")
    built = build_reports(tmp_path / "runs", tmp_path / "out")
    assert "has a record.json too" in built.broken[0]
    assert "tiny keeps" in page_of(tmp_path / "out/bare-tiny.html").text


def test_an_unknown_field_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ablation.json"
    ablation_factory.record().save(path)
    path.write_text(path.read_text(encoding="utf-8").replace('"budget"', '"budgets"'), encoding="utf-8")
    with pytest.raises(UserError, match=r"ablation\.json: unknown field 'budgets': did you mean 'budget'"):
        AblationRecord.load(path)
