"""Writing the report: one page that needs nothing else, and its pictures and tables as files."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

from msshift_bench.data import Dataset, open_dataset
from msshift_bench.errors import UsageError, check_installed
from msshift_bench.evaluation import (
    WHOLE,
    Result,
    Settings,
    SettingsSource,
    data_notes,
    differences_of,
    evaluate_run_sets,
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
    page_environment,
    picture_bytes,
    picture_style,
    say_level,
    script_policy,
    show_percent,
    show_percent_interval,
)
from msshift_bench.plumbing import replace_folder, report_progress
from msshift_bench.report.data import data_pictures
from msshift_bench.report.drawing import NotDrawn, Picture
from msshift_bench.report.inputs import Inputs, read_inputs, with_ranks
from msshift_bench.report.links import link_pictures
from msshift_bench.report.losses import loss_pictures
from msshift_bench.report.places import certainty_pictures, place_pictures
from msshift_bench.runs import FOR_ALL
from msshift_bench.shifts import DATASET_NAME, SHIFTS, ShiftNames, grouped
from msshift_bench.stats import Figure, Figures

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure as Drawing

PAGE_NAME = "report.html"
_DOTS_PER_INCH = 300

_SHOWN_ROWS = 30
"""Rows of a picture's numbers that the page shows; the CSV file has all."""

_SCRIPTS = ("theme.js", "sideways.js")
_LIBRARIES = ("numpy", "scipy", "matplotlib", "scikit-learn")

_Section = tuple[str, str, str, Sequence[tuple[Picture, str]]]
"""Anchor, title, what it is about, and its pictures, each with its SVG for the page."""

_Table = tuple[str, Table, str, str]
"""A table in the paper's layout: its name, its cells, its LaTeX, and its figures as CSV."""

Draw = Callable[[Inputs], Iterator[Picture | NotDrawn]]

