"""Pages: what they say, that they are single safe files, and that nothing of the user's is lost."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from unit import record_factory
from unit.page_parser import Page, page_of

from common.errors import UserError
from reports import details, tables
from reports.build import build_reports, command
from reports.cells import in_order, measured_card
from reports.notices import notices
from reports.pages import scatters
from reports.record import AugmentedText, Interval, ModelCard, Record, TransferCard
from reports.twins import twin_effects
from reports.verdicts import headlines, remarks


def write(runs: Path, *records: Record) -> None:
    for record in records:
        record.save(runs / record.name / "record.json")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs/ and reports/: all kinds of records, and a broken one."""
    folder = tmp_path_factory.mktemp("built")
    write(folder / "runs", record_factory.rich(), record_factory.regression(), record_factory.minimal())
    (folder / "runs/broken").mkdir()
    (folder / "runs/broken/record.json").write_text('{"schema_version": 1}', encoding="utf-8")
    result = build_reports(folder / "runs", folder / "reports")
    assert len(result.pages) == 3
    assert len(result.broken) == 1
    return folder


def page(built: Path, name: str) -> Page:
    return Page((built / "reports" / f"{name}.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def rich(built: Path) -> Page:
    return page(built, record_factory.rich().name)


def test_headline_says_it_in_plain_words(rich: Page) -> None:
    expected = (
        "tiny keeps 97.9 % of the teacher's accuracy (84.1 against 85.9), 1.6× smaller on disk, 3.1× faster at batch 1 "
        "and 3.1× faster at batch 32. Distillation adds 2.6 points (95 % interval +1.7 to +3.5)."
    )
    assert expected in rich.text


def test_summary_table(rich: Page) -> None:
    rows = rich.table("model", "accuracy, %")
    assert rows["tiny bert, 4 layers of 312"] == {
        "model": "tiny bert, 4 layers of 312",
        "accuracy, %": "84.1 ± 0.3",
        "against teacher": "−1.8 −2.6 to −1.0",
        "retained": "97.9 %",
        "parameters": "14.4 M 1.6× fewer",
        "on disk": "57.4 MB 1.6× smaller",
        "FLOPs": "1.21 G 2.3× fewer",
        "latency p50, batch 1 × 16 tokens": "0.832 ms 3.1× faster",
        "latency p50, batch 32 × 128 tokens": "122 ms 3.1× faster",
        "peak memory": "121 MB 1.5× less",
    }
    assert rows["albert albert, 6 layers of 384"]["latency p50, batch 1 × 16 tokens"] == "2.91 ms 1.12× slower"
    assert rows["albert albert, 6 layers of 384"]["FLOPs"] == "2.81 G the same"
    assert rows["TF-IDF + logistic regression"]["parameters"] == "—"
    assert rows["always the most frequent class"]["accuracy, %"] == "23.1"
    assert list(rows)[:3] == [
        "teacher bert, 6 layers of 384",
        "tiny bert, 4 layers of 312",
        "tiny without distillation bert, 4 layers of 312",
    ]


def test_twins_are_told_with_their_interval(rich: Page) -> None:
    rows = rich.table("student", "verdict")
    assert (
        rows["distil"]["verdict"]
        == "no effect of distillation is seen: +0.3 points, and the 95 % interval −0.6 to +1.2 includes zero"
    )
    assert rows["tiny"]["difference"] == "+2.6 +1.7 to +3.5"
    assert "albert" not in rows


def test_albert_is_told_to_be_small_but_not_fast(rich: Page) -> None:
    assert "albert shares one set of layer weights" in rich.text
    assert "still runs it 6 times" in rich.text
    assert (
        "albert is slower than the teacher at batch 1 × 16 tokens (1.12× slower); batch 32 × 128 tokens (1.12× slower)."
        in rich.text
    )


def test_other_tables(rich: Page) -> None:
    latency = next(table for table in rich.tables if table[0][:2] == ["runtime", "precision"])
    assert len(latency) == 1 + 8
    assert latency[1][:7] == ["torch 2.13.0", "fp32", "1", "16", "1", "2.60 / 3.10", "0.832 / 0.992 3.1× faster"]
    stages = next(table for table in rich.tables if table[0][:2] == ["model", "stage"])
    assert stages[4][2:] == ["0.5 soft, 0.5 hard", "3 min 12 s", "1,100", "3.00", "12,000", "5e-05", "step 900"]
    assert rich.table("class", "n")["torch"]["tiny"] == "84.1 84.1 / 84.1"
    layers = next(table for table in rich.tables if table[0][:2] == ["model", "layer"])
    assert layers[1] == ["tiny", "embeddings", "embeddings", "0.025", "—"]
    assert layers[2] == ["tiny", "1", "2", "0.075", "0.150"]
    metrics = rich.table("model", "accuracy, %")
    assert metrics
    seeds = next(table for table in rich.tables if "accuracy by seed" in table[0])
    assert seeds[2][-2:] == ["0.017", "0: 84.3, 1: 83.8, 2: 84.2"]


def test_provenance_task_and_words(rich: Page) -> None:
    for text in (
        "python -m distill.run --student tiny,distil,albert --seeds 3",
        "Example CPU 8-core, 2 cores, 16.7 GB; avx2, avx512f, avx512_bf16",
        "0123abcd+changes",
        "5f2c9a1be0774d13",
        "12,000 rows: docstrings of 1,204 modules",
        "3,112 duplicates removed",
        "train.learning_rate 5e-05",
        "41 min 13 s",
        "Centred kernel alignment",
    ):
        assert text in rich.text, text


def test_failures_and_notes_come_first(tmp_path: Path) -> None:
    record = replace(record_factory.minimal(), failures=("distil stopped",), notes=("few rows",))
    write(tmp_path / "runs", record)
    build_reports(tmp_path / "runs", tmp_path / "out")
    text = Page((tmp_path / "out/bare-tiny.html").read_text(encoding="utf-8")).text
    assert text.index("distil stopped") < text.index("few rows") < text.index("tiny keeps")


def test_an_error_metric_is_read_the_right_way_round(built: Path) -> None:
    shown = page(built, "stsb-tiny")
    assert (
        "tiny has 1.12 times the teacher's MSE (0.451 against 0.402). Distillation lowers the MSE by 0.087"
        in shown.text
    )
    row = shown.table("model", "MSE")["tiny"]
    assert row == {
        "model": "tiny",
        "MSE": "0.451",
        "against teacher": "+0.049 +0.041 to +0.057",
        "retained": "1.12× the teacher's error",
    }
    assert "always the training mean" in shown.text
    assert "ccuracy" not in shown.text.replace("accuracy.", "")


def test_rows_have_headers_and_notes_one_term(built: Path) -> None:
    html = (built / "reports" / "pydocs-tiny-distil-albert.html").read_text(encoding="utf-8")
    assert html.count('<th scope="row"') == html.count("<tr>") - html.count("<thead>")
    assert re.search(r"<dt>\s*</dt>", html) is None
    for drawn in re.findall(r"<figure>.*?</figure>", html, re.DOTALL):
        assert "opacity: 0.4" not in drawn, "paler than 3:1 on white"


def test_a_resumed_run_does_not_pass_its_last_sitting_off_as_all(tmp_path: Path, built: Path) -> None:
    record = record_factory.minimal()
    assert "sitting" not in page(built, record.name).text
    assert (
        "what was finished before, such as the teacher of an earlier run, is not in it" in page(built, "bare-tiny").text
    )
    made = record.provenance
    for changes in ({"command": f"{made.command} --resume"}, {"config": made.config | {"resume": True}}):
        text = shown_page(tmp_path, replace(record, provenance=replace(made, **changes))).text  # type: ignore[arg-type]
        assert "41 min 13 s, the last sitting of several." in text
        assert "The time is that of the last sitting: what was finished before is not in it." in text


def test_a_newer_run_without_speed_does_not_take_the_charts_of_older_ones(tmp_path: Path) -> None:
    timed = replace(record_factory.rich(), models=record_factory.rich().models[:2])
    untimed = replace(
        timed,
        name="newest",
        models=tuple(replace(card, speed=None) for card in timed.models),
        provenance=replace(timed.provenance, created="2026-05-01T00:00:00Z"),
    )
    titles = [re.findall("Latency, batch [0-9]+", chart) for chart in scatters([untimed, timed], {"tiny": "series-0"})]
    assert [found[0] for found in titles if found] == ["Latency, batch 1", "Latency, batch 32"]


def test_a_minimal_record_has_no_empty_sections(built: Path) -> None:
    shown = page(built, "bare-tiny")
    assert shown.tags.count("figure") == 0
    for heading in (
        "Latency in full",
        "How each was trained",
        "Training curves",
        "Layer by layer",
        "What quality costs",
    ):
        assert heading not in shown.text
    assert "tiny keeps 94.4 % of the teacher's accuracy (85.0 against 90.0)." in shown.text


def test_index_lists_runs_and_survives_a_broken_record(built: Path) -> None:
    shown = page(built, "index")
    assert "broken/record.json: field 'name' is missing" in shown.text
    rows = next(table for table in shown.tables if table[0][0] == "run")
    assert len(rows) == 1 + 3 + 1 + 1
    albert = next(row for row in rows if row[2].startswith("albert"))
    assert albert[3:] == [
        "2026-03-14 09:26",
        "85.9",
        "83.2",
        "96.8 %",
        "3.8× smaller 23.7 MB",
        "1.12× slower batch 1 × 16 tokens",
    ]
    assert next(row for row in rows if row[0].startswith("stsb-tiny"))[6] == "1.12× the teacher's error"
    assert {"stsb-tiny.html", "bare-tiny.html", "pydocs-tiny-distil-albert.html"} <= set(shown.addresses)


def test_pages_are_single_offline_files(built: Path) -> None:
    for path in (built / "reports").glob("*.html"):
        html = path.read_text(encoding="utf-8")
        shown = Page(html)
        assert "http://" not in html
        assert "https://" not in html
        assert all(address.startswith("#") or address.endswith(".html") for address in shown.addresses)
        assert "url(" not in html or set(re.findall(r"url\((.)", html)) == {"#"}
        assert not {"img", "link", "iframe", "object", "image"} & set(shown.tags)


def test_rebuilding_is_byte_identical_in_another_process(tmp_path: Path) -> None:
    rich = record_factory.rich()
    write(tmp_path / "runs", replace(rich, models=rich.models[1:2]), record_factory.regression())
    built = build_reports(tmp_path / "runs", tmp_path / "first")
    done = subprocess.run(
        [sys.executable, "-m", "reports.build", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "second")],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"2 run pages and {tmp_path / 'second/index.html'}" in done.stdout
    for page in (built.index, *built.pages):
        assert (tmp_path / "second" / page.name).read_bytes() == page.read_bytes(), page.name


HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)<'


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    rich = record_factory.rich()
    cards = []
    for card in rich.models[1:2]:
        rows = tuple(replace(row, label=HOSTILE) for row in card.quality.per_class[:1])
        curves = tuple(replace(curve, stage=HOSTILE, name=f"{curve.name}{HOSTILE}") for curve in card.curves[:2])
        cards.append(
            replace(
                card,
                name=card.name + HOSTILE,
                quality=replace(card.quality, per_class=rows),
                curves=curves,
                notes=(HOSTILE,),
            )
        )
    provenance = replace(rich.provenance, command=HOSTILE, config={HOSTILE: HOSTILE}, cpu=HOSTILE)
    record = Record(
        name=HOSTILE,
        provenance=provenance,
        task=record_factory.task(labels=(HOSTILE,), name=HOSTILE, notes=(HOSTILE,)),
        models=tuple(cards),
        failures=(HOSTILE,),
        notes=(HOSTILE,),
    )
    write(tmp_path / "runs", record)
    result = build_reports(tmp_path / "runs", tmp_path / "out")
    assert result.broken == ()
    for path in (result.index, *result.pages):
        shown = Page(path.read_text(encoding="utf-8"))
        assert "img" not in shown.tags
        assert shown.tags.count("script") == 1
        assert HOSTILE in shown.text
    (link,) = {
        address for address in Page(result.index.read_text(encoding="utf-8")).addresses if address.endswith(".html")
    }
    assert not set('<>" ') & set(link)


def test_a_foreign_file_is_never_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "runs", record_factory.minimal(), record_factory.regression())
    out = tmp_path / "out"
    out.mkdir()
    (out / "stsb-tiny.html").write_text("<p>mine</p>", encoding="utf-8")
    with pytest.raises(UserError, match=r"stsb-tiny\.html is in the way"):
        build_reports(tmp_path / "runs", out)
    assert [path.name for path in out.iterdir()] == ["stsb-tiny.html"]
    assert (out / "stsb-tiny.html").read_text(encoding="utf-8") == "<p>mine</p>"


