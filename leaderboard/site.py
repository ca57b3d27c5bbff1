"""The boards' pages: static files that need no server, with tables that need no script.

Each shift and measure has its own page: readers choose by a link, and a board of 500 systems opens
quickly. Templates turn figures into cells and charts. Numbers have the formats of the evaluation.
Equal entries give equal bytes.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from msshift_bench.data import cited
from msshift_bench.errors import NotFoundError
from msshift_bench.evaluation import figure_ends, figure_text, parse_measure
from msshift_bench.leaderboard.description import BOARD_SHIFTS, BOARDS, CLASSES, Board, leaked_share
from msshift_bench.leaderboard.entries import (
    BADGES,
    COLUMNS,
    MEASURES,
    Entry,
    entries_folder,
    leads_of,
    load_entries,
)
from msshift_bench.output import page_environment, static_files
from msshift_bench.plumbing import check_contents, copy_files, counted, replace_folder
from msshift_bench.stats import FIGURES, MEAN, Figure

ON_TEST = "trained-on-test"
"""The class of systems that stand apart in a table."""

_UNFAIR = (ON_TEST, "trained-on-everything")
"""The classes of systems that are never marked as the best of a column."""

_MARK = "static/board.js"
"""The file that identifies a folder of pages."""

_AREA = (60, 840, 14, 356)
"""The left, right, upper and lower end of a chart's axes, in an SVG of 860 by 400."""

_SIDES = (("start", 10, 4, 0), ("end", -10, 4, 1), ("middle", 0, -11, 0.5), ("middle", 0, 19, 0.5))
"""The positions of a point's label: anchor, distance from the point (x, y), and the share of the
label's width to the left."""

_LABELLED = 30
"""The most points with a label; other points show their names on hover."""

Figures = Mapping[tuple[str, str], Figure]
"""(group, figure name) -> figure, for one system, shift and measure."""


class BoardTable(NamedTuple):
    """A table of a board's systems for one shift and measure, the highest Out first.

    Attributes:
        board: the board.
        shift: the shift's name.
        measure: the measure's name.
        test: the name of the test set; "" for the shift's own test queries.
        rows: the systems with their figures.
    """

    board: Board
    shift: str
    measure: str
    test: str
    rows: Sequence[tuple[Entry, Figures]]

    @property
    def path(self) -> str:
        """The path of its page, relative to the folder of all pages."""
        name = re.sub("[^a-z0-9]+", "-", f"{self.measure} {self.test}".strip().lower())
        return f"{self.board.id}/{self.shift}-{name}.html"

    @property
    def groups(self) -> dict[str, str]:
        """Group -> its one-line description, for groups with figures."""
        present = {group for _, figures in self.rows for group, _ in figures}
        described = self.board.groups[self.shift].items()
        return {group: text for group, text in described if group in present}

    def scale(self, name: str) -> tuple[float, float]:
        """Return the lowest and highest value of a figure and its intervals; a share includes 0.

        Without values, they are 0 and 1, and for a share 0 and 0.
        """
        ends = [0.0] if FIGURES[name].unit == "share" else []
        ends += [
            value
            for _, figures in self.rows
            for figure in figures.values()
            if figure.figure == name
            for value in (figure.value, figure.low, figure.high)
            if value is not None
        ]
        return min(ends, default=0.0), max(ends, default=1.0)

    def best(self) -> set[Figure]:
        """Return the figures that are reliably the best of their column.

        The best and the second best figure must have several seeds and intervals that do not
        overlap. Without them, a column has no best figure. Systems that were not trained per group,
        or whose training may have held test queries, are ignored.
        """
        fair = [
            figures
            for entry, figures in self.rows
            if (MEAN, "rel_loss") in figures and entry.training_class not in _UNFAIR
        ]
        best = set()
        for key in {key for figures in fair for key in figures}:
            column = [figures[key] for figures in fair if key in figures]
            is_descending = FIGURES[key[1]].direction > 0
            pair = sorted(column, key=lambda figure: figure.number, reverse=is_descending)[:2]
            ends = sorted((figure.low or 0.0, figure.high or 0.0) for figure in pair)
            if ends[0][1] < ends[-1][0] and min(figure.seeds or 0 for figure in pair) > 1:
                best.add(pair[0])
        return best


