"""Texts for a user's own training code: training pairs, and candidates for early stopping.

Training queries, negatives and candidates are the same as the baselines'.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from msshift_bench.baselines.systems.lexical import Bm25System
from msshift_bench.baselines.systems.shift_data import ShiftData
from msshift_bench.baselines.systems.system import Run
from msshift_bench.baselines.training.trainer import choose_candidates
from msshift_bench.baselines.training.training_data import pair_examples, released_examples
from msshift_bench.data import Collection, Dataset, open_dataset, open_source
from msshift_bench.errors import DataError, UsageError, require
from msshift_bench.sampling import keyed_hash
from msshift_bench.shifts import DATASET_NAME, TRIPLES, parse_config


def training_pairs(
    config: str,
    data: Dataset | str | Path = DATASET_NAME,
    collection: Collection | str | Path | None = None,
    *,
    negatives: int | None = None,
    limit: int | None = None,
) -> Any:
    """Return the training texts of an experiment, for trainers of sentence-transformers.

    A row is a training query with one of its relevant passages in the collection. If the data set
    has triples (``msshift triples`` adds them), the row has negatives by default. No row has a
    query of the held-out group. The order depends on the ids alone, so the first rows are a sample
    of all.

    Args:
        config: the experiment, e.g. ``length-short``, where the short queries are held out.
        data: the built data set; see `open_dataset`.
        collection: the collection of the passages; by default the collection from which the data
            set was built.
        negatives: negatives in each row, the first of its triples; by default 1 if the data set has
            triples of the config, and 0 if not.
        limit: the most rows, at least 1; by default all.

    Returns:
        A `datasets.Dataset` of the columns ``anchor``, ``positive``, ``negative_1``,
        ``negative_2``, ...: texts. `MultipleNegativesRankingLoss` accepts it without changes.

    Raises:
        MissingExtraError: if the library datasets is not installed.
        NotFoundError: if there is no built data set, or its collection is not found.
        UnknownNameError: if the data set has no such config.
        UsageError: if the config is a complete shift, `collection` is another collection, or a row
            would have fewer negatives than `negatives`. Also if `negatives` is below 0, or `limit`
            below 1.
        DataError: if a training query is a test query of the held-out group. Also if the triples
            have queries that are not training queries, or passages that the collection lacks.

    Examples:
        >>> pairs = training_pairs("length-short", limit=100)
        >>> pairs.num_rows, pairs.column_names
        (100, ['anchor', 'positive'])
    """
    datasets = require("datasets", "neural", "a data set of training pairs")
    run = _open_experiment(config, data, collection)
    count = int(run.triples is not None) if negatives is None else negatives
    if count < 0 or (limit is not None and limit < 1):
        raise UsageError(
            f"negatives must be at least 0 and limit at least 1, got {negatives} and {limit}"
        )
    if count and not run.triples:
        raise UsageError(
            f"{open_dataset(data).folder} has no {config}{TRIPLES}, which negatives={count} needs; "
            "run 'msshift triples', or pass negatives=0"
        )
    if count and run.triples:
        examples = released_examples(run, run.triples, count)
    else:
        ids = run.passage_ids()
        run.count_missing(ids)
        examples = pair_examples(run, ids, [()] * len(run.train))
    rows = sorted(
        ((row.query_id, row.positive, *row.pool[:count]) for row in examples),
        key=lambda row: keyed_hash("\0".join(row[:2]), "pairs"),
    )[:limit]
    queries = {row.query_id: row.text for row in run.train}
    texts = _texts(run, {doc_id for row in rows for doc_id in row[1:]})
    names = ("positive", *(f"negative_{number}" for number in range(1, count + 1)))
    columns = {
        "anchor": [queries[row[0]] for row in rows],
        **{name: [texts[row[place]] for row in rows] for place, name in enumerate(names, 1)},
    }
    return datasets.Dataset(pa.table(columns))


class ValidationCandidates(NamedTuple):
    """Validation queries, and the candidate passages that a model ranks for them.

    Attributes:
        queries: query_id -> text.
        corpus: doc_id -> text, for the candidates of all queries.
        relevant_docs: query_id -> doc_ids of its relevant passages in the collection.
        candidates: query_id -> doc_ids of its candidates, sorted by doc_id, descending, not by
            score; they include its relevant passages.
    """

    queries: dict[str, str]
    corpus: dict[str, str]
    relevant_docs: dict[str, set[str]]
    candidates: dict[str, list[str]]

    def samples(self) -> list[dict[str, Any]]:
        """Return a mapping for each query: ``query``, its text; ``positive``, ``negative``: lists.

        They are the texts of the relevant candidates and of all others. `RerankingEvaluator` and
        `CrossEncoderRerankingEvaluator` of sentence-transformers accept the result.
        """
        return [
            {
                "query": self.queries[query_id],
                "positive": [self.corpus[doc_id] for doc_id in doc_ids if doc_id in relevant],
                "negative": [self.corpus[doc_id] for doc_id in doc_ids if doc_id not in relevant],
            }
            for query_id, doc_ids in self.candidates.items()
            for relevant in [self.relevant_docs[query_id]]
        ]


def validation_candidates(
    config: str,
    data: Dataset | str | Path = DATASET_NAME,
    collection: Collection | str | Path | None = None,
    *,
    queries: int = 500,
    depth: int = 100,
) -> ValidationCandidates:
    """Return validation queries and candidate passages, for the evaluators of a training.

    The queries are from the split ``validation``; queries without a relevant passage in the
    collection are left out. The candidates of a query are its relevant passages and BM25's first
    passages, as in the baselines' early stopping.

    Args:
        config: see `training_pairs`.
        data: see `training_pairs`.
        collection: see `training_pairs`.
        queries: the most queries, at least 1; they are chosen by their ids.
        depth: the number of BM25's first passages, at least 1.

    Returns:
        The queries and candidates. `InformationRetrievalEvaluator` accepts the first three
        attributes, and ranks all candidates for every query.

    Raises:
        MissingExtraError: if bm25s is not installed.
        NotFoundError, UnknownNameError: see `training_pairs`.
        UsageError: see `training_pairs`; also if `queries` or `depth` is below 1.
        DataError: if no validation query has a relevant passage in the collection. Also if a
            training query is a test query.

    Examples:
        >>> found = validation_candidates("length-short", queries=2, depth=10)
        >>> found.samples()[0].keys()
        dict_keys(['query', 'positive', 'negative'])
    """
    if queries < 1 or depth < 1:
        raise UsageError(f"queries and depth must be at least 1, got {queries} and {depth}")
    run = _open_experiment(config, data, collection)
    chosen = choose_candidates(run, run.bm25(), queries=queries, depth=depth)
    return ValidationCandidates(
        {row.query_id: row.text for row, _ in chosen},
        _texts(run, {doc_id for _, candidates in chosen for doc_id in candidates}),
        {row.query_id: {doc_id for doc_id in ids if ids[doc_id]} for row, ids in chosen},
        {row.query_id: list(ids) for row, ids in chosen},
    )


def _open_experiment(
    config: str, data: Dataset | str | Path, collection: Collection | str | Path | None
) -> Run:
    """Return a run with an experiment's queries, passages and triples; it writes no file.

    A complete shift is a UsageError.
    """
    dataset = open_dataset(data)
    shift, held_out = parse_config(config, dataset.shifts)
    if held_out is None:
        raise UsageError(
            f"{config!r} is a complete shift; give an experiment: {', '.join(shift.configs)}"
        )
    source = ShiftData.read(shift, dataset, open_source(dataset, collection))
    run = Run(
        name=config,
        system=Bm25System(),
        shift=shift,
        held_out=held_out,
        collection=source.collection,
        work=Path(),
        rows=cache(partial(source.split, held_out)),
        triples=source.triples(held_out),
        exclusions=dataset.exclusions,
        identity=source.identity,
    )
    source.check_disjoint(run.train, held_out)
    return run


def _texts(run: Run, doc_ids: set[str]) -> dict[str, str]:
    """Return doc_id -> text, sorted by doc_id; a DataError if the collection lacks a passage."""
    places = {doc_id: place for place, doc_id in enumerate(sorted(doc_ids))}
    texts = run.texts(places)
    if texts.null_count:
        raise DataError(
            f"{run.collection.name} lacks {texts.null_count} passages of the triples of {run.name};"
            " give the collection from which the triples were made, or make them again: msshift "
            "triples"
        )
    return dict(zip(places, texts.to_pylist(), strict=True))