def test_only_one_page_and_the_index(tmp_path: Path) -> None:
    write(tmp_path / "runs", record_factory.minimal(), record_factory.regression())
    result = build_reports(tmp_path / "runs", tmp_path / "out", only="stsb-tiny")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["index.html", "stsb-tiny.html"]
    assert len(next(table for table in page_of(result.index).tables if table[0][0] == "run")) == 3
    with pytest.raises(UserError, match=r"unknown run in --only 'stsb-tinny': did you mean 'stsb-tiny'"):
        build_reports(tmp_path / "runs", tmp_path / "out", only="stsb-tinny")


def test_an_index_over_another_folder_of_runs_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "runs", record_factory.minimal())
    write(tmp_path / "else & where", record_factory.regression())
    index = build_reports(tmp_path / "runs", tmp_path / "out").index
    before = index.read_text(encoding="utf-8")
    assert '<meta name="runs" content="../runs">' in before[:2000]
    other = build_reports(tmp_path / "else & where", tmp_path / "out", only="stsb-tiny")
    assert [page.name for page in other.pages] == ["stsb-tiny.html"] and other.pages[0].is_file()
    assert index.read_text(encoding="utf-8") == before
    assert f"{index} is over the runs of another folder, and stays" in capsys.readouterr().out
    # Asked for by name it is made, and then stays that folder's.
    build_reports(tmp_path / "else & where", tmp_path / "out")
    build_reports(tmp_path / "else & where", tmp_path / "out", only="stsb-tiny")
    assert "and stays" not in capsys.readouterr().out
    assert "stsb-tiny.html" in index.read_text(encoding="utf-8")


