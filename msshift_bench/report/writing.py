"""Writing of the report: a self-contained page, and its pictures and tables as files."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any, NamedTuple

from msshift_bench.data import Dataset, open_dataset
from msshift_bench.errors import UsageError, check_installed
from msshift_bench.evaluation import (
    Settings,
    SettingsSource,
    data_caveats,
    data_notes,
    lead_table,
    loss_table,
    open_run_sets,
    policy_notes,
    seen_notes,
    tie_notes,
)
from msshift_bench.output import (
    COLOURS,
    INK,
    LINE,
    PALE_INK,
    PICTURE_FORMATS,
    RENDERERS,
    SHADES,
    Table,
    csv_text,
    inline_script,
    inline_styles,
    level_text,
    page_environment,
    picture_bytes,
    picture_style,
    script_policy,
)
from msshift_bench.plumbing import replace_folder, report_progress
from msshift_bench.report.drawing import Chart, Picture
from msshift_bench.report.inputs import Inputs, Missing, read_inputs
from msshift_bench.report.links import draw_links
from msshift_bench.report.losses import draw_in_out, draw_leads, draw_losses, draw_matrices
from msshift_bench.report.topics import draw_topics
from msshift_bench.runs import FOR_ALL
from msshift_bench.shifts import DATASET_NAME, ShiftNames, grouped
from msshift_bench.stats import Figure, Figures

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure as Drawing

PAGE_NAME = "report.html"
_DOTS_PER_INCH = 300

_SCRIPTS = ("theme.js", "sideways.js")
_LIBRARIES = ("numpy", "scipy", "matplotlib", "scikit-learn")

_Section = tuple[str, str, Chart, Sequence[str]]
"""Anchor, name, chart, and the chart's pictures as SVG."""

_Table = tuple[str, Table, str, str]
"""Name, cells, LaTeX, and CSV of a table in the paper's layout."""

SECTIONS: Sequence[tuple[str, str, Callable[[Inputs], Chart | Missing]]] = (
    ("losses", "Rel Loss by group", draw_losses),
    ("sides", "Avg In and Out", draw_in_out),
    ("matrices", "Models by groups", draw_matrices),
    ("leads", "Lead by group", draw_leads),
    ("links", "Losses and similarity", draw_links),
    ("topics", "Map of the topics", draw_topics),
)
"""Charts of the page in their order: anchor, name, and the function that returns the chart."""


class MissingChart(NamedTuple):
    """One or several charts that are left out, because their data are missing.

    Attributes:
        title: the names of the charts, separated by "; ".
        why: the reason.
        remedy: how to get the missing data.
    """

    title: str
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """Files and warnings of a report.

    Attributes:
        page: the path of the page.
        figures: the names of its pictures; each has files ``figures/<name>`` with the extensions
            ``.svg``, ``.png``, ``.pdf`` and ``.csv``.
        tables: the names of its tables; each has files ``tables/<name>.tex`` and ``.csv``.
        left_out: the charts without data, and how to get them.
        warnings: warnings about the runs.
    """

    page: Path
    figures: tuple[str, ...]
    tables: tuple[str, ...]
    left_out: tuple[MissingChart, ...]
    warnings: tuple[str, ...]


def check_report_folder(out: Path) -> None:
    """Check that the libraries of a report are installed, and that its folder can be replaced.

    Args:
        out: the folder of the report.

    Raises:
        MissingExtraError: if matplotlib, Jinja2 or scikit-learn is not installed.
        UsageError: if `out` contains files but no report.
    """
    for module in ("matplotlib", "jinja2", "sklearn"):
        check_installed(module, "plots", "a report")
    if out.is_dir() and any(out.iterdir()) and not (out / PAGE_NAME).is_file():
        raise UsageError(f"{out} contains files but no report; choose another folder")


