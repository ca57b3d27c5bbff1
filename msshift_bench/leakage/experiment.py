"""The leakage experiment: its training sets, and the effect of leakage on effectiveness.

Training sets are made with and without leakage, in given sizes. All sets with leakage have the same
number of leaked instances. An instance is a query with one passage. Each query has two instances, a
relevant passage and another: a set of 1,000 instances has 500 queries.

Source: Fröbe et al. (SPIRE 2022), section 4, Tables 3 to 8 and Figure 2. For each kind of leakage
and measure, the training size for one fold of topics is chosen on the other four folds. Intervals
and tests cover topics and seeds; the paper's Student's t-tests are reported, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import DataInfo
from msshift_bench.errors import DataError, UsageError
from msshift_bench.evaluation import Note, Result, Section, parse_measure
from msshift_bench.output import P_VALUE, REL_LOSS, Format, Head, Table, heads_of, number, pivot
from msshift_bench.runs import Judgements, judge_run
from msshift_bench.sampling import keyed_hash, keyed_number
from msshift_bench.stats import Claim, Estimate, Figure, Figures, Inference, infer

LEAKAGE_KINDS = ("none", "leaked", "test")
"""The leaked training queries: none; queries that leak test topics; the test topics themselves."""

NO_LEAKAGE = LEAKAGE_KINDS[0]


@dataclass(frozen=True, slots=True)
class TrainingPair:
    """A query with a relevant passage and another passage: two training instances.

    Attributes:
        query_id: the id of the query or topic.
        text: its text.
        relevant: the doc_id of the relevant passage.
        other: the doc_id of a passage that is not known to be relevant.
        topic: the id of the test topic that it leaks; "" for none.
        planted: whether the query was made from the topic's words.
    """

    query_id: str
    text: str
    relevant: str
    other: str
    topic: str = ""
    planted: bool = False


def make_training_sets(
    sizes: Sequence[int],
    leaked: int,
    *,
    others: Sequence[TrainingPair],
    leaking: Sequence[TrainingPair],
    topics: Sequence[TrainingPair],
    seed: int = 0,
) -> Mapping[tuple[str, int], tuple[TrainingPair, ...]]:
    """Return (kind of leakage, size) -> a training set of size / 2 pairs (`TrainingPair`).

    Sets of both kinds with leakage have leaked / 2 leaking pairs at every size; pairs from `others`
    fill the rest. Pairs are drawn by keyed hash, so that a larger set includes the smaller ones.

    Args:
        sizes: numbers of instances, even.
        leaked: the number of leaked instances, even and at most the smallest size.
        others: pairs that do not leak.
        leaking: pairs of training queries that leak.
        topics: pairs of the test topics, at most two per topic.
        seed: the seed of the draw.

    Raises:
        UsageError: if a number is not even or below 2, or a size is below `leaked`.
        DataError: if there are too few pairs.
    """
    for size in (leaked, *sizes):
        if size < 2 or size % 2:
            raise UsageError(
                f"a number of instances must be even and at least 2, got {size}: each query has a "
                "relevant passage and another"
            )
        if size < leaked:
            raise UsageError(
                f"a training set of {size} instances cannot hold {leaked} leaked instances; give "
                "larger --sizes or a smaller --leaked"
            )
    filling = _drawn(others, max(sizes) // 2, "training queries that do not leak", seed)
    leaks = {
        "none": (),
        "leaked": _drawn(leaking, leaked // 2, "training queries that leak", seed),
        "test": _drawn(topics, leaked // 2, "pairs of test topics", seed),
    }
    return {
        (kind, size): (*pairs, *filling[: size // 2 - len(pairs)])
        for kind, pairs in leaks.items()
        for size in sizes
    }


def _drawn(
    pairs: Iterable[TrainingPair], count: int, kind: str, seed: int
) -> tuple[TrainingPair, ...]:
    """Return `count` pairs, the first by keyed hash; DataError if there are fewer."""

    def key(pair: TrainingPair) -> bytes:
        return keyed_hash(f"{pair.query_id}\t{pair.relevant}\t{pair.other}", f"{seed}/leak")

    ordered = tuple(sorted(pairs, key=key))
    if len(ordered) < count:
        raise DataError(
            f"the sets need {count} {kind}, got {len(ordered)}; give smaller --sizes or a "
            "smaller --leaked"
        )
    return ordered[:count]


EXPERIMENT_MEASURES = ("nDCG@10", "P@1", "MFR")
"""MFR is the mean first rank: the mean over topics of the first relevant passage's rank."""

