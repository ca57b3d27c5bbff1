"""Figures: one long table that every result is, and the only maker of an interval, a p or a mark.

A figure is a number with its names and its certainty. A claim is an estimate that is to be printed
under some names; claims that are tested together name their family, over which p-values are
corrected. Systems whose differences are told apart have ranks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.errors import UsageError, check_name
from msshift_bench.shifts import grouped, several
from msshift_bench.stats.estimates import QUERIES_ONLY, Estimate
from msshift_bench.stats.lines import Slope

_Test = TypeVar("_Test", bound=Hashable)

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
        repeats: for the negative of an earlier claim, whose test is its own, how far before it that
            claim is; else 0.
    """

    figure: Figure
    estimate: Estimate | Slope | None = None
    family: tuple[str, ...] = ()
    p: float | None = None
    bounds: tuple[float, float] = (-math.inf, math.inf)
    repeats: int = 0


class Figures(tuple[Figure, ...]):
    """Figures in the order in which tables show them.

    Their names find them::

        >>> rows = [Figure("out", group="C0", value=0.3), Figure("avg_in", group="C0", value=0.4)]
        >>> Figures(rows).where(figure="out")[0].value
        0.3
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Figures: {len(self):,} of {', '.join(self.names('figure'))}>"

    def where(self, **names: object) -> Figures:
        """Return the figures with these names, e.g. ``where(group="C0", figure=("loss", "out"))``.

        Args:
            names: column -> its value or several. A measure may be one of ir_measures.

        Raises:
            UnknownNameError: if there is no such column.
        """
        rows: Iterable[Figure] = self
        for column, (name, value) in zip(_columns(names), names.items(), strict=True):
            of = [str(one) if name == "measure" else one for one in several(value)]
            rows = [row for row in rows if row[column] in of]
        return Figures(rows)

    def first(self, **names: object) -> Figure | None:
        """Return the first figure with these names, see `where`; `None` if there is none."""
        return next(iter(self.where(**names)), None)

    def each(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Figures]]:
        """Yield the values of the columns `names` with their figures, in the order of the first.

        Raises:
            UnknownNameError: if there is no such column.
        """
        columns = _columns(names)
        parts = grouped((tuple(row[column] for column in columns), row) for row in self)
        return ((values, Figures(rows)) for values, rows in parts.items())

    def names(self, column: str) -> list[Any]:
        """Return the values of a column, each once, in the order of the figures.

        Raises:
            UnknownNameError: if there is no such column.
        """
        (place,) = _columns([column])
        return list(dict.fromkeys(row[place] for row in self))


def _columns(names: Iterable[str]) -> list[int]:
    fields = Figure._fields
    return [fields.index(check_name("column of figures", name, fields)) for name in names]


SIGNIFICANT = 0.05
"""A loss or a difference is significant if its corrected p-value is at most this."""

AVERAGES: Mapping[str, str] = MappingProxyType(
    {
        "macro": "the mean over groups, each counting alike",
        "pooled": "over the queries of all groups together, each query counting alike",
    }
)
"""How the groups of a shift are averaged; `Shift.average` is each shift's default."""


def _holm(p: Floats) -> Floats:
    """Adjust ascending p-values so that the chance of any false rejection stays below the level.

    The step-down procedure of Holm (Scandinavian Journal of Statistics 6, 1979): valid under any
    dependence between the tests, and never weaker than Bonferroni's.
    """
    return np.asarray(np.maximum.accumulate(p * np.arange(len(p), 0, -1)))


def _benjamini_hochberg(p: Floats) -> Floats:
    """Adjust ascending p-values so that the expected share of false rejections stays below it.

    The step-up procedure of Benjamini & Hochberg (JRSS B 57, 1995): valid for independent or
    positively dependent tests. It controls a weaker error than Holm's and rejects more.
    """
    return np.asarray(np.minimum.accumulate((p * len(p) / np.arange(1, len(p) + 1))[::-1])[::-1])


def _bonferroni(p: Floats) -> Floats:
    """Multiply p-values by their number: as valid as Holm's procedure, and never stronger."""
    return p * len(p)


UNCORRECTED = "none"
"""The name of no correction, under which nothing is marked."""

CORRECTIONS: Mapping[str, Callable[[Floats], Floats]] = MappingProxyType(
    {
        "holm": _holm,
        "benjamini-hochberg": _benjamini_hochberg,
        "bonferroni": _bonferroni,
        UNCORRECTED: lambda p: p,
    }
)
"""The corrections for many tests, of ascending p-values, by the name that outputs show; the first
is the default."""


@dataclass(frozen=True, slots=True)
class Inference:
    """How to average losses, and how to make their intervals and p-values.

    Attributes:
        confidence: the confidence level of the intervals.
        correction: how p-values are corrected across a shift's groups, a key of
            `CORRECTIONS`.
        average: how a shift's groups are averaged, a key of `AVERAGES`; if `None` each shift's
            own (`Shift.average`), and ``macro`` where groups are of no shift.

    Raises:
        UsageError: for a confidence not strictly between 0 and 1.
        UnknownNameError: for a correction or an average that does not exist.
    """

    confidence: float = 0.95
    correction: str = "holm"
    average: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise UsageError(f"confidence lies strictly between 0 and 1, not {self.confidence}")
        check_name("correction", self.correction, CORRECTIONS)
        if self.average is not None:
            check_name("average", self.average, AVERAGES)


