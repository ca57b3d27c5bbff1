"""Figures as one long table of numbers, for CSV files and pandas: one row per figure."""

from __future__ import annotations

import csv
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msshift_bench.errors import require

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FIGURE_COLUMNS", "FigureRow", "LongTable", "WithFigures", "csv_text"]

_DIGITS = 10
"""Significant digits of a number in CSV: more than any measure has, fewer than rounding shows."""


class FigureRow(NamedTuple):
    """One figure, and what is known of it.

    Attributes:
        shift: the shift; "" for runs that were scored on qrels.
        system: the system or the run.
        measure: the measure.
        group: the group whose test queries count, ``mean`` for the mean over groups, ``all
            queries`` where queries are pooled, or the name of the qrels.
        figure: ``avg_in``, ``out``, ``loss`` or ``rel_loss``; ``score`` of a run that is the same
            whichever group is held out; ``mean`` or ``sum`` of a single run; on an
            extra test set ``model`` of one model, ``mean`` of all models of the shift, and ``drop``
            of that mean against a system that was trained on everything; on variants of queries
            the figures of `VariantReport`.
        value: on the scale of the measure, not times 100; a Rel Loss or a drop is a fraction.
        low: the low end of the interval of `value`.
        high: its high end.
        p: the corrected p-value of "this is 0", of a loss or a difference.
        queries: how many test queries count.
        seeds: how many seeds count; with 1, interval and p count queries only. `None` where
            nothing was trained per group.
        against: in comparisons and drops, the other system; "" for a figure of one system.
        label: the label of the queries that count, "" for all; on an extra test set, the model; on
            variants, the model and method, or the name of the variants.
    """

    shift: str
    system: str
    measure: str
    group: str
    figure: str
    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    queries: int | None = None
    seeds: int | None = None
    against: str = ""
    label: str = ""


FIGURE_COLUMNS = FigureRow._fields[:-2]
"""The columns that every long table has."""


@dataclass(frozen=True, slots=True, repr=False)
class LongTable:
    """Figures, one per row.

    Attributes:
        rows: the figures.
        columns: the columns to write, some of the fields of `FigureRow`.
    """

    rows: Sequence[FigureRow]
    columns: Sequence[str]

    def __repr__(self) -> str:
        return f"<LongTable: {len(self.rows)} rows of {', '.join(self.columns)}>"

    def to_csv(self) -> str:
        """Return the table as CSV with a header line; what is not known is an empty field."""
        return csv_text(
            self.columns, ([getattr(row, name) for name in self.columns] for row in self.rows)
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a data frame; `queries` and `seeds` are nullable integers.

        Raises:
            MissingExtraError: if pandas is not installed.
        """
        pandas = require("pandas", "pandas", "a data frame")
        values = [[getattr(row, name) for name in self.columns] for row in self.rows]
        types = dict.fromkeys(("value", "low", "high", "p"), "float64")
        types |= dict.fromkeys(("queries", "seeds"), "Int64")
        frame: pd.DataFrame = pandas.DataFrame(values, columns=list(self.columns))
        return frame.astype(types)


class WithFigures(ABC):
    """A result whose figures make one long table."""

    __slots__ = ()

    @abstractmethod
    def tidy(self) -> LongTable:
        """Return every figure as a row of one long table."""

    def to_pandas(self) -> pd.DataFrame:
        """Return `tidy` as a data frame.

        Raises:
            MissingExtraError: if pandas is not installed.
        """
        return self.tidy().to_pandas()


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> str:
    """Return rows as CSV with a header line; what is not known is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_written, row) for row in rows)
    return out.getvalue()


def _written(value: str | float | None) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value + 0.0:.{_DIGITS}g}"
    return "" if value is None else str(value)
