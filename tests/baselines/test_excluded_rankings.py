"""Rankings of neural models without excluded passages: as deep, in the same order."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from msshift_bench import build_dataset, read_run
from tests.support.arguments import write_arguments
from tests.support.making import make_runs

pytestmark = [pytest.mark.neural, pytest.mark.extended]

DEPTH = 10


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set whose queries are documents, and its collection ``beir``."""
    folder = tmp_path_factory.mktemp("arguments")
    build_dataset(write_arguments(folder / "beir", 60), ["length"], folder / "plain")
    return folder


@pytest.mark.parametrize("kind", ["bi-encoder", "splade", "colbert", "reranking", "monobert"])
def test_a_model_ranks_as_many_passages_without_own_ids(
    data: Path, tiny_models: Path, tmp_path: Path, kind: str
) -> None:
    given: dict[str, Any] = {"data": data / "plain", "collection": data / "beir"}
    ranked = partial(make_runs, **given)
    search: dict[str, Any] = {"depth": DEPTH}
    if kind == "reranking":
        search["candidates"] = f"bm25:{DEPTH}"
    model = str(tiny_models / f"my-{'colbert' if kind == 'reranking' else kind}")
    (run,) = ranked(model, out=tmp_path / "own", exclude="own-id", search=search)
    rankings = read_run(run)
    assert not [name for name, ranking in rankings.items() if name in ranking]
    assert {len(ranking) for ranking in rankings.values()} == {DEPTH}
    if kind in ("reranking", "monobert"):
        (first,) = ranked("bm25", out=tmp_path / "bm25", exclude="own-id", depth=DEPTH)
        candidates = read_run(first)
        assert {name: set(docs) for name, docs in rankings.items()} == {
            name: set(candidates[name]) for name in rankings
        }
        return
    deeper = {**search, "depth": DEPTH + 1}
    (plain,) = ranked(model, out=tmp_path / "plain", search=deeper)
    for name, ranking in read_run(plain).items():
        left = [doc_id for doc_id in ranking if doc_id != name]
        assert list(rankings[name]) == left[:DEPTH]
