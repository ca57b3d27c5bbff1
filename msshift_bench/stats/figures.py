"""Figures: one long table that every result is, and the only maker of an interval, a p or a mark.

A figure is a number with its names and its certainty. A claim is an estimate that is to be printed
under some names; claims that are tested together name their family.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, overload

from msshift_bench.errors import UnknownNameError
from msshift_bench.stats.estimates import QUERIES_ONLY, Estimate
from msshift_bench.stats.inference import SIGNIFICANT, Inference, adjust
from msshift_bench.stats.lines import Slope

__all__ = ["DAGGER", "MEAN", "STAR", "UNTESTED", "Claim", "Figure", "Figures", "infer"]

STAR, DAGGER = "*", "†"
"""The marks of what is significant: counting more than queries, and counting queries only."""

MEAN = "mean"
"""The group of an average over groups; the model of an average over a shift's models."""


class Figure(NamedTuple):
    """One number: what it is, of what, and how sure it is. Names that do not apply are "".

    Attributes:
        figure: what it is: ``avg_in``, ``out``, ``loss``, ``rel_loss``, ``score``, ``drop``, ...
        test: the test set, where it is not the shift's own.
        shift: the shift.
        system: the system, or the run.
        against: the system that it is a difference from; of a link, the indicator.
        measure: the measure, e.g. ``RR@10``.
        group: the group whose test queries count; `MEAN` for the average over groups.
        model: the group that the model was trained without; `MEAN` for the average over models.
        slice: the label of the queries that count.
        value: the number, on the scale of the measure, not times 100; a Rel Loss is a fraction.
            `None` where it is undefined.
        low: the lower end of its interval; `None` without one.
        high: the upper end.
        p: the corrected p-value of "it is 0"; `None` if that was not tested.
        p_uncorrected: the same before the correction.
        mark: `STAR` if it is significant, `DAGGER` if only as far as these very models go, or "".
        family: the family of the test, e.g. ``holm over 20 tests (systems x groups)``.
        counts: what interval and p count: ``queries only``, ``queries and seeds`` or ``groups``.
        seeds: the number of seeds; `None` where nothing was trained.
        queries: the number of queries that count.
        seed_sd: the standard deviation over seeds, to first order.
        seed_share: the share of the variance that comes from seeds, 0 to 1.

    Examples:
        >>> figure = Figure("loss", group="short", value=0.25, low=0.1, high=0.4, p=0.01)
        >>> figure.value, figure.interval, figure.system
        (0.25, (0.1, 0.4), '')
    """

    figure: str
    test: str = ""
    shift: str = ""
    system: str = ""
    against: str = ""
    measure: str = ""
    group: str = ""
    model: str = ""
    slice: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_uncorrected: float | None = None
    mark: str = ""
    family: str = ""
    counts: str = ""
    seeds: int | None = None
    queries: int | None = None
    seed_sd: float | None = None
    seed_share: float | None = None

    @property
    def number(self) -> float:
        """Its value; NaN where it is undefined."""
        return math.nan if self.value is None else self.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends of its interval; `None` without one."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def with_value(self, value: float | None, interval: tuple[float, float] | None) -> Figure:
        """Return a figure of the same names with this value and interval."""
        low, high = interval or (None, None)
        return self._replace(value=value, low=low, high=high)


UNTESTED: Mapping[str, Any] = MappingProxyType(
    {
        "p": None,
        "p_uncorrected": None,
        "mark": "",
        "family": "",
        "seed_sd": None,
        "seed_share": None,
    }
)
"""What a figure is without its test and what its seeds add, to be put in place of these."""


class Claim(NamedTuple):
    """An estimate that is to be printed.

    Attributes:
        figure: its names, with its number of queries and of seeds.
        estimate: its value and contributions, or a slope; `None` if it is undefined, or has its
            value already.
        family: what it is tested with: names that tell the family from others, the last of which
            says in words what it goes over; empty if it is not tested.
        p: the uncorrected p-value, where it is not that of the estimate.
        bounds: the range of the value, which its interval stays inside.
    """

    figure: Figure
    estimate: Estimate | Slope | None = None
    family: tuple[str, ...] = ()
    p: float | None = None
    bounds: tuple[float, float] = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True, repr=False)
