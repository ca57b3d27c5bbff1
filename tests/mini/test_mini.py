"""The generated collection: its bytes, its make-up, and that its judgements are true."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from string import ascii_lowercase

import pytest

from msshift_bench.errors import UsageError
from msshift_bench.mini import generator as mini
from msshift_bench.mini.generator import KINDS, SYLLABLES


def digest(rows: Iterable[tuple[object, ...]]) -> str:
    sha = hashlib.sha256()
    for row in rows:
        sha.update(("\t".join(map(str, row)) + "\n").encode())
    return sha.hexdigest()


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
    """So all that was counted of its texts, such as question words and lengths, stays so."""
    assert digest(mini.passages(size)) == passages_digest
    assert digest(mini.queries(size)) == queries_digest
    assert digest(mini.qrels(size)) == qrels_digest


def test_relevant_passages_state_the_fact_and_no_other_does() -> None:
    texts = [passage.text for passage in mini.passages()]
    for index in range(3000):
        queried, place = mini.find_fact(mini.DEFAULT_SIZE, index)
        entity, fact = mini.fact_at(mini.DEFAULT_SIZE, queried, place)
        stated = {
            saying.replace("{n}", called).replace("{v}", entity.values[fact])
            for saying in entity.domain.facts[fact].sentences
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


@pytest.mark.parametrize("name", mini.DOMAINS)
def test_every_entity_has_a_name_of_its_own(name: str) -> None:
    domain = mini._domain(name)
    assert len(set(domain.syllables)) == SYLLABLES
    kinds = [kind.lower() for other in mini.DOMAINS for kind in mini._domain(other).kinds]
    assert len(set(kinds)) == len(kinds) == KINDS * len(mini.DOMAINS)
    stems = {"".join(parts) for parts in itertools.product(domain.syllables, repeat=3)}
    assert len(stems) == SYLLABLES**3
    assert all(set(syllable) <= set(ascii_lowercase) for syllable in domain.syllables)


def test_the_walk_through_the_names_comes_home_only_at_the_end() -> None:
    domain = mini._domain("people")
    names = {mini._name_words(60_000, domain, number) for number in range(20_000)}
    assert len(names) == 20_000
    assert mini._name_words(500, domain, 0) == mini._name_words(500, domain, mini._NAMES)


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
    with pytest.raises(UsageError, match="15,360,000"):
        part(size)
