"""What annotators' verdicts say together: the counts, their agreement, and the threshold.

Source: Fröbe et al., How Train-Test Leakage Affects Zero-Shot Retrieval (SPIRE 2022), section 3
and Table 2.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from msshift_bench.errors import CollectionError, FindingLog, UsageError
from msshift_bench.leakage.pair_labels import (
    DIFFERENT,
    REFORMULATIONS,
    UNTYPED,
    PairLabel,
    ReviewPair,
    read_pair_labels,
)
from msshift_bench.leakage.threshold_curve import LowestThreshold, ThresholdCurve, ThresholdPoint
from msshift_bench.output import Table, plain, report_head
from msshift_bench.plumbing import numbered_lines
from msshift_bench.stats import Agreement, ClusteredShare, annotator_agreement

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
        disputed: pairs to which annotators give several labels, and no agreed sheet one.
        unsettled: those of them on which as many annotators say that they leak as that they do
            not; they count nowhere.
        unjudged: pairs of the sheets that nobody judged.
        agreement: every two annotators who judged pairs in common.
        subsets: name -> the test queries' ids; ``all`` is all of them.
        curve: precision and recall by threshold; `None` if no pair has a cosine.
        lowest: the lowest threshold with the wanted precision, likewise.
    """

    labels: Mapping[ReviewPair, str]
    disputed: Sequence[Sequence[PairLabel]]
    unsettled: Sequence[Sequence[PairLabel]]
    unjudged: Sequence[ReviewPair]
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
                "them; judge it together and give it with --agreed"
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
    sheets: Sequence[str | Path],
    *,
    agreed: Sequence[str | Path] = (),
    subsets: Mapping[str, str | Path | Iterable[str]] | None = None,
    precision: float = 0.9,
    both: str = DIFFERENT,
) -> LeakageReview:
    """Merge what annotators say of candidates for leakage, and choose a threshold.

    Of a pair, the verdict in an agreed sheet counts; else whether it leaks is what most annotators
    say, and its type what most of those say who say the same. Where these have no type in common
    that is said most often, a pair that leaks is untyped.

    Args:
        sheets: the annotators' sheets; see `read_pair_labels`.
        agreed: sheets of pairs that annotators judged together; they are not part of the agreement.
        subsets: name -> ids of test queries, or a file of ids, one per line: counted apart.
        precision: what the pairs that the threshold keeps must have, above 0, at most 1.
        both: see `read_pair_labels`.

    Returns:
        The merged labels, the counts, the agreement, and the threshold.

    Raises:
        UsageError: if nothing is judged, agreed sheets differ in labels or texts, or for precision.
        NotFoundError: if a file does not exist.
        CollectionError: if sheets cannot be used; see `read_pair_labels`.
    """
    if not 0 < precision <= 1:
        raise UsageError(f"a precision of {precision:g}; give one above 0, at most 1")
    own, unjudged = read_pair_labels(sheets, both=both) if sheets else ([], [])
    together, still = read_pair_labels(agreed, both=both) if agreed else ([], [])
    if not own and not together:
        raise UsageError("no pair of these sheets is judged; fill in the column label")
    by_pair: dict[tuple[str, str], list[PairLabel]] = defaultdict(list)
    for verdict in own:
        by_pair[_key(verdict.pair)].append(verdict)
    settled = _settled(together)
    _check_same_texts([*(one.pair for one in own), *unjudged], settled)
    labels, disputed, unsettled = {}, [], []
    for key in dict.fromkeys([*by_pair, *settled]):
        label = settled[key].label if key in settled else _merged(by_pair[key])
        if key not in settled and len({one.label for one in by_pair[key]}) > 1:
            disputed.append(by_pair[key])
        if label is None:
            unsettled.append(by_pair[key])
        else:
            labels[(by_pair.get(key) or [settled[key]])[0].pair] = label
    left = [pair for pair in (*unjudged, *still) if _key(pair) not in by_pair.keys() | settled]
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
        disputed,
        unsettled,
        left,
        _agreements(own),
        {name: _ids(given) for name, given in (subsets or {}).items()} | {"all": everything},
        curve,
        None if curve is None else curve.lowest(precision),
    )


def _key(pair: ReviewPair) -> tuple[str, str]:
    return pair.test_id, pair.train_id


def _settled(together: Sequence[PairLabel]) -> dict[tuple[str, str], PairLabel]:
    found: dict[tuple[str, str], PairLabel] = {}
    for verdict in together:
        earlier = found.setdefault(_key(verdict.pair), verdict)
        if earlier.label != verdict.label:
            raise UsageError(
                f"the agreed sheets say {earlier.label} and {verdict.label} of the pair "
                f"{verdict.pair.test_id!r} and {verdict.pair.train_id!r}; keep one of them"
            )
    return found


def _check_same_texts(pairs: Iterable[ReviewPair], agreed: Mapping[Any, PairLabel]) -> None:
    """Check that what was judged together are the pairs that annotators judged."""
    for pair in pairs:
        other = agreed[_key(pair)].pair if _key(pair) in agreed else pair
        if (other.test_text, other.train_text) != (pair.test_text, pair.train_text):
            raise UsageError(
                f"the agreed sheets have other texts for the pair {pair.test_id!r} and "
                f"{pair.train_id!r}; give sheets of one search for candidates"
            )


def _merged(verdicts: Sequence[PairLabel]) -> str | None:
    """Return the label of a pair; `None` if as many say that it leaks as that it does not."""
    types = Counter(one.label for one in verdicts if one.label != DIFFERENT)
    leaking, different = types.total(), len(verdicts) - types.total()
    if leaking == different:
        return None
    if different > leaking:
        return DIFFERENT
    (label, most), *others = types.most_common(2)
    return UNTYPED if others and others[0][1] == most else label


def _agreements(verdicts: Sequence[PairLabel]) -> list[PairOfAnnotators]:
    said: dict[str, dict[tuple[str, str], PairLabel]] = defaultdict(dict)
    for verdict in verdicts:
        said[verdict.annotator][_key(verdict.pair)] = verdict
    found = []
    for first, second in combinations(sorted(said), 2):
        shared = [key for key in said[first] if key in said[second]]
        if not shared:
            continue
        clusters = [test_id for test_id, _ in shared]
        both = [[said[name][key] for key in shared] for name in (first, second)]
        types, leaking, given = (
            annotator_agreement([list(map(of, one)) for one in both], clusters)
            for of in (_label, _leaks, _given)
        )
        several = any("+" in one.given for verdicts in both for one in verdicts)
        found.append(PairOfAnnotators((first, second), types, leaking, given if several else None))
    return found


def _label(verdict: PairLabel) -> str:
    return verdict.label


def _leaks(verdict: PairLabel) -> bool:
    return verdict.label != DIFFERENT


def _given(verdict: PairLabel) -> str:
    return verdict.given or verdict.label


def _ids(given: str | Path | Iterable[str]) -> frozenset[str]:
    if not isinstance(given, str | Path):
        return frozenset(given)
    findings = FindingLog()
    ids = frozenset(line.strip() for _, line in numbered_lines(Path(given), findings))
    findings.stop_if_any(CollectionError, f"{given} is no list of ids:")
    return ids
