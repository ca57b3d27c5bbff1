"""From candidates that people judged to a threshold: which to judge, counts, precision and recall.

Source: Fröbe et al., How Train-Test Leakage Affects Zero-Shot Retrieval (SPIRE 2022), section 3
and Table 2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path

import numpy as np

from msshift_bench.annotation import (
    DIFFERENT,
    LEAKS,
    REFORMULATIONS,
    UNTYPED,
    Annotations,
    Pair,
    Verdict,
    agreement_table,
    agreements,
    read_annotations,
)
from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import DataInfo
from msshift_bench.errors import CollectionError, FindingLog, UsageError
from msshift_bench.evaluation import Note, Result, TableSpec, tabulated
from msshift_bench.leakage.found import PASSAGE_TIER, TIERS, read_candidates
from msshift_bench.output import COUNT, REL_LOSS, number
from msshift_bench.plumbing import numbered_lines
from msshift_bench.stats import Figure, Figures, clustered_share

PUBLISHED_THRESHOLD = 0.91
"""What Fröbe et al. chose for a precision of 0.9."""

_CERTAIN_TIERS = TIERS[:2]
"""The tiers that nobody needs to judge: the texts are the same, or differ in their spelling."""

_SAMPLES = 1000
_MOST_ROWS = 21
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)


def pairs_to_judge(
    source: str | Path, *, per_test: int | None = 5, certain: bool = False
) -> list[Pair]:
    """Return the candidates to judge.

    Args:
        source: what `find_leakage` wrote, its folder or file; or a sheet, filled in or not, that
            `read_annotations` reads.
        per_test: how many of each test query, those that are most alike: first the same words, then
            by falling cosine, last those that only share a passage. `None` for all.
        certain: keep the same texts and those that differ in their spelling, too.

    Returns:
        Test queries in the order of the source, with the candidates of each.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if it is malformed.
        UsageError: if it holds no pair.
    """
    candidates = [
        pair for pair in _pairs_in(Path(source)) if certain or pair.found_by not in _CERTAIN_TIERS
    ]
    if not candidates:
        raise UsageError(
            f"there is no candidate to judge, leaving {' and '.join(_CERTAIN_TIERS)} aside; "
            "--certain keeps them"
        )
    by_test: dict[str, dict[str, Pair]] = {pair.test_id: {} for pair in candidates}
    # A test query with several texts may find a training query by each: the nearest counts.
    for pair in sorted(candidates, key=lambda pair: (-_nearness(pair), pair.train_id)):
        by_test[pair.test_id].setdefault(pair.train_id, pair)
    return [pair for nearest in by_test.values() for pair in [*nearest.values()][:per_test]]


def _pairs_in(path: Path) -> Iterable[Pair]:
    if path.suffix.lower() in (".csv", ".json", ".jsonl"):
        annotations = read_annotations([path])
        return [*annotations.by_pair(), *annotations.unjudged]
    return [
        Pair(pair.test_id, pair.test_text, pair.train_id, pair.train_text, pair.tier, pair.cosine)
        for pair in read_candidates(path)
    ]


def _nearness(pair: Pair) -> float:
    if pair.cosine is not None:
        return pair.cosine
    return -math.inf if pair.found_by == PASSAGE_TIER else math.inf


class ThresholdCurve:
    """The precision and recall of every threshold; intervals count other test queries.

    Args:
        labels: the labels of judged pairs; those without a cosine do not count.

    Raises:
        UsageError: if there is no pair that counts.
    """

    def __init__(self, labels: Mapping[Pair, str]) -> None:
        known = sorted(
            (-pair.cosine, pair.test_id, label != DIFFERENT)
            for pair, label in labels.items()
            if pair.cosine is not None
        )
        if not known:
            raise UsageError("no judged pair has a cosine, so there is no threshold to choose")
        distances, test_ids, leaks = zip(*known, strict=True)
        places = {test_id: n for n, test_id in enumerate(sorted(set(test_ids)))}
        self._cosines: Floats = -np.array(distances, dtype=np.float64)
        self._leaks: Floats = np.array(leaks, dtype=np.float64)
        self._rows: Ints = np.array([places[test_id] for test_id in test_ids])
        self._queries = len(places)
        # Pairs of one cosine are kept together: a threshold ends behind the last of them.
        self._ends: Ints = np.append(np.flatnonzero(np.diff(self._cosines)), len(known) - 1)

    def at(self, threshold: float) -> Figures:
        """Return what a threshold keeps: the pairs whose cosine is at least it.

        Args:
            threshold: the cosine.

        Returns:
            ``kept_pairs``; ``kept_leaking``, those of them that leak; ``precision``, the share of
            them that leaks; and ``recall``, the share of all judged pairs that leak which are kept.
            Of leaking pairs that nobody judged nothing is known. A share of nothing has no value.
        """
        reach_it = (self._cosines >= threshold).astype(np.float64)
        hits, items = self._per_query(self._leaks * reach_it), self._per_query(reach_it)
        row = Figure("kept_pairs", slice=f"cosine at least {threshold:.4g}")
        return Figures(
            [
                row._replace(value=float(items.sum())),
                row._replace(figure="kept_leaking", value=float(hits.sum())),
                _share(row._replace(figure="precision"), hits, items),
                _share(row._replace(figure="recall"), hits, self._per_query(self._leaks)),
            ]
        )

    def round_thresholds(self) -> list[float]:
        """Return round thresholds from the least cosine to the greatest, at most 22 of them."""
        low, high = float(self._cosines[-1]), min(float(self._cosines[0]), 1.0)
        step = next((s for s in _STEPS if (high - low) / s <= _MOST_ROWS - 1), _STEPS[-1])
        first, last = math.floor(low / step + 1e-9), math.floor(high / step + 1e-9)
        return [round(number * step, 2) for number in range(first, last + 1)]

    def lowest(self, precision: float = 0.9) -> Figures:
        """Return the lowest thresholds that keep pairs of a precision.

        Args:
            precision: above 0, at most 1.

        Returns:
            ``lowest_threshold``, with an interval over other test queries by bootstrap, if no more
            samples lack that precision than it leaves out; and ``lowest_sure_threshold``, whose
            precision has an interval that begins at the wanted one or above. One that there is not
            has no value.

        Raises:
            UsageError: if the precision is not above 0 and at most 1.
        """
        _check_precision(precision)
        threshold = self._lowest(np.ones(self._queries), precision)
        value = None if math.isinf(threshold) else threshold
        row = Figure("lowest_threshold", slice=f"precision of {precision:g}")
        sure = row._replace(figure="lowest_sure_threshold", value=self._sure(precision))
        return Figures([row.with_value(value, self._interval(precision)), sure])

    def _lowest(self, weights: Floats | Ints, precision: float) -> float:
        """Return the lowest threshold if every test query counts so often; inf if there is none."""
        counted = weights[self._rows]
        pairs, hits = np.cumsum(counted)[self._ends], np.cumsum(counted * self._leaks)[self._ends]
        good = np.flatnonzero((pairs > 0) & (hits >= precision * pairs - 1e-9))
        return float(self._cosines[self._ends[good[-1]]]) if len(good) else math.inf

    def _interval(self, precision: float) -> tuple[float, float] | None:
        if self._queries < 2:
            return None
        random, count = np.random.default_rng(self._queries), self._queries
        samples = (random.integers(0, count, count) for _ in range(_SAMPLES))
        weights = (np.bincount(sample, minlength=count) for sample in samples)
        drawn = [self._lowest(often, precision) for often in weights]
        low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
        return None if math.isinf(high) else (float(low), float(high))

    def _sure(self, precision: float) -> float | None:
        # Where the precision itself is too low, its interval begins lower still.
        precise = np.cumsum(self._leaks)[self._ends] >= precision * (self._ends + 1)
        for threshold in self._cosines[self._ends[precise]][::-1].tolist():
            share = self.at(threshold)[2]
            if share.low is not None and share.low >= precision:
                return float(threshold)
        return None

    def _per_query(self, values: Floats) -> Floats:
        return np.bincount(self._rows, values, self._queries).astype(np.float64)


def _check_precision(precision: float) -> None:
    if not 0 < precision <= 1:
        raise UsageError(f"a precision of {precision:g}; give one above 0, at most 1")


def _share(row: Figure, hits: Floats, items: Floats) -> Figure:
    share = clustered_share(hits, items)
    return row if share is None else row.with_value(*share)


def review_leakage(
    annotations: Annotations,
    *,
    subsets: Mapping[str, str | Path | Iterable[str]] | None = None,
    precision: float = 0.9,
) -> Result:
    """Count what annotators say of candidates for leakage, and choose a threshold.

    Args:
        annotations: of sheets that ask for `LEAKAGE`; see `read_annotations`.
        subsets: name -> ids of test queries, or a file of ids, one per line: counted apart.
        precision: what the pairs that the threshold keeps must have, above 0, at most 1.

    Returns:
        Of each subset and of ``all`` (column `slice`), how many pairs leak or do not (`group`), of
        how many test queries; how many are of each type; the `agreements` of annotators on types,
        on labels where several that are given together are a label of their own, and on whether a
        pair leaks; and what `ThresholdCurve.at` says of round thresholds, and
        `ThresholdCurve.lowest`. Its facts are the label of every pair, and which pairs are
        disputed, unsettled (as many say that it leaks as that it does not: it counts nowhere) or
        not judged.

    Raises:
        UsageError: if nothing is judged, or for precision.
        NotFoundError: if a file of ids does not exist.
        CollectionError: if it is malformed.

    Examples:
        >>> result = review_leakage(read_annotations(["ada.csv", "ben.csv"]))
        >>> for row in result.figures.where(figure="judged_pairs"):
        ...     print(row.group, row.slice, row.value)
        leaking all 2
        not all 0
    """
    _check_precision(precision)
    if not annotations.verdicts:
        raise UsageError("no pair of these sheets is judged; fill in the column label")
    labels = annotations.labels(LEAKS)
    unsettled = [pair for pair, label in labels.items() if label is None]
    counted = {pair: label for pair, label in labels.items() if label is not None}
    rows = list(_counts(counted, {name: _ids(ids) for name, ids in (subsets or {}).items()}))
    rows += agreements(annotations, _KAPPAS)
    lines = _notes_on_labels(counted, len(unsettled), len(annotations.unjudged))
    if any(pair.cosine is not None for pair in counted):
        curve = ThresholdCurve(counted)
        lowest = curve.lowest(precision)
        rows += [row for threshold in curve.round_thresholds() for row in curve.at(threshold)]
        rows += lowest
        lines += _notes_on_lowest(curve, lowest, precision)
    disputed = [verdicts[0].pair for verdicts in annotations.disputed()]
    return Result(
        "leakage-review",
        Figures(rows),
        {"precision": precision},
        DataInfo(),
        [Note(line) for line in lines],
        partial(tabulated, _TABLES),
        facts={
            "labels": [
                {"test_id": pair.test_id, "train_id": pair.train_id, "label": label}
                for pair, label in counted.items()
            ],
            "disputed": [[pair.test_id, pair.train_id] for pair in disputed],
            "unsettled": [[pair.test_id, pair.train_id] for pair in unsettled],
            "unjudged": len(annotations.unjudged),
        },
    )


def _ids(source: str | Path | Iterable[str]) -> frozenset[str]:
    if not isinstance(source, str | Path):
        return frozenset(source)
    findings = FindingLog()
    ids = frozenset(line.strip() for _, line in numbered_lines(Path(source), findings))
    findings.stop_if_any(CollectionError, f"{source} is no list of ids:")
    return ids


def _counts(labels: Mapping[Pair, str], subsets: Mapping[str, frozenset[str]]) -> Iterator[Figure]:
    """Yield how many pairs leak, in the layout of Table 2, and how many are of each type."""
    everything = frozenset(pair.test_id for pair in labels)
    for name, members in {**subsets, "all": everything}.items():
        for kind, leaks in (("leaking", True), ("not", False)):
            test_ids = [
                pair.test_id
                for pair, label in labels.items()
                if pair.test_id in members and (label != DIFFERENT) == leaks
            ]
            row = Figure("judged_pairs", group=kind, slice=name, value=len(test_ids))
            yield row
            yield row._replace(figure="judged_test_queries", value=len(set(test_ids)))
    counts = Counter(labels.values())
    for label in (*REFORMULATIONS, UNTYPED):
        if counts[label] or label in REFORMULATIONS:
            share = counts[label] / len(labels) if labels else None
            yield Figure("pairs_of_type", slice=label, value=counts[label])
            yield Figure("share_of_type", slice=label, value=share)


def _leaks(verdict: Verdict) -> bool:
    return LEAKS.label_of(verdict) != DIFFERENT


_KAPPAS: Mapping[str, Callable[[Verdict], Hashable]] = {
    "kappa_of_types": LEAKS.label_of,
    "kappa_as_given": attrgetter("chosen"),
    "kappa_of_leaking": _leaks,
}
_KAPPA_TITLES = dict(zip(_KAPPAS, ("types", "labels as given", "leaking or not"), strict=True))


def _notes_on_labels(labels: Mapping[Pair, str], unsettled: int, unjudged: int) -> list[str]:
    lines = []
    if unsettled:
        lines.append(
            f"unsettled pairs: {unsettled}, of which as many annotators say that they leak as that "
            "they do not; they count nowhere. --disputed writes a sheet of them; judge it together "
            "and give it back with the others"
        )
    if unjudged:
        lines.append(f"{unjudged} pairs of the sheets are not judged yet")
    cosines = [pair.cosine for pair in labels if pair.cosine is not None]
    if not cosines:
        return [*lines, "no pair that counts has a cosine, so there is no threshold to choose"]
    if without := len(labels) - len(cosines):
        lines.append(f"{without} pairs have no cosine; thresholds leave them out")
    below = sum(cosine <= PUBLISHED_THRESHOLD for cosine in cosines)
    return [
        *lines,
        "recall is that of judged pairs; intervals count other test queries, as the pairs of "
        "one query are not independent",
        f"{below} of {len(cosines)} pairs have a cosine of at most {PUBLISHED_THRESHOLD}, the "
        f"threshold of Fröbe et al.; the least is {min(cosines):.4f}",
    ]


def _notes_on_lowest(curve: ThresholdCurve, lowest: Figures, precision: float) -> list[str]:
    lines: list[str] = []
    for row, which, none in zip(
        lowest,
        (
            f"the lowest threshold with a precision of {precision:g}",
            f"the lowest whose precision has an interval from {precision:g} up",
        ),
        (
            f"no threshold has a precision of {precision:g}",
            f"no threshold has a precision whose interval begins at {precision:g} or above",
        ),
        strict=True,
    ):
        if row.value is None:
            return [*lines, none]
        ends = "" if row.interval is None else " [{:.4f}, {:.4f}]".format(*row.interval)
        pairs, _, of_pairs, _ = curve.at(row.value)
        in_words = f"{pairs.value:.0f} pairs of precision {_SHARE.text(of_pairs)}"
        lines.append(f"{which}: {row.value:.4f}{ends}, which keeps {in_words}")
    return lines


_SHARE = number(3, 3)

_TABLES: Sequence[TableSpec] = (
    (
        "judged pairs",
        {"slice": "test queries", "group": "candidates"},
        {"judged_pairs": ("pairs", COUNT), "judged_test_queries": ("of test queries", COUNT)},
    ),
    (
        "types of reformulation",
        {"slice": "type"},
        {"pairs_of_type": ("pairs", COUNT), "share_of_type": ("share", REL_LOSS)},
    ),
    agreement_table(_KAPPA_TITLES),
    (
        "precision and recall by threshold",
        {"slice": "kept"},
        {
            "kept_pairs": ("pairs", COUNT),
            "kept_leaking": ("leaking", COUNT),
            "precision": ("precision", _SHARE),
            "recall": ("recall", _SHARE),
        },
    ),
)
"""The counts in the layout of Table 2, the types, the agreement, and the thresholds."""
