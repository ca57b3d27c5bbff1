"""Writing the report: one page that needs nothing else, and its pictures and tables as files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msshift_bench.data import Dataset, open_dataset
from msshift_bench.errors import UsageError, check_installed
from msshift_bench.evaluation import Settings, evaluate_run_sets, loss_table
from msshift_bench.output import (
    PICTURE_FORMATS,
    RENDERERS,
    csv_text,
    picture_bytes,
    picture_style,
)
from msshift_bench.plumbing import Progress, replace_folder, silent
from msshift_bench.report.certainty import certainty_pictures
from msshift_bench.report.data import data_pictures
from msshift_bench.report.drawing import NotDrawn, Picture
from msshift_bench.report.inputs import Inputs, read_inputs, with_ranks
from msshift_bench.report.links import link_pictures
from msshift_bench.report.losses import loss_pictures
from msshift_bench.report.page import PaperTable, Section, inline_svg, page_text
from msshift_bench.report.places import place_pictures
from msshift_bench.shifts import DATASET_NAME
from msshift_bench.stats import Figure

__all__ = ["PAGE_NAME", "WrittenReport", "check_report_folder", "write_report"]

PAGE_NAME = "report.html"
_DOTS_PER_INCH = 300

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
        "What other test queries, other seeds of training and other orders of ties would change.",
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
        "The groups that are held out: what they are about, how many queries they give, and what "
        "they share.",
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
    shifts: Sequence[str] = (),
    settings: Settings | None = None,
    *,
    allow: Collection[str] = (),
    links: bool = True,
    progress: Progress = silent,
) -> WrittenReport:
    """Evaluate run sets and write a page of pictures about what they lose.

    Args:
        runs: as for `evaluate_run_sets`, like the arguments below but `out`.
        out: the folder to write; a report that was written there before is replaced.
        data: the built data set.
        shifts: only these.
        settings: measures, policies and statistics; pictures show the first measure.
        allow: what not to refuse, some of `evaluation.ALLOWANCES`.
        links: whether to compute and draw the links of losses with similarity, which takes longest;
            R is drawn where a bi-encoder's models were kept.
        progress: called with the number of run files done, then of pictures.

    Returns:
        Where the page is, and what it holds. A picture whose data are not there is left out.

    Raises:
        MissingExtraError: if a library of the extra ``plots`` is not installed.
        UsageError: if `out` holds anything but a report; and as for `evaluate_run_sets`, like all
            others.
    """
    folder = Path(out)
    check_report_folder(folder)
    dataset, settings = open_dataset(data), settings or Settings()
    result = evaluate_run_sets(
        runs, dataset, shifts, with_ranks(settings), allow=allow, progress=progress
    )
    inputs = read_inputs(result, settings, runs, dataset, links=links, progress=progress)
    sections, not_drawn = [], []
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
                    progress(f"figures: {title.lower()}", number + 1, 0)
            sections.append(Section(name, title, about, pictures))
        left_out = _merged(not_drawn)
        tables = list(_write_tables(inputs, unfinished / "tables"))
        text = page_text(inputs, sections, left_out, tables)
        (unfinished / PAGE_NAME).write_text(text, encoding="utf-8")
    return WrittenReport(
        folder / PAGE_NAME,
        tuple(picture.name for section in sections for picture, _ in section.pictures),
        tuple(table.name for table in tables),
        left_out,
        tuple(result.doubts),
    )


def _write_picture(picture: Picture, folder: Path) -> str:
    """Write a picture in every format, and its numbers; return it as SVG for the page."""
    drawing = picture.drawing
    drawing.draw_without_rendering()  # lays it out, once for all formats
    drawing.set_layout_engine(None)
    for picture_format in PICTURE_FORMATS:
        drawn = picture_bytes(drawing, picture_format, picture.title, density=_DOTS_PER_INCH)
        (folder / f"{picture.name}.{picture_format}").write_bytes(drawn)
    (folder / f"{picture.name}.csv").write_text(picture.to_csv(), encoding="utf-8")
    return inline_svg(drawing, picture.name)


def _write_tables(inputs: Inputs, folder: Path) -> Iterator[PaperTable]:
    """Write the losses on each shift by each measure as LaTeX, and their figures as CSV."""
    settings = inputs.settings
    for shift, scores in inputs.shifts:
        partial = {part.system for part in scores if part.missing_files}
        for measure in settings.measures:
            name = f"losses-{shift.name}-{measure.name.replace('@', '-at-')}"
            figures = inputs.result.figures.where(shift=shift.name, measure=measure.name)
            table = loss_table(figures, measure, settings, partial, brief=True)
            latex, csv = RENDERERS["latex"](table), csv_text(Figure._fields, figures)
            (folder / f"{name}.tex").write_text(latex, encoding="utf-8")
            (folder / f"{name}.csv").write_text(csv, encoding="utf-8")
            yield PaperTable(name, table, latex, csv)


def _merged(not_drawn: Iterable[NotDrawn]) -> tuple[NotDrawn, ...]:
    """Return what is left out, each reason once."""
    titles: dict[tuple[str, str], list[str]] = {}
    for title, why, remedy in not_drawn:
        titles.setdefault((why, remedy), []).append(title)
    return tuple(NotDrawn("; ".join(of), why, remedy) for (why, remedy), of in titles.items())