SECTIONS: Sequence[tuple[str, str, str, Draw]] = (
    (
        "losses",
        "What is lost",
        "Avg In is the mean over the models that saw a group in training, Out the score of the "
        "model that did not, on the same test queries; Rel Loss = (Avg In - Out) / Avg In.",
        loss_pictures,
    ),
    (
        "places",
        "Where it is lost",
        "The same losses on slices of the test queries, and the queries that change most.",
        place_pictures,
    ),
    (
        "certainty",
        "How sure this is",
        "What other test queries and other seeds of training would change.",
        certainty_pictures,
    ),
    (
        "links",
        "Is it distance?",
        "What is lost against how near the test queries lie to the training queries. Groups are "
        "the witnesses: a few groups can show a strong link only.",
        link_pictures,
    ),
    (
        "data",
        "The queries",
        "The groups that are held out: what they are about, and how many queries they give.",
        data_pictures,
    ),
)
"""The sections of the page in their order: anchor, title, what it is about, and its pictures."""


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report on the disk.

    Attributes:
        page: the page to open.
        figures: the names of its pictures; each is ``figures/<name>`` with the endings ``.svg``,
            ``.png``, ``.pdf`` and ``.csv``.
        tables: the names of its tables; each is ``tables/<name>`` with ``.tex`` and ``.csv``.
        left_out: what is not drawn, and what would bring it.
        doubts: why its numbers may not be what they seem.
    """

    page: Path
    figures: tuple[str, ...]
    tables: tuple[str, ...]
    left_out: tuple[NotDrawn, ...]
    doubts: tuple[str, ...]


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
    shifts: ShiftNames = (),
    settings: SettingsSource = None,
    *,
    reference: str | Path | None = None,
    allow: str | Collection[str] = (),
    links: bool = True,
) -> WrittenReport:
    """Evaluate run sets and write a page of pictures about what they lose.

    Args:
        runs: as for `evaluate_run_sets`, like the arguments below but `out`.
        out: the folder to write; a report that was written there before is replaced.
        data: the built data set.
        shifts: only these.
        settings: measures, policies and statistics; pictures show the first measure.
        reference: the system to compute leads over, as for `compare_run_sets`; tables show them.
        allow: what not to refuse, some of `evaluation.ALLOWANCES`.
        links: whether to compute and draw the links of losses with similarity, which takes longest;
            R is drawn where a bi-encoder's models were kept.

    Returns:
        Where the page is, and what it holds. A picture whose data are not there is left out.

    Raises:
        MissingExtraError: if a library of the extra ``plots`` is not installed.
        UsageError: if `out` holds anything but a report; and as for `evaluate_run_sets`, like all
            others.
    """
    folder = Path(out)
    check_report_folder(folder)
    dataset, settings = open_dataset(data), Settings.of(settings)
    opened = open_run_sets(runs, dataset, shifts, settings.run_format, reference=reference)
    opened = opened if reference is None else opened.comparing()
    result = evaluate_run_sets(opened, settings=with_ranks(settings), allow=allow)
    inputs = read_inputs(result, settings, opened, dataset, links=links)
    sections: list[_Section] = []
    not_drawn = []
    with replace_folder(folder) as unfinished:
        (unfinished / "figures").mkdir()
        (unfinished / "tables").mkdir()
        for name, title, about, draw in SECTIONS:
            pictures = []
            with picture_style():
                for number, picture in enumerate(draw(inputs)):
                    if isinstance(picture, NotDrawn):
                        not_drawn.append(picture)
                    else:
                        pictures.append((picture, _write_picture(picture, unfinished / "figures")))
                    report_progress(f"figures: {title.lower()}", number + 1, 0)
            sections.append((name, title, about, pictures))
        left_out = _merged(not_drawn)
        leads = None
        if opened.reference is not None:
            leads = differences_of(result.scores, result.data, settings, reference=opened.reference)
        tables = list(_write_tables(inputs, opened.reference, leads, unfinished / "tables"))
        (unfinished / PAGE_NAME).write_text(
            _page(inputs, sections, left_out, tables, leads), encoding="utf-8"
        )
    return WrittenReport(
        folder / PAGE_NAME,
        tuple(picture.name for *_, pictures in sections for picture, _ in pictures),
        tuple(name for name, *_ in tables),
        left_out,
        tuple(result.doubts),
    )


def _write_picture(picture: Picture, folder: Path) -> str:
    """Write a picture in every format, and its numbers; return it as SVG for the page."""
    drawing = picture.drawing
    # Laid out once for all formats, without drawing it.
    drawing.get_layout_engine().execute(drawing)  # type: ignore[union-attr]
    drawing.set_layout_engine(None)
    for picture_format in PICTURE_FORMATS:
        (folder / f"{picture.name}.{picture_format}").write_bytes(
            picture_bytes(drawing, picture_format, picture.title, density=_DOTS_PER_INCH)
        )
    (folder / f"{picture.name}.csv").write_text(picture.to_csv(), encoding="utf-8")
    return _inline_svg(drawing, picture.name)


def _write_tables(
    inputs: Inputs, reference: str | None, compared: Result | None, folder: Path
) -> Iterator[_Table]:
    """Write the losses on each shift by each measure as LaTeX, and their figures as CSV; and leads.

    Args:
        inputs: the losses.
        reference: the system that leads are computed over; `None` for no leads.
        compared: the leads; `None` without a reference.
        folder: where the files are written.
    """
    settings, result = inputs.settings, inputs.result
    leads = Figures() if compared is None else compared.figures
    for shift, scores in inputs.shifts:
        partial = {part.system for part in scores if part.missing_files}
        for measure in settings.measures:
            end = f"{shift.name}-{measure.name.replace('@', '-at-')}"
            of_measure = result.figures.where(shift=shift.name, measure=measure.name)
            table = loss_table(of_measure, measure, settings, partial, brief=True)
            tables = [(f"losses-{end}", table, of_measure)]
            if found := leads.where(shift=shift.name, measure=measure.name):
                table = lead_table(found, measure, settings, str(reference))
                tables.append((f"leads-{end}", table, found))
            for name, table, figures in tables:
                latex, csv = RENDERERS["latex"](table), csv_text(Figure._fields, figures)
                (folder / f"{name}.tex").write_text(latex, encoding="utf-8")
                (folder / f"{name}.csv").write_text(csv, encoding="utf-8")
                yield name, table, latex, csv


def _merged(not_drawn: Iterable[NotDrawn]) -> tuple[NotDrawn, ...]:
    """Return what is left out, each reason once."""
    titles = grouped(((why, remedy), title) for title, why, remedy in not_drawn)
    return tuple(NotDrawn("; ".join(of), why, remedy) for (why, remedy), of in titles.items())


def _page(
    inputs: Inputs,
    sections: Sequence[_Section],
    left_out: Sequence[NotDrawn],
    tables: Sequence[_Table],
    leads: Result | None,
) -> str:
    """Return the page as HTML that needs nothing else."""
    environment = page_environment(__package__, "plots", "a report")
    environment.filters |= {
        "coded": _coded,
        "data_uri": _data_uri,
        "percent": show_percent,
        "percent_interval": show_percent_interval,
    }
    scripts = [inline_script(name) for name in _SCRIPTS]
    values: dict[str, Any] = {
        "styles": inline_styles("page.css", "tables.css")
        + (Path(str(files(__package__))) / "templates" / "report.css").read_text("utf-8"),
        "scripts": scripts,
        "policy": script_policy(scripts),
        "result": inputs.result,
        "answers": [
            one.text
            for part in (inputs.result, leads)
            for one in (() if part is None else part.answers)
        ],
        "measure": inputs.measure,
        "systems": list(inputs.looks),
        "shifts": SHIFTS,
        "averages": inputs.result.figures.where(
            measure=inputs.measure.name, group=WHOLE, figure=("avg_in", "out", "rel_loss")
        ).each("shift", "system"),
        "sections": [section for section in sections if section[-1]],
        "left_out": left_out,
        "tables": tables,
        "facts": _facts(inputs),
        "run_files": _run_files(inputs),
        "most_rows": _SHOWN_ROWS,
        "used_columns": _used_columns,
    }
    text: str = environment.get_template("report.html").render(**values)
    return text + "\n"


def _used_columns(picture: Picture) -> list[int]:
    """Return the places of the columns that say something in a row at least."""
    return [
        place
        for place in range(len(picture.columns))
        if any(row[place] not in ("", None) and row[place] is not False for row in picture.rows)
    ]


def _coded(text: str) -> Markup:
    """Return a text as HTML, in which what stands between backticks is code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _data_uri(text: str) -> str:
    return f"data:text/csv;charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def _facts(inputs: Inputs) -> Mapping[str, str]:
    """Return what a report rests on: title -> text."""
    settings, data = inputs.settings, inputs.result.data
    package, *notes = data_notes(data, inputs.result.figures.names("shift"))
    means = inputs.result.figures.where(slice="").each("shift")
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    seen = "\n".join(seen_notes(inputs.result.scores))
    return {
        "Data": "\n".join(notes) or "test sets made by hand",
        "Content digest": data.content_digest or "none",
        **({"Training": seen} if seen else {}),
        "Policies": "\n".join(policy_notes(settings)),
        "Ties": "\n".join([line for _, of_shift in means for line in tie_notes(of_shift, settings)])
        or "no order of equal scores changes a printed digit",
        "Inference": (
            f"{say_level(settings.confidence)} intervals; p-values over the groups of a shift, "
            f"correction: {settings.correction}"
        ),
        "Made with": f"{package}, Python {python_version()}, {libraries}",
    }


