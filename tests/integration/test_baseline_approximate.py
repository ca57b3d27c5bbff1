from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from msshift_bench.baselines.approximate import DenseSearch, find_index, rank_approximately, recall
from msshift_bench.baselines.backbones import make_random_encoder, quiet_libraries
from msshift_bench.baselines.biencoder import BiEncoder, _rounded
from msshift_bench.baselines.encoded_passages import EncodedPassages, PassageBlock
from msshift_bench.baselines.published import search_published
from msshift_bench.baselines.recipe import RandomEncoder
from msshift_bench.baselines.recipe_files import load_recipe
from msshift_bench.errors import DataError, UsageError
from msshift_bench.mini import generator as mini
from msshift_bench.search.ranking import PassageIds
from tests.conftest import Build
from tests.support.run_files import sidecar

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
    blocks = []
    for number, size in enumerate(SIZES):
        path = folder / f"{number}.npz"
        np.savez(path, vectors=vectors(size, seed=number))
        blocks.append(PassageBlock(path, size))
    return EncodedPassages(PassageIds([f"d{n}" for n in range(sum(SIZES))]), blocks)


def search(kind: str, effort: int | None = None) -> DenseSearch:
    return DenseSearch(depth=10, batch_size=1, approximate=kind, effort=effort)


@pytest.mark.parametrize(("kind", "little", "much"), [("hnsw", 1, 2000), ("ivf", 1, 31)])
def test_effort_reaches_the_exact_ranking(
    kind: str, little: int, much: int, passages: EncodedPassages, tmp_path: Path
) -> None:
    queries = vectors(150, seed=9)
    file = find_index(passages, kind, tmp_path)
    assert file.stat().st_size > sum(SIZES) * 9 * 4
    exact = queries @ np.concatenate([block.load()["vectors"] for block in passages.blocks]).T
    rankings = list(rank_approximately(queries, passages, file, search(kind, much)))
    for scores, ranking in zip(exact, rankings, strict=True):
        best = np.argsort(-scores)[:10]
        assert list(ranking) == [f"d{row}" for row in best]
        np.testing.assert_allclose(list(ranking.values()), scores[best], rtol=1e-5)
    assert recall(queries, passages, file, search(kind, much)) == {
        "recall": 1.0,
        "recall_queries": 100,
    }
    if kind == "ivf":
        found = recall(queries[:7], passages, file, search(kind, little))
        assert 0.05 < found["recall"] < 0.9  # type: ignore[operator]
        assert found["recall_queries"] == 7


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_an_index_is_made_once_and_always_the_same(
    kind: str, passages: EncodedPassages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = find_index(passages, kind, tmp_path / "one")
    second = find_index(passages, kind, tmp_path / "other")
    assert first.read_bytes() == second.read_bytes()
    monkeypatch.setattr(
        "msshift_bench.baselines.approximate._made", lambda *_: pytest.fail("it was made again")
    )
    assert find_index(passages, kind, tmp_path / "one") == first


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_a_run_says_how_much_it_recalls(kind: str, build_once: Build, tmp_path: Path) -> None:
    data = build_once("mini:300", "length")
    architecture = BiEncoder
    shape = RandomEncoder(layers=1, hidden=16, heads=2, inner=32, vocabulary=500, dropout=0.0)
    texts = (passage.text for passage in mini.passages(100))
    make_random_encoder(tmp_path / "bert", shape, texts, length=124, seed=1)
    recipe = load_recipe(architecture, architecture.name, "mini")
    with quiet_libraries():
        model = recipe.new_model(tmp_path / "bert")
        model.save_pretrained(str(tmp_path / "dense"), create_model_card=False)
    given: dict[str, Any] = {"data": data, "collection": "mini:300", "depth": 7}
    model_folder = str(tmp_path / "dense")
    (exact,) = search_published(model_folder, ["length"], out=tmp_path / "exact", **given)
    (run,) = search_published(
        model_folder, ["length"], out=tmp_path / "runs", approximate=kind, effort=1000, **given
    )
    said = sidecar(run)
    assert said["parameters"]["search"]["approximate"] == kind
    assert said["index"]["recall"] == 1.0
    assert said["index"]["recall_queries"] == 100
    assert said["index"]["bytes"] > 300 * 17 * 4
    assert {"encode", "index", "recall", "search"} <= said["seconds"].keys()

    def ranked(path: Path) -> list[list[str]]:
        text = gzip.decompress(path.read_bytes()).decode()
        return [line.split(" ")[:3] for line in text.splitlines()]

    same = [one == other for one, other in zip(ranked(exact), ranked(run), strict=True)]
    # Scores are summed in another order, so that passages that nearly tie may change places.
    assert sum(same) > 0.95 * len(same)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"approximate": "hsnw"}, "unknown name 'hsnw'; did you mean 'hnsw'"),
        ({"effort": 3}, "effort: it is of approximate search"),
        ({"approximate": "ivf", "storage": "float16"}, "storage: 'float16' is of exact search"),
    ],
)
def test_what_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        BiEncoder.search_by(options)


def test_vectors_that_16_bits_cannot_hold_are_refused() -> None:
    kept = _rounded(np.array([[0.5, -65_504.0]], np.float32))
    assert (kept.dtype, kept.tolist()) == (np.float16, [[0.5, -65_504.0]])
    with pytest.raises(DataError, match=r"holds 70000, and 16 bits end at 65,504; leave out"):
        _rounded(np.array([[1.0], [-70_000.0]], np.float32))