def build_site(out: Path, *entries: Path, docs: str = "", packaged: bool = True) -> Path:
    """Write the pages of all boards that have entries.

    Args:
        out: the folder to write; earlier pages there are replaced.
        entries: folders of entries.
        docs: the address of the documentation, relative to `out`; "" for none.
        packaged: whether to include the package's entries; without `entries`, always.

    Returns:
        The path of the first page, ``index.html`` in `out`.

    Raises:
        MissingExtraError: if Jinja2 is not installed.
        NotFoundError: if there is no such folder of entries, or no entry.
        DataError: if a file of an entry is malformed.
        UsageError: if `out` holds other files than pages.
    """
    environment = page_environment(__package__, "leaderboard", "the leaderboard's page")
    newest = load_entries(*([entries_folder()] if packaged else []), *entries)
    systems = {board: [e for e in newest if e.board is board] for board in BOARDS.values()}
    tables = {board: board_tables(board, systems[board]) for board in systems if systems[board]}
    if not tables:
        raise NotFoundError(
            f"no entry in {', '.join(map(str, entries))}; give a folder of <board>/<system>/v<n>, "
            f"with a board of {', '.join(BOARDS)}"
        )
    environment.filters.update(shown=figure_text, ends=figure_ends)
    environment.globals.update(
        {"badges": BADGES, "classes": CLASSES, "docs": docs, "mean": MEAN, "on_test": ON_TEST},
        boards={board: tables[board][0] for board in tables},
        area=_AREA,
        figure_titles=COLUMNS,
        kinds=FIGURES,
        leaked_share=leaked_share,
        parse_measure=parse_measure,
        shifts=BOARD_SHIFTS,
    )

    def write(path: str, template: str, board: Board, **values: Any) -> None:
        text = environment.get_template(template).render(
            path=path, root="../" * path.count("/"), board=board, **values
        )
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"{text}\n", encoding="utf-8")

    # `out` may hold other files, such as a repository or CNAME, which would be lost.
    check_contents(out, _MARK, ("index.html", "submit.html", "static", *BOARDS), "the page")
    with replace_folder(out) as folder:
        copy_files(static_files(), folder / "static")
        copy_files(Path(str(files(__package__))) / "static", folder / "static")
        pages = [(board, table) for board in tables for table in tables[board]]
        for board, table in counted(pages, "tables", len(pages), every=1):
            for path in [table.path, *(["index.html"] if table is pages[0][1] else [])]:
                write(path, "board.html", board, tables=tables[board], **_table_page(table))
        for board in tables:
            by_name = {entry.description.system.name: entry for entry in systems[board]}
            rows = []
            for name, entry in by_name.items():
                figures = [*entry.figures, *leads_of(entry, by_name.get(board.reference))]
                path, page = f"{board.id}/systems/{name}.html", _system_page(entry, figures)
                write(path, "system.html", board, entry=entry, systems=by_name, **page)
                rows += [(entry.description.place, entry.badge, *figure) for figure in figures]
            with (folder / board.id / "figures.csv").open("w", newline="") as file:
                csv.writer(file).writerows([("entry", "badge", *Figure._fields), *rows])
        write("submit.html", "submit.html", pages[0][0])
    return out / "index.html"


def board_tables(board: Board, entries: Iterable[Entry]) -> list[BoardTable]:
    """Return a board's tables, by shift in the board's order, then by test set and measure."""
    rows: dict[tuple[str, str, str], dict[Entry, dict[tuple[str, str], Figure]]] = {}
    for entry in entries:
        for figure in entry.figures:
            if figure.figure in COLUMNS and figure.shift in board.shifts:
                table = rows.setdefault((figure.shift, figure.measure, figure.test), {})
                table.setdefault(entry, {})[figure.group, figure.figure] = figure

    def out(row: tuple[Entry, Figures]) -> tuple[float, str]:
        mean = row[1].get((MEAN, "out"))
        return -math.inf if mean is None else mean.number, row[0].description.system.name

    return [
        BoardTable(board, *key, sorted(rows[key].items(), key=out)[::-1])
        for shift in board.shifts
        for test in sorted({test for *_, test in rows})
        for measure in MEASURES
        if (key := (shift, measure, test)) in rows
    ]


