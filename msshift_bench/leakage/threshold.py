"""Review of leakage candidates: which pairs to judge, counts of labels, precision per threshold.

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
    LEAKAGE_QUESTION,
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
"""The cosine that Fröbe et al. chose for a precision of 0.9."""

_CERTAIN_TIERS = TIERS[:2]
"""The tiers that need no judgement: the texts are equal, or equal after normalisation."""

_SAMPLES = 1000
_MOST_ROWS = 21
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)


def pairs_to_judge(
    source: str | Path, *, per_test: int | None = 5, certain: bool = False
) -> list[Pair]:
    """Return the candidate pairs that annotators should judge.

    Args:
        source: the folder that `LeakageResult.write` wrote or its ``candidates.parquet``; or a
            sheet, filled or not, that `read_annotations` reads.
        per_test: the most pairs per test query, most similar first; `None` for all. Pairs without
            a cosine come first (equal words), or last if they only share a passage.
        certain: whether to include pairs with equal texts, or equal after normalisation.

    Returns:
        The pairs of each test query, test queries in the order of the source.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if the file is malformed.
        UsageError: if there is no pair to judge.
    """
    candidates = [
        pair for pair in _pairs_in(Path(source)) if certain or pair.found_by not in _CERTAIN_TIERS
    ]
    if not candidates:
        raise UsageError(
            f"there is no pair to judge without the tiers {' and '.join(_CERTAIN_TIERS)}; give "
            "--certain to include them"
        )
    by_test: dict[str, dict[str, Pair]] = {pair.test_id: {} for pair in candidates}
    # Several texts of a test query may match one training query: the nearest match is kept.
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
    """The precision and recall of every cosine threshold, with intervals over test queries.

    Args:
        labels: judged pair -> its label; pairs without a cosine are ignored.

    Raises:
        UsageError: if no pair has a cosine.
    """

    def __init__(self, labels: Mapping[Pair, str]) -> None:
        rows = sorted(
            (-pair.cosine, pair.test_id, label != DIFFERENT)
            for pair, label in labels.items()
            if pair.cosine is not None
        )
        if not rows:
            raise UsageError("no judged pair has a cosine; give sheets with the column cosine")
        distances, test_ids, leaks = zip(*rows, strict=True)
        places = {test_id: n for n, test_id in enumerate(sorted(set(test_ids)))}
        self._cosines: Floats = -np.array(distances, dtype=np.float64)
        self._leaks: Floats = np.array(leaks, dtype=np.float64)
        self._rows: Ints = np.array([places[test_id] for test_id in test_ids])
        self._queries = len(places)
        # A threshold keeps all pairs of an equal cosine: the last index of each cosine.
        self._ends: Ints = np.append(np.flatnonzero(np.diff(self._cosines)), len(rows) - 1)

    def at(self, threshold: float) -> Figures:
        """Count the pairs with a cosine of at least `threshold`.

        Args:
            threshold: the cosine.

        Returns:
            ``kept_pairs``, the number of these pairs; ``kept_leaking``, the number of them that
            leak; ``precision``, the share of them that leak; ``recall``, the share of all judged
            leaking pairs that are kept. Both shares have 95% intervals over test queries. Pairs
            without a judgement are ignored. A share of zero pairs has no value.
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
        """Return at most 22 even thresholds from the lowest to the highest cosine, rounded down."""
        low, high = float(self._cosines[-1]), min(float(self._cosines[0]), 1.0)
        step = next((s for s in _STEPS if (high - low) / s <= _MOST_ROWS - 1), _STEPS[-1])
        first, last = math.floor(low / step + 1e-9), math.floor(high / step + 1e-9)
        return [round(number * step, 2) for number in range(first, last + 1)]

    def lowest(self, precision: float = 0.9) -> Figures:
        """Return the lowest thresholds with a given precision.

        Args:
            precision: the precision, above 0 and at most 1.

        Returns:
            ``lowest_threshold``, with a 95% bootstrap interval over test queries. It is missing if
            more than 2.5% of the samples never reach the precision. Then
            ``lowest_sure_threshold``, the lowest threshold whose precision has an interval at or
            above `precision`. A threshold that does not exist has no value.

        Raises:
            UsageError: if the precision is out of range.
        """
        _check_precision(precision)
        threshold = self._lowest(np.ones(self._queries), precision)
        value = None if math.isinf(threshold) else threshold
        row = Figure("lowest_threshold", slice=f"precision of {precision:g}")
        sure = row._replace(figure="lowest_sure_threshold", value=self._lowest_sure(precision))
        return Figures([row.with_value(value, self._interval(precision)), sure])

    def _lowest(self, weights: Floats | Ints, precision: float) -> float:
        """Return the lowest threshold with at least a precision; inf if there is none.

        Each pair counts as often as the weight of its test query.
        """
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
        drawn = [self._lowest(counts, precision) for counts in weights]
        low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
        return None if math.isinf(high) else (float(low), float(high))

    def _lowest_sure(self, precision: float) -> float | None:
        # If the precision is too low, so is the lower end of its interval.
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
        raise UsageError(f"precision must be above 0 and at most 1, got {precision:g}")


