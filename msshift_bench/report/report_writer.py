"""Writing the report: one page that needs nothing else, and its figures and tables as files."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msshift_bench.data import Dataset, open_dataset
from msshift_bench.errors import UsageError, check_installed
from msshift_bench.evaluation import Settings, evaluate_run_sets, loss_table
from msshift_bench.output import (
    PICTURE_FORMATS,
    RENDERERS,
    LongTable,
    Table,
    csv_text,
    inline_script,
    inline_styles,
    page_environment,
    picture_bytes,
    picture_style,
    script_policy,
    show_percent,
    show_percent_interval,
)
from msshift_bench.plumbing import Progress, replace_folder, silent
from msshift_bench.report.figure_list import SECTIONS, Section
from msshift_bench.report.report_facts import facts_of, files_table
from msshift_bench.report.report_figure import LeftOut, ReportFigure
from msshift_bench.report.report_inputs import Gathered, read_inputs, with_ranks
from msshift_bench.report.svg_inline import inline_svg
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["PAGE_NAME", "WrittenReport", "check_report_folder", "write_report"]

PAGE_NAME = "report.html"
_DOTS_PER_INCH = 300
_SHOWN_ROWS = 30
"""Rows of a figure's numbers that the page shows; the CSV file has all."""

_SCRIPTS = ("theme.js", "sideways.js")


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report on the disk.

    Attributes:
        page: the page to open.
        figures: the names of its figures; each is ``figures/<name>`` with the endings ``.svg``,
            ``.png``, ``.pdf`` and ``.csv``.
        tables: the names of its tables; each is ``tables/<name>`` with ``.tex`` and ``.csv``.
        left_out: what is not drawn, and what would bring it.
        remarks: doubts about the figures.
    """

    page: Path
    figures: tuple[str, ...]
    tables: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Shown:
    """A section with what was drawn of it; each figure with its SVG for the page."""

    section: Section
    figures: tuple[tuple[ReportFigure, str], ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class _PaperTable:
    """A table in the paper's layout, as cells, as LaTeX, and as rows of numbers."""

    name: str
    table: Table
    latex: str
    csv: str


def check_report_folder(out: Path) -> None:
    """Check that a report can be drawn here, and that its folder holds nothing else.

    Raises:
        MissingExtraError: if matplotlib, Jinja2 or scikit-learn is not installed.
        UsageError: if `out` holds anything but a report.
    """
    for module in ("matplotlib", "jinja2", "sklearn"):
        check_installed(module, "plots", "a report")
    if out.is_dir() and any(out.iterdir()) and not (out / PAGE_NAME).is_file():
        raise UsageError(f"{out} is not a report that was written before; choose another folder")


def write_report(
    runs: str | Path | Sequence[str | Path],
    out: str | Path = "report",
    data: Dataset | str | Path = DATASET_NAME,
    shifts: Sequence[str] = (),
    settings: Settings | None = None,
    *,
    allow_partial: bool = False,
    allow_identical: bool = False,
    force_data: bool = False,
    links: bool = True,
    progress: Progress = silent,
) -> WrittenReport:
    """Evaluate run sets and write a page of figures about what they lose.

    Args:
        runs: as for `evaluate_run_sets`, like the arguments below but `out`.
        out: the folder to write; a report that was written there before is replaced.
        data: the built data set.
        shifts: only these.
        settings: measures, policies and statistics; figures show the first measure.
        allow_partial: draw what can be drawn where run files are missing.
        allow_identical: accept the same file under two models of a system.
        force_data: score runs even if their sidecars name other data.
        links: whether to compute and draw the links of losses with similarity, which takes longest;
            R is drawn where a bi-encoder's models were kept.
        progress: called with the number of run files done, then of figures.

    Returns:
        Where the page is, and what it holds. A figure whose data are not there is left out.

    Raises:
        MissingExtraError: if a library of the extra ``plots`` is not installed.
        UsageError: if `out` holds anything but a report; and as for `evaluate_run_sets`, like all
            others.
    """
    folder = Path(out)
    check_report_folder(folder)
    dataset, settings = open_dataset(data), settings or Settings()
    report = evaluate_run_sets(
        runs,
        dataset,
        shifts,
        with_ranks(settings),
        allow_partial=allow_partial,
        allow_identical=allow_identical,
        force_data=force_data,
        progress=progress,
    )
    found = read_inputs(
        report,
        settings.measures,
        runs,
        dataset,
        links=links,
        progress=progress,
    )
    with replace_folder(folder) as made:
        (made / "figures").mkdir()
        (made / "tables").mkdir()
        shown = [_draw(section, found, made / "figures", progress) for section in SECTIONS]
        tables = _write_tables(found, made / "tables")
        (made / PAGE_NAME).write_text(_page(found, shown, tables), encoding="utf-8")
    return WrittenReport(
        folder / PAGE_NAME,
        tuple(figure.name for one in shown for figure, _ in one.figures),
        tuple(table.name for table in tables),
        _merged(left for one in shown for left in one.left_out),
        tuple(found.report.remarks),
    )


