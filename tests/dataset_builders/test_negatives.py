"""Negatives: the rule, and blocks of them that are kept."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.data import Collection, ContentDigest, open_collection
from msshift_bench.dataset_builders import negatives
from msshift_bench.dataset_builders.negatives import (
    mine_negatives,
    named_index,
    random_negatives,
    sample_negatives,
)
from msshift_bench.engine import KeptArray
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


def test_negatives_follow_from_the_seed_and_the_query() -> None:
    rows = mini_rows(300)
    forth = Bm25(passages(300))
    back = Bm25(reversed(list(passages(300))))
    first = list(sample_negatives(forth, rows, count=2, depth=50, seed=1))
    assert first == list(sample_negatives(back, rows, count=2, depth=50, seed=1))
    assert first[::-1] == list(sample_negatives(forth, rows[::-1], count=2, depth=50, seed=1))
    assert first != list(sample_negatives(forth, rows, count=2, depth=50, seed=2))


def test_a_query_that_matches_too_little_is_given_other_passages() -> None:
    index = Bm25([Passage(name, f"word {name}{name}") for name in "abcde"])
    row = Row("q", "aa unknown", "g", ("a", "b"), (1, 1))
    ((one, two, three),) = sample_negatives(index, [row], count=3, depth=10, seed=0)
    assert {one, two, three} == {"c", "d", "e"}
    with pytest.raises(DataError, match="5 passages are too few to give query 'q' 4 negatives"):
        list(sample_negatives(index, [row], count=4, depth=10, seed=0))
    assert list(sample_negatives(index, [row], count=0, depth=10, seed=0)) == [()]


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
    with pytest.raises(DataError, match=r"300 passages are too few to give query .* 300 negatives"):
        list(random_negatives(ids, some, count=300, seed=1))


SIZE = 300


def _digest(collection: Collection) -> str:
    digest = ContentDigest()
    for passage in collection.passages():
        digest.add(passage)
    return digest.hexdigest()


def _mine(work: Path, **changes: object) -> list[KeptArray]:
    options: dict[str, object] = {
        "rows": mini_rows(SIZE),
        "count": 5,
        "depth": 20,
        "block_queries": 100,
    }
    collection = open_collection(f"mini:{SIZE}")
    options |= {"collection": collection, "passages": _digest(collection), **changes}
    return mine_negatives(work=work, **options)  # type: ignore[arg-type]


def _bytes(blocks: list[KeptArray]) -> list[bytes]:
    return [block.load().tobytes() for block in blocks]


def test_blocks_hold_what_is_sampled(tmp_path: Path) -> None:
    rows = mini_rows(SIZE)
    events: list[tuple[str, int, int]] = []
    with reporting(lambda *event: events.append(event)):
        blocks = _mine(tmp_path, seed=3)
    assert len(blocks) == -(-len(rows) // 100)
    found = [tuple(doc_id.decode() for doc_id in ids) for block in blocks for ids in block.load()]
    index = Bm25(passages(SIZE))
    assert found == list(sample_negatives(index, rows, count=5, depth=20, seed=3))
    assert events[0] == ("index", 0, 0)
    assert events[-1] == ("negatives", len(rows), len(rows))


def test_only_missing_blocks_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = _mine(tmp_path)
    before = _bytes(blocks)
    paths = [tmp_path / block.name for block in blocks]
    stamps = [path.stat().st_mtime_ns for path in (paths[0], paths[2])]
    paths[1].unlink()
    monkeypatch.setattr("msshift_bench.plumbing.threads.thread_count", lambda: 1)
    monkeypatch.setattr(negatives, "BATCH", 11)
    assert _bytes(_mine(tmp_path)) == before
    assert [path.stat().st_mtime_ns for path in (paths[0], paths[2])] == stamps
    monkeypatch.setattr(negatives, "kept_index", None)
    assert _bytes(_mine(tmp_path)) == before


def test_a_machine_that_holds_other_passages_under_the_same_name_is_refused() -> None:
    parameters = Bm25Parameters()
    collection = open_collection("mini:300")
    stemmed_by = stemmer_version("english")
    index = named_index("mini:300", _digest(collection), parameters, stemmed_by)
    text = next(iter(collection.queries.values()))
    own = Bm25(passages(SIZE), parameters)
    assert list(index.search([text], depth=5)) == list(own.search([text], depth=5))
    with pytest.raises(UsageError, match="mini:301 has other passages on this machine: copy the"):
        named_index("mini:301", _digest(collection), parameters, stemmed_by)
    with pytest.raises(UsageError, match=rf"{stemmed_by}, and the tasks come from one with PyS"):
        named_index("mini:300", _digest(collection), parameters, "PyStemmer 2")


@pytest.mark.slow
def test_blocks_of_something_else_are_not_taken(tmp_path: Path) -> None:
    first = _mine(tmp_path)
    names = {block.name for block in first}
    for changes in ({"seed": 1}, {"count": 4}, {"depth": 21}, {"passages": "other"}):
        assert not names & {block.name for block in _mine(tmp_path, **changes)}
    rows = mini_rows(SIZE)
    changed = [*rows[:150], rows[150]._replace(text="another text"), *rows[151:]]
    again = _mine(tmp_path, rows=changed)
    same = [one.name == other.name for one, other in zip(first, again, strict=True)]
    assert same == [True, False, *[True] * (len(first) - 2)]
