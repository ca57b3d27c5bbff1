"""The contract of everything that ranks: a plug-in's ``rank``, a ``search`` and a reranker.

A ranking maps doc_ids of the collection to finite scores. Each query of a run gets exactly one,
which is empty if nothing is found. Rankings that break the contract are refused: a query without a
ranking would be scored as if nothing were found for it.

The systems of this package make rankings from the rows of the collection, so that only the queries
of those are checked: a look at each doc_id takes as long as BM25's search.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.systems.searcher import best_of
from msshift_bench.baselines.systems.system import Run
from msshift_bench.errors import DataError, UsageError, quoted
from msshift_bench.plumbing import CHECKSUM
from msshift_bench.search import PassageIds, Ranking

_logger = logging.getLogger(__name__)

_PAIRS = "it must yield a pair (query_id, ranking) for each query of the run"

_SIDECAR = (
    *("schema", "baseline", "tag", "collection", "queries", "versions", "hardware", "seconds"),
    *("run_sha256", "queries_without_passages", CHECKSUM),
)
"""The keys of a sidecar that no fact may replace, besides those of the run's identity."""


def checked_rankings(run: Run, given: Any) -> Iterator[tuple[str, Ranking]]:
    """Yield what a system's ``rank`` returned, checked; record the queries of empty rankings.

    Args:
        run: the run, whose queries were ranked for.
        given: pairs of a query_id and its ranking, or a mapping.

    Raises:
        UsageError: if it is neither, or the system wrote a fact under a key of the sidecar.
        DataError: if a query has no ranking or two, a ranking breaks the contract, or all rankings
            are empty.
    """
    pairs = given.items() if isinstance(given, Mapping) else given
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise UsageError(f"rank of {run.system.name} returned {quoted(given)}; {_PAIRS}")
    left = {row.query_id: True for row in run.queries}
    is_ours = type(run.system).__module__.startswith("msshift_bench.")
    empty: list[str] = []
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise UsageError(f"rank of {run.system.name} yielded {quoted(pair)}; {_PAIRS}")
        query_id, ranking = pair
        if not left.get(query_id):
            problem = "has two rankings" if query_id in left else "is no query of this run"
            raise DataError(
                f"{run.name}: {quoted(query_id)} {problem}; yield exactly one ranking for each of "
                "run.queries"
            )
        _check_facts(run)
        left[query_id] = False
        checked = ranking if is_ours else checked_ranking(ranking, query_id, run.passage_ids())
        if not checked:
            empty.append(query_id)
        yield query_id, checked
    _check_facts(run)
    if missing := [query_id for query_id, is_left in left.items() if is_left]:
        raise DataError(
            f"{run.name}: {len(missing)} of {len(left)} queries have no ranking, e.g. "
            f"{missing[0]!r}; yield an empty ranking, {{}}, for a query for which nothing is found"
        )
    if len(empty) == len(left):
        raise DataError(f"{run.name}: found no passage for any query; all rankings are empty")
    if empty:
        run.facts["queries_without_passages"] = sorted(empty)
        _logger.warning(
            "%s: nothing was retrieved for %d of %d queries, which count 0",
            *(run.name, len(empty), len(left)),
        )


def _check_facts(run: Run) -> None:
    for key in run.facts:
        if key in _SIDECAR or key in run.identity:
            raise UsageError(
                f"run.facts[{key!r}] would replace what the sidecar of {run.name} holds under "
                f"{key!r}; choose another key"
            )


def checked_ranking(
    given: Any, query_id: str, ids: PassageIds, depth: int | None = None
) -> Ranking:
    """Return a ranking in the order of all systems: by score, then doc_id, both descending.

    Args:
        given: doc_id -> score, or pairs of both.
        query_id: the query.
        ids: the doc_ids of the collection.
        depth: the most passages to keep; all by default.

    Raises:
        UsageError: if it is not made of doc_ids and scores.
        DataError: if a doc_id stands twice or is not in the collection, or a score is not finite.
    """
    where = f"the ranking of query {query_id!r}"
    try:
        pairs = list(given.items() if isinstance(given, Mapping) else given)
        doc_ids = [doc_id for doc_id, _ in pairs]
        with np.errstate(over="ignore"):
            scores = np.array([float(score) for _, score in pairs], np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"{where} must map doc_ids to scores, or be a list of pairs (doc_id, score): {error}"
        ) from error
    if strange := [doc_id for doc_id in doc_ids if not isinstance(doc_id, str)]:
        raise UsageError(
            f"{where} holds the doc_id {strange[0]!r} of type {type(strange[0]).__name__}; doc_ids "
            "are the collection's, as str"
        )
    if len(set(doc_ids)) < len(doc_ids):
        twice = next(doc_id for doc_id in doc_ids if doc_ids.count(doc_id) > 1)
        raise DataError(f"{where} holds the doc_id {twice!r} twice")
    rows = ids.rows(doc_ids)
    if None in rows:
        raise DataError(
            f"{where} holds the doc_id {doc_ids[rows.index(None)]!r}, which no passage of the "
            "collection has; rank the passages of the collection that the data set was built from"
        )
    check_scores(scores, doc_ids, where)
    return best_of(ids, np.array(rows, np.int64), scores, depth)


def check_scores(scores: npt.NDArray[np.float32], names: Sequence[str], where: str) -> None:
    """Check that a model or a plug-in gave each passage one finite score.

    Args:
        scores: the scores.
        names: what messages call each passage.
        where: where the scores are, for messages.

    Raises:
        DataError: if the numbers of scores and passages differ, or a score is not finite.
    """
    if scores.shape != (len(names),):
        raise DataError(
            f"{where} holds scores of shape {scores.shape} for {len(names)} passages; each passage "
            "needs one score"
        )
    for row in np.flatnonzero(~np.isfinite(scores))[:1]:
        raise DataError(
            f"{where} holds the score {scores[row]} for {names[row]!r}, which is not finite in 32 "
            "bits"
        )