ALL_TOPICS, LEAKING_TOPICS = "all topics", "leaking topics"
"""The values of the figures' column `slice`."""

_FOLDS = 5


@dataclass(frozen=True, slots=True)
class RerankedTopic:
    """A test topic, and the passages that models score for it.

    Attributes:
        query_id: the topic's id.
        text: its text.
        relevant: doc_id -> relevance, at least 1.
        doc_ids: BM25's first passages, then further leaked passages.
        candidates: the number of BM25's passages in `doc_ids`, at most `depth`.
        depth: the number of passages requested from BM25.
    """

    query_id: str
    text: str
    relevant: Mapping[str, int]
    doc_ids: tuple[str, ...]
    candidates: int
    depth: int

    def rank(self, scores: Floats, doc_id: str) -> int:
        """Return a passage's rank, 1 to `candidates` + 1: one more than the candidates above it.

        Passages with equal scores are ranked by doc_id, descending.

        Args:
            scores: the scores of `doc_ids`.
            doc_id: one of `doc_ids`.
        """
        passage = (scores[self.doc_ids.index(doc_id)], doc_id)
        ranking = zip(scores[: self.candidates], self.doc_ids[: self.candidates], strict=True)
        return 1 + sum(candidate > passage for candidate in ranking)


ExperimentScores = Mapping[tuple[str, str, int, int], Sequence[Floats]]
"""(system, kind, size, seed) -> for each topic, the scores of its `RerankedTopic.doc_ids`."""


def leakage_experiment(
    scores: ExperimentScores,
    topics: Sequence[RerankedTopic],
    leaks: Mapping[str, Sequence[TrainingPair]],
    facts: Mapping[str, Any],
) -> Result:
    """Compare the rankings of models trained with and without leakage.

    Args:
        scores: the models' scores.
        topics: the test topics.
        leaks: kind of leakage, without ``none`` -> its leaking pairs.
        facts: the experiment's settings, as JSON values: ``systems``, ``sizes`` (instances per
            training set), ``leaked`` (leaked instances per set), ``seeds``, ``depth`` and the
            counts in the notes.

    Returns:
        On all topics: the ``score`` of each measure and kind of leakage (column `model`), at the
        training size of the topic's fold (``chosen_size``), and the ``difference`` to no leakage.
        On the leaking topics: both figures at each size, and the leaked passages' ranks and scores
        with and without leakage. ``rank_offset`` is the increase, by leakage, of the distance in
        ranks from the relevant to the other passage. Means are over topics, sizes and seeds;
        deviations are over leaked pairs, sizes and seeds, as published.

    Raises:
        KeyError: if a model's scores, a leaking pair's topic or a setting is missing.
    """
    systems, sizes, seeds = (tuple(facts[name]) for name in ("systems", "sizes", "seeds"))
    rankings = {
        (system, kind): [[scores[system, kind, size, seed] for seed in seeds] for size in sizes]
        for system in systems
        for kind in LEAKAGE_KINDS
    }
    measured = {
        key: np.array([[_measures(topics, ranked) for ranked in by_seed] for by_seed in by_size])
        for key, by_size in rankings.items()
    }
    claims = list(_by_fold(measured, systems, sizes, [topic.query_id for topic in topics]))
    leaking = {pair.topic for pair in leaks[LEAKAGE_KINDS[1]]}
    is_leaking = np.array([topic.query_id in leaking for topic in topics])
    for system in systems:
        ndcg = {kind: measured[system, kind][:, :, is_leaking, 0] for kind in LEAKAGE_KINDS}
        claims += _by_size(system, sizes, facts["leaked"], ndcg)
    for system in systems:
        for kind, pairs in leaks.items():
            passages = [
                [[_places(topics, ranked, pairs) for ranked in by_seed] for by_seed in by_size]
                for by_size in (rankings[system, kind], rankings[system, NO_LEAKAGE])
            ]
            topic_of = np.array([pair.topic for pair in pairs])
            claims += _memorised(system, kind, sizes, np.array(passages), topic_of)
    inference = Inference()
    figures = Figures([*infer(claims, inference), *_published_tests(claims)])
    return Result(
        "leakage-experiment",
        figures,
        {"measures": EXPERIMENT_MEASURES, "confidence": inference.confidence},
        DataInfo(collection=str(facts.get("collection", ""))),
        [Note(text) for text in (*_notes(facts), *_swaps(figures))],
        partial(_layout, sizes),
        facts=facts,
    )