def _share(row: Figure, hits: Floats, items: Floats) -> Figure:
    share = clustered_share(hits, items)
    return row if share is None else row.with_value(*share)


def review_leakage(
    annotations: Annotations,
    *,
    subsets: Mapping[str, str | Path | Iterable[str]] | None = None,
    precision: float = 0.9,
) -> Result:
    """Count the labels of leakage candidates, and find the lowest threshold with a precision.

    Args:
        annotations: verdicts from sheets with the question `LEAKAGE`; see `read_annotations`.
        subsets: name -> ids of test queries, or a file of ids, one per line; each is also counted
            separately.
        precision: the precision of the threshold, above 0 and at most 1.

    Returns:
        For each subset and ``all`` (column `slice`), the numbers of pairs that leak and do not leak
        (`group`), and of their test queries; the number of pairs of each type; the `agreements` on
        types, on combinations of chosen labels, and on leaking or not; the figures of
        `ThresholdCurve.at` for `ThresholdCurve.round_thresholds`, and of `ThresholdCurve.lowest`.

        The facts hold the label of every pair, the disputed pairs, the unsettled pairs and the
        number of unjudged pairs. In an unsettled pair, leaking and other labels are equally many;
        no figure counts it.

    Raises:
        UsageError: if no pair is judged, or `precision` is out of range.
        NotFoundError: if a file of ids does not exist.
        CollectionError: if a file of ids is malformed.

    Examples:
        >>> result = review_leakage(read_annotations(["ada.csv", "ben.csv"]))
        >>> for row in result.figures.where(figure="judged_pairs"):
        ...     print(row.group, row.slice, row.value)
        leaking all 2
        not all 0
    """
    _check_precision(precision)
    if not annotations.verdicts:
        raise UsageError("no pair of the sheets is judged; fill in the column label")
    labels = annotations.labels(LEAKAGE_QUESTION)
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
    findings.stop_if_any(CollectionError, f"{source} is not a list of ids:")
    return ids


def _counts(labels: Mapping[Pair, str], subsets: Mapping[str, frozenset[str]]) -> Iterator[Figure]:
    """Yield the numbers of leaking and other pairs, as in Table 2, and of pairs of each type."""
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
    return LEAKAGE_QUESTION.label_of(verdict) != DIFFERENT


_KAPPAS: Mapping[str, Callable[[Verdict], Hashable]] = {
    "kappa_of_types": LEAKAGE_QUESTION.label_of,
    "kappa_as_given": attrgetter("chosen"),
    "kappa_of_leaking": _leaks,
}
_KAPPA_TITLES = dict(zip(_KAPPAS, ("types", "labels as given", "leaking or not"), strict=True))


def _notes_on_labels(labels: Mapping[Pair, str], unsettled: int, unjudged: int) -> list[str]:
    lines = []
    if unsettled:
        lines.append(
            f"unsettled pairs: {unsettled}, with equally many labels for and against a leak; no "
            "figure counts them. --disputed writes a sheet of them: judge it together, and give it "
            "with the other sheets"
        )
    if unjudged:
        lines.append(f"{unjudged} pairs of the sheets are not judged")
    cosines = [pair.cosine for pair in labels if pair.cosine is not None]
    if not cosines:
        return [*lines, "no judged pair has a cosine: no threshold can be computed"]
    if without := len(labels) - len(cosines):
        lines.append(f"{without} pairs have no cosine; thresholds ignore them")
    below = sum(cosine <= PUBLISHED_THRESHOLD for cosine in cosines)
    return [
        *lines,
        "recall is over judged pairs; intervals are over test queries, as the pairs of one query "
        "are not independent",
        f"{below} of {len(cosines)} pairs have a cosine of at most {PUBLISHED_THRESHOLD}, the "
        f"threshold of Fröbe et al.; the lowest is {min(cosines):.4f}",
    ]


def _notes_on_lowest(curve: ThresholdCurve, lowest: Figures, precision: float) -> list[str]:
    lines: list[str] = []
    for row, title, missing in zip(
        lowest,
        (
            f"the lowest threshold with a precision of {precision:g}",
            f"the lowest threshold whose precision has an interval at or above {precision:g}",
        ),
        (
            f"no threshold has a precision of {precision:g}",
            f"no threshold has a precision with an interval at or above {precision:g}",
        ),
        strict=True,
    ):
        if row.value is None:
            return [*lines, missing]
        ends = "" if row.interval is None else " [{:.4f}, {:.4f}]".format(*row.interval)
        pairs, _, of_pairs, _ = curve.at(row.value)
        kept = f"{pairs.value:.0f} pairs of precision {_SHARE.text(of_pairs)}"
        lines.append(f"{title}: {row.value:.4f}{ends}, which keeps {kept}")
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
"""The tables of counts (as Table 2), types, agreement and thresholds."""
