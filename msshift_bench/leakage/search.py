"""Find the training queries that may leak a test set.

Source: Fröbe et al., How Train-Test Leakage Affects Zero-shot Retrieval (SPIRE 2022), section 3.
They search the 100 nearest training queries of each topic's title, description and variants,
exactly, by the cosine of Sentence-BERT. A training query with a cosine of at least 0.91 leaks.
"""

from __future__ import annotations

import heapq
import html
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from msshift_bench.arrays import Vectors
from msshift_bench.data import problem_of_id, sha256_of
from msshift_bench.encoders import (
    DIMENSIONS,
    OWN,
    TERMS,
    EncoderSpec,
    choose_encoder,
    sign_vectors,
    term_matrix,
)
from msshift_bench.errors import CollectionError, DataError, FindingLog, NotFoundError, UsageError
from msshift_bench.leakage.found import (
    NEAR_TIER,
    PASSAGE_TIER,
    TIERS,
    LeakageResult,
    LeakedPair,
    TierCount,
)
from msshift_bench.plumbing import (
    UTF8_BOM,
    DamagedInputError,
    numbered_lines,
    open_stream,
    report_progress,
    slices,
    values_by_key,
)
from msshift_bench.records import Qrel
from msshift_bench.runs import Judgements, read_qrels
from msshift_bench.sampling import keyed_hash
from msshift_bench.search import normalise, sorted_words, warn_of_words
from msshift_bench.similarity import (
    NearestQueries,
    QueryColumns,
    QuerySource,
    check_same_texts,
    embed_texts,
    queries_by_passage,
    read_query_set,
    relevant_passages,
)
from msshift_bench.words import words_fact

THRESHOLDS: Mapping[str, float] = {TERMS: 0.9, "": 0.91}
"""Encoder -> the lowest cosine of near-duplicates; ``""`` is for all other encoders."""

_BLOCK = 131_072
"""The number of training queries embedded at once."""

_SAMPLE = 200_000
"""The most training texts in which words are counted: the texts with the smallest hashes."""

_STEP = 64
"""Weights of words are multiples of 1/64, so that every sum is exact in any order."""

_OTHER_QRELS = (
    "the qrels of the {0} queries do not match: none of their {1:,} queries is among the {2:,} "
    "{0} queries; give the qrels of these queries"
)

_Qrels = str | Path | Iterable[Qrel]

_Match = tuple[str, float | None, str]
"""A tier, the cosine (only for near-duplicates), and the training query's text."""