def adjust(p_values: Mapping[_Test, float | None], correction: str) -> dict[_Test, float]:
    """Correct the p-values of one family of tests, without the tests that gave none.

    Args:
        p_values: test -> p-value, or `None` if the test could not be made.
        correction: a key of `CORRECTIONS`.

    Returns:
        Test -> its adjusted p-value, at most 1; reject where it is at most the level.

    Raises:
        UsageError: if a p-value is not a number from 0 to 1.
    """
    defined = {name: p for name, p in p_values.items() if p is not None}
    p = np.array(list(defined.values()), np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise UsageError(f"p-values are numbers from 0 to 1, not {list(defined.values())}")
    order = np.argsort(p, kind="stable")
    p[order] = np.minimum(CORRECTIONS[correction](p[order]), 1)
    return dict(zip(defined, p.tolist(), strict=True))


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
    negatives: dict[int, int] = {}
    for number, (figure, estimate, family, p, bounds, repeats) in enumerate(claims):
        row = figure if estimate is None else figure._replace(value=estimate.value)
        known = None if estimate is None else estimate.uncertainty()
        if estimate is not None and known is not None:
            low, high = known.interval(estimate.value, inference.confidence)
            low, high = max(low, bounds[0]), min(high, bounds[1])
            row = row._replace(low=low, high=high, counts=known.counts)
            if known.seeds > 1:
                row = row._replace(
                    seed_sd=known.trained.scale * known.seeds**0.5, seed_share=known.seed_share
                )
            if family and p is None:
                p = known.p_value(estimate.value)
        if family and p is not None:
            families.setdefault(family, {})[number] = p
        negatives |= {number: number - repeats} if repeats else {}
        rows.append(row)
    is_corrected = inference.correction != UNCORRECTED
    for family, tests in families.items():
        how = inference.correction if is_corrected else "uncorrected"
        name = f"{how} over {len(tests)} test{'s' * (len(tests) > 1)}"
        for counts in {rows[number].counts for number in tests}:
            of_kind = {n: p if rows[n].counts == counts else 1.0 for n, p in tests.items()}
            for number, p in adjust(of_kind, inference.correction).items():
                row = rows[number]
                if row.counts == counts:
                    low, high = row.interval or (0.0, 0.0)
                    is_apart = is_corrected and p <= SIGNIFICANT and not low <= 0 <= high
                    rows[number] = row._replace(
                        p=p,
                        p_uncorrected=tests[number],
                        mark=(DAGGER if counts == QUERIES_ONLY else STAR) * is_apart,
                        family=f"{name} ({family[-1]})",
                    )
    for number, place in negatives.items():
        rows[number] = rows[number]._replace(
            **{name: getattr(rows[place], name) for name in UNTESTED}
        )
    return Figures(rows)


def rank_ranges(
    order: Sequence[str], apart: Collection[tuple[str, str]]
) -> dict[str, tuple[int, int]]:
    """Rank systems by the pairs that are told apart.

    A system is known to be better than another if the two are told apart, or if a chain of such
    pairs leads from one to the other. Its range holds the places that it takes in all orders of the
    systems that agree with this; its rank is the first of them, as in Chatbot Arena (Chiang et al.,
    ICML 2024). So of two systems told apart the better has the smaller rank, and if no pair is told
    apart all rank first. Two systems that are *not* told apart may still differ in rank, as "not
    told apart" is not transitive: a third may be told apart from one of them only. Their ranges
    then overlap.

    If the chance that any pair is told apart wrongly is at most 5%, as after Holm's correction over
    all pairs, all true ranks lie in their ranges with a chance of at least 95% (Mogstad, Romano,
    Shaikh and Wilhelm, Review of Economic Studies 2024).

    Args:
        order: all systems, the best first.
        apart: pairs (better, worse) that are told apart, the better before the worse in `order`.

    Returns:
        System -> its best place, 1 + the number of systems known to be better, which is its rank;
        and its worst, the number of systems not known to be worse, itself included.

    Raises:
        ValueError: if a system is named twice, or a pair contradicts the order or names another.
    """
    place = {name: number for number, name in enumerate(order)}
    if len(place) < len(order):
        raise ValueError(f"systems that are ranked have different names; got {list(order)}")
    directly_better: dict[str, list[str]] = {name: [] for name in order}
    for better, worse in apart:
        if not {better, worse} <= place.keys() or place[better] >= place[worse]:
            raise ValueError(f"{better!r} is told apart as better than {worse!r} against the order")
        directly_better[worse].append(better)
    known_better: dict[str, set[str]] = {}
    for name in order:
        direct = directly_better[name]
        known_better[name] = set(direct).union(*(known_better[system] for system in direct))
    worse_systems = Counter(chain.from_iterable(known_better.values()))
    return {
        name: (1 + len(above), len(order) - worse_systems[name])
        for name, above in known_better.items()
    }
