"""Results: figures with notes, and their projections.

Evaluations, analyses and experiments return a `Result`. Its tables, JSON, CSV, Arrow table and data
frame are projections of one long table of figures.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from msshift_bench.data import DataInfo
from msshift_bench.errors import UsageError, require
from msshift_bench.evaluation.per_query import scores_table
from msshift_bench.evaluation.scores import Scores
from msshift_bench.output import (
    Answer,
    Format,
    Table,
    csv_text,
    figure_values,
    plain,
    report_head,
    tabulate,
    to_html,
    with_head,
)
from msshift_bench.shifts import grouped
from msshift_bench.stats import Figure, Figures
from msshift_bench.words import words_fact

if TYPE_CHECKING:
    import pandas as pd

_KINDS = {
    **dict.fromkeys(("value", "low", "high"), "float64"),
    **dict.fromkeys(("p", "p_uncorrected", "seed_sd", "seed_share"), "float64"),
    **dict.fromkeys(("seeds", "queries"), "int64"),
}


class Note(NamedTuple):
    """A sentence below tables.

    Attributes:
        text: the sentence.
        kind: ``data``, ``policy`` (how figures were computed), ``caveat`` (always printed), or
            ``doubt``: a warning, also printed to stderr.
        about: names that its figures or tables share, e.g. ``{"shift": "length"}``; empty for all.
    """

    text: str
    kind: Literal["data", "policy", "caveat", "doubt"] = "policy"
    about: Mapping[str, str] = {}


FEW_NOTES = 3
"""The number of lines below tables, without caveats and warnings, unless all are requested."""


def notes_of(
    lines: Iterable[str],
    warnings: Iterable[str] = (),
    about: Mapping[str, str] | None = None,
    *,
    data: Iterable[str] = (),
    caveats: Iterable[str] = (),
) -> list[Note]:
    """Return notes: caveats, lines, facts about data, then warnings without duplicates.

    Args:
        lines: how figures were computed.
        warnings: warnings.
        about: `Note.about` of all but `warnings`; by default they are about all figures.
        data: facts about data, runs and settings.
        caveats: facts about data without which figures are misread.
    """
    return [
        *(Note(line, "caveat", about or {}) for line in caveats),
        *(Note(line, about=about or {}) for line in lines),
        *(Note(line, "data", about or {}) for line in data),
        *(Note(warning, "doubt") for warning in dict.fromkeys(warnings)),
    ]


class Section(NamedTuple):
    """Tables that are printed together, above their notes.

    Attributes:
        tables: the tables.
        about: the names that they share; notes about other names are not printed below them.
        notes: notes on these tables only, printed above the result's notes.
    """

    tables: Sequence[Table]
    about: Mapping[str, str] = {}
    notes: Sequence[str] = ()

    def is_about(self, note: Note) -> bool:
        """Return whether a note is about some figures only, and these tables may contain them."""
        names = note.about.items()
        return bool(names) and all(self.about.get(name, value) == value for name, value in names)


TableSpec = tuple[str, Mapping[str, str], Mapping[str, tuple[str, Format]]]
"""Arguments of `tabulate` other than figures: title, names of rows, columns."""


def tabulated(tables: Iterable[TableSpec], figures: Figures) -> list[Section]:
    """Return one section with the tables that have rows; the layout of a result.

    Args:
        tables: title, names of rows and columns of each table.
        figures: the figures of the result.
    """
    filled = (tabulate(figures, *table) for table in tables)
    return [Section([table for table in filled if table.rows])]


def _html_list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" * bool(items)


def _notes_by_table(tables: Sequence[Table]) -> list[str]:
    """Return the notes of tables, with the tables' names where there are several notes."""
    titles = [table.title.partition("; ")[0] for table in tables]
    names = [title.rpartition(": ")[2] for title in titles]
    named = zip(names if len({*names}) == len(names) else titles, tables, strict=True)
    notes = grouped((table.note, name) for name, table in named if table.note)
    if len(notes) < 2:
        return list(notes)
    return [f"{', '.join(of_tables)}: {note}" for note, of_tables in notes.items()]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result:
    """Figures of an evaluation, a comparison or an analysis, with notes and scores.

    Attributes:
        kind: the kind of evaluation, e.g. ``losses``.
        figures: every figure, in the order of the tables.
        settings: the settings, as JSON values.
        data: the data of the figures.
        notes: the notes below the tables.
        layout: function of the figures and options that yields the sections of tables.
        scores: the per-query scores behind the figures.
        facts: further JSON values.
        answers: a sentence for each system and shift, printed above the tables.

    Examples:
        >>> result = evaluate_run_sets("runs", shifts=["length"])
        >>> [table.title for table in result.tables()]
        ['Query length (length), MRR@10 x 100']
        >>> result.figures.names("group"), result.per_query().num_rows
        (['short', 'long', 'mean'], 424)
    """

    kind: str
    figures: Figures
    settings: Mapping[str, Any]
    data: DataInfo
    notes: Sequence[Note]
    layout: Callable[..., Iterable[Section]]
    scores: Sequence[Scores] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    answers: Sequence[Answer] = ()

    def __repr__(self) -> str:
        return f"<Result: {self.kind}, {self.figures!r}>"

    @property
    def warnings(self) -> list[str]:
        """The warnings about the figures."""
        return [note.text for note in self.notes if note.kind == "doubt"]

    def tables(self) -> list[Table]:
        """Return every table of the default layout."""
        return [table for section in self.layout(self.figures) for table in section.tables]

    def sections(
        self, *, verbose: bool = False, **view: bool
    ) -> Iterator[tuple[Sequence[Table], list[str]]]:
        """Yield sections of tables, with the notes below them, each once.

        Notes about some figures are below the tables of these figures; notes about all are last.

        Args:
            verbose: yield all notes; by default `FEW_NOTES` lines, and all caveats and warnings.
            view: options of the layout.
        """
        sections = list(self.layout(self.figures, **view))
        for place, section in enumerate(sections, 1):
            notes = [note for note in self.notes if section.is_about(note)]
            if place == len(sections):
                notes += [note for note in self.notes if not note.about]
            lines = [*section.notes, *_notes_by_table(section.tables)]
            lines += [note.text for note in notes if note.kind in ("policy", "data")]
            lines = list(dict.fromkeys(lines))
            if not verbose and len(lines) > FEW_NOTES:
                hidden = len(lines) - FEW_NOTES + 1
                lines[FEW_NOTES - 1 :] = [f"{hidden} more notes: --verbose, or `notes` in JSON"]
            lines += [note.text for note in notes if note.kind == "caveat"]
            lines += [note.text for note in notes if note.kind == "doubt"]
            yield section.tables, list(dict.fromkeys(lines))

    def _repr_html_(self) -> str:
        """Return the answers, the tables and their notes as HTML, as notebooks show them."""
        parts = [_html_list(answer.text for answer in self.answers)]
        for tables, notes in self.sections():
            parts += [*map(to_html, tables), _html_list(notes)]
        return "\n".join(filter(None, parts))

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values.

        A figure is an object without the names that do not apply and the unknown numbers; NaN is
        null.
        """
        return {
            **self._head(),
            **plain(self.facts),
            **({"answers": [one.to_json() for one in self.answers]} if self.answers else {}),
            "figures": [figure_values(row) for row in self.figures],
        }

    def _head(self) -> dict[str, Any]:
        return {
            **report_head(),
            "kind": self.kind,
            # Entries of the leaderboard keep their bytes.
            "data": {
                **{name: value for name, value in plain(self.data).items() if name != "words"},
                **words_fact(self.data.words),
            },
            "settings": plain(self.settings),
            "runs": [plain(run) for part in self.scores for run in part.run_facts()],
            "notes": [plain(note) for note in self.notes],
        }

    def to_csv(self) -> str:
        """Return the figures as CSV with a header line; unknown values are empty fields."""
        return csv_text(Figure._fields, self.figures)

    def to_arrow(self) -> pa.Table:
        """Return the figures as an Arrow table; its metadata has data, settings, runs and notes."""
        columns = zip(*self.figures, strict=True) if self.figures else [()] * len(Figure._fields)
        kinds = {name: _KINDS.get(name, "string") for name in Figure._fields}
        arrays = [
            pa.array(column, getattr(pa, kind)())
            for column, kind in zip(columns, kinds.values(), strict=True)
        ]
        return with_head(pa.table(arrays, names=list(kinds)), self._head())

    def to_pandas(self) -> pd.DataFrame:
        """Return the figures as a data frame; `queries` and `seeds` are nullable integers.

        Raises:
            MissingExtraError: if pandas is not installed.
        """
        pandas = require("pandas", "pandas", "a data frame")
        nullable = {pa.int64(): pandas.Int64Dtype()}
        frame: pd.DataFrame = self.to_arrow().to_pandas(types_mapper=nullable.get)
        return frame

    def per_query(self) -> pa.Table:
        """Return one row per run, query and measure; see `scores_table`.

        Raises:
            UsageError: if the result has no scores of queries, as from `analyse_run_sets`.
        """
        if not self.scores:
            raise UsageError(
                f"a result of kind {self.kind!r} holds no scores of queries; evaluate run sets, or "
                "score runs, for these"
            )

        return with_head(
            pa.concat_tables([scores_table(part) for part in self.scores]), self._head()
        )