def test_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["--runs", str(tmp_path / "none"), "--out", str(tmp_path)]) == 2
    assert "no folder of runs" in capsys.readouterr().err
    (tmp_path / "runs").mkdir()
    assert command(["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    assert "No run has a record yet" in page_of(tmp_path / "out/index.html").text


def test_a_run_called_index_and_one_without_models_are_left_out(tmp_path: Path) -> None:
    write(
        tmp_path / "runs",
        replace(record_factory.minimal(), name="index"),
        replace(record_factory.minimal(), name="empty", models=()),
    )
    result = build_reports(tmp_path / "runs", tmp_path / "out")
    assert result.pages == ()
    assert ["can't be called 'index'" in problem for problem in result.broken] == [False, True]
    assert ["lists no models" in problem for problem in result.broken] == [True, False]


def test_twin_without_interval_is_judged_by_seeds_or_not_at_all() -> None:
    rich = record_factory.rich()

    def verdict(seeds: int) -> str:
        def cut(card: ModelCard) -> ModelCard:
            kept = dict(list(card.quality.by_seed.items())[:seeds])
            return replace(card, quality=replace(card.quality, by_seed=kept, against_twin=None))

        return twin_effects(replace(rich, models=tuple(cut(card) for card in rich.models)))[0].verdict

    assert verdict(3).startswith("distillation adds 2.6 points (95 % interval +")
    assert verdict(1) == "with minus without distillation: +2.6 accuracy; no interval, so nothing is decided"


def test_one_seed_is_not_said_to_be_several(tmp_path: Path, rich: Page) -> None:
    """The intervals of a run with the default --seeds 1 are over examples alone, and the page says so thrice."""
    one = record_factory.one_seed(record_factory.rich())
    assert twin_effects(one)[0].verdict == (
        "distillation adds 2.6 points, with this one seed (95 % interval +1.7 to +3.5)"
    )
    (said,) = notices(one)
    assert said.startswith("One seed of each student: the intervals are over examples alone.")
    bare = tuple(replace(card, quality=replace(card.quality, against_teacher=None)) for card in one.models[:1])
    assert notices(replace(one, models=bare)) == []
    text = shown_page(tmp_path, replace(one, models=one.models[:3])).text
    assert "paired bootstrap over examples. The teacher is one model" in text
    assert "as far as examples show it" in text
    assert "examples and seeds" not in text
    assert said in text
    assert "over examples and seeds. Of the variance that seeds bring, 3 show about 67 %" in rich.text
    assert "this one seed" not in rich.text
    minimal = record_factory.minimal()
    untaught = shown_page(tmp_path, replace(minimal, models=minimal.models[1:])).text
    assert "The teacher is one model" not in untaught


def test_distillation_that_harms_is_said_to() -> None:
    rich = record_factory.rich()
    tiny = rich.model("tiny")
    worse = replace(tiny, quality=replace(tiny.quality, against_twin=Interval(difference=-0.02, low=-0.03, high=-0.01)))
    record = replace(rich, models=tuple(worse if card.name == "tiny" else card for card in rich.models))
    assert twin_effects(record)[0].verdict == "distillation costs 2.0 points (95 % interval −3.0 to −1.0)"


def test_a_value_that_gives_no_ratio_is_still_told() -> None:
    record = record_factory.minimal()
    student = record.model("tiny")
    record = replace(
        record, models=(record.models[0], replace(student, quality=replace(student.quality, retained=None)))
    )
    assert headlines(record)[0].text == "has accuracy 85.0 against 90.0."
    assert headlines(replace(record, models=record.models[1:]))[0].text == "reaches 85.0 % accuracy."


def test_model_notes_are_shown() -> None:
    record = record_factory.minimal()
    noted = replace(record.models[1], notes=("seed 2 was stopped",))
    assert [line.text for line in remarks(replace(record, models=(noted,)))] == ["– seed 2 was stopped"]


def test_settings_of_any_shape_are_shown(tmp_path: Path) -> None:
    record = record_factory.minimal()
    config = {"a": {}, "b": [], "c": None, "d": {"e": [1, "x"], "f": True}}
    write(tmp_path / "runs", replace(record, provenance=replace(record.provenance, config=config)))
    build_reports(tmp_path / "runs", tmp_path / "out")
    tables = [table for table in page_of(tmp_path / "out/bare-tiny.html").tables if table[0] == ["name", "value"]]
    settings = next(dict(table[1:]) for table in tables if ["d.e", "1, x"] in table)
    assert settings == {"a": "—", "b": "—", "c": "—", "d.e": "1, x", "d.f": "True"}


def shown_page(folder: Path, record: Record) -> Page:
    write(folder / "runs", record)
    build_reports(folder / "runs", folder / "out")
    return page_of(folder / "out" / f"{record.name}.html")


def test_a_broken_record_costs_the_exit_code_not_the_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "runs", record_factory.minimal())
    (tmp_path / "runs/broken").mkdir()
    (tmp_path / "runs/broken/record.json").write_text("{", encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        command(["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")])
    assert stopped.value.code == 1
    assert "left out: " in capsys.readouterr().out
    assert (tmp_path / "out/bare-tiny.html").is_file()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"p50_ms": NaN', "models[0].speed.latency[0].p50_ms is not a finite number"),
        ('"p50_ms": 0.0', "teacher has a latency that is not above 0"),
    ],
)
def test_another_runs_impossible_figures_do_not_stop_a_build(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path / "runs", record_factory.minimal(), record_factory.rich())
    path = tmp_path / "runs" / record_factory.rich().name / "record.json"
    path.write_text(re.sub('"p50_ms": [0-9.]+', text, path.read_text(encoding="utf-8"), count=1), encoding="utf-8")
    result = build_reports(tmp_path / "runs", tmp_path / "out", only="bare-tiny")
    assert [page.name for page in result.pages] == ["bare-tiny.html"]
    assert problem in result.broken[0]


