from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.data import Collection, ContentDigest, open_collection
from msshift_bench.dataset_builders import negatives
from msshift_bench.dataset_builders.negatives import mine_negatives, named_index, sample_negatives
from msshift_bench.engine import KeptArray
from msshift_bench.errors import UsageError
from msshift_bench.mini.generator import passages
from msshift_bench.search import Bm25, Bm25Parameters, stemmer_version
from tests.support.mini_rows import mini_rows

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
    blocks = _mine(tmp_path, seed=3, progress=lambda *event: events.append(event))
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
    monkeypatch.setattr("msshift_bench.plumbing.batching.thread_count", lambda: 1)
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
    text = collection.queries.texts[0]
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
