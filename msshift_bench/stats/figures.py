"""Figures: the long table of a result; inference of intervals, p-values and significance marks.

A figure is a number with its names and its interval. A claim is an estimate with names, not yet
inferred. Claims that are tested together name their family, over which p-values are corrected.
Significant differences between systems give ranks.
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
from msshift_bench.shifts import as_list, grouped
from msshift_bench.stats.estimates import QUERIES_ONLY, Estimate
from msshift_bench.stats.lines import Slope

_Test = TypeVar("_Test", bound=Hashable)

STAR, DAGGER = "*", "†"
"""Marks of significance: counting more than queries, and counting queries only."""

MEAN = "mean"
"""The group of an average over groups; the model of an average over a shift's models."""


class Figure(NamedTuple):
    """One number with its names and its interval. Names that do not apply are "".

    Attributes:
        figure: the kind: ``avg_in``, ``out``, ``loss``, ``rel_loss``, ``score``, ``drop``, ...
        test: the extra test set; "" for the shift's test sets.
        shift: the shift.
        system: the system, or the run.
        against: the system that is subtracted; for a link, the indicator.
        measure: the measure, e.g. ``RR@10``.
        group: the group whose test queries count; `MEAN` for the average over groups.
        model: the group that the model was trained without; `MEAN` for the average over models.
        slice: the label of the queries that count.
        value: the number, on the scale of the measure, not times 100; a Rel Loss is a fraction.
            `None` if undefined.
        low: the lower end of its interval; `None` without one.
        high: the upper end, likewise.
        p: the corrected p-value of "it is 0"; `None` if not tested.
        p_uncorrected: the p-value before the correction.
        mark: `STAR` if significant, `DAGGER` if significant for exactly these models, or "".
        family: the family of the test, e.g. ``holm over 20 tests (systems x groups)``.
        counts: the sources in interval and p: ``queries only``, ``queries and seeds`` or
            ``groups``.
        seeds: the number of seeds; `None` if nothing was trained.
        queries: the number of queries that count.
        seed_sd: the standard deviation over seeds, to first order; `None` below 2 seeds.
        seed_share: the share of the variance that comes from seeds, 0 to 1; `None` if unknown.

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
        """Its value; NaN if undefined."""
        return math.nan if self.value is None else self.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends (low, high) of its interval; `None` if one is missing."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def with_value(self, value: float | None, interval: tuple[float, float] | None) -> Figure:
        """Return a copy with this value and interval; all other fields are kept."""
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
"""Fields of a figure's test and seeds' variance -> their values without a test."""


class Claim(NamedTuple):
    """An estimate with names, before inference.

    Attributes:
        figure: its names, with its number of queries and of seeds.
        estimate: its value and contributions, or a slope; `None` if undefined, or if `figure`
            already has a value.
        family: names that identify its family of tests; the last one names the tests, e.g.
            ``systems x groups``. Empty if it is not tested.
        p: the uncorrected p-value, if not computed from the estimate; ignored without `family`.
        bounds: the range of the value, which limits its interval.
        repeats: for the negative of an earlier claim, how many claims earlier that claim is; else
            0. Both share one test.
    """

    figure: Figure
    estimate: Estimate | Slope | None = None
    family: tuple[str, ...] = ()
    p: float | None = None
    bounds: tuple[float, float] = (-math.inf, math.inf)
    repeats: int = 0


class Figures(tuple[Figure, ...]):
    """Figures in the order of the tables.

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

        Without a match, the result is empty.

        Args:
            names: column -> its value or several. A measure may be an object of ir_measures.

        Raises:
            UnknownNameError: for an unknown column.
        """
        rows: Iterable[Figure] = self
        for column, (name, value) in zip(_columns(names), names.items(), strict=True):
            of = [str(one) if name == "measure" else one for one in as_list(value)]
            rows = [row for row in rows if row[column] in of]
        return Figures(rows)

    def first(self, **names: object) -> Figure | None:
        """Return the first figure with these names, see `where`; `None` if there is none."""
        return next(iter(self.where(**names)), None)

    def each(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Figures]]:
        """Yield the values of the columns `names` with their figures, in order of first occurrence.

        Raises:
            UnknownNameError: for an unknown column.
        """
        columns = _columns(names)
        parts = grouped((tuple(row[column] for column in columns), row) for row in self)
        return ((values, Figures(rows)) for values, rows in parts.items())

    def names(self, column: str) -> list[Any]:
        """Return the values of a column, each once, in order of first occurrence.

        Raises:
            UnknownNameError: for an unknown column.
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
    """Return ascending p-values, adjusted to control the probability of any false rejection.

    Holm's step-down procedure (Scandinavian Journal of Statistics 6, 1979): valid under any
    dependence between tests, and never weaker than Bonferroni's.
    """
    return np.asarray(np.maximum.accumulate(p * np.arange(len(p), 0, -1)))