def find_leakage(
    train: QuerySource,
    test: QuerySource,
    *,
    encoder: str | EncoderSpec = TERMS,
    pooling: str = OWN,
    threshold: float | None = None,
    nearest: int = 100,
    qrels: tuple[_Qrels, _Qrels] | None = None,
    separate_ids: bool = False,
    words: str = "whitespace",
) -> LeakageResult:
    """Find the training queries that may leak a test set; docs/leakage.md explains the tiers.

    Training queries are embedded in blocks: memory holds their texts and one block of vectors. The
    result does not depend on the block size, the number of threads or the order of lines.

    Args:
        train: the training queries: a file of query_id, tab, text; or queries in memory, e.g. a
            mapping query_id -> text.
        test: the test queries, likewise. A file may have a third column with the kind of a topic's
            text (title, description, variant), or hold TREC topics.
        encoder: an id of the Hugging Face Hub, a folder, or ``terms``, which needs no model; or an
            `EncoderSpec` with settings.
        pooling: the pooling of tokens for an encoder given by name: ``own`` for a model of
            sentence-transformers, ``cls`` or ``mean``; ``terms`` has none.
        threshold: the lowest cosine of near-duplicates, above 0 and at most 1; by default 0.9 for
            ``terms`` and 0.91 for other encoders.
        nearest: the most near-duplicates per text of a test query, at least 1.
        qrels: the judgements of the training queries and of the test queries, each a file or rows.
        separate_ids: whether the two sets have separate ids, so that equal ids do not mean the same
            query.
        words: how texts are divided into words (`WORDS`).

    Returns:
        The pairs and their counts.

    Raises:
        NotFoundError: if there is no such file or encoder.
        MissingExtraError: if the encoder's libraries are not installed.
        CollectionError: if a file is malformed; it lists every such line. Also if a query in memory
            has no text or two texts, or an id that is not a string.
        DataError: if a query in both sets has two texts or a query has no token. Also if qrels hold
            no query of their set.
        UsageError: if an option has a wrong value, or a source is a pipe or a folder.

    Examples:
        >>> found = find_leakage("train.tsv", {"8": "Who is pope?", "9": "how old is rome"})
        >>> for pair in found.pairs:
        ...     print(pair.train_id, pair.test_id, pair.tier)
        1 8 same-normalised
    """
    spec = choose_encoder(encoder, pooling=pooling, words=words)
    least = THRESHOLDS.get(spec.name, THRESHOLDS[""]) if threshold is None else threshold
    if not 0 < least <= 1:
        raise UsageError(f"threshold must be a cosine above 0 and at most 1, got {least}")
    if nearest < 1:
        raise UsageError(f"nearest must be at least 1, got {nearest}")
    train_qrels, test_qrels = qrels or (None, None)
    sources = {"train": train, "test": test, "train_qrels": train_qrels, "test_qrels": test_qrels}
    described = {name: _described(source) for name, source in sources.items()}
    topics, training = read_topics(test), read_query_set(train)
    texts_of = {
        test_id: [topic.text for topic in group]
        for test_id, group in groupby(topics, lambda topic: topic.test_id)
    }
    if not separate_ids:
        check_same_texts(
            training,
            texts_of,
            "give queries of one collection, or --separate-ids (in Python, separate_ids) if equal "
            "ids do not mean the same query",
        )
    shared = {} if qrels is None else _shared_passages(*qrels, texts_of, training)
    test_texts = sorted({topic.text for topic in topics})
    vectors, embed, encoder_facts = _embed_tests(test_texts, spec, training.texts)
    near = NearestQueries(vectors, most=nearest, least=least)
    for part in slices(len(training), _BLOCK):
        block = list(zip(training.ids[part], training.texts[part], strict=True))
        place_of = {text: place for place, text in enumerate(sorted(set(training.texts[part])))}
        rows = np.array([place_of[text] for _, text in block], dtype=np.int64)
        near.meet(block, embed(list(place_of)), rows)
        report_progress("compare", part.stop, len(training))
    by_words = values_by_key((sorted_words(text, words), text) for text in test_texts)
    matches: dict[str, dict[str, _Match]] = {text: {} for text in test_texts}
    for train_id, train_text in training:
        for text in by_words.get(sorted_words(train_text, words), ()):
            matches[text][train_id] = (_tier_of_words(text, train_text, words), None, train_text)
    for text, neighbours in zip(test_texts, near.found, strict=True):
        for distance, train_id, train_text in neighbours:
            matches[text].setdefault(train_id, (NEAR_TIER, min(1.0, -distance), train_text))
    pairs = _strictest(topics, matches)
    pairs += [
        LeakedPair(test_id, train_id, PASSAGE_TIER, None, texts_of[test_id][0], train_text)
        for train_id, train_text in dict(training).items()
        for test_id in shared.get(train_id, ())
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
    return LeakageResult(
        tuple(sorted(pairs, key=lambda pair: (*pair[:2], TIERS.index(pair.tier)))),
        len(training),
        fields,
        {
            **described,
            "encoder": encoder_facts,
            "threshold": least,
            "nearest": nearest,
            "separate_ids": separate_ids,
            **words_fact(words),
        },
        tuple(texts_of),
    )


def _tier_of_words(text: str, train_text: str, words: str) -> str:
    """Return the tier of two texts with the same words."""
    if text == train_text:
        return TIERS[0]
    return TIERS[1] if normalise(text, words) == normalise(train_text, words) else TIERS[2]


def _embed_tests(
    test_texts: Sequence[str], spec: EncoderSpec, train_texts: Sequence[str]
) -> tuple[Vectors, Callable[[Sequence[str]], Vectors], Mapping[str, object]]:
    """Return the test texts' vectors, a function that embeds training texts, and encoder facts.

    `test_texts` are distinct and sorted. The encoder ``terms`` counts the words of `train_texts`.
    """
    if spec.name == TERMS:
        warn_of_words(test_texts, spec.words)
        space = WordSpace(train_texts, spec.words)
        return space.vectors(test_texts), space.vectors, space.facts
    embedded = embed_texts(test_texts, spec)
    return embedded.vectors, lambda texts: embed_texts(texts, spec).vectors, embedded.facts


def _shared_passages(
    train_qrels: _Qrels, test_qrels: _Qrels, test_ids: Collection[str], training: QueryColumns
) -> dict[str, list[str]]:
    """Return train_id -> ids of the test topics that share a relevant passage with it; may be `[]`.

    Raises:
        DataError: if qrels hold no query of their set.
    """
    relevant = {"test": _relevant(test_qrels), "training": _relevant(train_qrels)}
    known_ids = {"test": test_ids, "training": set(training.ids)}
    for kind, judged in relevant.items():
        if judged and judged.keys().isdisjoint(known_ids[kind]):
            raise DataError(_OTHER_QRELS.format(kind, len(judged), len(known_ids[kind])))
    test_passages = {name: docs for name, docs in relevant["test"].items() if name in test_ids}
    topics_of = queries_by_passage(test_passages)
    return {
        train_id: sorted({topic for doc_id in docs for topic in topics_of.get(doc_id, ())})
        for train_id, docs in relevant["training"].items()
    }


def _relevant(qrels: _Qrels) -> dict[str, set[str]]:
    if isinstance(qrels, str | Path):
        return relevant_passages(read_qrels(qrels), 1)
    rows = list(qrels)
    Judgements.from_qrels(rows)  # for its checks
    return relevant_passages(rows, 1)


def _strictest(
    topics: Iterable[TopicText], matches: Mapping[str, Mapping[str, _Match]]
) -> list[LeakedPair]:
    """Return each pair of a topic and a training query once: its strictest, then nearest match."""
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
    """Return a file's name and digest, "in memory" for other sources, `None` for no source.

    A missing file raises a NotFoundError, a pipe or a folder a UsageError.
    """
    if not isinstance(source, str | Path):
        return None if source is None else "in memory"
    path = Path(source)
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is a pipe or a folder; give a file, which can be read twice")
    if not path.exists():
        raise NotFoundError(f"no file {path}; give an existing file")
    return {"name": path.name, "sha256": sha256_of(path)}


class WordSpace:
    """Vectors of texts from their words: the encoder ``terms`` in the search for leakage.

    A word's vector holds 1 and -1, derived from its hash. A text's vector is the sum of its words'
    vectors, weighted by inverse document frequency. Dot products approximate the products of sparse
    word vectors, with less noise near a cosine of 1 (random projection; Achlioptas, JCSS 66, 2003).

    The term vectors for topics (`msshift_bench.encoders`) also bring words with common neighbours
    closer. Leakage must not use that step: "hometown of X" and "teacher of X" would become equal.

    Args:
        texts: the texts whose words are counted, in any order.
        words: how texts are divided into words (`WORDS`).

    Attributes:
        facts: the settings that determine a text's vector, as JSON values.
    """

    def __init__(self, texts: Iterable[str], words: str = "whitespace") -> None:
        sample = _sample(texts)
        self._texts, self._words = len(sample), words
        self._frequency = Counter(
            word for text in sample for word in set(normalise(text, words).split())
        )
        self.facts: dict[str, object] = {
            "encoder": "terms",
            "weight": "idf",
            "turns": 0,
            "dimensions": DIMENSIONS,
            "counted_in": self._texts,
        }

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return a vector for each text, shape (texts, dimensions), not scaled to length 1.

        A word in no counted text has the weight of a word in one text. A text without words has a
        vector of zeros.
        """
        words_of = [set(normalise(text, self._words).split()) for text in texts]
        vocabulary = sorted(set().union(*words_of))
        weights = np.array([self._weight(word) for word in vocabulary]).reshape(-1, 1)
        vectors: Vectors = term_matrix(words_of, vocabulary) @ (sign_vectors(vocabulary) * weights)
        return vectors.astype(np.float32)

    def _weight(self, word: str) -> float:
        frequency = self._frequency.get(word, 0) or 1
        return float(round(_STEP * math.log((self._texts + 1) / frequency)))


def _sample(texts: Iterable[str]) -> list[str]:
    """Return the distinct texts, sorted; at most `_SAMPLE`, with the smallest hashes."""
    sample: set[tuple[bytes, str]] = set()
    highest = b"\xff" * 8
    for text in texts:
        digest = keyed_hash(text, size=8)
        if digest <= highest:
            sample.add((digest, text))
        if len(sample) == 2 * _SAMPLE:
            sample = set(heapq.nsmallest(_SAMPLE, sample))
            highest, _ = max(sample)
    return sorted(text for _, text in heapq.nsmallest(_SAMPLE, sample))


_FIELDS = {
    "title": "title",
    "query": "query",
    "content": "query",
    "topic": "query",
    "question": "question",
    "desc": "description",
    "description": "description",
}
"""Tag of a topic of TREC, CLEF or NTCIR (SGML or XML) -> kind of text; narratives are not compared.
``<topic number="1">`` itself may hold a text, as in the clinical tracks."""

_IDS = ("num", "number", "qid", "identifier")
"""Tags of a topic's id, if its first tag has no attribute ``number`` or ``id``."""

_STARTS = ("top", "topic", "query")
"""The first tags of a topic. A ``query`` with content but without an id attribute is a text."""

_LABEL = re.compile(r"^(Number|Topic|Description)\s*:\s*", re.IGNORECASE)
_TAG = re.compile(
    r"<([a-z][\w-]*)(\s[^<>]*)?>(.*?)(?=</?[a-z!][^<>]*>|\Z)", re.DOTALL | re.IGNORECASE
)
_NO_END = re.compile(
    r"<!--.*?-->|<!\[CDATA\[|\]\]>|</?(?:b|i|u|em|strong|sub|sup)>", re.DOTALL | re.IGNORECASE
)
"""Markup that is removed before tags are read, because it does not end a text."""

_ID_IN_TAG = re.compile(r"\b(?:number|id)\s*=\s*[\"']([^\"']*)[\"']", re.IGNORECASE)
_MOST_TOPIC_BYTES = 1 << 26
_PEEK = 4096


class TopicText(NamedTuple):
    """One text of a test topic; a topic may have a title, a description and variants.

    Attributes:
        test_id: the topic's id.
        text: the text.
        field: the kind of text: ``title``, ``description``, or any other word; ``query`` if topics
            have one text.
    """

    test_id: str
    text: str
    field: str = "query"


def read_topics(source: QuerySource) -> tuple[TopicText, ...]:
    """Return the texts of test queries or topics, sorted by id, text and kind of text.

    A file holds tab-separated lines of query_id and text, or of query_id, text and field; with a
    field, an id may have several lines. A file may also hold topics in SGML or XML: their titles,
    queries, questions and descriptions are read.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if a file is malformed, holds no query, repeats a text, or holds a topic
            without text.
        DataError: if a source in memory holds no query.
    """
    if not isinstance(source, str | Path):
        queries = read_query_set(source)
        return tuple(sorted(map(TopicText, queries.ids, queries.texts)))
    path, findings = Path(source), FindingLog()
    topics = _trec_texts(path, findings) if _is_trec(path) else _columns(path, findings)
    line_of: dict[TopicText, int] = {}
    for line, topic in topics:
        if not topic.test_id:
            findings.add("empty-id", "the query_id is empty", str(path), line)
        elif problem := problem_of_id("query_id", topic.test_id):
            code, message, fix = problem
            findings.add(code, message, str(path), line, fix)
        elif not topic.text.strip():
            findings.add("empty-text", f"query {topic.test_id!r} has no text", str(path), line)
        elif topic in line_of:
            message = f"query {topic.test_id!r} has the same text in line {line_of[topic]}"
            findings.add("repeated-text", message, str(path), line, "keep one of the lines")
        else:
            line_of[topic] = line
    if not line_of and not len(findings):
        fix = "give topics with a title, query, question or desc, or lines of query_id, tab, text"
        findings.add("no-queries", "the file holds no query", str(path), 0, fix)
    findings.stop_if_any(CollectionError, f"the test queries in {path} cannot be used:")
    return tuple(sorted(line_of))


def _columns(path: Path, findings: FindingLog) -> Iterator[tuple[int, TopicText]]:
    """Yield line number and text of tab-separated lines with as many columns as the first.

    Other lines are added to `findings`.
    """
    columns = 0
    known: set[str] = set()
    for number, line in numbered_lines(path, findings):
        fields = line.split("\t")
        columns = columns or len(fields)
        if len(fields) != columns or columns not in (2, 3):
            wanted = "2 (query_id, text) or 3 (query_id, text, field)"
            if columns in (2, 3):
                wanted = f"{columns}, as in the first line,"
            message = f"{len(fields)} tab-separated fields where {wanted} were expected"
            fix = "one text per line, fields separated by single tabs; or give TREC topics"
            findings.add("field-count", message, str(path), number, fix)
        elif columns == 2 and fields[0] in known:
            message = f"query_id {fields[0]!r} is in an earlier line, too"
            fix = "give each of a topic's texts a third column that names it, such as title"
            findings.add("repeated-id", message, str(path), number, fix)
        elif columns == 3 and len(fields[2].split()) != 1:
            message = f"the field must be one word, got {fields[2]!r}"
            findings.add("bad-field", message, str(path), number, "write a word such as title")
        else:
            known.add(fields[0])
            yield number, TopicText(*fields)


def _is_trec(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with open_stream(path) as stream:
            return stream.read(_PEEK).removeprefix(UTF8_BOM).lstrip().startswith(b"<")
    except DamagedInputError:  # reported when its lines are read
        return False


def _trec_texts(path: Path, findings: FindingLog) -> Iterator[tuple[int, TopicText]]:
    """Yield line number and text of topics. Tags need not be closed: a text ends at any tag.

    If the file cannot be read, there is only a finding.
    """
    try:
        with open_stream(path) as stream:
            stored = stream.read(_MOST_TOPIC_BYTES + 1)
        if len(stored) > _MOST_TOPIC_BYTES:
            message = f"a file of topics must have at most {_MOST_TOPIC_BYTES:,} bytes"
            findings.add("too-large", message, str(path), fix="give tab-separated lines")
            return
        text = _NO_END.sub(lambda match: "\n" * match[0].count("\n"), stored.decode("utf-8"))
    except (UnicodeDecodeError, DamagedInputError) as error:
        findings.add("not-utf8", f"the topics cannot be read: {error}", str(path))
        return
    test_id = ""
    for tag in _TAG.finditer(text):
        name = tag[1].lower()
        content = _LABEL.sub("", " ".join(html.unescape(tag[3]).split()))
        number = _ID_IN_TAG.search(tag[2] or "") if name in _STARTS else None
        if name in _STARTS and (number or not content or name != "query"):
            test_id = number[1] if number else ""
        if name in _IDS:
            test_id = content
        elif name in _FIELDS and (content or name not in _STARTS):
            line = text.count("\n", 0, tag.start()) + 1
            yield line, TopicText(test_id, content, _FIELDS[name])