def test_a_baseline_that_beats_the_teacher_is_said_first(tmp_path: Path) -> None:
    text = shown_page(tmp_path, record_factory.small()).text
    said = "TF-IDF + logistic regression is better than the teacher by 33.3 points (95 % interval +16.7 to +54.2)."
    assert text.index(said) < text.index("tiny reaches")


def test_a_lead_within_chance_is_not_called_better() -> None:
    record = record_factory.small(low=-0.01, high=0.05)
    assert notices(record)[0] == (
        "tiny without distillation is ahead of the teacher by 2.0 points, "
        "but the 95 % interval −1.0 to +5.0 includes zero."
    )
    assert notices(record_factory.rich()) == []
    worse = record_factory.regression()
    twin = replace(worse.models[2], quality=replace(worse.models[2].quality, value=0.3, against_teacher=None))
    undecided, _ = notices(replace(worse, models=(*worse.models[:2], twin)))
    assert undecided.startswith(
        "tiny without distillation is ahead of the teacher by 0.102 of MSE; there is no interval"
    )


def test_a_small_evaluation_set_is_said_to_be_small() -> None:
    assert notices(record_factory.small())[-1] == (
        "The evaluation set is small, only 24 examples: differences under 16.7 points (4 examples) can't be seen."
    )
    assert "small" not in "".join(notices(record_factory.small(200)))
    unsure = record_factory.small(low=-0.1, high=0.1)
    assert twin_effects(unsure)[0].verdict == (
        "distillation makes no difference that 24 examples can show: 0.0 points, "
        "and the 95 % interval −10.0 to +10.0 includes zero"
    )


