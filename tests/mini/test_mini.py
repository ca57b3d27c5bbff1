"""The generated collection: its bytes, its make-up, and that its judgements are true."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from string import ascii_lowercase

import pytest

from msshift_bench.errors import UsageError
from msshift_bench.mini import generator as mini
from msshift_bench.mini.generator import FACTS, KINDS, SYLLABLES
from msshift_bench.mini.words import SLOTS
from msshift_bench.records import Passage, Query
from tests.support.mini_rows import domains

CLASSES = {
    "what": "wha",
    "definition": "wha",
    "how": "how",
    "who": "who",
    "when": "who",
    "where": "who",
    "which": "who",
}
WHOLE_WORD = re.compile(rf"\b({'|'.join(CLASSES)})\b")


def digest(rows: Iterable[tuple[object, ...]]) -> str:
    sha = hashlib.sha256()
    for row in rows:
        sha.update(("\t".join(map(str, row)) + "\n").encode())
    return sha.hexdigest()


def question_words(text: str) -> list[str]:
    return WHOLE_WORD.findall(text.lower())


def group(text: str) -> str:
    words = question_words(text)
    return CLASSES[words[0]] if words else "none"


@pytest.fixture(scope="module")
def passages() -> list[Passage]:
    return list(mini.passages())


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    return list(mini.queries())


@pytest.mark.parametrize(
    ("size", "passages_digest", "queries_digest", "qrels_digest"),
    [
        (
            2000,
            "0a774d75c82da4c001086b4af665ba90c4911fb811f5626d5c2656cfaaca1c12",
            "5a396e382b9b1c3705e0cb285f144f90b65d22cfcdd9e8ad43c7d5ecb9b56de1",
            "c98b70c03be57ef180491573a1f49fb4c34290ab20ebd1152b74d0e9031f6c8b",
        ),
        (
            500,
            "3bc88fde6115f044f7f7c7a7c670255eb25c672335001ccbdf32e7667b8d9b0c",
            "6060b7a35bedce394b7735ff7632a7263dc4dd49e60623edae12a7f38dd3c18c",
            "589108fc152d211857c7b51ff4ba29f393396e184c0bdfcbea4f2d16615d52ba",
        ),
    ],
)
def test_the_collection_is_the_same_everywhere(
    size: int, passages_digest: str, queries_digest: str, qrels_digest: str
) -> None:
    assert digest(mini.passages(size)) == passages_digest
    assert digest(mini.queries(size)) == queries_digest
    assert digest(mini.qrels(size)) == qrels_digest


def test_query_ids_and_doc_ids_are_two_name_spaces(
    passages: list[Passage], queries: list[Query]
) -> None:
    shared = {passage.doc_id for passage in passages} & {query.query_id for query in queries}
    same = sum(qrel.query_id == qrel.doc_id for qrel in mini.qrels())
    assert len(shared) == 2000
    assert same >= 1000


def test_question_words_are_mixed_as_in_the_paper(queries: list[Query]) -> None:
    groups = Counter(group(query.text) for query in queries)
    assert groups == {"wha": 971, "who": 747, "none": 699, "how": 583}
    words = Counter(word for query in queries for word in question_words(query.text)[:1])
    assert set(words) == set(CLASSES)
    assert min(words.values()) >= 30


def test_a_few_queries_are_hard_to_group(queries: list[Query]) -> None:
    inside = [
        text
        for _, text in queries
        if not question_words(text) and any(word in text.lower() for word in CLASSES)
    ]
    double = [
        text for _, text in queries if len({CLASSES[word] for word in question_words(text)}) > 1
    ]
    assert 15 <= len(inside) <= 60
    assert 15 <= len(double) <= 60


def test_median_length_is_that_of_ms_marco(queries: list[Query]) -> None:
    lengths = sorted(len(query.text.split(" ")) for query in queries)
    assert lengths[len(lengths) // 2] == 6
    assert sum(length <= 5 for length in lengths) == 1200
    assert (lengths[0], lengths[-1]) == (3, 9)


def test_every_domain_asks_in_every_way_but_not_as_often(queries: list[Query]) -> None:
    domain_of = domains()
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for query_id, text in queries:
        table[domain_of[query_id]][group(text)] += 1
    assert tuple(sorted(table)) == tuple(sorted(mini.DOMAINS))
    for counts in table.values():
        assert 580 <= counts.total() <= 620
        assert min(counts[name] for name in ("wha", "how", "who", "none")) >= 60
    assert len({counts.most_common(1)[0][0] for counts in table.values()}) > 1


def test_domains_share_function_words_and_little_else(passages: list[Passage]) -> None:
    words: dict[str, set[str]] = defaultdict(set)
    for doc_id, text in passages:
        domain = mini.DOMAINS[int(doc_id) % len(mini.DOMAINS)]
        words[domain].update(text.lower().strip(".").replace(",", "").split())
    for one, other in itertools.combinations(mini.DOMAINS, 2):
        shared, together = words[one] & words[other], words[one] | words[other]
        assert {"the", "in", "of"} <= shared
        assert len(shared) < 0.25 * len(together)


def test_judgements_point_at_what_exists(passages: list[Passage], queries: list[Query]) -> None:
    doc_ids = {passage.doc_id for passage in passages}
    relevant: dict[str, list[str]] = defaultdict(list)
    for query_id, doc_id, relevance in mini.qrels():
        assert doc_id in doc_ids
        assert relevance == 1
        relevant[query_id].append(doc_id)
    assert list(relevant) == [query.query_id for query in queries]
    assert all(len(set(doc_ids)) == len(doc_ids) for doc_ids in relevant.values())
    assert Counter(map(len, relevant.values())) == {1: 2760, 2: 198, 3: 42}


def test_relevant_passages_state_the_fact_and_no_other_does(passages: list[Passage]) -> None:
    texts = [passage.text for passage in passages]
    for index in range(3000):
        queried, place = mini.find_fact(mini.DEFAULT_SIZE, index)
        entity, fact = mini.fact_at(mini.DEFAULT_SIZE, queried, place)
        stated = {
            saying.replace("{n}", called).replace("{v}", entity.values[fact])
            for saying in entity.domain.facts[fact].says
            for called in (entity.subject, entity.alias)
        }
        part = queried // len(mini.DOMAINS) % mini.PARTS
        first = queried - part * len(mini.DOMAINS)
        own = range(first, mini.DEFAULT_SIZE, len(mini.DOMAINS))[: mini.PARTS]
        assert all(entity.name in texts[passage] for passage in own)
        stating = {
            passage
            for passage in own
            if any(sentence[1:] + "." in texts[passage] for sentence in stated)
        }
        assert stating == set(mini._relevant(mini.DEFAULT_SIZE, index))
        assert queried in stating


def test_words_of_query_and_passage_seldom_agree(passages: list[Passage]) -> None:
    relevant = {qrel.query_id: int(qrel.doc_id) for qrel in mini.qrels()}
    frequent = Counter(word for _, text in mini.queries() for word in set(text.lower().split()))
    function_words = {word for word, _ in frequent.most_common(25)}
    covered = 0
    for query_id, text in mini.queries():
        passage = set(re.findall(r"\w+", passages[relevant[query_id]].text.lower()))
        covered += set(re.findall(r"\w+", text.lower())) - function_words <= passage
    assert covered < 0.2 * len(relevant)


@pytest.mark.parametrize("name", mini.DOMAINS)
def test_every_entity_has_a_name_of_its_own(name: str) -> None:
    domain = mini._domain(name)
    assert len(set(domain.syllables)) == SYLLABLES
    assert len(set(domain.kinds)) == KINDS
    stems = {"".join(parts) for parts in itertools.product(domain.syllables, repeat=3)}
    assert len(stems) == SYLLABLES**3
    assert all(set(syllable) <= set(ascii_lowercase) for syllable in domain.syllables)


def test_the_walk_through_the_names_comes_home_only_at_the_end() -> None:
    domain = mini._domain("people")
    names = {mini._name_words(60_000, domain, number) for number in range(20_000)}
    assert len(names) == 20_000
    assert mini._name_words(500, domain, 0) == mini._name_words(500, domain, mini._NAMES)


@pytest.mark.parametrize("name", mini.DOMAINS)
def test_every_fact_can_be_said_and_asked(name: str) -> None:
    facts = mini._domain(name).facts
    assert len(facts) == FACTS
    asks = [ask for fact in facts for ask in fact.asks]
    assert len(set(asks)) == len(asks)
    assert all(ask.count("{n}") == 1 for ask in asks)
    for fact in facts:
        assert len(fact.says) == 2
        assert len(fact.asks) >= 6
        assert len({group(ask) for ask in fact.asks}) >= 3
        assert all(saying.count("{n}") == saying.count("{v}") == 1 for saying in fact.says)
        for slot in fact.pattern[1::2]:
            assert slot == "other" or slot in SLOTS or re.fullmatch(r"\d+-\d+", slot)


def test_kinds_of_different_domains_differ() -> None:
    kinds = [kind.lower() for name in mini.DOMAINS for kind in mini._domain(name).kinds]
    assert len(set(kinds)) == len(kinds)


def test_millions_of_passages_stream() -> None:
    first = list(itertools.islice(mini.passages(mini.MAX_SIZE), 50))
    last = mini._passage_text(mini.MAX_SIZE, mini.MAX_SIZE - 1)
    assert len({text for _, text in first} | {last}) == 51
    assert next(mini.queries(mini.MAX_SIZE)).query_id in {"0", "1", "2"}
    assert next(mini.qrels(mini.MAX_SIZE)).doc_id == "0"


@pytest.mark.parametrize("size", [0, -1, mini.MAX_SIZE + 1])
@pytest.mark.parametrize("part", [mini.passages, mini.queries, mini.qrels])
def test_impossible_sizes_are_refused_at_once(part: object, size: int) -> None:
    assert callable(part)
    with pytest.raises(UsageError, match="mini has 1 to 15,360,000 passages"):
        part(size)
