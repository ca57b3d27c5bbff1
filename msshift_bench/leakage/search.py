"""Find the training queries that may leak a test set.

Source: Fröbe et al., How Train-Test Leakage Affects Zero-shot Retrieval (SPIRE 2022), section 3:
the 100 nearest training queries, exact, by the cosine of Sentence-BERT, of each topic's title,
description and variants; from a cosine of 0.91 on a training query counts as a leak.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from msshift_bench.arrays import Vectors
from msshift_bench.data import sha256_of
from msshift_bench.encoders import (
    DIMENSIONS,
    OWN,
    TERMS,
    Embeddings,
    EncoderSpec,
    embed_queries,
    incidence,
    sign_vectors,
)
from msshift_bench.errors import DataError, UsageError
from msshift_bench.leakage.found import (
    NEAR_TIER,
    PASSAGE_TIER,
    TIERS,
    FoundLeakage,
    LeakedPair,
    TierCount,
)
from msshift_bench.leakage.queries import TopicText, TrainingStream, read_topics
from msshift_bench.records import Qrel
from msshift_bench.runs import Judgements, read_qrels
from msshift_bench.search import normalise, sorted_words
from msshift_bench.similarity import NearestQueries, QuerySource

__all__ = ["THRESHOLDS", "WordSpace", "find_leakage"]

THRESHOLDS: Mapping[str, float] = {TERMS: 0.9, "": 0.91}
"""Encoder -> the cosine from which on queries are near-duplicates; ``""`` for all others."""

_BLOCK = 131_072
"""Training queries in memory at once."""

_SAMPLE = 200_000
"""Training texts that words are counted in; of more, those with the smallest hashes."""

_STEP = 64
"""Weights of words are whole numbers of 1/64, so that every sum is exact in any order."""

_OTHER_QRELS = (
    "the qrels of the {0} queries are of others: none of the {1:,} queries that they judge is "
    "among the {2:,} {0} queries; give the qrels of these queries"
)

_Qrels = str | Path | Iterable[Qrel]

_Match = tuple[str, float | None, str]
"""A tier, the cosine that it needs, and the training query's text."""