def test_identical_answers_are_said_to_be_identical_where_that_follows() -> None:
    """Constants have one Matthews, wrong answers one F1, x and 2x one Pearson: only accuracy tells of answers."""
    record = record_factory.small(4000)
    assert twin_effects(record)[0].verdict == "distillation adds nothing here: identical answers with and without it"
    assert "(54.2 against 54.2, identical answers)" in headlines(record)[0].text
    three = replace(record, task=replace(record.task, labels=("a", "b", "c")))
    assert "right on the same examples with and without it" in twin_effects(three)[0].verdict
    for changes in ({"metric": "matthews"}, {"metric": "f1"}, {"kind": "multilabel"}, {"kind": "tags"}):
        other = replace(record, task=replace(record.task, **changes))  # type: ignore[arg-type]
        assert "identical" not in headlines(other)[0].text
        assert twin_effects(other)[0].verdict.endswith("here: the same score on every resample with and without it")
    assert twin_effects(record_factory.small())[0].verdict == (
        "distillation makes no difference that 24 examples can show: identical answers with and without it"
    )


def test_that_distillation_adds_nothing_needs_an_interval_close_to_zero() -> None:
    """A wide interval that holds zero shows no effect, and shows no absence of one either."""
    wide = twin_effects(record_factory.small(4000, low=-0.001, high=0.097))[0].verdict
    assert wide.startswith("no effect of distillation is seen: +4.8 points, and the 95 % interval")
    assert wide.endswith("includes zero")
    close = record_factory.small(4000, low=-0.003, high=0.005)
    assert twin_effects(close)[0].verdict == (
        "distillation adds nothing here: +0.1 points, and the 95 % interval −0.3 to +0.5 lies within half a point of "
        "zero"
    )
    assert twin_effects(record_factory.one_seed(close))[0].verdict.startswith(
        "distillation adds nothing here, with this one seed: "
    )
    assert "no effect" in twin_effects(record_factory.small(4000, low=-0.003, high=0.0051))[0].verdict
    few = twin_effects(record_factory.small(100, low=-0.003, high=0.005))[0].verdict
    assert few.startswith("distillation makes no difference that 100 examples can show: +0.1 points")
    matthews = replace(close, task=replace(close.task, metric="matthews"))
    assert twin_effects(matthews)[0].verdict.endswith("−0.003 to +0.005 lies within 0.005 of zero")
    errors = replace(close, task=replace(close.task, metric="mse", higher_is_better=False))
    assert "no effect of distillation is seen" in twin_effects(errors)[0].verdict, "an error has a unit of its own"


