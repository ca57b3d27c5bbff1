"""What annotators' verdicts say together: the counts, their agreement, and the threshold.

Source: Fröbe et al., How Train-Test Leakage Affects Zero-Shot Retrieval (SPIRE 2022), section 3
and Table 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from msshift_bench.annotation import (
    DIFFERENT,
    LEAKS,
    REFORMULATIONS,
    UNTYPED,
    Annotations,
    Pair,
    Verdict,
)
from msshift_bench.errors import CollectionError, FindingLog, UsageError
from msshift_bench.leakage.threshold_curve import LowestThreshold, ThresholdCurve, ThresholdPoint
from msshift_bench.output import Table, plain, report_head
from msshift_bench.plumbing import numbered_lines
from msshift_bench.stats import Agreement, ClusteredShare

__all__ = ["CountedPairs", "LeakageReview", "PairOfAnnotators", "review_leakage"]

PUBLISHED_THRESHOLD = 0.91
"""What Fröbe et al. chose for a precision of 0.9."""


class CountedPairs(NamedTuple):
    """Pairs, and the test queries that they belong to.

    Attributes:
        pairs: how many.
        test_queries: how many.
    """

    pairs: int
    test_queries: int


@dataclass(frozen=True, slots=True)
class PairOfAnnotators:
    """Two annotators, and how far they agree on the pairs that both judged.

    Attributes:
        annotators: their names.
        types: their agreement on the types of reformulation.
        leaking: their agreement on whether a pair leaks.
        as_given: their agreement on labels where several that are given together are a label of
            their own; `None` where nobody gave several.
    """

    annotators: tuple[str, str]
    types: Agreement
    leaking: Agreement
    as_given: Agreement | None


@dataclass(frozen=True, slots=True, repr=False)
class LeakageReview:
    """What annotators say of candidates, merged.

    Attributes:
        labels: pair -> its label, of `REFORMULATIONS` or `UNTYPED`.
        disputed: pairs to which annotators give several labels, and agreed on none.
        unsettled: those of them on which as many annotators say that they leak as that they do
            not; they count nowhere.
        unjudged: pairs of the sheets that nobody judged.
        agreement: every two annotators who judged pairs in common.
        subsets: name -> the test queries' ids; ``all`` is all of them.
        curve: precision and recall by threshold; `None` if no pair has a cosine.
        lowest: the lowest threshold with the wanted precision, likewise.
    """

    labels: Mapping[Pair, str]
    disputed: Sequence[Sequence[Verdict]]
    unsettled: Sequence[Sequence[Verdict]]
    unjudged: Sequence[Pair]
    agreement: Sequence[PairOfAnnotators]
    subsets: Mapping[str, frozenset[str]]
    curve: ThresholdCurve | None
    lowest: LowestThreshold | None

    def __repr__(self) -> str:
        return f"<LeakageReview: {len(self.labels):,} pairs, {len(self.unsettled):,} unsettled>"

    def leaking(self, *, subset: str = "all", leaks: bool = True) -> CountedPairs:
        """Return how many pairs of a subset leak, or do not, and of how many test queries.

        Args:
            subset: a key of `subsets`.
            leaks: whether to count those that leak.
        """
        chosen = [
            pair.test_id
            for pair, label in self.labels.items()
            if pair.test_id in self.subsets[subset] and (label != DIFFERENT) == leaks
        ]
        return CountedPairs(len(chosen), len(set(chosen)))

    def types(self) -> dict[str, int]:
        """Return label -> how many pairs have it."""
        counts = Counter(self.labels.values())
        return {label: counts[label] for label in (*REFORMULATIONS, UNTYPED)}

    def at_most(self, threshold: float = PUBLISHED_THRESHOLD) -> CountedPairs:
        """Return how many pairs have no cosine above a threshold, and of how many test queries."""
        chosen = [
            pair.test_id
            for pair in self.labels
            if pair.cosine is not None and pair.cosine <= threshold
        ]
        return CountedPairs(len(chosen), len(set(chosen)))

    def tables(self) -> list[Table]:
        """Return the counts in the layout of Table 2, the agreement, and the thresholds."""
        made = [self._counts(), self._types()]
        if self.agreement:
            made.append(self._agreement())
        if self.curve is not None:
            rows = [_row(point) for point in self.curve.table()]
            header = ("cosine at least", "pairs", "leaking", "precision", "recall")
            made.append(Table.plain("precision and recall by threshold", header, rows))
        return made

    def _counts(self) -> Table:
        rows = [
            (subset, "leaking" if leaks else "not", *self.leaking(subset=subset, leaks=leaks))
            for subset in self.subsets
            for leaks in (True, False)
        ]
        header = ("test queries", "candidates", "pairs", "of test queries")
        return Table.plain("judged pairs", header, rows, names=2)

    def _types(self) -> Table:
        rows = [
            (label, count, f"{100 * count / len(self.labels):.1f}%" if self.labels else "-")
            for label, count in self.types().items()
            if count or label in REFORMULATIONS
        ]
        return Table.plain("types of reformulation", ("type", "pairs", "share"), rows)

    def _agreement(self) -> Table:
        rows = [
            (
                " and ".join(one.annotators),
                one.types.items,
                *map(_kappa, (one.types, one.as_given, one.leaking)),
            )
            for one in self.agreement
        ]
        header = ("annotators", "pairs", "types", "labels as given", "leaking or not")
        return Table.plain("agreement: Cohen's kappa [95% interval]", header, rows)

    def notes(self) -> list[str]:
        """Return what is to be known of the figures, one line each."""
        lines = []
        if self.unsettled:
            lines.append(
                f"unsettled pairs: {len(self.unsettled)}, of which as many annotators say that "
                "they leak as that they do not; they count nowhere. --disputed writes a sheet of "
                "them; judge it together and give it back with the others"
            )
        if self.unjudged:
            lines.append(f"{len(self.unjudged)} pairs of the sheets are not judged yet")
        if self.lowest is None:
            return [*lines, "no pair that counts has a cosine, so there is no threshold to choose"]
        cosines = [pair.cosine for pair in self.labels if pair.cosine is not None]
        if without := len(self.labels) - len(cosines):
            lines.append(f"{without} pairs have no cosine; thresholds leave them out")
        below = self.at_most().pairs
        lines += [
            "recall is that of judged pairs; intervals count other test queries, as the pairs of "
            "one query are not independent",
            f"{below} of {len(cosines)} pairs have a cosine of at most {PUBLISHED_THRESHOLD}, the "
            f"threshold of Fröbe et al.; the least is {min(cosines):.4f}",
        ]
        return lines + _about(self.lowest)

    def to_json(self) -> dict[str, Any]:
        """Return counts, labels, agreement and thresholds as plain JSON values."""
        return {
            **report_head(),
            "counts": {
                subset: {
                    name: self.leaking(subset=subset, leaks=leaks)._asdict()
                    for name, leaks in (("leaking", True), ("not", False))
                }
                for subset in self.subsets
            },
            "types": self.types(),
            "disputed": [[one[0].pair.test_id, one[0].pair.train_id] for one in self.disputed],
            "unsettled": [[one[0].pair.test_id, one[0].pair.train_id] for one in self.unsettled],
            "unjudged": len(self.unjudged),
            "agreement": plain(list(self.agreement)),
            "thresholds": plain(self.curve.table() if self.curve else []),
            "lowest": plain(self.lowest),
            "labels": [
                {"test_id": pair.test_id, "train_id": pair.train_id, "label": label}
                for pair, label in self.labels.items()
            ],
        }


def _kappa(one: Agreement | None) -> str:
    if one is None or one.kappa is None:
        return "-"
    if one.interval is None:
        return f"{one.kappa:.3f}"
    return f"{one.kappa:.3f} [{one.interval.low:.2f}, {one.interval.high:.2f}]"


def _shown(share: ClusteredShare | None) -> str:
    if share is None:
        return "-"
    ends = "" if share.interval is None else " [{:.3f}, {:.3f}]".format(*share.interval)
    return f"{share.value:.3f}{ends}"


def _row(point: ThresholdPoint) -> tuple[str, int, int, str, str]:
    threshold = f"{point.threshold:.2f}"
    return (threshold, point.pairs, point.leaking, _shown(point.precision), _shown(point.recall))


def _about(lowest: LowestThreshold) -> list[str]:
    wanted, point = f"{lowest.wanted:g}", lowest.point
    if point is None:
        return [f"no threshold has a precision of {wanted}"]
    ends = "-" if lowest.interval is None else "[{:.4f}, {:.4f}]".format(*lowest.interval)
    said = (
        f"the lowest threshold with a precision of {wanted}: {point.threshold:.4f} {ends}, which "
        f"keeps {point.pairs} pairs of precision {_shown(point.precision)}"
    )
    if lowest.sure is None:
        sure = f"no threshold has a precision whose interval begins at {wanted} or above"
    else:
        sure = (
            f"the lowest whose precision has an interval from {wanted} up: "
            f"{lowest.sure.threshold:.4f}, which keeps {lowest.sure.pairs} pairs of precision "
            f"{_shown(lowest.sure.precision)}"
        )
    return [said, sure]


def review_leakage(
    annotations: Annotations,
    *,
    subsets: Mapping[str, str | Path | Iterable[str]] | None = None,
    precision: float = 0.9,
) -> LeakageReview:
    """Merge what annotators say of candidates for leakage, and choose a threshold.

    Args:
        annotations: of sheets that ask for `LEAKAGE`; see `read_annotations`.
        subsets: name -> ids of test queries, or a file of ids, one per line: counted apart.
        precision: what the pairs that the threshold keeps must have, above 0, at most 1.

    Returns:
        The merged labels, the counts, the agreement, and the threshold.

    Raises:
        UsageError: if nothing is judged, or for precision.
        NotFoundError: if a file of ids does not exist.
        CollectionError: if it is malformed.
    """
    if not 0 < precision <= 1:
        raise UsageError(f"a precision of {precision:g}; give one above 0, at most 1")
    if not annotations.verdicts:
        raise UsageError("no pair of these sheets is judged; fill in the column label")
    verdicts = annotations.by_pair()
    every_label = annotations.labels(LEAKS)
    labels = {pair: label for pair, label in every_label.items() if label is not None}
    everything = frozenset(pair.test_id for pair in labels)
    with_cosine = [(pair, label) for pair, label in labels.items() if pair.cosine is not None]
    curve = None
    if with_cosine:
        curve = ThresholdCurve(
            [pair.cosine or 0.0 for pair, _ in with_cosine],
            [label != DIFFERENT for _, label in with_cosine],
            [pair.test_id for pair, _ in with_cosine],
        )
    return LeakageReview(
        labels,
        annotations.disputed(),
        [verdicts[pair] for pair, label in every_label.items() if label is None],
        annotations.unjudged,
        _agreements(annotations),
        {name: _ids(given) for name, given in (subsets or {}).items()} | {"all": everything},
        curve,
        None if curve is None else curve.lowest(precision),
    )


def _agreements(annotations: Annotations) -> list[PairOfAnnotators]:
    pairs = []
    for names in combinations(sorted(annotations.annotators), 2):
        types, leaking, as_chosen = (
            annotations.agreement(names, label_of) for label_of in (LEAKS.label_of, _leaks, _chosen)
        )
        several = any(
            "+" in verdict.chosen for verdict in annotations.verdicts if verdict.annotator in names
        )
        if types is not None and leaking is not None:
            pairs.append(PairOfAnnotators(names, types, leaking, as_chosen if several else None))
    return pairs


def _leaks(verdict: Verdict) -> bool:
    return LEAKS.label_of(verdict) != DIFFERENT


def _chosen(verdict: Verdict) -> str:
    return verdict.chosen


def _ids(given: str | Path | Iterable[str]) -> frozenset[str]:
    if not isinstance(given, str | Path):
        return frozenset(given)
    findings = FindingLog()
    ids = frozenset(line.strip() for _, line in numbered_lines(Path(given), findings))
    findings.stop_if_any(CollectionError, f"{given} is no list of ids:")
    return ids
