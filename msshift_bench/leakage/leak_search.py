"""Find the training queries that may leak a test set.

Source: Fröbe et al., How Train-Test Leakage Affects Zero-shot Retrieval (SPIRE 2022), section 3:
the 100 nearest training queries, exact, by the cosine of Sentence-BERT, of each topic's title,
description and variants; from a cosine of 0.91 on a training query counts as a leak.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from msshift_bench.arrays import Vectors
from msshift_bench.data import QueryColumns, sha256_of
from msshift_bench.encoders import OWN, TERMS, Embeddings, EncoderSpec, embed_queries
from msshift_bench.errors import UsageError
from msshift_bench.leakage.found import (
    NEAR_TIER,
    PASSAGE_TIER,
    TIERS,
    FoundLeakage,
    LeakedPair,
    TierCount,
)
from msshift_bench.leakage.near_duplicates import NearDuplicates
from msshift_bench.leakage.topic_texts import TopicText, read_topics
from msshift_bench.leakage.training_stream import TrainingStream
from msshift_bench.leakage.word_space import WordSpace
from msshift_bench.plumbing import Progress, silent
from msshift_bench.records import Qrel, Query
from msshift_bench.runs import Judgements, read_qrels
from msshift_bench.similarity import QuerySource, normalise, sorted_words

__all__ = ["THRESHOLDS", "find_leakage"]

THRESHOLDS: Mapping[str, float] = {TERMS: 0.9, "": 0.91}
"""Encoder -> the cosine from which on queries are near-duplicates; ``""`` for all others."""

_OF_TEXTS = ("queries", "distinct_texts", "sha256")
"""The facts of embeddings that say what was embedded, and not how."""

_BLOCK = 131_072
"""Training queries in memory at once."""

_Embed = Callable[[Sequence[str]], Vectors]

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
    train_qrels: str | Path | Iterable[Qrel] | None = None,
    test_qrels: str | Path | Iterable[Qrel] | None = None,
    separate_ids: bool = False,
    progress: Progress = silent,
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
        nearest: how many training queries count as near-duplicates of a text at most.
        train_qrels: the training queries' relevant passages: a file, or judgements.
        test_qrels: the test queries' relevant passages; give both or neither.
        separate_ids: whether the two sets number their queries each in its own way, so that an id
            in both means nothing.
        progress: called with the stages ``read`` and ``compare`` (training queries).

    Returns:
        The pairs, and what was counted.

    Raises:
        NotFoundError: if there is no such file or encoder.
        MissingExtraError: if the encoder's libraries are not installed.
        CollectionError: if a file is malformed, with every such line; or if an id in memory is no
            string, or a query there has no text or two.
        DataError: if a query that is in both sets has two texts, or one has no token.
        UsageError: if an option makes no sense, or the training queries are a pipe.
    """
    least = THRESHOLDS.get(encoder, THRESHOLDS[""]) if threshold is None else threshold
    if not 0 < least <= 1:
        raise UsageError(f"threshold is {least}; a cosine above 0 and at most 1 is needed")
    if nearest < 1:
        raise UsageError(f"nearest is {nearest}; it must be 1 or more")
    if (train_qrels is None) != (test_qrels is None):
        raise UsageError(
            "shared passages need the qrels of both sets: give train_qrels and test_qrels "
            "(--train-qrels and --test-qrels)"
        )
    topics = read_topics(test)
    shared = _shared_passages(train_qrels, test_qrels, {topic.test_id for topic in topics})
    stream = TrainingStream(train, progress=progress)
    distinct = sorted({topic.text for topic in topics})
    same_ids = {} if separate_ids else _texts_of(topics)
    vectors, embed, facts = _embed_tests(distinct, encoder, pooling, stream.checked(same_ids))
    search = NearDuplicates(vectors, least=least, most=nearest)
    exact = _ExactMatches(distinct)
    sharing: dict[str, str] = {}
    for block in stream.blocks(_BLOCK):
        texts = sorted({query.text for query in block})
        place_of = {text: place for place, text in enumerate(texts)}
        rows = np.array([place_of[query.text] for query in block], dtype=np.int64)
        search.meet(block, embed(texts), rows)
        exact.meet(block)
        sharing |= {query.query_id: query.text for query in block if query.query_id in shared}
    matches = {text: exact.found[text] for text in distinct}
    for text, neighbours in zip(distinct, search.found, strict=True):
        for distance, train_id, train_text in neighbours:
            near = (NEAR_TIER, min(1.0, -distance), train_text)
            matches[text].setdefault(train_id, near)
    pairs = _strictest(topics, matches)
    fields = {
        field: TierCount.of(
            (topic.test_id, train_id)
            for topic in topics
            if topic.field == field
            for train_id in matches[topic.text]
        )
        for field in sorted({topic.field for topic in topics})
    }
    first_text = {topic.test_id: topic.text for topic in reversed(topics)}
    pairs += [
        LeakedPair(test_id, train_id, PASSAGE_TIER, None, first_text[test_id], sharing[train_id])
        for train_id in sharing
        for test_id in shared[train_id]
    ]
    sources = {"train": train, "test": test, "train_qrels": train_qrels, "test_qrels": test_qrels}
    return FoundLeakage(
        tuple(sorted(pairs, key=lambda one: (one.test_id, one.train_id, TIERS.index(one.tier)))),
        len(first_text),
        len(stream),
        fields,
        {
            **{name: _described(source) for name, source in sources.items()},
            **facts,
            "threshold": least,
            "nearest": nearest,
            "separate_ids": separate_ids,
        },
    )


