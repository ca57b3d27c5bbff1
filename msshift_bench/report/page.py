"""The page of a report: every picture with its words and numbers, the tables, and their origin."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any, NamedTuple

from msshift_bench.evaluation import FOR_ALL, data_notes, policy_notes
from msshift_bench.output import (
    COLOURS,
    INK,
    LINE,
    PALE_INK,
    SHADES,
    Table,
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
from msshift_bench.report.drawing import WHOLE, NotDrawn, Picture
from msshift_bench.report.inputs import Inputs
from msshift_bench.shifts import SHIFTS

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure as Drawing

__all__ = ["PaperTable", "Section", "inline_svg", "page_text"]

_SHOWN_ROWS = 30
"""Rows of a picture's numbers that the page shows; the CSV file has all."""

_SCRIPTS = ("theme.js", "sideways.js")
_LIBRARIES = ("numpy", "scipy", "matplotlib", "scikit-learn")


class Section(NamedTuple):
    """Pictures that answer one question, as they stand on the page.

    Attributes:
        name: the section's anchor.
        title: one line.
        about: one or two sentences.
        pictures: the pictures, each with its SVG for the page.
    """

    name: str
    title: str
    about: str
    pictures: Sequence[tuple[Picture, str]]


class PaperTable(NamedTuple):
    """A table in the paper's layout: its name, its cells, its LaTeX, and its figures as CSV."""

    name: str
    table: Table
    latex: str
    csv: str


def page_text(
    inputs: Inputs,
    sections: Sequence[Section],
    left_out: Sequence[NotDrawn],
    tables: Sequence[PaperTable],
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
    styles = (Path(str(files(__package__))) / "templates" / "report.css").read_text("utf-8")
    averages = inputs.result.figures.where(
        measure=inputs.measure.name, group=WHOLE, figure=("avg_in", "out", "rel_loss")
    )
    values: dict[str, Any] = {
        "styles": inline_styles("page.css", "tables.css") + styles,
        "scripts": scripts,
        "policy": script_policy(scripts),
        "result": inputs.result,
        "measure": inputs.measure,
        "systems": list(inputs.looks),
        "shifts": SHIFTS,
        "averages": averages.each("shift", "system"),
        "sections": [section for section in sections if section.pictures],
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
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    return {
        "Data": "\n".join(notes) or "test sets made by hand",
        "Content digest": data.content_digest or "none",
        "Policies": "\n".join(policy_notes(settings)),
        "Inference": (
            f"{say_level(settings.confidence)} intervals; p-values {settings.correction}-corrected "
            "over the groups of a shift"
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


def inline_svg(drawing: Drawing, name: str) -> str:
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