def find_leakage(
    train: QuerySource,
    test: QuerySource,
    *,
    encoder: str = TERMS,
    pooling: str = OWN,
    threshold: float | None = None,
    nearest: int = 100,
    qrels: tuple[_Qrels, _Qrels] | None = None,
    separate_ids: bool = False,
) -> FoundLeakage:
    """Find the training queries that may leak a test set; docs/leakage.md explains the tiers.

    Training queries are read in blocks, so that memory does not grow with them. Neither the size
    of blocks, nor the number of threads, nor the order of lines changes what is found.

    Args:
        train: the training queries: a file of query_id, tab, text, or what `set_similarity` takes.
        test: the test queries likewise; a file may also have a third column that names a topic's
            texts (title, description, variant), or hold TREC topics.
        encoder: an id of the Hugging Face Hub, a folder, or ``terms``, which needs no model.
        pooling: how the encoder pools tokens: ``own`` for a model of sentence-transformers, ``cls``
            or ``mean``; ``terms`` has none.
        threshold: the cosine from which on queries are near-duplicates, above 0 and at most 1;
            by default 0.9 for ``terms`` and 0.91 for others.
        nearest: how many training queries count as near-duplicates of a text at most, at least 1.
        qrels: the relevant passages of the training queries, and those of the test queries: each a
            file, or judgements.
        separate_ids: whether the two sets number their queries each in its own way, so that an id
            in both means nothing.

    Returns:
        The pairs, and what was counted.

    Raises:
        NotFoundError: if there is no such file or encoder.
        MissingExtraError: if the encoder's libraries are not installed.
        CollectionError: if a file is malformed, with every such line; or if an id in memory is no
            string, or a query there has no text or two.
        DataError: if a query that is in both sets has two texts, or one has no token.
        UsageError: if an option makes no sense, or the training queries are a pipe.

    Examples:
        >>> found = find_leakage("train.tsv", {"8": "Who is pope?", "9": "how old is rome"})
        >>> for pair in found.pairs:
        ...     print(pair.train_id, pair.test_id, pair.tier)
        1 8 same-normalised
    """
    least = THRESHOLDS.get(encoder, THRESHOLDS[""]) if threshold is None else threshold
    if not 0 < least <= 1:
        raise UsageError(f"threshold is {least}; a cosine above 0 and at most 1 is needed")
    if nearest < 1:
        raise UsageError(f"nearest is {nearest}; it must be 1 or more")
    topics = read_topics(test)
    texts_of = {
        test_id: [topic.text for topic in group]
        for test_id, group in groupby(topics, lambda topic: topic.test_id)
    }
    shared, judged = ({}, set()) if qrels is None else _shared_passages(*qrels, texts_of)
    stream = TrainingStream(train)
    training = stream.checked({} if separate_ids else texts_of)
    test_texts = sorted({topic.text for topic in topics})
    vectors, embed, encoder_facts = _embed_tests(test_texts, encoder, pooling, training)
    near = NearestQueries(vectors, most=nearest, least=least)
    by_words: dict[str, list[str]] = {}
    for text in test_texts:
        by_words.setdefault(sorted_words(text), []).append(text)
    matches: dict[str, dict[str, _Match]] = {text: {} for text in test_texts}
    sharing: dict[str, str] = {}
    for block in stream.blocks(_BLOCK):
        place_of = {text: place for place, text in enumerate(sorted({q.text for q in block}))}
        rows = np.array([place_of[query.text] for query in block], dtype=np.int64)
        near.meet(block, embed(list(place_of)), rows)
        for train_id, train_text in block:
            for text in by_words.get(sorted_words(train_text), ()):
                matches[text][train_id] = (_tier_of_words(text, train_text), None, train_text)
            if train_id in shared:
                sharing[train_id] = train_text
        if not judged.isdisjoint(query.query_id for query in block):
            judged = set()
    if judged:
        raise DataError(_OTHER_QRELS.format("training", len(judged), stream.total))
    for text, neighbours in zip(test_texts, near.found, strict=True):
        for distance, train_id, train_text in neighbours:
            matches[text].setdefault(train_id, (NEAR_TIER, min(1.0, -distance), train_text))
    pairs = _strictest(topics, matches)
    pairs += [
        LeakedPair(test_id, train_id, PASSAGE_TIER, None, texts_of[test_id][0], train_text)
        for train_id, train_text in sharing.items()
        for test_id in shared[train_id]
    ]
    fields = {
        field: TierCount.of(
            (topic.test_id, train_id)
            for topic in topics
            if topic.field == field
            for train_id in matches[topic.text]
        )
        for field in sorted({topic.field for topic in topics})
    }
    train_qrels, test_qrels = qrels or (None, None)
    sources = {"train": train, "test": test, "train_qrels": train_qrels, "test_qrels": test_qrels}
    return FoundLeakage(
        tuple(sorted(pairs, key=lambda pair: (*pair[:2], TIERS.index(pair.tier)))),
        stream.total,
        fields,
        {
            **{name: _described(source) for name, source in sources.items()},
            "encoder": encoder_facts,
            "threshold": least,
            "nearest": nearest,
            "separate_ids": separate_ids,
        },
        tuple(texts_of),
    )


def _tier_of_words(text: str, train_text: str) -> str:
    """Return the tier of two texts of the same words."""
    if text == train_text:
        return TIERS[0]
    return TIERS[1] if normalise(text) == normalise(train_text) else TIERS[2]


def _embed_tests(
    test_texts: Sequence[str], encoder: str, pooling: str, training: Iterable[str]
) -> tuple[Vectors, Callable[[Sequence[str]], Vectors], Mapping[str, object]]:
    """Return the vectors of the test texts, what embeds training texts like them, and its facts.

    All `training` texts are read, and so checked; words are counted in them.
    """
    if encoder == TERMS:
        space = WordSpace(training)
        return space.vectors(test_texts), space.vectors, space.facts
    spec = EncoderSpec(encoder, pooling=pooling)

    def embeddings(texts: Sequence[str]) -> Embeddings:
        return embed_queries({text: text for text in texts}, spec)

    # An encoder that cannot be used is refused before millions of queries are read.
    embedded = embeddings(test_texts)
    for _ in training:
        pass
    return embedded.vectors, lambda texts: embeddings(texts).vectors, embedded.encoder_facts