def _table_page(table: BoardTable) -> dict[str, Any]:
    """Return the template's variables for a table's page: the table, its best figures, a chart."""
    fair = [row for row in table.rows if row[0].training_class != ON_TEST]
    points = [row for row in fair if (MEAN, "rel_loss") in row[1]]
    lines = [row for row in fair if (MEAN, "rel_loss") not in row[1] and (MEAN, "out") in row[1]]
    axes = {}
    for name, rows in (("out", points + lines), ("rel_loss", points)):
        values = [figures[MEAN, name].number for _, figures in rows] or [0.0]
        margin = 0.12 * max(max(values) - min(values), 0.05)
        ends = min(values) - margin, max(values) + margin
        power = 10.0 ** math.floor(math.log10(ends[1] - ends[0]))
        step = next(
            power / part for part in (10, 5, 2, 1, 0.5) if (ends[1] - ends[0]) * part / power < 8
        )
        first = math.ceil(ends[0] / step)
        ticks = [n * step for n in range(first, first + 9) if n * step <= ends[1]]
        axes[name] = {"ends": ends, "ticks": ticks}
    return {
        "table": table,
        "best": table.best(),
        "fair": fair,
        "picture": {
            "points": points,
            "lines": lines,
            "labels": _labels(lines + points, axes),
            **axes,
        },
        "citations": cited([table.shift]),
    }


def _labels(points: Sequence[tuple[Entry, Figures]], axes: Any) -> dict[str, tuple[str, Any, Any]]:
    """Return system -> anchor, x and y of its label; only labels that cover no label or point."""
    left, right, top, bottom = _AREA
    (x_low, x_high), (y_low, y_high) = axes["out"]["ends"], axes["rel_loss"]["ends"]
    key = MEAN, "rel_loss"
    places = [
        (
            entry.description.system,
            left + (right - left) * (figures[MEAN, "out"].number - x_low) / (x_high - x_low),
            # A system without a loss is a vertical line, with its label at the lower end.
            top + (bottom - top) * (figures[key].number - y_low) / (y_high - y_low)
            if key in figures
            else bottom - 14,
        )
        for entry, figures in points[:_LABELLED]
    ]
    boxes = [(x - 7, y - 7, x + 7, y + 7) for _, x, y in places]
    labels = {}
    for system, x, y in places:
        width = 8.4 * len(system.title)
        for anchor, dx, dy, share in _SIDES:
            box = x + dx - share * width, y + dy - 12, x + dx + (1 - share) * width, y + dy + 4
            covers = any(
                box[0] < placed[2]
                and placed[0] < box[2]
                and box[1] < placed[3]
                and placed[1] < box[3]
                for placed in boxes
            )
            if left < box[0] and box[2] < right + 20 and not covers:
                labels[system.name] = anchor, round(x + dx, 1), round(y + dy, 1)
                boxes.append(box)
                break
    return labels


def _system_page(entry: Entry, figures: Iterable[Figure]) -> dict[str, Any]:
    """Return the template's variables for a system's page: figures by shift and measure, others."""
    panels: dict[str, dict[tuple[str, str], dict[tuple[str, str], Figure]]] = {}
    further_figures = []
    for figure in figures:
        if figure.shift in BOARD_SHIFTS and figure.group in (
            *BOARD_SHIFTS[figure.shift].groups,
            MEAN,
        ):
            panel = panels.setdefault(figure.shift, {})
            table = panel.setdefault((figure.measure, figure.test), {})
            table[figure.group, figure.figure] = figure
        elif figure.figure not in ("missing", "effect_size"):
            further_figures.append(figure)
    return {
        "panels": panels,
        "others": further_figures,
        "head": entry.head,
        "citations": cited(panels or ["topics"]),
    }
