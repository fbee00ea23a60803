"""Writes the pages: `python -m reports.build` makes them all again from the stored records."""

import os
import sys
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from common.ablation_record import AblationRecord
from common.command import run_command
from common.errors import UserError, unknown_name
from common.files import write_text
from common.pretraining_record import PretrainingRecord
from common.progress import progress, say
from common.study_record import StudyRecord
from common.words import counted, first_line
from reports.ablation_page import ablation_page
from reports.index import index_page
from reports.load import load_ablations, load_all, load_pretrainings, load_studies
from reports.pages import run_page
from reports.pretraining_page import pretraining_page
from reports.record import Record
from reports.study_page import study_page
from reports.theme import css_variables

GENERATOR = "distillery reports"
"""The meta tag by which a page is known as ours, and may be written again."""

Shown = Record | AblationRecord | StudyRecord | PretrainingRecord


@dataclass(frozen=True, kw_only=True)
class BuildConfig:
    """Make the pages of all runs again from their records.

    Pages are single files that work offline. Files that this command didn't write are left alone.
    """

    runs: Path = Path("runs")
    """Folder of runs; each is a folder with a record.json, ablation.json, study.json or pretraining.json."""
    out: Path = Path("reports")
    """Folder for index.html and one page a run."""
    only: str | None = None
    """Make the page of this run alone, and the index; the other pages are taken to be up to date."""


@dataclass(frozen=True, kw_only=True)
class Built:
    """What was written."""

    index: Path
    pages: tuple[Path, ...]
    broken: tuple[str, ...]
    """One sentence for each record that could not be shown."""


def main(config: BuildConfig) -> None:
    """Writes all pages; exit code 1 where a record had to be left out."""
    built = build_reports(config.runs, config.out, only=config.only)
    for problem in built.broken:
        say(f"left out: {problem}")
    say(f"{counted(len(built.pages), 'run page')} and {built.index}")
    if built.broken:
        sys.exit(1)


def build_reports(runs: Path, out: Path, *, only: str | None = None) -> Built:
    """A page for each `runs/*/record.json`, `ablation.json`, `study.json` and `pretraining.json`, and `out/index.html`
    over all of them.

    Args:
        runs: the folder of run folders.
        out: the folder for pages; made where missing.
        only: write this run's page alone, and the index; the other pages are taken to be up to date. An index over
            another folder of runs stays as it is, which is said.

    Raises:
        UserError: no such folder of runs, no such run in it, or a file in the way that isn't one of our pages; nothing
            is written then. A record that the page of `only` can't be made of.

    A record that can't be read costs a line on the index, not the build.
    """
    if not runs.is_dir():
        raise UserError(
            f"no folder of runs at {runs}: give it with --runs, or make a run first with python -m distill.run"
        )
    if only is not None and not (runs / only).is_dir():
        raise unknown_name("run in --only", only, sorted(path.name for path in runs.iterdir() if path.is_dir()))
    records, broken = load_all(runs)
    ablations, also_broken = load_ablations(runs)
    studies, more_broken = load_studies(runs)
    pretrainings, still_broken = load_pretrainings(runs)
    broken += [*also_broken, *more_broken, *still_broken]
    shown: dict[str, Shown] = {**records, **ablations, **studies, **pretrainings}
    index = out / "index.html"
    targets = {out / f"{folder}.html": record for folder, record in shown.items() if only in (None, folder)}
    for target in (index, *targets):
        _refuse_foreign(target)
    environment = _environment()
    pages, failed = _written(environment, targets, named=only)
    for name, problem in failed.items():
        broken.append(f"{runs / name}: {problem}: run it again")
        for kind in (records, ablations, studies, pretrainings):
            kind.pop(name, None)
    folder = os.path.relpath(runs, out)
    if only is not None and _is_over_another(index, folder):
        say(f"{index} is over the runs of another folder, and stays: reports.build --runs {runs} makes one of these")
        return Built(index=index, pages=tuple(pages), broken=tuple(broken))
    page = index_page(records, broken, ablations, studies, pretrainings)
    write_text(index, environment.get_template("index.html.j2").render(page | {"folder": folder}))
    return Built(index=index, pages=tuple(pages), broken=tuple(broken))


def _written(
    environment: Environment, targets: Mapping[Path, Shown], *, named: str | None
) -> tuple[list[Path], dict[str, str]]:
    """The pages; and by folder why there is none: what a damaged record brings about must not cost the other pages.

    Raises:
        UserError: that, where this is the one page that was asked for.
    """
    pages, failed = [], {}
    for target, record in progress(list(targets.items()), "reports", total=len(targets), unit="page"):
        try:
            text = _page(environment, record)
        except Exception as error:
            failed[target.stem] = f"no page can be made of its record ({first_line(error)})"
            if named is not None:
                raise UserError(f"{named}: {failed[target.stem]}: run it again") from error
        else:
            write_text(target, text)
            pages.append(target)
    return pages, failed


def _page(environment: Environment, record: Shown) -> str:
    if isinstance(record, PretrainingRecord):
        return environment.get_template("pretraining.html.j2").render(pretraining_page(record))
    if isinstance(record, StudyRecord):
        return environment.get_template("study.html.j2").render(study_page(record))
    if isinstance(record, AblationRecord):
        return environment.get_template("ablation.html.j2").render(ablation_page(record))
    return environment.get_template("run.html.j2").render(run_page(record))


def check_place(out: Path) -> None:
    """Raise UserError where pages could not be written to `out`: before hours of work, not after."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: a folder for the pages was expected")
    _refuse_foreign(out / "index.html")


def _refuse_foreign(target: Path) -> None:
    if not target.exists():
        return
    head = target.read_bytes()[:2000] if target.is_file() else b""
    if f'<meta name="generator" content="{GENERATOR}">'.encode() not in head:
        raise UserError(
            f"{target} is in the way and was not made by reports.build: move it, or choose another folder with --out"
        )


def _is_over_another(index: Path, folder: str) -> bool:
    """Whether the index was made from other runs than those in `folder`, seen from the pages; one may not say."""
    head = index.read_text(encoding="utf-8")[:2000] if index.is_file() else ""
    return '<meta name="runs"' in head and f'<meta name="runs" content="{escape(folder)}">' not in head


def _environment() -> Environment:
    templates = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(
        loader=templates, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(
        generator=GENERATOR,
        light_colours=Markup(css_variables(dark=False)),
        dark_colours=Markup(css_variables(dark=True)),
    )
    environment.filters["counted"] = counted
    environment.filters["opening"] = lambda text: text[:1].upper() + text[1:]
    environment.filters["address"] = lambda name: urllib.parse.quote(f"{name}.html")
    return environment


def command(arguments: Sequence[str] | None = None) -> int:
    """The command line; gives the exit code."""
    return run_command(
        main, BuildConfig, arguments=arguments, examples="  python -m reports.build --runs runs --out reports"
    )


if __name__ == "__main__":
    sys.exit(command())
