"""Which passages ColBERT ranks: all, or BM25's first."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.retrievers.colbert import ColBertSearch
from msshift_bench.errors import UsageError
from tests.support.making import make_runs
from tests.support.run_files import read_run, sidecar
from tests.support.tiny_recipes import tiny_recipe


@pytest.mark.parametrize("good", ["all", "bm25:1", "bm25:1000"])
def test_how_candidates_are_written(good: str) -> None:
    assert ColBertSearch(candidates=good).candidates == good


@pytest.mark.parametrize(
    "bad",
    [0, 200, "1000", "tokens", "bm25", "bm25:0", "bm25:01", "al", "bm25:-3", True, 1.5, ["all"]],
)
def test_what_candidates_are_not(bad: object, tmp_path: Path) -> None:
    written = tmp_path / "mine.toml"
    written.write_text(tiny_recipe("colbert", search={"candidates": bad}))
    with pytest.raises(UsageError, match=r"mine\.toml:\d+: search\.candidates: (expected|.* form)"):
        open_system("colbert", written)


@pytest.mark.neural
@pytest.mark.slow
def test_runs_say_what_was_ranked(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = {}
    for name, candidates in {"all": "all", "bm25": "bm25:25"}.items():
        recipe = tmp_path / f"{name}.toml"
        recipe.write_text(tiny_recipe("colbert", search={"candidates": candidates}))
        (runs[name],) = make_runs("colbert", data=data, out=tmp_path / name,
            recipe=recipe, held_out=["short"],
        )  # fmt: skip
    facts = {name: sidecar(run) for name, run in runs.items()}
    assert {name: given["candidates"] for name, given in facts.items()} == {
        "all": "all passages",
        "bm25": "reranks BM25's first 25",
    }
    assert {name: given["tag"] for name, given in facts.items()} == {
        "all": "colbert-all-seed5",
        "bm25": "colbert-bm25-seed5-reranks-bm25-25",
    }
    assert capfd.readouterr().err == ""

    def best(name: str) -> dict[str, dict[str, float]]:
        lines = read_run(runs[name]).items()
        return {query_id: {line[0]: line[2] for line in found} for query_id, found in lines}

    exact, reranked = best("all"), best("bm25")
    for query_id, scores in reranked.items():
        for doc_id, score in scores.items():
            assert exact[query_id].get(doc_id, score) == pytest.approx(score, abs=1e-4)


def test_the_tag_says_that_a_published_model_reranks() -> None:
    search = ColBertSearch(depth=7, batch_size=64, candidates="bm25:30")
    assert search.tag == "-reranks-bm25-30"