def _run_files(inputs: Inputs) -> Table:
    """Return every run file that was read, with its digest."""
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
"""The colours of pictures -> the page's variables for them."""

_PAINT = re.compile(r"\b(fill|stroke): ?(#[0-9a-f]{6})\b")
_SIZE = re.compile(r'\s(?:width|height)="[^"]*pt"')
_HEAD = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>", re.DOTALL)
_ATTRIBUTE = re.compile(r'="[^"]*"')
_DIGITS = re.compile(r"(\.\d\d)\d+")
_ID = re.compile(r'(\bid="|url\(#|href="#)')


def _inline_svg(drawing: Drawing, name: str) -> str:
    """Return a picture as SVG to stand in an HTML page; its letters are letters.

    Args:
        drawing: the picture.
        name: the name of the picture, unique in the page; ids begin with it.
    """
    with picture_style(**{"svg.fonttype": "none"}):
        text = picture_bytes(drawing, "svg", name, density=72).decode()
    text = _HEAD.sub("", text)
    text = _SIZE.sub("", text, count=2)
    text = _PAINT.sub(_as_variable, text)
    text = _ATTRIBUTE.sub(lambda match: _DIGITS.sub(r"\1", match[0]), text)
    text = _ID.sub(rf"\g<1>{name}-", text)
    return text.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1).strip()


def _as_variable(match: re.Match[str]) -> str:
    variable = _VARIABLES.get(match[2])
    return match[0] if variable is None else f"{match[1]}: var({variable})"