def _measures(topics: Sequence[RerankedTopic], ranked: Sequence[Floats]) -> Floats:
    """Return the `EXPERIMENT_MEASURES` of a model's rankings, shape ``[topics, measures]``.

    If no ranked passage is relevant, the first rank is `depth` + 1.
    """
    run = {
        topic.query_id: dict(zip(topic.doc_ids, scores[: topic.candidates].tolist(), strict=False))
        for topic, scores in zip(topics, ranked, strict=True)
        if topic.candidates
    }
    judged = judge_run(run, Judgements({topic.query_id: dict(topic.relevant) for topic in topics}))
    *measures, reciprocal = (
        parse_measure(name).per_query(judged) for name in (*EXPERIMENT_MEASURES[:2], "RR")
    )
    behind = np.array([topic.depth + 1.0 for topic in topics])
    first = np.divide(1, reciprocal, out=behind, where=reciprocal > 0)
    return np.stack([*measures, first.round()], axis=-1)


def _folds(query_ids: Iterable[str]) -> Ints:
    return np.array([keyed_number(name, "folds") % _FOLDS for name in query_ids])


def _by_fold(
    measured: Mapping[tuple[str, str], Floats],
    systems: Sequence[str],
    sizes: Sequence[int],
    query_ids: Sequence[str],
) -> Iterator[Claim]:
    """Yield the claims on all topics: scores, differences and the size chosen for each fold.

    `measured` is (system, kind) -> values ``[sizes, seeds, topics, measures]``.
    """
    folds = _folds(query_ids)
    for place, measure in enumerate(EXPERIMENT_MEASURES):
        for system in systems:
            scores: dict[str, Estimate] = {}
            for kind in LEAKAGE_KINDS:
                by_size = measured[system, kind][..., place]
                chosen, values = _choose(by_size, folds, lower=measure == "MFR")
                scores[kind] = Estimate.mean(values, system, ALL_TOPICS)
                row = _row("score", system, measure, kind, ALL_TOPICS, values)
                yield Claim(row, scores[kind])
                if kind != NO_LEAKAGE:
                    difference = scores[kind] - scores[NO_LEAKAGE]
                    family = measure, "systems x kinds of leakage"
                    yield Claim(row._replace(figure="difference"), difference, family)
                for fold, size in chosen.items():
                    row = row._replace(figure="chosen_size", group=f"fold {fold + 1}")
                    yield Claim(row._replace(queries=None, value=float(sizes[size])))


def _row(figure: str, system: str, measure: str, model: str, topics: str, values: Floats) -> Figure:
    """Return a figure without a value; its counts come from values ``[seeds, topics]``."""
    return Figure(
        figure,
        system=system,
        measure=measure,
        model=model,
        slice=topics,
        seeds=values.shape[0],
        queries=values.shape[1],
    )


def _choose(by_size: Floats, folds: Ints, *, lower: bool) -> tuple[dict[int, int], Floats]:
    """Return fold -> index of the size that is best on the other folds, and the chosen values.

    The chosen values ``[seeds, topics]`` are each topic's values at the size of its fold. Among
    equally good sizes, or for a single fold, the first is chosen.

    Args:
        by_size: values ``[sizes, seeds, topics]``.
        folds: the fold of each topic.
        lower: whether a lower value is better.
    """
    values, chosen = by_size[0].copy(), {}
    for fold in np.unique(folds).tolist():
        inside = folds == fold
        means = np.zeros(1) if inside.all() else by_size[:, :, ~inside].mean(axis=(1, 2))
        chosen[fold] = int(np.argmin(means) if lower else np.argmax(means))
        values[:, inside] = by_size[chosen[fold]][:, inside]
    return chosen, values


def _published_tests(claims: Sequence[Claim]) -> Figures:
    """Return the published tests of the differences: Student's t over topics, Bonferroni-corrected.

    The models are fixed: these p-values do not cover other seeds.
    """
    fixed = [
        claim._replace(
            figure=claim.figure._replace(figure="students_t"),
            estimate=claim.estimate.with_models_fixed(),
        )
        for claim in claims
        if claim.family and isinstance(claim.estimate, Estimate)
    ]
    return infer(fixed, Inference(correction="bonferroni"))