class _ExactMatches:
    """Test texts that meet training queries of the same words.

    Attributes:
        found: text -> train_id -> the match.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.found: dict[str, dict[str, _Match]] = {text: {} for text in texts}
        self._by_words: dict[str, list[tuple[str, str]]] = {}
        for text in texts:
            self._by_words.setdefault(sorted_words(text), []).append((text, normalise(text)))

    def meet(self, train: Iterable[Query]) -> None:
        """Compare with further training queries."""
        for train_id, text in train:
            for other, normalised in self._by_words.get(sorted_words(text), ()):
                tier = TIERS[2]
                if text == other:
                    tier = TIERS[0]
                elif normalise(text) == normalised:
                    tier = TIERS[1]
                self.found[other][train_id] = (tier, None, text)


def _texts_of(topics: Iterable[TopicText]) -> dict[str, set[str]]:
    texts: dict[str, set[str]] = {}
    for topic in topics:
        texts.setdefault(topic.test_id, set()).add(topic.text)
    return texts


def _embed_tests(
    distinct: Sequence[str], encoder: str, pooling: str, training: Iterable[str]
) -> tuple[Vectors, _Embed, dict[str, object]]:
    """Return the vectors of the test texts, what embeds training texts like them, and its facts.

    All `training` texts are read, and so checked; words are counted in them.
    """
    if encoder == TERMS:
        space = WordSpace(training)
        return space.vectors(distinct), space.vectors, {"encoder": space.facts}
    spec = EncoderSpec(encoder, pooling=pooling)

    def embeddings(texts: Sequence[str]) -> Embeddings:
        return embed_queries(QueryColumns(tuple(texts), tuple(texts)), spec)

    # An encoder that cannot be used is refused before millions of queries are read.
    found = embeddings(distinct)
    facts = {name: fact for name, fact in found.facts.items() if name not in _OF_TEXTS}
    for _ in training:
        pass
    return found.vectors, lambda texts: embeddings(texts).vectors, {"encoder": facts}


def _shared_passages(
    train_qrels: str | Path | Iterable[Qrel] | None,
    test_qrels: str | Path | Iterable[Qrel] | None,
    test_ids: Collection[str],
) -> dict[str, list[str]]:
    """Return train_id -> the test topics with which it shares a relevant passage."""
    if train_qrels is None or test_qrels is None:
        return {}
    topics_of: dict[str, set[str]] = {}
    for one in _judgements(test_qrels):
        if one.relevance >= 1 and one.query_id in test_ids:
            topics_of.setdefault(one.doc_id, set()).add(one.query_id)
    shared: dict[str, set[str]] = {}
    for one in _judgements(train_qrels):
        if one.relevance >= 1 and one.doc_id in topics_of:
            shared.setdefault(one.query_id, set()).update(topics_of[one.doc_id])
    return {train_id: sorted(test_ids) for train_id, test_ids in shared.items()}


def _judgements(qrels: str | Path | Iterable[Qrel]) -> Iterable[Qrel]:
    if isinstance(qrels, str | Path):
        return read_qrels(qrels)
    judged = Judgements.from_qrels(qrels).judged  # which checks them
    return (
        Qrel(query, doc, grade) for query, docs in judged.items() for doc, grade in docs.items()
    )


def _strictest(
    topics: Iterable[TopicText], matches: Mapping[str, Mapping[str, _Match]]
) -> list[LeakedPair]:
    """Return each pair of a topic and a training query once: the strictest and nearest match."""
    best: dict[tuple[str, str], tuple[tuple[int, float, str], LeakedPair]] = {}
    for topic in topics:
        for train_id, (tier, cosine, text) in matches[topic.text].items():
            order = (TIERS.index(tier), -(cosine or 0.0), topic.text)
            pair = (topic.test_id, train_id)
            if pair not in best or order < best[pair][0]:
                best[pair] = (order, LeakedPair(*pair, tier, cosine, topic.text, text))
    return [pair for _, pair in best.values()]


def _described(source: object) -> object:
    """Return a source's name and digest; of what is in memory, nothing is known."""
    if source is None or not isinstance(source, str | Path):
        return None if source is None else "in memory"
    return {"name": Path(source).name, "sha256": sha256_of(Path(source))}
