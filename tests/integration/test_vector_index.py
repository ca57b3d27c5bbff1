"""Approximate search of a bi-encoder's vectors by an index of faiss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from msshift_bench.baselines.retrievers.biencoder import DenseSearch, VectorIndex
from msshift_bench.baselines.systems.searcher import EncodedPassages
from msshift_bench.errors import DataError, UsageError
from msshift_bench.search.ranking import PassageIds
from tests.support.making import make_runs
from tests.support.run_files import sidecar
from tests.support.tiny_recipes import tiny_recipe

pytestmark = pytest.mark.neural

SIZES = (900, 500, 600)


def vectors(count: int, seed: int) -> npt.NDArray[np.float32]:
    """Return vectors of different lengths."""
    random = np.random.default_rng(seed)
    lengths = random.lognormal(0, 0.3, (count, 1))
    return (random.normal(size=(count, 8)) * lengths).astype(np.float32)


@pytest.fixture(scope="module")
def passages(tmp_path_factory: pytest.TempPathFactory) -> EncodedPassages:
    folder = tmp_path_factory.mktemp("passages")
    files, first = {}, 0
    for number, size in enumerate(SIZES):
        path = folder / f"{number}.npz"
        np.savez(path, vectors=vectors(size, seed=number))
        files[path] = slice(first, first + size)
        first += size
    return EncodedPassages(PassageIds([f"d{n}" for n in range(first)]), files)


def index(name: str, parameters: str | None, depth: int = 10) -> VectorIndex:
    settings = DenseSearch(
        depth=depth, batch_size=1, index=name, index_parameters=parameters, storage=None
    )
    return VectorIndex(settings, 8)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "little", "much"),
    [("HNSW32", "efSearch=1", "efSearch=2000"), ("IVF31,Flat", "nprobe=1", "nprobe=31")],
)
def test_more_effort_has_a_higher_recall(
    name: str, little: str, much: str, passages: EncodedPassages, tmp_path: Path
) -> None:
    queries = vectors(150, seed=9)
    thorough, hasty = index(name, much), index(name, little)
    assert thorough.fill(passages, tmp_path) > sum(SIZES) * 8 * 4
    assert thorough.recall(queries, passages) == {"recall": pytest.approx(1, abs=1e-3)} | {
        "recall_queries": 100
    }
    exact = DenseSearch(depth=10).search(queries, passages)
    same = 0
    for wanted, ranking in zip(exact, thorough.search(queries, passages), strict=True):
        same += list(wanted) == list(ranking)
    assert same > 145
    (kept,) = tmp_path.iterdir()
    hasty.fill(passages, tmp_path)  # It is read, with other parameters.
    assert list(tmp_path.iterdir()) == [kept]
    found = hasty.recall(queries[:7], passages)
    assert 0.05 < found["recall"] <= 1  # type: ignore[operator]
    assert found["recall_queries"] == 7
    assert found["recall"] < 0.9 or name == "HNSW32"  # type: ignore[operator]


@pytest.mark.parametrize(
    "name",
    [
        "HNSW32",
        *[pytest.param(name, marks=pytest.mark.extended) for name in ("IVF31,Flat", "PQ4x4")],
    ],
)
def test_an_index_is_always_the_same(name: str, passages: EncodedPassages, tmp_path: Path) -> None:
    import faiss

    threads, made = faiss.omp_get_max_threads(), set[bytes]()
    for number in (1, 2):
        faiss.omp_set_num_threads(number)
        index(name, None).fill(passages, tmp_path / str(number))
        assert faiss.omp_get_max_threads() == number
        made |= {path.read_bytes() for path in (tmp_path / str(number)).iterdir()}
    faiss.omp_set_num_threads(threads)
    assert len(made) == 1


def test_a_sidecar_records_the_recall(tiny_models: Path, data: Path, tmp_path: Path) -> None:
    chosen = {"index": "HNSW32", "index_parameters": "efSearch=1000", "depth": 7}
    search: dict[str, Any] = {f"search.{name}": value for name, value in chosen.items()}
    (run,) = make_runs(str(tiny_models / "my-bi-encoder"), out=tmp_path, data=data, **search)
    facts = sidecar(run)
    assert facts["parameters"]["search"]["index"] == "HNSW32"
    assert facts["index"]["recall"] > 0.99
    assert facts["index"]["recall_queries"] == 100
    assert facts["index"]["bytes"] > 300 * 16 * 4
    assert {"encode", "index", "recall", "search"} <= facts["seconds"].keys()


@pytest.mark.parametrize(
    ("name", "parameters", "why"),
    [
        ("hnsw", None, "could not parse index string hnsw"),
        ("PQ3", None, r"dimension of the vector \(d\) should be a multiple"),
        ("HNSW32", "nprobe=3", "could not set parameter nprobe"),
    ],
)
def test_an_index_that_faiss_does_not_know(name: str, parameters: str | None, why: str) -> None:
    with pytest.raises(UsageError, match=rf"cannot search by index '{name}' .*{why}.*'HNSW32'"):
        index(name, parameters)


def test_requests_that_are_refused(passages: EncodedPassages, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="index_parameters: exact search has no parameters: set"):
        DenseSearch.with_defaults({"index_parameters": "nprobe=3"}, "the search with bi-encoder")
    with pytest.raises(UsageError, match=r"cannot search by index 'IVF4096,Flat' .*2000"):
        index("IVF4096,Flat", None).fill(passages, tmp_path)
    # Before anything is trained:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(tiny_recipe("bi-encoder", search={"index": "HNWS32"}))
    with pytest.raises(UsageError, match="faiss cannot search by index 'HNWS32'"):
        make_runs("bi-encoder", data=data, out=tmp_path / "runs", recipe=recipe)
    assert not list(tmp_path.rglob("checkpoints"))


def test_vectors_that_16_bits_cannot_hold_are_refused() -> None:
    search = DenseSearch(storage="float16")
    kept = search.stored(np.array([[0.5, -65_504.0]], np.float32))["vectors"]
    assert (kept.dtype, kept.tolist()) == (np.float16, [[0.5, -65_504.0]])
    with pytest.raises(DataError, match=r"value 70000, and 16 bits end at 65,504; remove"):
        search.stored(np.array([[1.0], [-70_000.0]], np.float32))