def _by_size(
    system: str, sizes: Sequence[int], leaked: int, ndcg: Mapping[str, Floats]
) -> Iterator[Claim]:
    """Yield the claims at each size: scores, differences and the leaked share (Figure 2).

    `ndcg` is kind -> nDCG@10 of the leaking topics, ``[sizes, seeds, topics]``.
    """
    measure = EXPERIMENT_MEASURES[0]
    for place, size in enumerate(sizes):
        none = Estimate.mean(ndcg[NO_LEAKAGE][place], system, LEAKING_TOPICS)
        for kind, by_size in ndcg.items():
            values, model = by_size[place], _trained_on(kind, [size])
            row = _row("score", system, measure, model, LEAKING_TOPICS, values)
            if kind == NO_LEAKAGE:
                yield Claim(row, none)
            else:
                difference = Estimate.mean(values, system, LEAKING_TOPICS) - none
                share = Figure("leaked_share", system=system, model=model, value=leaked / size)
                yield Claim(share._replace(slice=LEAKING_TOPICS))
                yield Claim(row._replace(figure="difference"), difference)


def _trained_on(kind: str, sizes: Sequence[int]) -> str:
    return f"{kind}, {' and '.join(map(str, sizes))} instances"


def _places(
    topics: Sequence[RerankedTopic], ranked: Sequence[Floats], pairs: Sequence[TrainingPair]
) -> list[tuple[float, float, float]]:
    """Return for each leaked pair the relevant passage's rank and score, and the other's rank."""
    by_id = {topic.query_id: (topic, scores) for topic, scores in zip(topics, ranked, strict=True)}
    places: list[tuple[float, float, float]] = []
    for pair in pairs:
        topic, scores = by_id[pair.topic]
        score = float(scores[topic.doc_ids.index(pair.relevant)])
        places.append((topic.rank(scores, pair.relevant), score, topic.rank(scores, pair.other)))
    return places


def _memorised(
    system: str, kind: str, sizes: Sequence[int], passages: Floats, topic_of: NDArray[np.str_]
) -> Iterator[Claim]:
    """Yield the claims on leaked passages, over all sizes and at each size (Tables 6 to 8).

    `passages` holds values with and without leakage, ``[2, sizes, seeds, pairs, (rank, score, rank
    of the other passage)]``; `topic_of` holds each pair's topic.
    """
    offsets = passages[..., 2] - passages[..., 0]
    values_of = {
        "rank_with": passages[0, ..., 0],
        "rank_without": passages[1, ..., 0],
        "score_with": passages[0, ..., 1],
        "score_without": passages[1, ..., 1],
        "rank_offset": offsets[0] - offsets[1],
    }
    for chosen in _together_and_each(sizes):
        model = _trained_on(kind, chosen)
        places = [sizes.index(size) for size in chosen]
        for figure, values in values_of.items():
            pair_values = values[places]
            topic_values = np.stack(
                [
                    pair_values[..., topic_of == topic].mean(axis=-1).mean(axis=0)
                    for topic in np.unique(topic_of)
                ],
                axis=-1,
            )
            row = _row(figure, system, "", model, LEAKING_TOPICS, topic_values)
            yield Claim(row, Estimate.mean(topic_values, system, LEAKING_TOPICS))
            yield Claim(row._replace(figure=f"{figure}_deviation", value=float(pair_values.std())))


