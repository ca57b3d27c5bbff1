"""Training queries that people may compare with test queries.

Source: Zhan et al. (CIKM 2022), section 3.2: BM25 and an embedding model each recall ten training
queries per test query.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from msshift_bench.annotation.labels import Pair
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.records import Passage
from msshift_bench.search import (
    Bm25,
    Bm25Parameters,
    PassageIds,
    Ranking,
    rankings_of,
    search_vectors,
)
from msshift_bench.similarity import (
    QueryColumns,
    QuerySource,
    check_same_texts,
    read_query_set,
    unit_rows,
)

__all__ = ["similar_pairs"]


def similar_pairs(
    train: QuerySource,
    test: QuerySource,
    encoder: EncoderSpec,
    *,
    per_test: int = 10,
) -> list[Pair]:
    """Return every test query with its candidates.

    These are the training queries that BM25 ranks first for it, and those whose embeddings have
    the highest cosine. A training query of the same id as the test query is left out.

    Args:
        train: the training queries.
        test: the test queries.
        encoder: the encoder.
        per_test: how many candidates each of the two recalls for a test query.

    Raises:
        NotFoundError: if there is no such file or encoder.
        CollectionError: if a file is malformed.
        DataError: if a query that is in both sets has two texts.
    """
    training, tested = read_query_set(train), read_query_set(test)
    check_same_texts(training, tested)
    text_of = dict(zip(training.ids, training.texts, strict=True))
    # One more than is wanted, as a test query may find itself.
    depth = per_test + 1
    index = Bm25(map(Passage, training.ids, training.texts), Bm25Parameters(depth=depth))
    by_words = index.search(tested.texts)
    by_vectors = _by_vectors(training, tested, encoder, depth)
    pairs = []
    for query, *rankings in zip(tested, by_words, by_vectors, strict=True):
        found_by: dict[str, list[str]] = {}
        for name, ranking in zip(("BM25", encoder.name), rankings, strict=True):
            for train_id in [doc_id for doc_id in ranking if doc_id != query.query_id][:per_test]:
                found_by.setdefault(train_id, []).append(name)
        pairs += [
            Pair(query.query_id, query.text, train_id, text_of[train_id], " and ".join(names))
            for train_id, names in found_by.items()
        ]
    return pairs


def _by_vectors(
    training: QueryColumns,
    tested: QueryColumns,
    encoder: EncoderSpec,
    depth: int,
) -> Iterable[Ranking]:
    texts = dict(training) | dict(tested)
    embeddings = embed_queries(texts, encoder)
    units = unit_rows(embeddings.vectors).astype(np.float32)
    row_of = {query_id: row for row, query_id in enumerate(embeddings.query_ids)}
    train, test = (units[[row_of[name] for name in part.ids]] for part in (training, tested))
    ids = PassageIds(training.ids)
    return rankings_of(search_vectors([train], test, ids, depth=depth), ids)