def write_report(
    runs: str | Path | Sequence[str | Path],
    out: str | Path = "report",
    data: Dataset | str | Path = DATASET_NAME,
    shifts: ShiftNames = (),
    settings: SettingsSource = None,
    *,
    reference: str | Path | None = None,
    allow: str | Collection[str] = (),
    links: bool = True,
) -> WrittenReport:
    """Evaluate run sets, and write a page with charts and tables of their losses.

    Args:
        runs: the run sets; see `evaluate_run_sets`.
        out: the folder to write; an earlier report in it is replaced.
        data: the built data set; see `evaluate_run_sets`.
        shifts: the shifts to include; by default all.
        settings: measures, policies and statistics; charts show the first measure.
        reference: the system to compute leads over; see `compare_run_sets`.
        allow: errors to accept, names in `evaluation.ALLOWANCES`.
        links: whether to include links between losses and similarity, which take longest to
            compute. The indicator R needs kept models of a bi-encoder.

    Returns:
        The page, and the names of its pictures and tables. Charts without data are left out.

    Raises:
        MissingExtraError: if a library of the extra ``plots`` is not installed.
        UsageError: if `out` contains files but no report.
        MsShiftError: see `evaluate_run_sets`.
    """
    folder = Path(out)
    check_report_folder(folder)
    dataset, settings = open_dataset(data), Settings.of(settings)
    opened = open_run_sets(runs, dataset, shifts, settings.run_format, reference=reference)
    inputs = read_inputs(opened, dataset, settings, allow, links=links)
    sections, missing = list[_Section](), []
    with replace_folder(folder) as unfinished:
        (unfinished / "figures").mkdir()
        (unfinished / "tables").mkdir()
        for number, (anchor, name, draw) in enumerate(SECTIONS, 1):
            with picture_style():
                drawn = draw(inputs)
                if isinstance(drawn, Chart):
                    svgs = [_write_picture(item, unfinished / "figures") for item in drawn.pictures]
                    sections.append((anchor, name, drawn, svgs))
                else:
                    missing.append((drawn, name))
            report_progress("charts", number, len(SECTIONS))
        left_out = tuple(
            MissingChart("; ".join(names), *why) for why, names in grouped(missing).items()
        )
        tables = list(_write_tables(inputs, unfinished / "tables"))
        (unfinished / PAGE_NAME).write_text(
            _page(inputs, sections, left_out, tables), encoding="utf-8"
        )
    return WrittenReport(
        folder / PAGE_NAME,
        tuple(picture.name for _, _, chart, _ in sections for picture in chart.pictures),
        tuple(name for name, *_ in tables),
        left_out,
        tuple(inputs.result.warnings),
    )


def _write_picture(picture: Picture, folder: Path) -> str:
    """Write a picture in every format, and its numbers; return it as SVG for the page."""
    drawing = picture.drawing
    # The layout is computed once for all formats.
    drawing.get_layout_engine().execute(drawing)  # type: ignore[union-attr]
    drawing.set_layout_engine(None)
    for picture_format in PICTURE_FORMATS:
        (folder / f"{picture.name}.{picture_format}").write_bytes(
            picture_bytes(drawing, picture_format, picture.name, density=_DOTS_PER_INCH)
        )
    (folder / f"{picture.name}.csv").write_text(picture.to_csv(), encoding="utf-8")
    return _inline_svg(drawing, picture.name)


def _write_tables(inputs: Inputs, folder: Path) -> Iterator[_Table]:
    """Write tables of losses and leads as LaTeX, and their figures as CSV; yield each table.

    There is a table for each shift and measure.

    Args:
        inputs: the losses and the leads.
        folder: the folder of the files.
    """
    settings, result = inputs.settings, inputs.result
    leads = Figures() if inputs.leads is None else inputs.leads.figures
    for shift, scores in inputs.shifts:
        partial = {part.system for part in scores if part.missing_files}
        for measure in settings.measures:
            end = f"{shift.name}-{measure.name.replace('@', '-at-')}"
            of_measure = result.figures.where(shift=shift.name, measure=measure.name)
            table = loss_table(of_measure, measure, settings, partial, brief=True)
            tables = [(f"losses-{end}", table, of_measure)]
            if of_leads := leads.where(shift=shift.name, measure=measure.name):
                table = lead_table(of_leads, measure, settings, str(inputs.reference))
                tables.append((f"leads-{end}", table, of_leads))
            for name, table, figures in tables:
                latex, csv = RENDERERS["latex"](table), csv_text(Figure._fields, figures)
                (folder / f"{name}.tex").write_text(latex, encoding="utf-8")
                (folder / f"{name}.csv").write_text(csv, encoding="utf-8")
                yield name, table, latex, csv