def _together_and_each(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Return all sizes as one tuple, then each size alone."""
    return [tuple(sizes), *[(size,) for size in sizes]] if len(sizes) > 1 else [tuple(sizes)]


def _swaps(figures: Figures) -> list[str]:
    """Return a note for each system that its leakage lifts above a rival without leakage (Table 3).

    If there is none, the only note reports this.
    """
    scores = figures.where(figure="score", slice=ALL_TOPICS)
    value = {(row.measure, row.model, row.system): row.value or 0.0 for row in scores}
    swaps = []
    for measure in EXPERIMENT_MEASURES:
        sign = -1 if measure == "MFR" else 1
        for kind in LEAKAGE_KINDS[1:]:
            for system, rival in permutations(scores.names("system"), 2):
                without = sign * value[measure, NO_LEAKAGE, system]
                to_pass = sign * value[measure, NO_LEAKAGE, rival]
                if without < to_pass < sign * value[measure, kind, system]:
                    swaps.append(f"{measure}: {system} ({kind}) overtakes {rival} (none)")
    return swaps or ["no kind of leakage changes the order of two systems"]


def _notes(facts: Mapping[str, Any]) -> list[str]:
    depth = facts["depth"]
    return [
        f"{facts['topics']:,} test topics; {facts['leaked']:,} leaked instances in each set; "
        f"seeds {', '.join(map(str, facts['seeds']))}; epochs: {facts['epochs']}",
        f"leaked: {facts['leaking_pairs'] - facts['planted_pairs']:,} training queries with a "
        f"relevant passage each, and {facts['planted_pairs']:,} planted queries (a topic's words "
        "in another order)",
        f"test: of {facts['test_pairs']:,} pairs, {facts['judged_not_relevant']:,} have a "
        "passage judged not relevant; the others have one of BM25's first "
        f"{depth} that is not judged relevant",
        f"models re-rank BM25's first {depth}; MFR counts {depth + 1} if none of them is relevant",
        "difference: to none; intervals and rank offsets cover topics"
        + (" and seeds" if len(facts["seeds"]) > 1 else " only: one seed")
        + "; p (Student's t): the published test, over topics, with fixed models",
        "ranks, scores: mean and deviation; a leaked passage that BM25 did not retrieve is ranked "
        "by its score among BM25's passages",
    ]


def _layout(sizes: Sequence[int], figures: Figures) -> list[Section]:
    columns = [Head(("none",), {"figure": "score", "model": NO_LEAKAGE}, _SCORE)]
    for kind in LEAKAGE_KINDS[1:]:
        columns += [
            Head((kind,), {"figure": "score", "model": kind}, _SCORE),
            Head(("difference",), {"figure": "difference", "model": kind}, _DIFFERENCE),
            Head(("p (holm)",), {"figure": "difference", "model": kind}, P_VALUE),
            Head(("p (Student's t)",), {"figure": "students_t", "model": kind}, P_VALUE),
        ]
    tables = []
    for (measure,), part in figures.where(slice=ALL_TOPICS).each("measure"):
        title = f"{measure}, five-fold"
        tables.append(pivot(part, title, ["system"], heads_of(part, "system"), columns))
    leaking_figures = figures.where(slice=LEAKING_TOPICS)
    tables += [_size_table(sizes, leaking_figures), _passage_table(sizes, leaking_figures)]
    return [Section(tables)]


def _size_table(sizes: Sequence[int], figures: Figures) -> Table:
    models = {kind: [_trained_on(kind, [size]) for size in sizes] for kind in LEAKAGE_KINDS}
    rows = [
        Head((system, f"{size:,}"), {"system": system, "model": size_models})
        for system in figures.names("system")
        for size, size_models in zip(sizes, zip(*models.values(), strict=True), strict=True)
    ]
    columns = [
        Head(("share leaked",), {"figure": "leaked_share"}, REL_LOSS),
        Head(("none",), {"figure": "score"}, _SCORE),
    ]
    for kind in LEAKAGE_KINDS[1:]:
        where = {"figure": "difference", "model": tuple(models[kind])}
        columns.append(Head((f"{kind} - none",), where, _DIFFERENCE))
    title = "nDCG@10 by size, on the leaking topics"
    return pivot(figures, title, ["system", "instances"], rows, columns)


def _passage_table(sizes: Sequence[int], figures: Figures) -> Table:
    rows = [
        Head(
            (system, kind, "all" if len(chosen) > 1 else f"{chosen[0]:,}"),
            {"system": system, "model": _trained_on(kind, chosen)},
        )
        for system in figures.names("system")
        for kind in LEAKAGE_KINDS[1:]
        for chosen in _together_and_each(sizes)
    ]
    deviation_of = {(row.system, row.model, row.figure): row.value or 0.0 for row in figures}

    def text(figure: Figure) -> str:
        deviation = deviation_of[figure.system, figure.model, f"{figure.figure}_deviation"]
        return f"{figure.value:.2f} ± {deviation:.2f}"

    columns = [
        *(
            Head((name.replace("_", " "),), {"figure": name}, Format(text))
            for name in ("rank_with", "rank_without", "score_with", "score_without")
        ),
        Head(("increase of rank offset",), {"figure": "rank_offset"}, number(2, 2)),
    ]
    return pivot(figures, "Leaked passages", ["system", "leakage", "instances"], rows, columns)


_SCORE, _DIFFERENCE = number(3), number(3, 3, is_marked=True)
