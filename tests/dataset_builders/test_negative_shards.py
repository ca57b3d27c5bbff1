from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from msshift_bench.data import Collection, ContentDigest, open_collection
from msshift_bench.dataset_builders import negative_shards
from msshift_bench.dataset_builders.named_index import named_index
from msshift_bench.dataset_builders.negative_shards import NegativeShard, mine_negatives
from msshift_bench.dataset_builders.negatives import sample_negatives
from msshift_bench.errors import UsageError
from msshift_bench.mini.generator import passages
from msshift_bench.search import Bm25, Bm25Parameters, stemmer_version
from msshift_bench.shards import ShardsAwaitedError, choose_engine, run_shards, using_engine
from tests.conftest import Build, Command
from tests.support.file_bytes import file_bytes
from tests.support.mini_rows import mini_rows

SIZE = 300


def _digest(collection: Collection) -> str:
    digest = ContentDigest()
    for passage in collection.passages():
        digest.add(passage)
    return digest.hexdigest()


def _mine(work: Path, **changes: object) -> list[NegativeShard]:
    options: dict[str, object] = {
        "rows": mini_rows(SIZE),
        "count": 5,
        "depth": 20,
        "shard_queries": 100,
    }
    collection = open_collection(f"mini:{SIZE}")
    options |= {"collection": collection, "passages": _digest(collection), **changes}
    return mine_negatives(work=work, **options)  # type: ignore[arg-type]


def _bytes(shards: list[NegativeShard]) -> list[bytes]:
    return [shard.doc_ids().tobytes() for shard in shards]


def test_shards_hold_what_is_sampled(tmp_path: Path) -> None:
    rows = mini_rows(SIZE)
    events: list[tuple[str, int, int]] = []
    shards = _mine(tmp_path, seed=3, progress=lambda *event: events.append(event))
    assert len(shards) == -(-len(rows) // 100)
    found = [
        tuple(doc_id.decode() for doc_id in ids) for shard in shards for ids in shard.doc_ids()
    ]
    index = Bm25(passages(SIZE))
    assert found == list(sample_negatives(index, rows, count=5, depth=20, seed=3))
    assert events[0] == ("index", 0, 0)
    assert events[-1] == ("negatives", len(rows), len(rows))


def test_only_missing_shards_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = _mine(tmp_path)
    before = _bytes(shards)
    paths = [tmp_path / shard.name for shard in shards]
    stamps = [path.stat().st_mtime_ns for path in (paths[0], paths[2])]
    paths[1].unlink()
    monkeypatch.setattr("msshift_bench.plumbing.batching.thread_count", lambda: 1)
    monkeypatch.setattr(negative_shards, "BATCH", 11)
    assert _bytes(_mine(tmp_path)) == before
    assert [path.stat().st_mtime_ns for path in (paths[0], paths[2])] == stamps
    monkeypatch.setattr(negative_shards, "kept_index", None)
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
    with pytest.raises(UsageError, match=rf"{stemmed_by}, and the shards were cut with PyS"):
        named_index("mini:300", _digest(collection), parameters, "PyStemmer 2")


@pytest.mark.slow
def test_shards_of_something_else_are_not_taken(tmp_path: Path) -> None:
    first = _mine(tmp_path)
    names = {shard.name for shard in first}
    for changes in ({"seed": 1}, {"count": 4}, {"depth": 21}, {"passages": "other"}):
        assert not names & {shard.name for shard in _mine(tmp_path, **changes)}
    rows = mini_rows(SIZE)
    changed = [*rows[:150], rows[150]._replace(text="another text"), *rows[151:]]
    again = _mine(tmp_path, rows=changed)
    same = [one.name == other.name for one, other in zip(first, again, strict=True)]
    assert same == [True, False, *[True] * (len(first) - 2)]


def test_other_machines_give_the_same_bytes(tmp_path: Path) -> None:
    with using_engine(choose_engine("slurm", command=["list"])):
        with pytest.raises(ShardsAwaitedError):
            _mine(tmp_path / "array")
        for number in range(-(-len(mini_rows(SIZE)) // 100)):
            run_shards(tmp_path / "array", number)
        shards = _mine(tmp_path / "array")
    assert _bytes(shards) == _bytes(_mine(tmp_path / "here"))
    unnamed = open_collection(f"mini:{SIZE}")
    object.__setattr__(unnamed, "address", None)
    with (
        using_engine(choose_engine("slurm")),
        pytest.raises(UsageError, match="cannot read a collection that has no path and no name"),
    ):
        _mine(tmp_path / "unnamed", collection=unnamed)
    with (
        using_engine(choose_engine("local", workers=2)),
        pytest.raises(UsageError, match="cannot read a collection that has no path and no name"),
    ):
        _mine(tmp_path / "unnamed", collection=unnamed)


@pytest.mark.slow
def test_triples_are_the_same_with_each_engine(
    msshift: Command, build_once: Build, tmp_path: Path
) -> None:
    def triples(data: str, *given: str) -> str:
        folder = shutil.copytree(build_once(f"mini:{SIZE}", "length"), tmp_path / data)
        done = msshift("triples", "build", folder, "--negatives", "5", "--depth", "20", *given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    triples("here")
    triples("processes", "--workers", "2", "--shards", "kept")
    assert len(list((tmp_path / "kept").glob("*/00000-*.npy"))) == 1
    script = Path(triples("array", "--engine", "slurm").strip())
    assert script.is_relative_to(tmp_path / ".array.triples")
    assert msshift("shards", "run", script.parent, "0").returncode == 0
    merged = msshift("shards", "merge", script.parent)
    assert merged.returncode == 0, merged.stderr
    assert "length-short-triples" in merged.stdout
    expected = file_bytes(tmp_path / "here")
    assert file_bytes(tmp_path / "processes") == file_bytes(tmp_path / "array") == expected
    assert not (tmp_path / ".array.triples").exists()