def _draw(section: Section, found: Gathered, folder: Path, progress: Progress) -> _Shown:
    """Draw the figures of a section and write each as a file of every format."""
    figures, left_out = [], []
    with picture_style():
        for number, drawn in enumerate(section.draw(found)):
            if isinstance(drawn, LeftOut):
                left_out.append(drawn)
            else:
                svg = _write_figure(drawn, folder)
                figures.append((drawn, svg))
            progress(f"figures: {section.title.lower()}", number + 1, 0)
    return _Shown(section, tuple(figures), tuple(left_out))


def _write_figure(drawn: ReportFigure, folder: Path) -> str:
    figure = drawn.figure
    figure.draw_without_rendering()  # lays it out, once for all formats
    figure.set_layout_engine(None)
    for name in PICTURE_FORMATS:
        picture = picture_bytes(figure, name, drawn.title, density=_DOTS_PER_INCH)
        (folder / f"{drawn.name}.{name}").write_bytes(picture)
    (folder / f"{drawn.name}.csv").write_text(drawn.to_csv(), encoding="utf-8")
    return inline_svg(figure, drawn.name)


def _write_tables(found: Gathered, folder: Path) -> list[_PaperTable]:
    tables = []
    rows = found.report.tidy()
    for shift, results in found.report.by_shift().items():
        for measure in found.measures:
            name = f"losses-{shift}-{measure.name.replace('@', '-at-')}"
            own = [one for one in rows.rows if (one.shift, one.measure) == (shift, measure.name)]
            table = loss_table(results, measure, brief=True)
            one = _PaperTable(
                name, table, RENDERERS["latex"](table), LongTable(own, rows.columns).to_csv()
            )
            (folder / f"{name}.tex").write_text(one.latex, encoding="utf-8")
            (folder / f"{name}.csv").write_text(one.csv, encoding="utf-8")
            tables.append(one)
    return tables


def _page(found: Gathered, shown: Sequence[_Shown], tables: Sequence[_PaperTable]) -> str:
    environment = page_environment(__package__, "plots", "a report")
    environment.filters |= {
        "coded": _coded,
        "data_uri": _data_uri,
        "percent": show_percent,
        "percent_interval": show_percent_interval,
    }
    scripts = [inline_script(name) for name in _SCRIPTS]
    own = (Path(str(files(__package__))) / "templates" / "report.css").read_text("utf-8")
    values: dict[str, Any] = {
        "styles": inline_styles("page.css", "tables.css") + own,
        "scripts": scripts,
        "policy": script_policy(scripts),
        "report": found.report,
        "measure": found.measure,
        "systems": list(dict.fromkeys(one.system for one in found.report.systems)),
        "shown": [one for one in shown if one.figures],
        "left_out": _merged(left for one in shown for left in one.left_out),
        "tables": tables,
        "facts": facts_of(found.report),
        "run_files": files_table(found.report),
        "most_rows": _SHOWN_ROWS,
        "csv_text": csv_text,
    }
    text: str = environment.get_template("report.html").render(**values)
    return text + "\n"


def _merged(left_out: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """Return what is left out, each reason once."""
    titles: dict[tuple[str, str], list[str]] = {}
    for one in left_out:
        titles.setdefault((one.why, one.remedy), []).append(one.title)
    return tuple(LeftOut("; ".join(of), why, remedy) for (why, remedy), of in titles.items())


def _coded(text: str) -> Markup:
    """Return a text as HTML, in which what stands between backticks is code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _data_uri(text: str) -> str:
    return f"data:text/csv;charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"