class Figures(Sequence[Figure]):
    """Figures in the order in which tables show them.

    Their names find them::

        >>> rows = [Figure("out", group="C0", value=0.3), Figure("avg_in", group="C0", value=0.4)]
        >>> Figures(rows).where(figure="out")[0].value
        0.3
    """

    rows: Sequence[Figure]

    def __repr__(self) -> str:
        return f"<Figures: {len(self.rows):,} of {', '.join(self.names('figure'))}>"

    @overload
    def __getitem__(self, place: int) -> Figure: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Figure]: ...
    def __getitem__(self, place: Any) -> Any:
        return self.rows[place]

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, **names: object) -> Figures:
        """Return the figures with these names, e.g. ``where(group="C0", figure=("loss", "out"))``.

        Args:
            names: column -> its value, or a tuple of values.

        Raises:
            UnknownNameError: if there is no such column.
        """
        for name in names:
            _check_column(name)
        wanted = [
            (Figure._fields.index(name), value if isinstance(value, tuple) else (value,))
            for name, value in names.items()
        ]
        return Figures(
            [row for row in self.rows if all(row[column] in values for column, values in wanted)]
        )

    def first(self, **names: object) -> Figure | None:
        """Return the first figure with these names, see `where`; `None` if there is none."""
        return next(iter(self.where(**names)), None)

    def each(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Figures]]:
        """Yield the values of the columns `names` with their figures, in the order of the first.

        Raises:
            UnknownNameError: if there is no such column.
        """
        for name in names:
            _check_column(name)
        parts: dict[tuple[Any, ...], list[Figure]] = {}
        for row in self.rows:
            parts.setdefault(tuple(getattr(row, name) for name in names), []).append(row)
        return ((values, Figures(rows)) for values, rows in parts.items())

    def names(self, column: str) -> list[Any]:
        """Return the values of a column, each once, in the order of the figures.

        Raises:
            UnknownNameError: if there is no such column.
        """
        _check_column(column)
        return list(dict.fromkeys(getattr(row, column) for row in self.rows))


def _check_column(name: str) -> None:
    if name not in Figure._fields:
        raise UnknownNameError("column of figures", name, Figure._fields)


def infer(claims: Iterable[Claim], inference: Inference) -> Figures:
    """Give every claim its interval, and every tested claim its p-value and its mark.

    P-values are corrected over all claims of a family. Those that count queries only are smaller
    than if they counted seeds, too, and would make it easier for the others to pass a step-down
    procedure: each kind is corrected as if the tests of the other had found nothing. A mark never
    stands beside an interval that holds 0.

    Args:
        claims: what is to be printed, in the order of the tables.
        inference: the level of the intervals, and the correction.
    """
    rows: list[Figure] = []
    families: dict[tuple[str, ...], dict[int, float]] = {}
    for number, (figure, estimate, family, p, bounds) in enumerate(claims):
        row = figure if estimate is None else figure._replace(value=estimate.value)
        known = None if estimate is None else estimate.uncertainty()
        if estimate is not None and known is not None:
            low, high = known.interval(estimate.value, inference.confidence)
            low, high = max(low, bounds[0]), min(high, bounds[1])
            row = row._replace(low=low, high=high, counts=known.counts)
            if known.seeds > 1:
                seed_sd = known.trained.scale * known.seeds**0.5
                row = row._replace(seed_sd=seed_sd, seed_share=known.seed_share)
            p = known.p_value(estimate.value) if p is None else p
        if family and p is not None:
            families.setdefault(family, {})[number] = p
        rows.append(row)
    for family, tests in families.items():
        name = f"{inference.correction} over {len(tests)} test{'s' * (len(tests) > 1)}"
        for counts in {rows[number].counts for number in tests}:
            of_kind = {n: p if rows[n].counts == counts else 1.0 for n, p in tests.items()}
            for number, p in adjust(of_kind, inference.correction).items():
                if rows[number].counts == counts:
                    row = rows[number]._replace(p=p, p_uncorrected=tests[number])
                    rows[number] = row._replace(mark=_mark(row), family=f"{name} ({family[-1]})")
    return Figures(rows)


def _mark(row: Figure) -> str:
    if row.p is None or row.p > SIGNIFICANT or row.low is None or row.high is None:
        return ""
    if row.low <= 0 <= row.high:
        return ""
    return DAGGER if row.counts == QUERIES_ONLY else STAR
