"""What leakage does to effectiveness, and to the passages that leaked: an experiment's figures.

Source: Froebe et al. (SPIRE 2022), Tables 3 to 5 and Figure 2: the size of the training set is
chosen on four folds of the topics for the fifth, for each kind of leakage and measure. Beside the
paper's Student's t-tests stand intervals that count other topics and other seeds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.leakage.training_sets import KINDS_OF_LEAKAGE, NO_LEAKAGE
from msshift_bench.stats import Contributions, Interval, paired_tests

__all__ = [
    "EXPERIMENT_MEASURES",
    "Effectiveness",
    "ExperimentScores",
    "RerankedTopic",
    "SizeEffect",
    "effects_by_size",
    "effectiveness",
    "interval_of",
    "swaps",
]

EXPERIMENT_MEASURES = ("nDCG@10", "P@1", "MFR")
"""MFR is the mean first rank of a relevant passage, where less is better."""

_CUT = 10

_FOLDS = 5

_SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True)
class RerankedTopic:
    """A test topic, and the passages that models score for it.

    Attributes:
        query_id: the topic.
        text: its text.
        relevant: doc_id -> relevance, at least 1.
        doc_ids: BM25's first passages, then leaked passages that are not among them.
        candidates: how many of them are BM25's.
        depth: how many they are where BM25 finds enough.
    """

    query_id: str
    text: str
    relevant: Mapping[str, int]
    doc_ids: tuple[str, ...]
    candidates: int
    depth: int

    def rank(self, scores: Floats, doc_id: str) -> int:
        """Return the rank of a passage among the candidates, or behind those that are above it.

        Equal scores are ranked by doc_id, descending. The rank is one more than the number of
        candidates at most.
        """
        place = self.doc_ids.index(doc_id)
        own = (scores[place], doc_id)
        above = zip(scores[: self.candidates], self.doc_ids[: self.candidates], strict=True)
        return 1 + sum(one > own for one in above)

    def measure(self, scores: Floats) -> tuple[float, float, float]:
        """Return the `EXPERIMENT_MEASURES` of a ranking of the candidates."""
        found = zip(scores[: self.candidates], self.doc_ids[: self.candidates], strict=True)
        gains = [self.relevant.get(doc_id, 0) for _, doc_id in sorted(found, reverse=True)]
        ideal = _discounted(sorted(self.relevant.values(), reverse=True))
        first = next((rank for rank, gain in enumerate(gains, 1) if gain), self.depth + 1)
        return (
            _discounted(gains) / ideal if ideal else 0.0,
            float(bool(gains and gains[0])),
            float(first),
        )


def _discounted(gains: Sequence[int]) -> float:
    return float(sum(gain / np.log2(rank + 1) for rank, gain in enumerate(gains[:_CUT], 1)))


ExperimentScores = Mapping[tuple[str, str, int, int], Sequence[Floats]]
"""(system, kind, size, seed) -> for each topic, the scores of its `RerankedTopic.doc_ids`."""


@dataclass(frozen=True, slots=True)
class Effectiveness:
    """How effective a system is with one kind of leakage, and what that changes.

    Attributes:
        system: the system.
        kind: one of `KINDS_OF_LEAKAGE`.
        measure: one of `EXPERIMENT_MEASURES`.
        value: its mean over seeds and topics, each topic from the size that its fold chose.
        sizes: the sizes that the folds chose.
        difference: to the same without leakage; `None` for that itself.
        interval: of the difference, over topics, and over seeds where there are several.
        p: of Student's paired t-test on the topics' means, corrected by Bonferroni; 1 where
            nothing changed, and `None` below two topics, or where all changed by the same.
    """

    system: str
    kind: str
    measure: str
    value: float
    sizes: tuple[int, ...]
    difference: float | None = None
    interval: Interval | None = None
    p: float | None = None

    @property
    def is_significant(self) -> bool:
        """Whether `p` is at most 0.05."""
        return self.p is not None and self.p <= _SIGNIFICANCE


def effectiveness(
    scores: ExperimentScores,
    topics: Sequence[RerankedTopic],
    systems: Sequence[str],
    sizes: Sequence[int],
    seeds: Sequence[int],
    confidence: float = 0.95,
) -> list[Effectiveness]:
    """Return a figure per measure, system and kind of leakage.

    Bonferroni counts the comparisons of a measure: two for each system.
    """
    fold_of = np.array([_fold(topic.query_id) for topic in topics])
    measured = {
        key: np.array([topic.measure(one) for topic, one in zip(topics, found, strict=True)])
        for key, found in scores.items()
    }
    tests = len(systems) * (len(KINDS_OF_LEAKAGE) - 1)
    figures = []
    for number, measure in enumerate(EXPERIMENT_MEASURES):
        for system in systems:
            baseline: Floats | None = None
            for kind in KINDS_OF_LEAKAGE:
                by_size = np.array(
                    [
                        [measured[system, kind, size, seed][:, number] for seed in seeds]
                        for size in sizes
                    ]
                )
                chosen, values = _choose(by_size, fold_of, lower=measure == "MFR")
                figure = Effectiveness(
                    system,
                    kind,
                    measure,
                    float(values.mean()),
                    tuple(sizes[place] for place in chosen),
                )
                if kind == NO_LEAKAGE:
                    baseline = values
                else:
                    assert baseline is not None
                    figure = _compared(figure, values - baseline, tests, confidence)
                figures.append(figure)
    return figures


def _fold(query_id: str) -> int:
    digest = hashlib.blake2b(query_id.encode(), digest_size=8, key=b"folds").digest()
    return int.from_bytes(digest) % _FOLDS


def _choose(by_size: Floats, fold_of: Floats, *, lower: bool) -> tuple[list[int], Floats]:
    """Return the place of each fold's size, and the values ``[seeds, topics]`` at these sizes.

    Args:
        by_size: values ``[sizes, seeds, topics]``.
        fold_of: the fold of each topic.
        lower: whether a lower value is better. Of equal sizes, the first one counts.
    """
    values, chosen = by_size[0].copy(), []
    for fold in range(_FOLDS):
        inside = fold_of == fold
        if not inside.any():
            continue
        means = by_size[:, :, ~inside].mean(axis=(1, 2)) if not inside.all() else np.zeros(1)
        best = int(np.argmin(means) if lower else np.argmax(means))
        values[:, inside] = by_size[best][:, inside]
        chosen.append(best)
    return chosen, values


def _compared(
    figure: Effectiveness, differences: Floats, tests: int, confidence: float
) -> Effectiveness:
    of_topics = differences.mean(axis=0)
    mean = float(differences.mean())
    t_p = paired_tests(of_topics).t_p
    p = None if t_p is None else min(1.0, tests * t_p)
    if not of_topics.any():
        p = 1.0  # Nothing changed on any topic.
    return Effectiveness(
        figure.system,
        figure.kind,
        figure.measure,
        figure.value,
        figure.sizes,
        mean,
        interval_of(differences, confidence),
        p,
    )


def interval_of(values: Floats, confidence: float) -> Interval | None:
    """Return the interval of a mean of values ``[seeds, topics]``; `None` below two topics."""
    found = Contributions.of([values], float(np.abs(values).max(initial=0.0))).uncertainty()
    return None if found is None else found.interval(float(values.mean()), confidence)


@dataclass(frozen=True, slots=True)
class SizeEffect:
    """nDCG@10 of a system at one size, on some topics.

    Attributes:
        system: the system.
        size: the instances of the training set.
        share: the share of them that leak.
        none: nDCG@10 without leakage, the mean over seeds and topics.
        leaked: what training queries that leak add, and its interval.
        test: what the topics themselves add, and its interval.
    """

    system: str
    size: int
    share: float
    none: float
    leaked: tuple[float, Interval | None]
    test: tuple[float, Interval | None]


def effects_by_size(
    scores: ExperimentScores,
    topics: Sequence[RerankedTopic],
    systems: Sequence[str],
    sizes: Sequence[int],
    seeds: Sequence[int],
    leaked: int,
    confidence: float = 0.95,
) -> list[SizeEffect]:
    """Return what leakage changes at each size, on the topics that leak (Figure 2)."""
    found = []
    for system in systems:
        for size in sizes:
            none, *others = (
                np.array(
                    [
                        [
                            topic.measure(one)[0]
                            for topic, one in zip(
                                topics, scores[system, kind, size, seed], strict=True
                            )
                        ]
                        for seed in seeds
                    ]
                )
                for kind in KINDS_OF_LEAKAGE
            )
            with_leaks, with_tests = (
                (float((one - none).mean()), interval_of(one - none, confidence)) for one in others
            )
            share = leaked / size
            found.append(
                SizeEffect(system, size, share, float(none.mean()), with_leaks, with_tests)
            )
    return found


def swaps(figures: Sequence[Effectiveness]) -> list[tuple[str, str, str, str]]:
    """Return (measure, kind, system, overtaken): who is ahead only with leakage, as in Table 3.

    The other system has no leakage, and is ahead where the first has none either.
    """
    found = []
    value = {(one.measure, one.kind, one.system): one.value for one in figures}
    systems = list(dict.fromkeys(one.system for one in figures))
    for measure in EXPERIMENT_MEASURES:
        sign = -1 if measure == "MFR" else 1
        for kind in KINDS_OF_LEAKAGE[1:]:
            for one in systems:
                for other in systems:
                    ahead = sign * value[measure, NO_LEAKAGE, other]
                    before = sign * value[measure, NO_LEAKAGE, one]
                    if before < ahead < sign * value[measure, kind, one]:
                        found.append((measure, kind, one, other))
    return found
