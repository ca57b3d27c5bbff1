"""What became of leaked passages where they were in training, and where they were not.

Source: Froebe et al. (SPIRE 2022), Tables 6 to 8: a leaked passage has a rank among the re-ranked
ones, or a hypothetical one behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.leakage.leak_effects import ExperimentScores, RerankedTopic, interval_of
from msshift_bench.leakage.training_sets import NO_LEAKAGE, LearntPair
from msshift_bench.stats import Interval

__all__ = ["Memorised", "memorised"]


@dataclass(frozen=True, slots=True)
class Memorised:
    """What became of leaked passages where they were in training, and where they were not.

    Means are over topics, each counting alike, and over the sizes and seeds; deviations are over
    leaked pairs, sizes and seeds, as published.

    Attributes:
        system: the system.
        kind: the kind of leakage.
        sizes: the sizes of the training sets that count.
        topics: the topics with leaked pairs.
        pairs: the leaked pairs.
        rank: mean and deviation of the relevant passages' ranks, with leakage and without.
        score: those of their scores, likewise.
        offset: by how much more ranks the other passages are below the relevant ones with leakage.
        offset_deviation: its deviation.
        interval: of `offset`, over topics, and over seeds where there are several.
    """

    system: str
    kind: str
    sizes: tuple[int, ...]
    topics: int
    pairs: int
    rank: tuple[float, float, float, float]
    score: tuple[float, float, float, float]
    offset: float
    offset_deviation: float
    interval: Interval | None


def memorised(
    scores: ExperimentScores,
    topics: Sequence[RerankedTopic],
    leaks: Mapping[str, Sequence[LearntPair]],
    systems: Sequence[str],
    sizes: Sequence[int],
    seeds: Sequence[int],
    confidence: float = 0.95,
) -> list[Memorised]:
    """Return a figure per system and kind of leakage: of all sizes, then of each.

    Args:
        scores: the scores.
        topics: the test topics.
        leaks: kind -> its pairs that leak.
        systems: the systems.
        sizes: the sizes.
        seeds: the seeds.
        confidence: of the intervals.
    """
    places = {topic.query_id: place for place, topic in enumerate(topics)}
    together = [tuple(sizes), *((size,) for size in sizes)] if len(sizes) > 1 else [tuple(sizes)]
    figures = []
    for system in systems:
        for kind, pairs in leaks.items():
            where = np.array([places[pair.topic] for pair in pairs])
            found = np.array(
                [
                    [
                        [
                            _ranks_and_scores(scores[system, one, size, seed], topics, pairs)
                            for seed in seeds
                        ]
                        for one in (kind, NO_LEAKAGE)
                    ]
                    for size in sizes
                ]
            )  # [sizes, with or without, seeds, pairs, (rank, score, rank of the other)]
            for chosen in together:
                part = found[[sizes.index(size) for size in chosen]]
                figures.append(_memorised(system, kind, chosen, part, where, confidence))
    return figures


def _ranks_and_scores(
    scores: Sequence[Floats], topics: Sequence[RerankedTopic], pairs: Sequence[LearntPair]
) -> list[tuple[float, float, float]]:
    by_id = {topic.query_id: (topic, one) for topic, one in zip(topics, scores, strict=True)}
    found: list[tuple[float, float, float]] = []
    for pair in pairs:
        topic, own = by_id[pair.topic]
        score = float(own[topic.doc_ids.index(pair.relevant)])
        found.append((topic.rank(own, pair.relevant), score, topic.rank(own, pair.other)))
    return found


def _memorised(
    system: str,
    kind: str,
    sizes: tuple[int, ...],
    found: Floats,
    where: Floats,
    confidence: float,
) -> Memorised:
    distinct = np.unique(where)

    def by_topic(values: Floats) -> Floats:
        """Average ``[..., pairs]`` over the pairs of each topic."""
        return np.stack([values[..., where == topic].mean(axis=-1) for topic in distinct], axis=-1)

    def described(column: int) -> tuple[float, float, float, float]:
        kinds = (found[:, one, :, :, column] for one in (0, 1))
        means = [(float(by_topic(one).mean()), float(one.std())) for one in kinds]
        return (*means[0], *means[1])

    offsets = found[..., 2] - found[..., 0]
    increase = offsets[:, 0] - offsets[:, 1]  # [sizes, seeds, pairs]
    of_topics = by_topic(increase).mean(axis=0)
    return Memorised(
        system,
        kind,
        sizes,
        len(distinct),
        len(where),
        described(0),
        described(1),
        float(of_topics.mean()),
        float(increase.std()),
        interval_of(of_topics, confidence),
    )
