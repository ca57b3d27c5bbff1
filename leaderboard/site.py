"""The leaderboard's page: a folder of files that any browser opens, from a disk or from a server.

The page needs no server: script files hold the data and register themselves
(``static/registry.js``), since a page opened from a disk may not fetch. Every page forbids scripts,
styles and requests from anywhere else. Texts of submitters stay texts: Jinja2 escapes them in
pages, `data_script` in scripts. Equal entries give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msshift_bench.data import Dataset, cited, open_dataset
from msshift_bench.errors import UsageError
from msshift_bench.evaluation import SystemScores, parse_measure
from msshift_bench.leaderboard.board_view import (
    ALL_SHIFTS,
    CLASS_TITLES,
    UNBALANCED,
    BoardView,
    file_name,
    view_board,
)
from msshift_bench.leaderboard.boards import BOARDS
from msshift_bench.leaderboard.entries import load_entries
from msshift_bench.leaderboard.layout import BADGES, CLASSES
from msshift_bench.leaderboard.page_parts import page_environment, static_files
from msshift_bench.leaderboard.panels import HEAT_STEPS, panels, superseded
from msshift_bench.leaderboard.query_columns import queries_json
from msshift_bench.leaderboard.ranks import MOST_RANKED, Ranks, rank_systems
from msshift_bench.leaderboard.reproduction import (
    expected_table,
    how_closely,
    why_not_reproducible,
)
from msshift_bench.leaderboard.results import FIGURES, MEAN, show_parameters
from msshift_bench.plumbing import Progress, copy_files, counted, in_line, replace_folder, silent
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import QUERIES_ONLY

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["build_site", "data_script"]

_MARK = Path("static", "registry.js")
"""The file by which a folder is recognised as a page that was built before."""


def build_site(
    entries: Path | None,
    out: Path,
    *,
    data: Dataset | str | Path | None = None,
    progress: Progress = silent,
) -> Path:
    """Write the page of all boards that have entries.

    Args:
        entries: the folder of entries; by default those that come with the package.
        out: the folder to write; a page that was built there before is replaced.
        data: a built data set; the page shows its queries' texts for entries scored on it. Without
            it the page shows ids only.
        progress: called after each table ranked and page written.

    Returns:
        The page to open: ``index.html`` in `out`.

    Raises:
        MissingExtraError: if Jinja2 is not installed.
        NotFoundError: if there is no folder of entries, or no data set.
        SubmissionError: if an entry is not one.
        UsageError: if there are no entries, or `out` holds anything but a page.
    """
    environment = _environment()
    dataset = None if data is None else open_dataset(data)
    listed = load_entries(entries)
    boards = [view for board in BOARDS.values() if (view := view_board(board, listed)).systems]
    if not boards:
        raise UsageError("there are no entries to show; add one with 'msshift leaderboard add'")
    with replace_folder(out) as folder:
        _check_out(out)
        copy_files(static_files(), folder / "static")
        for number, view in enumerate(boards):
            told = in_line(progress, f"board {view.board.id}")
            _Pages(environment, folder, boards, view, first=not number).write(dataset, told)
    return out / "index.html"


def _check_out(out: Path) -> None:
    if not out.exists() or not any(out.iterdir()):
        return
    if not (out / _MARK).is_file():
        raise UsageError(f"{out} is not a page that was built before; choose another folder")
    # A repository, or a name of the site, may lie beside the page.
    own = {"index.html", "submit.html", _MARK.parts[0], *BOARDS}
    if others := sorted({path.name for path in out.iterdir()} - own):
        raise UsageError(
            f"{out} holds {others[0]}, which is no part of the page and would be lost; build into "
            "another folder, and copy the page from there"
        )


def data_script(key: str, value: Any) -> str:
    """Return a script that registers a JSON value under a key.

    Only ASCII is written and ``<`` is escaped, so that no text can end the script or a line of it.
    """
    arguments = (
        json.dumps(part, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        for part in (key, value)
    )
    return f"msshift.register({','.join(arguments)});\n"


def _environment() -> Environment:
    environment = page_environment(__package__, "leaderboard", "the leaderboard's page")
    environment.globals.update(
        badges=BADGES,
        classes=CLASSES,
        class_titles=CLASS_TITLES,
        figures=FIGURES,
        mean=MEAN,
        mean_name=lambda measure: parse_measure(measure).mean_name,
        show_parameters=show_parameters,
        heat_steps=HEAT_STEPS,
        most_ranked=MOST_RANKED,
        queries_only=QUERIES_ONLY,
        expected_table=expected_table,
        how_closely=how_closely,
        why_not_reproducible=why_not_reproducible,
        unbalanced=UNBALANCED,
    )
    return environment


@dataclass(frozen=True, slots=True)
class _Pages:
    """The pages of one board.

    Attributes:
        environment: the templates' environment.
        folder: the folder of the whole page.
        boards: all boards, for the navigation.
        view: this board.
        first: whether the page opens on this board.
    """

    environment: Environment
    folder: Path
    boards: list[BoardView]
    view: BoardView
    first: bool

    @property
    def _base(self) -> str:
        return self.view.board.id

    def write(self, dataset: Dataset | None, progress: Progress) -> None:
        """Write all pages of this board."""
        scores = self._read_scores(progress)
        self._write_queries(scores)
        ranks = self._rank(scores, progress)
        self._write_tables(ranks)
        shown = self._scored_on(dataset)
        if dataset is not None:
            self._write_texts(dataset, sorted({shift for _, shift in shown}))
        self._write_pages(ranks, shown, progress)

    def _read_scores(self, progress: Progress) -> dict[str, dict[str, SystemScores]]:
        """Return system -> shift -> per-query scores."""
        scores = {}
        systems = self.view.systems.values()
        for system in counted(systems, progress, "scores", len(systems), every=1):
            scores[system.name] = system.entry.scores()
        return scores

    def _write_queries(self, scores: Mapping[str, Mapping[str, SystemScores]]) -> None:
        for system, by_shift in scores.items():
            for shift, of_shift in by_shift.items():
                key = f"queries/{system}/{shift}"
                measures = self.view.systems[system].measures_on(shift)
                self._script(key, key, queries_json(of_shift, measures))

    def _rank(
        self, scores: Mapping[str, Mapping[str, SystemScores]], progress: Progress
    ) -> dict[tuple[str, str], Ranks]:
        """Return (shift, measure) -> the ranks of the systems not trained on test queries."""
        rivals: dict[tuple[str, str], dict[str, SystemScores]] = {}
        for system, by_shift in scores.items():
            if not self.view.systems[system].on_test:
                for shift, of_shift in by_shift.items():
                    for measure in self.view.systems[system].measures_on(shift):
                        rivals.setdefault((shift, measure), {})[system] = of_shift
        ranks = {}
        told = counted(rivals.items(), progress, "ranks", len(rivals), every=1)
        for (shift, measure), by_system in told:
            ranks[shift, measure] = rank_systems(SHIFTS[shift], measure, by_system)
        return ranks

    def _write_tables(self, ranks: Mapping[tuple[str, str], Ranks]) -> None:
        """Write what every page of the board knows, each table, and the pairs of its systems."""
        tables = [
            (shift, measure)
            for shift, measures in self.view.tables().items()
            for measure in measures
        ]
        head = {
            **self.view.head_json(),
            "files": {f"{shift}/{measure}": file_name(shift, measure) for shift, measure in tables},
            "pairs": ["/".join(table) for table, of_table in ranks.items() if of_table.pairs],
        }
        self._script("board", "board", head)
        for shift, measure in tables:
            of_table = ranks.get((shift, measure))
            name = file_name(shift, measure)
            table = self.view.table_json(shift, measure, of_table)
            self._script(f"tables/{name}", f"table/{shift}/{measure}", table)
            if of_table is not None and of_table.pairs:
                self._script(f"pairs/{name}", f"pairs/{shift}/{measure}", of_table.pairs_json())

    def _scored_on(self, dataset: Dataset | None) -> frozenset[tuple[str, str]]:
        """Return the (system, shift) whose test queries a data set has the texts of."""
        return frozenset(
            (system.name, shift)
            for system in self.view.systems.values()
            if dataset is not None
            and dataset.manifest.texts
            and (report := system.entry.submission.report) is not None
            and report.data.content_digest == dataset.manifest.content_digest
            for shift in system.shifts
        )

    def _write_texts(self, dataset: Dataset, shifts: Iterable[str]) -> None:
        for shift in shifts:
            test_sets = dataset.test_sets(SHIFTS[shift])
            texts = {row.query_id: row.text for rows in test_sets.values() for row in rows}
            self._script(f"texts/{shift}", f"texts/{shift}", dict(sorted(texts.items())))

    def _write_pages(
        self,
        ranks: Mapping[tuple[str, str], Ranks],
        texts: frozenset[tuple[str, str]],
        progress: Progress,
    ) -> None:
        tables = self.view.tables()
        opening = next(
            ((shift, measures[0]) for shift, measures in tables.items()), (ALL_SHIFTS, "")
        )
        index = "index.html" if self.first else f"{self._base}/index.html"
        self._page(
            index,
            "board.html",
            opening=opening,
            opening_file=file_name(*opening),
            opening_results=self.view.results(*opening) if tables else {},
            tables=tables,
            shifts=SHIFTS,
            citations=cited(self.view.shifts or self.view.averaged),
            others=list(self._other_tables()),
        )
        self._page(f"{self._base}/compare.html", "compare.html")
        if self.first:
            self._page("submit.html", "submit.html")
        systems = self.view.systems.values()
        for system in counted(systems, progress, "pages", len(systems), every=1):
            shown = panels(system, self.view.board)
            self._page(
                f"{self._base}/systems/{system.name}.html",
                "system.html",
                system=system,
                submission=system.entry.submission,
                panels=shown,
                ranks={
                    (shift, measure): of_table.ranked[system.name]
                    for (shift, measure), of_table in ranks.items()
                    if system.name in of_table.ranked
                },
                versions=superseded(system),
                texts=[shift for name, shift in sorted(texts) if name == system.name],
                shifts=SHIFTS,
                citations=cited(system.shifts or self.view.averaged),
            )

    def _other_tables(self) -> Iterator[dict[str, Any]]:
        """Yield papers' further tables, beside those per group, with title and columns."""
        tables: dict[tuple[str, tuple[str, ...]], dict[str, Any]] = {}
        for system in self.view.systems.values():
            for table in (system.entry.submission.reported or {}).get("other", ()):
                key = table["title"], tuple(table["columns"])
                rows = [{"system": system, **row} for row in table["rows"]]
                tables.setdefault(key, {**table, "rows": []})["rows"] += rows
        yield from tables.values()

    def _script(self, path: str, key: str, value: Any) -> None:
        file = self.folder / self._base / "data" / f"{path}.js"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(data_script(key, value), encoding="ascii")

    def _page(self, path: str, template: str, **values: Any) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        root = "../" * path.count("/")
        text = self.environment.get_template(template).render(
            root=root,
            base=f"{root}{self._base}/",
            board=self.view.board,
            view=self.view,
            navigation=[
                (view.board, "index.html" if not number else f"{view.board.id}/index.html")
                for number, view in enumerate(self.boards)
            ],
            **values,
        )
        file.write_text(text + "\n", encoding="utf-8")
