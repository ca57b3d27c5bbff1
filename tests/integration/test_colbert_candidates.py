"""Which passages ColBERT ranks: all, those of the nearest tokens, or BM25's first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from msshift_bench.baselines.approximate import recall_of
from msshift_bench.baselines.block_search import search_blocks
from msshift_bench.baselines.colbert import ColBert, ColBertSearch
from msshift_bench.baselines.encoded_passages import EncodedPassages, PassageBlock
from msshift_bench.baselines.late_interaction import rerank, scores_by_max_sim
from msshift_bench.baselines.published import search_published
from msshift_bench.baselines.recipe_files import load_recipe
from msshift_bench.baselines.token_index import TokenSearch, find_token_index, passages_of_tokens
from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import UsageError
from msshift_bench.search.ranking import PassageIds
from tests.conftest import Command
from tests.support.making import make_runs
from tests.support.run_files import read_run, sidecar
from tests.support.tiny_recipes import tiny_recipe

COLLECTION = "mini:300"

TOKENS = {"cells": 16, "probes": 2, "sub_vectors": 4, "matches": 8}

# ---- how they are written ---------------------------------------------------------------------


@pytest.mark.parametrize("good", ["all", "bm25:1", "bm25:1000"])
def test_how_candidates_are_written(good: str) -> None:
    assert ColBertSearch(candidates=good).candidates == good


@pytest.mark.parametrize(
    "bad", [0, 200, "1000", "bm25", "bm25:0", "bm25:01", "al", "bm25:-3", True, 1.5, ["all"]]
)
def test_what_candidates_are_not(bad: object, tmp_path: Path) -> None:
    written = tmp_path / "mine.toml"
    written.write_text(tiny_recipe("colbert", search={"candidates": bad}))
    with pytest.raises(UsageError, match=r"mine\.toml:\d+: search\.candidates: (expected|.* form)"):
        load_recipe(ColBert, "colbert", written)


def test_the_command_line_refuses_others(msshift: Command, tmp_path: Path) -> None:
    build_dataset(open_collection(COLLECTION), ["length"], tmp_path / "msshift")
    given = ("baseline", "search", "--model", "x", "--as", "colbert", "--candidates")
    done = msshift(*given, "tokns")
    assert (done.returncode, done.stderr) == (
        2,
        "error: the search with colbert: candidates: 'tokns' is not of the form "
        "^(all|tokens|bm25:([1-9][0-9]*))$\n",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidates": "tokens"}, r"a table \[search\.tokens\] goes with"),
        ({"candidates": "all", "tokens": TOKENS}, r"a table \[search\.tokens\] goes with"),
        (
            {"candidates": "tokens", "tokens": {**TOKENS, "probes": 0}},
            "probes: Input should be greater than 0",
        ),
        (
            {"candidates": "tokens", "tokens": {**TOKENS, "sub_vectors": 3}},
            "dimensions: 8 is no multiple of sub_vectors 3",
        ),
    ],
)
def test_token_search_that_cannot_be(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(tiny_recipe("colbert", search=changes))
    with pytest.raises(UsageError, match=message):
        load_recipe(ColBert, "colbert", tmp_path / "mine.toml")


def test_the_recipes_that_come_along() -> None:
    def candidates(name: str) -> str:
        return load_recipe(ColBert, "colbert", name).search.candidates

    assert {name: candidates(name) for name in ("mini", "pool", "paper")} == {
        "mini": "all",
        "pool": "all",
        "paper": "tokens",
    }


# ---- the passages of the nearest tokens -------------------------------------------------------

SIZES = (130, 90, 150)


@pytest.fixture(scope="module")
def passages(tmp_path_factory: pytest.TempPathFactory) -> EncodedPassages:
    """Return passages of 1 to 9 tokens, each a vector of length 1."""
    folder = tmp_path_factory.mktemp("passages")
    random = np.random.default_rng(3)
    blocks = []
    for number, size in enumerate(SIZES):
        lengths = random.integers(1, 10, size)
        vectors = _unit(random.normal(size=(lengths.sum(), 16))).astype(np.float16)
        path = folder / f"{number}.npz"
        np.savez(path, vectors=vectors, lengths=lengths)
        blocks.append(PassageBlock(path, size))
    return EncodedPassages(PassageIds([f"d{n}" for n in range(sum(SIZES))]), blocks)


@pytest.fixture(scope="module")
def queries() -> npt.NDArray[np.float32]:
    """Return queries of 2 to 4 tokens; rows of zeros fill them up."""
    found = _unit(np.random.default_rng(4).normal(size=(40, 4, 16))).astype(np.float32)
    found[::2, 2:] = 0
    return found


def _unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def settings(probes: int, matches: int) -> TokenSearch:
    return TokenSearch(cells=20, probes=probes, sub_vectors=4, matches=matches)


@pytest.mark.neural
def test_every_token_reaches_every_passage(
    passages: EncodedPassages, queries: npt.NDArray[np.float32], tmp_path: Path
) -> None:
    everything = settings(probes=20, matches=10_000)
    file = find_token_index(passages, everything, tmp_path)
    rows = list(passages_of_tokens(queries, passages, file, everything))
    assert all(one.tolist() == list(range(sum(SIZES))) for one in rows)
    exact = list(search_blocks(scores_by_max_sim(queries), passages, len(queries), depth=12))
    found = list(rerank(queries, passages, rows, 12))
    assert recall_of(exact, found) == {"recall": 1.0, "recall_queries": len(queries)}
    for wanted, got in zip(exact, found, strict=True):
        assert list(got.values()) == pytest.approx(list(wanted.values()), abs=1e-5)


@pytest.mark.neural
def test_candidates_are_the_passages_of_the_nearest_tokens(
    passages: EncodedPassages, queries: npt.NDArray[np.float32], tmp_path: Path
) -> None:
    few = settings(probes=20, matches=9)
    file = find_token_index(passages, few, tmp_path)
    lengths = np.concatenate([block.read("lengths") for block in passages.blocks])
    vectors = np.concatenate([block.read("vectors") for block in passages.blocks])
    owner = np.repeat(np.arange(len(lengths)), lengths)
    hits = total = 0
    for query, rows in zip(queries, passages_of_tokens(queries, passages, file, few), strict=True):
        tokens = query[query.any(axis=1)]
        assert len(set(rows.tolist())) == len(rows) <= 9 * len(tokens)
        # The tokens' vectors are kept roughly, so that their order is nearly the exact one.
        nearest = np.argsort(-(tokens @ vectors.T.astype(np.float32)), axis=1)[:, :9]
        wanted = set(owner[nearest].ravel().tolist())
        hits += len(wanted & set(rows.tolist()))
        total += len(wanted)
    assert 0.5 < hits / total <= 1

    def recalled(search: TokenSearch) -> Any:
        exact = search_blocks(scores_by_max_sim(queries), passages, len(queries), depth=10)
        rows = passages_of_tokens(queries, passages, file, search)
        return recall_of(exact, rerank(queries, passages, rows, 10))["recall"]

    assert 0 < recalled(settings(1, 2)) < recalled(settings(20, 40)) <= 1


@pytest.mark.neural
def test_an_index_of_tokens_is_always_the_same(
    passages: EncodedPassages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import faiss

    threads = faiss.omp_get_max_threads()
    made = []
    for number in (1, 2, 2):
        faiss.omp_set_num_threads(number)
        file = find_token_index(passages, settings(3, 9), tmp_path / str(len(made)))
        made.append(file.read_bytes())
    faiss.omp_set_num_threads(threads)
    assert made[0] == made[1] == made[2]
    never = "msshift_bench.baselines.token_index._made"
    monkeypatch.setattr(never, lambda *_: pytest.fail("it was made again"))
    assert find_token_index(passages, settings(3, 9), tmp_path / "0").exists()


@pytest.mark.neural
def test_collections_that_are_too_small(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", vectors=np.ones((20, 16), np.float16), lengths=[5] * 4)
    small = EncodedPassages(PassageIds(list("abcd")), [PassageBlock(tmp_path / "one.npz", 4)])
    with pytest.raises(UsageError, match=r'20 tokens are too few .* take candidates = "all"'):
        find_token_index(small, settings(1, 1), tmp_path)
    odd = TokenSearch(cells=2, probes=1, sub_vectors=5, matches=1)
    with pytest.raises(UsageError, match="dimensions is 16, which is no multiple of sub_vectors 5"):
        find_token_index(small, odd, tmp_path)


# ---- runs -------------------------------------------------------------------------------------


@pytest.mark.neural
@pytest.mark.slow
def test_runs_say_what_was_ranked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "msshift"
    build_dataset(open_collection(COLLECTION), ["length"], data)
    searches: dict[str, dict[str, Any]] = {
        "all": {"candidates": "all"},
        "tokens": {"candidates": "tokens", "tokens": TOKENS},
        "bm25": {"candidates": "bm25:25"},
    }
    runs = {}
    for name, search in searches.items():
        recipe = tmp_path / f"{name}.toml"
        recipe.write_text(tiny_recipe("colbert", search=search))
        (runs[name],) = make_runs(
            "colbert",
            ["length"],
            data=data,
            collection=COLLECTION,
            out=tmp_path / name,
            recipe=recipe,
            held_out=["short"],
        )
    said = {name: sidecar(run) for name, run in runs.items()}
    assert {name: one["candidates"] for name, one in said.items()} == {
        "all": "all passages",
        "tokens": "passages of the tokens nearest to the query's",
        "bm25": "reranks BM25's first 25",
    }
    assert {name: one["tag"] for name, one in said.items()} == {
        "all": "colbert-all-seed5",
        "tokens": "colbert-tokens-seed5",
        "bm25": "colbert-bm25-seed5-reranks-bm25-25",
    }
    assert said["tokens"]["parameters"]["search"]["tokens"] == TOKENS
    assert 0 < said["tokens"]["index"]["recall"] < 1
    assert said["tokens"]["index"]["recall_queries"] > 20
    assert said["tokens"]["index"]["bytes"] > said["all"]["index"]["bytes"]
    assert {"encode", "index", "recall", "search"} <= said["tokens"]["seconds"].keys()
    # faiss writes to stderr itself when it has few vectors to learn from.
    assert capfd.readouterr().err == ""

    def best(name: str) -> dict[str, dict[str, float]]:
        lines = read_run(runs[name]).items()
        return {query_id: {one[0]: one[2] for one in lines} for query_id, lines in lines}

    exact, found = best("all"), best("tokens")
    for query_id, scores in found.items():
        for doc_id, score in scores.items():
            assert exact[query_id].get(doc_id, score) == pytest.approx(score, abs=1e-4)


@pytest.mark.neural
@pytest.mark.slow
def test_a_published_model_is_searched_by_tokens(tmp_path: Path) -> None:
    from msshift_bench.baselines.backbones import make_random_encoder, quiet_libraries
    from msshift_bench.baselines.recipe import RandomEncoder
    from msshift_bench.mini.generator import passages

    # Learning how tokens lie takes longer than all else, and grows with their number.
    build_dataset(open_collection("mini:120"), ["length"], tmp_path / "msshift")
    architecture = ColBert
    shape = RandomEncoder(layers=1, hidden=16, heads=2, inner=32, vocabulary=500, dropout=0.0)
    texts = (passage.text for passage in passages(100))
    make_random_encoder(tmp_path / "bert", shape, texts, length=124, seed=1)
    recipe = load_recipe(architecture, "colbert", "mini")
    with quiet_libraries():
        model = recipe.new_model(tmp_path / "bert")
        model.save_pretrained(str(tmp_path / "late"), create_model_card=False)
    given: dict[str, Any] = {"data": tmp_path / "msshift", "collection": "mini:120", "depth": 7}
    (run,) = search_published(
        str(tmp_path / "late"), ["length"], out=tmp_path, candidates="tokens", **given
    )
    paper: Any = load_recipe(architecture, "colbert", "paper")
    (said, tokens) = sidecar(run), paper.search.tokens
    assert said["parameters"]["search"]["tokens"]["matches"] == tokens.matches == 1024
    assert said["index"]["recall"] > 0.9
    assert said["tag"] == "late"
    search = ColBertSearch(depth=7, batch_size=64, candidates="bm25:30")
    assert architecture.tag_of(search) == "-reranks-bm25-30"