def _page(
    inputs: Inputs,
    sections: Sequence[_Section],
    left_out: Sequence[MissingChart],
    tables: Sequence[_Table],
) -> str:
    results = [result for result in (inputs.result, inputs.leads) if result is not None]
    answers = [answer for result in results for answer in result.answers]
    # Sentences about losses come first.
    answers.sort(key=lambda answer: answer.figure.figure != "rel_loss")
    texts = grouped((answer.figure.shift, answer.text) for answer in answers)
    environment = page_environment(__package__, "plots", "a report")
    environment.filters |= {"coded": _mark_code, "data_uri": _data_uri}
    scripts = [inline_script(name) for name in _SCRIPTS]
    values: dict[str, Any] = {
        "styles": inline_styles("page.css", "tables.css")
        + (Path(str(files(__package__))) / "templates" / "report.css").read_text("utf-8"),
        "scripts": scripts,
        "policy": script_policy(scripts),
        "result": inputs.result,
        "conclusion": [
            (shift.title, [text.removeprefix(f"{shift.name}: ") for text in texts[shift.name]])
            for shift, _ in inputs.shifts
        ],
        "measure": inputs.measure,
        "systems": list(inputs.looks),
        "sections": sections,
        "left_out": left_out,
        "tables": tables,
        "facts": _facts(inputs),
        "run_files": _run_files(inputs),
    }
    text: str = environment.get_template("report.html").render(**values)
    return text + "\n"


def _mark_code(text: str) -> Markup:
    """Return a text as HTML, with `<code>` in place of backticks."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _data_uri(text: str) -> str:
    return f"data:text/csv;charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def _facts(inputs: Inputs) -> Mapping[str, str]:
    """Return the provenance of a report: title -> text, e.g. data, policies and versions."""
    settings, data = inputs.settings, inputs.result.data
    package, *notes = data_notes(data)
    notes += data_caveats(data, inputs.result.figures.names("shift"))
    means = inputs.result.figures.where(slice="").each("shift")
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    seen = "\n".join(seen_notes(inputs.result.scores))
    return {
        "Data": "\n".join(notes) or "custom test sets",
        "Content digest": data.content_digest or "none",
        **({"Training": seen} if seen else {}),
        "Policies": "\n".join(policy_notes(settings)),
        "Ties": "\n".join([line for _, of_shift in means for line in tie_notes(of_shift, settings)])
        or "the order of equal scores changes no printed digit",
        "Inference": (
            f"{level_text(settings.confidence)} intervals; p-values over the groups of a shift, "
            f"correction: {settings.correction}"
        ),
        "Made with": f"{package}, Python {python_version()}, {libraries}",
    }


def _run_files(inputs: Inputs) -> Table:
    rows = [
        (
            part.system,
            part.shift_name,
            "-" if model == FOR_ALL else model,
            "-" if seed is None else seed,
            run.report.tag,
            f"{run.report.queries:,}",
            int(run.missing.sum()),
            sum(run.report.warning_counts.values()),
            run.report.digest,
        )
        for part in inputs.result.scores
        for (model, seed), run in part.runs.items()
    ]
    header = (
        "system", "shift", "held out", "seed", "tag", "queries", "missing", "warnings", "SHA-256",
    )  # fmt: skip
    return Table.plain("Run files as read", header, rows, names=5)


_VARIABLES = {
    **{colour: f"--mark-{number}" for number, colour in enumerate(COLOURS)},
    **{shade: f"--shade-{number}" for number, shade in enumerate(SHADES)},
    INK: "--ink",
    PALE_INK: "--ink-2",
    LINE: "--line-2",
    "#ffffff": "--surface",
}
"""Colour in pictures -> CSS variable of the page."""

_PAINT = re.compile(r"\b(fill|stroke): ?(#[0-9a-f]{6})\b")
_SIZE = re.compile(r'\s(?:width|height)="[^"]*pt"')
_HEAD = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>", re.DOTALL)
_ATTRIBUTE = re.compile(r'="[^"]*"')
_DIGITS = re.compile(r"(\.\d\d)\d+")
_ID = re.compile(r'(\bid="|url\(#|href="#)')


def _inline_svg(drawing: Drawing, name: str) -> str:
    """Return a picture as SVG for an HTML page, with text as text.

    Args:
        drawing: the picture.
        name: the name of the picture, unique in the page; ids in the SVG begin with it.
    """
    with picture_style(**{"svg.fonttype": "none"}):
        text = picture_bytes(drawing, "svg", name, density=72).decode()
    text = _HEAD.sub("", text)
    text = _SIZE.sub("", text, count=2)
    text = _PAINT.sub(_use_variable, text)
    text = _ATTRIBUTE.sub(lambda match: _DIGITS.sub(r"\1", match[0]), text)
    text = _ID.sub(rf"\g<1>{name}-", text)
    return text.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1).strip()


def _use_variable(match: re.Match[str]) -> str:
    variable = _VARIABLES.get(match[2])
    return match[0] if variable is None else f"{match[1]}: var({variable})"
