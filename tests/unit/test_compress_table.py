"""The table of a chain: ratios to the first row, slower called slower, and a verdict that names both baselines."""

from dataclasses import replace
from pathlib import Path

from unit import record_factory
from unit.page_parser import Page

from distill.compress_summary import chain_table
from reports.build import build_reports
from reports.compress_table import best_baseline, compression_table, pick, verdict
from reports.load import load_all
from reports.record import Compression, CompressionRow, Latency, Record


def row(
    step: str,
    role: str,
    milliseconds: float,
    size: int,
    *,
    value: float = 0.9,
    precision: str = "fp32",
    runtime: str = "torch 2.13.0",
) -> CompressionRow:
    cells = tuple(
        Latency(
            runtime=runtime,
            precision=precision,
            batch=1,
            length=length,
            threads=1,
            p50_ms=milliseconds * length / 16,
            p95_ms=milliseconds * length / 15,
            repeats=50,
        )
        for length in (16, 128)
    )
    return CompressionRow(
        step=step,
        role=role,
        runtime=runtime,
        precision=precision,
        value=value,
        retained=None if role == "reference" else value / 0.9,
        parameters=size // 4,
        bytes_on_disk=size,
        latency=cells,
    )


def chain() -> Compression:
    return Compression(
        model="tiny",
        rows=(
            row("teacher", "reference", 10.0, 100_000_000),
            row("teacher, int8", "baseline", 2.0, 25_000_000, precision="int8", runtime="onnxruntime 1.32.0"),
            row("tiny", "chain", 4.0, 50_000_000, value=0.891),
            row("pruned 50% of parameters", "chain", 12.0, 40_000_000, value=0.882),
            row("int8", "chain", 0.5, 4_000_000, value=0.873, precision="int8", runtime="onnxruntime 1.32.0"),
        ),
    )


def test_every_figure_stands_to_the_first_row() -> None:
    table = compression_table(chain(), "accuracy", higher_is_better=True)
    assert table.headings[:2] == ("step", "runtime")
    by_step = {fields[0].text: fields for fields in table.rows}
    size, time = table.headings.index("on disk"), table.headings.index("1 \N{MULTIPLICATION SIGN} 16, ms")
    assert by_step["int8"][size].text == "4.00 MB"
    assert by_step["int8"][size].under == "25.0\N{MULTIPLICATION SIGN} smaller"
    assert by_step["int8"][time].under == "20.0\N{MULTIPLICATION SIGN} faster"
    assert by_step["teacher"][time].under == ""
    slow = by_step["pruned 50% of parameters"][time]
    assert (slow.under, slow.tone) == ("1.2\N{MULTIPLICATION SIGN} slower", "bad")


def test_the_verdict_names_the_slowest_and_the_fastest_baseline() -> None:
    base = best_baseline(chain(), (1, 16))
    assert base is not None
    assert base.step == "teacher, int8"
    text = verdict(chain(), higher_is_better=True)
    assert text == (
        "int8 (onnxruntime 1.32.0 int8) keeps 97.0 % of the teacher's score, is 25.0× smaller on disk, at 1 × 16 has "
        "20.0× the speed of torch 2.13.0 fp32 and 4.0× the speed of its onnxruntime 1.32.0 int8, at 1 × 128 has 20.0× "
        "the speed of torch 2.13.0 fp32 and 4.0× the speed of its onnxruntime 1.32.0 int8."
    )
    bare = replace(chain(), rows=tuple(replace(entry, latency=()) for entry in chain().rows))
    assert verdict(bare, higher_is_better=True).endswith("is 25.0× smaller on disk.")
    grown = replace(bare, rows=(bare.rows[-1], replace(bare.rows[0], role="chain")))
    assert verdict(grown, higher_is_better=True).endswith("is 25.0× larger on disk.")


def named(found: Compression, **changes: object) -> str:
    """Step, runtime and precision of what the verdict is about."""
    row = pick(replace(found, **changes), higher_is_better=True)  # type: ignore[arg-type]
    return f"{row.step}, {row.runtime.split()[0]} {row.precision}"