def _shared_passages(
    train_qrels: _Qrels, test_qrels: _Qrels, test_ids: Collection[str]
) -> tuple[dict[str, list[str]], set[str]]:
    """Return train_id -> the test topics with which it shares a relevant passage, and judged ids.

    The judged ids are those of the training queries that have a relevant passage.
    """
    topics_of: dict[str, set[str]] = {}
    judged: set[str] = set()
    for test_id, doc_id in _relevant(test_qrels):
        judged.add(test_id)
        if test_id in test_ids:
            topics_of.setdefault(doc_id, set()).add(test_id)
    if judged and not topics_of:
        raise DataError(_OTHER_QRELS.format("test", len(judged), len(test_ids)))
    judged, shared = set(), dict[str, set[str]]()
    for train_id, doc_id in _relevant(train_qrels):
        judged.add(train_id)
        if doc_id in topics_of:
            shared.setdefault(train_id, set()).update(topics_of[doc_id])
    return {train_id: sorted(sharing) for train_id, sharing in shared.items()}, judged


def _relevant(qrels: _Qrels) -> Iterable[tuple[str, str]]:
    """Return the queries with their relevant passages."""
    if isinstance(qrels, str | Path):
        return ((row.query_id, row.doc_id) for row in read_qrels(qrels) if row.relevance >= 1)
    judged = Judgements.from_qrels(qrels).judged  # which checks them
    return ((query, doc) for query, docs in judged.items() for doc in docs if docs[doc] >= 1)


def _strictest(
    topics: Iterable[TopicText], matches: Mapping[str, Mapping[str, _Match]]
) -> list[LeakedPair]:
    """Return each pair of a topic and a training query once: the strictest and nearest match."""
    pairs = [
        LeakedPair(topic.test_id, train_id, tier, cosine, topic.text, text)
        for topic in topics
        for train_id, (tier, cosine, text) in matches[topic.text].items()
    ]
    pairs.sort(key=_strictness, reverse=True)
    return list({pair[:2]: pair for pair in pairs}.values())


def _strictness(pair: LeakedPair) -> tuple[int, float, str]:
    return TIERS.index(pair.tier), -(pair.cosine or 0.0), pair.test_text


def _described(source: object) -> object:
    """Return a source's name and digest; of what is in memory, nothing is known."""
    if isinstance(source, str | Path):
        return {"name": Path(source).name, "sha256": sha256_of(Path(source))}
    return None if source is None else "in memory"


class WordSpace:
    """Vectors of texts made from their words alone: the encoder `terms`, where leaks are sought.

    A text is the sum of its words, each weighted by its inverse document frequency; a word is a
    vector of 1 and -1 that its hash gives, so that a dot product is that of the sparse vectors of
    words, with noise that shrinks near a cosine of 1 (random projection; Achlioptas, JCSS 66,
    2003). The topics' term vectors (`msshift_bench.encoders`) go on and bring words that share
    neighbours near each other. That is wrong here: "hometown of X" and "teacher of X" would become
    one query.

    Args:
        texts: the texts whose words are counted, in any order.

    Attributes:
        facts: what decides a text's vector, as JSON values.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        sample = _sample(texts)
        self._texts = len(sample)
        self._frequency = Counter(word for text in sample for word in set(normalise(text).split()))
        self.facts: dict[str, object] = {
            "encoder": "terms",
            "weight": "idf",
            "turns": 0,
            "dimensions": DIMENSIONS,
            "counted_in": self._texts,
        }

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return a vector for each text, shape (texts, dimensions), not scaled to length 1.

        A word that no counted text holds weighs as much as one of a single text.
        """
        words_of = [set(normalise(text).split()) for text in texts]
        vocabulary = sorted(set().union(*words_of))
        weights = np.array([self._weight(word) for word in vocabulary]).reshape(-1, 1)
        vectors: Vectors = incidence(words_of, vocabulary) @ (sign_vectors(vocabulary) * weights)
        return vectors.astype(np.float32)

    def _weight(self, word: str) -> float:
        frequency = self._frequency.get(word, 0) or 1
        return float(round(_STEP * math.log((self._texts + 1) / frequency)))


def _sample(texts: Iterable[str]) -> list[str]:
    """Return the distinct texts, or those with the smallest hashes where there are too many."""
    sample: set[tuple[bytes, str]] = set()
    highest = b"\xff" * 8
    for text in texts:
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        if digest <= highest:
            sample.add((digest, text))
        if len(sample) == 2 * _SAMPLE:
            sample = set(heapq.nsmallest(_SAMPLE, sample))
            highest, _ = max(sample)
    return sorted(text for _, text in heapq.nsmallest(_SAMPLE, sample))