def test_seeds_that_agree_do_not_make_answers_identical() -> None:
    record = record_factory.small()
    flat = {"0": 0.5, "1": 0.5}
    cards = tuple(
        replace(card, quality=replace(card.quality, by_seed=flat, against_twin=None)) for card in record.models
    )
    assert "identical" not in twin_effects(replace(record, models=cards))[0].verdict


@pytest.mark.parametrize(
    ("p95", "repeats", "reason"),
    [
        (26.0, 40, "Speed was measured on a busy machine and is not reliable (p95 is 26× p50)."),
        (1.1, 4, "Speed was measured too few times and is not reliable (4 repeats)."),
    ],
)
def test_unreliable_speed_is_not_told_as_a_fact(p95: float, repeats: int, reason: str, tmp_path: Path) -> None:
    record = record_factory.busy(record_factory.rich(), p95=p95, repeats=repeats)
    for line in headlines(record):
        assert reason in line.text
        assert "faster" not in line.text
        assert "slower" not in line.text
    shown = shown_page(tmp_path, record)
    row = shown.table("model", "accuracy, %")["tiny bert, 4 layers of 312"]
    assert row["latency p50, batch 1 × 16 tokens"] == "0.832 ms not reliable"
    assert row["latency p50, batch 32 × 128 tokens"] == "122 ms 3.1× faster"
    assert "albert is slower than the teacher at batch 32 × 128 tokens (1.12× slower)." in shown.text
    rows = next(table for table in page_of(tmp_path / "out/index.html").tables if table[0][0] == "run")
    assert rows[1][-1] == "not reliable batch 1 × 16 tokens"