def _benjamini_hochberg(p: Floats) -> Floats:
    """Return ascending p-values, adjusted to control the expected share of false rejections.

    The step-up procedure of Benjamini & Hochberg (JRSS B 57, 1995): valid for independent or
    positively dependent tests. It controls a weaker error than Holm's and rejects more.
    """
    return np.asarray(np.minimum.accumulate((p * len(p) / np.arange(1, len(p) + 1))[::-1])[::-1])


def _bonferroni(p: Floats) -> Floats:
    """Multiply p-values by their number: as valid as Holm's procedure, and never stronger."""
    return p * len(p)


UNCORRECTED = "none"
"""The name of no correction: no figure then has a mark of significance."""

CORRECTIONS: Mapping[str, Callable[[Floats], Floats]] = MappingProxyType(
    {
        "holm": _holm,
        "benjamini-hochberg": _benjamini_hochberg,
        "bonferroni": _bonferroni,
        UNCORRECTED: lambda p: p,
    }
)
"""Name in outputs -> correction of ascending p-values; the first is the default."""


@dataclass(frozen=True, slots=True)
class Inference:
    """Settings of averages, intervals and p-values.

    Attributes:
        confidence: the confidence level of the intervals.
        correction: how p-values are corrected across a shift's groups, a key of
            `CORRECTIONS`.
        average: how a shift's groups are averaged, a key of `AVERAGES`; `None` for `Shift.average`,
            and for ``macro`` without a shift.

    Raises:
        UsageError: for a confidence not strictly between 0 and 1.
        UnknownNameError: for an unknown correction or average.
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
    """Return the corrected p-values of one family of tests, without tests whose p is `None`.

    Args:
        p_values: test -> p-value, or `None` if the test could not be made.
        correction: a key of `CORRECTIONS`.

    Returns:
        Test -> its adjusted p-value, at most 1.

    Raises:
        UsageError: if a p-value is not a number from 0 to 1.
        KeyError: for an unknown correction.
    """
    defined = {name: p for name, p in p_values.items() if p is not None}
    p = np.array(list(defined.values()), np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise UsageError(f"p-values are numbers from 0 to 1, not {list(defined.values())}")
    order = np.argsort(p, kind="stable")
    p[order] = np.minimum(CORRECTIONS[correction](p[order]), 1)
    return dict(zip(defined, p.tolist(), strict=True))


def infer(claims: Iterable[Claim], inference: Inference) -> Figures:
    """Return a figure for each claim: with interval, and if tested with p-value and mark.

    P-values are corrected over all claims of a family. P-values that count queries only are smaller
    than with seeds, and would help other tests to pass a step-down procedure. Therefore tests that
    count queries only are corrected as if all other tests had p = 1, and vice versa. A figure
    without an interval, or with 0 in its interval, has no mark.

    Args:
        claims: the claims, in the order of the tables.
        inference: the level of the intervals, and the correction.

    Raises:
        UsageError: if a claim's p-value is not a number from 0 to 1.
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
    """Return each system's rank and worst place, from the pairs with a significant difference.

    A system is known to be better than another if a pair or a chain of pairs connects them. Its
    range has its places in all orders of the systems that agree with this. Its rank is the first
    place, as in Chatbot Arena (Chiang et al., ICML 2024). So the better system of a pair has the
    smaller rank, and without pairs all rank first. Two systems without a significant difference may
    have different ranks, if a third one differs from only one of them. Their ranges then overlap.

    With Holm's correction over all pairs, the probability of any wrong pair is at most 5%. Then all
    true ranks are in their ranges with a probability of at least 95% (Mogstad, Romano, Shaikh and
    Wilhelm, Review of Economic Studies 2024).

    Args:
        order: all systems, the best first.
        apart: pairs (better, worse) with a significant difference; better is before worse in
            `order`.

    Returns:
        System -> (rank, worst place), in `order`. The rank is 1 + the number of systems known to be
        better. The worst place is the number of systems not known to be worse, itself included.

    Raises:
        ValueError: if a system is named twice, or a pair contradicts the order or has an unknown
            system.
    """
    place = {name: number for number, name in enumerate(order)}
    if len(place) < len(order):
        raise ValueError(f"names of ranked systems must be unique, got {list(order)}")
    directly_better: dict[str, list[str]] = {name: [] for name in order}
    for better, worse in apart:
        if not {better, worse} <= place.keys() or place[better] >= place[worse]:
            raise ValueError(f"{better!r} is better than {worse!r}, against the order")
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