def test_the_verdict_is_about_the_fastest_form_that_keeps_the_budget() -> None:
    rows = (
        row("teacher", "reference", 10.0, 100_000_000),
        row("teacher", "baseline", 1.0, 100_000_000, precision="bf16"),
        row("tiny", "chain", 0.1, 50_000_000, value=0.891),
        row("pruned", "chain", 3.0, 40_000_000, value=0.882),
        row("pruned", "chain", 5.0, 40_000_000, value=0.881, precision="bf16"),
        row("pruned", "chain", 2.0, 40_000_000, value=0.871, precision="int8"),
    )
    torch_alone = Compression(model="tiny", rows=rows)
    assert named(torch_alone) == "pruned, torch fp32", "bf16 is slower, and int8 loses more than a point"
    assert named(torch_alone, max_drop=0.02) == "pruned, torch int8"
    assert named(torch_alone, rows=rows[:-1]) == "pruned, torch fp32"
    onnx = (*rows, row("int8", "chain", 0.5, 4_000_000, value=0.880, precision="int8", runtime="onnxruntime 1.32.0"))
    assert named(torch_alone, rows=onnx) == "int8, onnxruntime int8"
    errors = replace(torch_alone, rows=tuple(replace(entry, value=1 - entry.value) for entry in rows))
    assert pick(errors, higher_is_better=False).precision == "fp32"


def doubted(entry: CompressionRow, *, p95: float = 30.0, repeats: int = 50) -> CompressionRow:
    """With times of a busy machine."""
    cells = tuple(replace(cell, p95_ms=p95 * cell.p50_ms, repeats=repeats) for cell in entry.latency)
    return replace(entry, latency=cells)


def test_no_speed_is_claimed_from_times_that_are_not_reliable() -> None:
    """Neither where the row is chosen by them, nor where it is compared, nor where what it is compared with is."""
    *others, last = chain().rows
    spoiled = replace(chain(), rows=(*others, doubted(last)), max_drop=0.02)
    assert named(spoiled) == "pruned 50% of parameters, torch fp32", "the fastest that can be relied on"
    for place in (0, 1):
        rows = list(chain().rows)
        rows[place] = doubted(rows[place], p95=1.1, repeats=4)
        text = verdict(replace(chain(), rows=tuple(rows)), higher_is_better=True)
        assert "at 1 × 16 was timed in a way that is not reliable (4 repeats)" in text
        assert "the speed of" not in text
    alone = replace(spoiled, rows=tuple(map(doubted, spoiled.rows)))
    assert verdict(alone, higher_is_better=True).endswith(
        "at 1 × 16 was timed in a way that is not reliable (p95 is 30× p50), at 1 × 128 was timed in a way that is not "
        "reliable (p95 is 30× p50)."
    )


def test_without_times_the_last_artifact_stands_for_the_chain() -> None:
    rows = tuple(
        replace(entry, latency=(), folder=folder)
        for entry, folder in [
            (row("teacher", "reference", 10.0, 100_000_000), "t"),
            (row("pruned", "chain", 3.0, 40_000_000), "p"),
            (row("pruned", "chain", 3.0, 40_000_000, precision="bf16"), "p"),
        ]
    )
    assert named(Compression(model="tiny", rows=rows)) == "pruned, torch fp32"


def test_the_terminal_has_a_line_a_row() -> None:
    lines = chain_table(chain(), "accuracy", higher_is_better=True).splitlines()
    assert len(lines) == 7
    assert lines[4].split()[-4:] == ["12.00", "0.8x", "96.00", "0.8x"]
    assert "25.0x" in lines[5]


def test_a_page_shows_chains_and_a_damaged_one_is_left_out(tmp_path: Path) -> None:
    record = replace(record_factory.minimal(), compression=(chain(),))
    record.save(tmp_path / "runs" / record.name / "record.json")
    assert Record.load(tmp_path / "runs" / record.name / "record.json") == record
    bad = replace(record, name="bad", compression=(Compression(model="tiny", rows=()),))
    bad.save(tmp_path / "runs" / "bad" / "record.json")
    built = build_reports(tmp_path / "runs", tmp_path / "reports")
    assert len(built.pages) == 1
    assert "the chain of tiny has no rows" in built.broken[0]
    page = Page(built.pages[0].read_text(encoding="utf-8"))
    assert "tiny, step by step" in page.text
    assert "25.0× smaller on disk" in page.text
    table = page.table("step", "runtime")
    assert "20.0× faster" in str(table["int8"])


def test_records_without_chains_still_load(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "old" / "record.json"
    record_factory.minimal().save(path)
    text = path.read_text(encoding="utf-8")
    cut = text.replace(' "compression": [],\n', "")
    assert cut != text
    path.write_text(cut, encoding="utf-8")
    records, broken = load_all(tmp_path / "runs")
    assert not broken
    assert records["old"].compression == ()


def test_no_ratio_is_made_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "zero" / "record.json"
    rows = (replace(chain().rows[0], bytes_on_disk=0),)
    replace(record_factory.minimal(), compression=(Compression(model="tiny", rows=rows),)).save(path)
    _, broken = load_all(tmp_path / "runs")
    assert "not above 0" in broken[0]