def test_a_p95_of_three_times_the_p50_is_still_relied_on() -> None:
    assert "faster" in headlines(record_factory.busy(record_factory.rich(), p95=2.99, repeats=5))[0].text


def test_a_twin_without_a_latency_points_to_its_student(tmp_path: Path) -> None:
    rows = shown_page(tmp_path, record_factory.small()).table("model", "accuracy, %")
    row = rows["tiny without distillation bert, 4 layers of 312"]
    assert {row[name] for name in row if name.startswith("latency") or name == "peak memory"} == {"as tiny"}


def test_one_of_a_thing_is_no_plural(tmp_path: Path) -> None:
    record = record_factory.small(1)
    cards = tuple(
        replace(card, architecture=card.architecture | {"family": "albert", "layers": 1}) for card in record.models
    )
    machine = replace(record.provenance, cores=1, threads=1, seeds=(0,))
    task = replace(record.task, labels=("only",), rows={"train": 1})
    text = shown_page(tmp_path, replace(record, models=cards, provenance=machine, task=task)).text
    for phrase in (
        "1 layer of 312",
        "into 1 class.",
        "on 1 example of",
        "1 core,",
        "1 thread, seed 0,",
        "runs it once,",
    ):
        assert phrase in text, phrase
    found = re.findall(
        r"(?<![\d.,])1 (?:layers|classes|examples|rows|cores|threads|seeds|notes|runs|times|repeats)\b", text
    )
    assert found == []


