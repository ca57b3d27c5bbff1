"""Negatives: the rule, and blocks of them that are kept."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.data import ContentDigest, open_collection
from msshift_bench.dataset_builders import negatives
from msshift_bench.dataset_builders.negatives import (
    mine_negatives,
    open_shared_index,
    random_negatives,
    sample_negatives,
)
from msshift_bench.errors import DataError, UsageError
from msshift_bench.mini.generator import passages
from msshift_bench.plumbing import reporting
from msshift_bench.records import Passage, Row
from msshift_bench.search import Bm25, Bm25Parameters, stemmer_version
from msshift_bench.search.ranking import PassageIds
from tests.support.mini_rows import mini_rows


def _splitmix64(value: int) -> int:
    mask = (1 << 64) - 1
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & mask
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & mask
    return value ^ (value >> 31)


def _keyed(seed: int, query_id: str, doc_id: str) -> int:
    key = f"{seed}/negatives".encode()
    query = blake2b(query_id.encode(), digest_size=8, key=key).digest()
    passage = blake2b(doc_id.encode(), digest_size=8).digest()
    return _splitmix64(int.from_bytes(query, "little") ^ int.from_bytes(passage, "little"))


def test_the_mixer_is_splitmix64() -> None:
    # The first number of the generator with seed 0, as its authors' C code prints it.
    assert _splitmix64(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    assert negatives._mix(np.array([0x9E3779B97F4A7C15], np.uint64)) == 0xE220A8397B1DCDAF


@pytest.mark.parametrize(("count", "depth"), [(3, 15), (14, 15), (40, 200), (1, 1)])
def test_negatives_are_the_smallest_keyed_hashes_of_what_ranks_high(count: int, depth: int) -> None:
    index = Bm25(passages(300))
    rows = mini_rows(300)
    rankings = index.search([row.text for row in rows], depth=depth)
    drawn = list(sample_negatives(index, rows, count=count, depth=depth, seed=1))
    assert len(drawn) == len(rows)
    for row, ranking, chosen in zip(rows, rankings, drawn, strict=True):
        assert len(set(chosen)) == count
        assert not set(chosen) & set(row.relevant_doc_ids)
        candidates = ranking.keys() - set(row.relevant_doc_ids)
        expected = sorted(candidates, key=lambda doc_id: _keyed(1, row.query_id, doc_id))
        assert list(chosen[: len(expected)]) == expected[:count]


def test_equal_hashes_are_ordered_by_doc_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negatives, "_mix", np.zeros_like)
    index = Bm25(Passage(doc_id, "red") for doc_id in "cadbe")
    row = Row("q", "red", "g", ("b",), (1,))
    assert list(sample_negatives(index, [row], count=3, depth=5, seed=0)) == [("a", "c", "d")]


def test_a_query_that_matches_too_little_is_given_other_passages() -> None:
    index = Bm25([Passage(name, f"word {name}{name}") for name in "abcde"])
    row = Row("q", "aa unknown", "g", ("a", "b"), (1, 1))
    ((one, two, three),) = sample_negatives(index, [row], count=3, depth=10, seed=0)
    assert {one, two, three} == {"c", "d", "e"}
    assert list(sample_negatives(index, [row], count=0, depth=10, seed=0)) == [()]
    with pytest.raises(DataError, match=r"5 .*'q' 4"):
        list(sample_negatives(index, [row], count=4, depth=10, seed=0))


def test_random_negatives_come_from_the_whole_collection() -> None:
    ids = PassageIds([passage.doc_id for passage in passages(300)])
    rows = mini_rows(300)
    drawn = dict(zip(rows, random_negatives(ids, rows, count=40, seed=1), strict=True))
    for row, chosen in drawn.items():
        assert len(set(chosen)) == len(chosen) == 40
        assert not set(chosen) & set(row.relevant_doc_ids)
    met = [doc_id for chosen in drawn.values() for doc_id in chosen]
    counts = [met.count(doc_id) for doc_id in ids.ids.tolist()]
    # Each passage is drawn about equally often: within five standard deviations.
    mean = len(met) / len(counts)
    assert max(abs(count - mean) for count in counts) < 5 * mean**0.5
    # By the query and the seed alone: not by other queries, or the order of the passages.
    some = rows[10:2:-1]
    turned = PassageIds(ids.ids.tolist()[::-1])
    assert list(random_negatives(turned, some, count=40, seed=1)) == [drawn[row] for row in some]
    assert list(random_negatives(ids, some, count=40, seed=2)) != [drawn[row] for row in some]
    with pytest.raises(DataError, match=r"300 .* 300"):
        list(random_negatives(ids, some, count=300, seed=1))


MINI = open_collection("mini:300")
DIGEST = ContentDigest.of(MINI.passages()).hexdigest()


def test_blocks_hold_what_is_sampled(tmp_path: Path) -> None:
    rows = mini_rows(300)
    events: list[tuple[str, int, int]] = []
    given: dict[str, Any] = {"work": tmp_path, "passages": DIGEST, "block_queries": 100}
    options: dict[str, Any] = {"count": 5, "depth": 20, "seed": 3}
    with reporting(lambda *event: events.append(event)):
        blocks = mine_negatives(MINI, rows, **given, **options)
    assert len(blocks) == -(-len(rows) // 100)
    found = [tuple(doc_id.decode() for doc_id in ids) for block in blocks for ids in block.load()]
    assert found == list(sample_negatives(Bm25(passages(300)), rows, **options))
    assert events[0] == ("index", 0, 0)
    assert events[-1] == ("negatives", len(rows), len(rows))


def test_a_machine_that_holds_other_passages_under_the_same_name_is_refused() -> None:
    parameters = Bm25Parameters()
    stemmed_by = stemmer_version("english")
    index = open_shared_index("mini:300", DIGEST, parameters, stemmed_by)
    text = next(iter(MINI.queries.values()))
    own = Bm25(passages(300), parameters)
    assert list(index.search([text], depth=5)) == list(own.search([text], depth=5))
    with pytest.raises(UsageError, match="mini:301"):
        open_shared_index("mini:301", DIGEST, parameters, stemmed_by)
    with pytest.raises(UsageError, match=f"{stemmed_by}.*PyStemmer 2"):
        open_shared_index("mini:300", DIGEST, parameters, "PyStemmer 2")