def test_a_run_without_a_teacher_and_with_texts_of_its_own_has_a_page(tmp_path: Path) -> None:
    """A teacher that is only outputs, none of them for the evaluation split; and a set that was augmented."""
    rich = record_factory.rich()
    alone = replace(rich.model("tiny").quality, retained=None, against_teacher=None, mcnemar_p=None)
    twin = replace(rich.model("tiny without distillation"), quality=replace(alone, against_twin=None))
    example = AugmentedText(text="<b>one</b>", pair="the pair", versions=("version 1", "version 2"))
    sets = (
        TransferCard(name="augmented", rows=12345, origin="proposed by a model", preview=(example,)),
        TransferCard(name="unlabeled", rows=7, origin="text without labels from more.txt"),
    )
    record = replace(rich, models=(replace(rich.model("tiny"), quality=alone, layer_distances=()), twin), transfer=sets)
    record.save(tmp_path / "runs" / record.name / "record.json")
    assert Record.load(tmp_path / "runs" / record.name / "record.json") == record
    (page,) = build_reports(tmp_path / "runs", tmp_path / "out").pages
    text = page.read_text(encoding="utf-8")
    shown = Page(text)
    assert "<b>one</b>" not in text
    (versions,) = [rows for rows in shown.tables if rows[0] == ["original", "version"]]
    assert versions[1:] == [["<b>one</b> the pair", "version 1"], ["<b>one</b> the pair", "version 2"]]
    (found,) = [rows for rows in shown.tables if rows[0][0] == "set"]
    assert found[1:] == [
        ["augmented", "proposed by a model", "12,345"],
        ["unlabeled", "text without labels from more.txt", "7"],
    ]


def test_a_schedule_is_written_in_words() -> None:
    record = record_factory.rich()
    student = record.model("tiny")
    stage = replace(student.stages[0], losses={"hard": 0.5, "soft": 1.0}, schedules={"soft": "1 to 0, linear"})
    changed = replace(record, models=(replace(student, stages=(stage,)),))
    assert details.stages(changed, {}).rows[0][2].text == "0.5 hard, soft from 1 to 0, linear"


def test_students_of_several_recipes_share_a_twin() -> None:
    """The twin stands below the last of them, each is judged against it, and it costs what they cost."""
    record = record_factory.rich()
    teacher, student, twin = (record.model(name) for name in ("teacher", "tiny", "tiny without distillation"))
    twin = replace(twin, speed=None)
    students = tuple(replace(student, name=f"tiny ({recipe})", student="tiny") for recipe in ("fast", "pkd"))
    several = replace(record, models=(teacher, twin, *students))
    assert [card.name for card in in_order(several)] == ["teacher", "tiny (fast)", "tiny (pkd)", twin.name]
    assert [(effect.student.name, effect.twin) for effect in twin_effects(several)] == [
        ("tiny (fast)", twin),
        ("tiny (pkd)", twin),
    ]
    assert measured_card(several, twin) is students[0]
    row = next(row for row in tables.summary(several, {}).rows if row[0].text == twin.name)
    assert any(field.text == "as tiny (fast)" for field in row)
