"""ColBERT against the naive triple loop, and the details of its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from msshift_bench.baselines.retrievers.colbert import (
    ColBert,
    ColBertSearch,
    max_sim,
    passage_vectors,
    query_vectors,
    rerank,
)
from msshift_bench.baselines.systems.searcher import EncodedPassages
from msshift_bench.mini.generator import passages
from msshift_bench.plumbing import slices
from msshift_bench.search.ranking import PassageIds

pytestmark = pytest.mark.neural

SYSTEM = ColBert
TEXTS = [passage.text for passage in passages(6)]

Floats = npt.NDArray[np.float32]


def naive(queries: Floats, tokens: Floats, lengths: npt.NDArray[np.int64]) -> Floats:
    """MaxSim by three loops (ColBERT, equation 3)."""
    scores = np.zeros((len(queries), len(lengths)), np.float32)
    for place, query in enumerate(queries):
        for passage, part in enumerate(np.split(tokens, np.cumsum(lengths)[:-1])):
            for vector in query:
                scores[place, passage] += max(float(vector @ token) for token in part)
    return scores


@pytest.fixture
def whole_numbers() -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Return queries, tokens and lengths for which every score is exact, and ties plentiful."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, 80)
    tokens = rng.integers(-2, 3, (lengths.sum(), 4)).astype(np.float16)
    queries = rng.integers(-2, 3, (9, 5, 4)).astype(np.float32)
    queries[3, 2:] = 0
    return queries, tokens, lengths


def test_max_sim_is_the_triple_loop(
    whole_numbers: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = naive(*whole_numbers)
    assert max_sim(*whole_numbers).tolist() == expected.tolist()
    monkeypatch.setattr("msshift_bench.baselines.retrievers.colbert._TILE", {"cpu": (3000, 2)})
    assert max_sim(*whole_numbers).tolist() == expected.tolist()


def blocks_of(
    folder: Path, tokens: Floats, lengths: Any, doc_ids: list[str], size: int
) -> EncodedPassages:
    ends = [0, *np.cumsum(lengths).tolist()]
    files = {folder / f"{rows.start}.npz": rows for rows in slices(len(lengths), size)}
    for file, rows in files.items():
        np.savez(file, vectors=tokens[ends[rows.start] : ends[rows.stop]], lengths=lengths[rows])
    return EncodedPassages(PassageIds(doc_ids), files)


def best(scores: list[float], doc_ids: list[str], depth: int) -> list[tuple[str, float]]:
    found = sorted(zip(scores, doc_ids, strict=True), reverse=True)[:depth]
    return [(doc_id, score) for score, doc_id in found]


@pytest.mark.parametrize("size", [7, 80])
@pytest.mark.parametrize("depth", [1, 20, 200])
def test_search_and_reranking_are_brute_force(
    whole_numbers: tuple[Any, ...],
    tmp_path: Path,
    size: int,
    depth: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("msshift_bench.baselines.retrievers.colbert._TOGETHER", 4)
    queries, tokens, lengths = whole_numbers
    rng = np.random.default_rng(1)
    doc_ids = [str(number) for number in rng.permutation(1000)[:80]]
    blocks = blocks_of(tmp_path, tokens, lengths, doc_ids, size)
    expected = naive(queries, tokens, lengths).tolist()

    found = ColBertSearch(depth=depth).search(queries, blocks)
    assert [list(ranking.items()) for ranking in found] == [
        best(scores, doc_ids, depth) for scores in expected
    ]

    chosen = [rng.permutation(80)[: 5 * place] for place in range(len(queries))]
    found = rerank(queries, blocks, chosen, depth)
    assert [list(ranking.items()) for ranking in found] == [
        best([scores[row] for row in rows], [doc_ids[row] for row in rows], depth)
        for scores, rows in zip(expected, chosen, strict=True)
    ]


def test_a_model_scores_as_the_library_does(small_model: Any) -> None:
    model, _ = small_model(SYSTEM)
    queries = query_vectors(model, TEXTS[:3], 2)
    arrays = passage_vectors(model, TEXTS, 4)
    expected = model.similarity(model.encode_query(TEXTS[:3]), model.encode_document(TEXTS))
    found = max_sim(queries, arrays["vectors"], arrays["lengths"])
    np.testing.assert_allclose(found, expected.numpy(), atol=0.02)  # 16 bits on disk
    scored = ColBertSearch(batch_size=4).score(model, TEXTS[:3], TEXTS, [np.arange(6)] * 3)
    np.testing.assert_allclose(np.stack(list(scored)), found, atol=1e-5)


def test_queries_are_filled_up_with_masks_and_punctuation_is_skipped(small_model: Any) -> None:
    model, recipe = small_model(SYSTEM, dimensions=8)
    assert query_vectors(model, ["a", "what is this"], 2).shape == (2, recipe.query_length, 8)
    features = model.preprocess(["a"], prompt=model.prompts["query"], task="query")
    tokens = model.tokenizer.convert_ids_to_tokens(features["input_ids"][0])
    assert tokens[:2] == ["[CLS]", "[unused0]"]
    assert tokens.count("[MASK]") == recipe.query_length - int(features["attention_mask"].sum())
    plain, marked = passage_vectors(model, ["one two", "one, two."], 2)["lengths"]
    assert plain == marked


def test_queries_without_augmentation_keep_their_own_tokens(
    small_model: Any, tmp_path: Path
) -> None:
    long = " ".join(["what is this"] * 20)
    model, recipe = small_model(SYSTEM, dimensions=8, query_augmentation=False)
    model.save_pretrained(str(tmp_path / "model"))
    for one in (model, type(model)(str(tmp_path / "model"))):
        words = len(one.tokenizer.tokenize("what is this"))
        vectors = query_vectors(one, ["what is this", long], 2)
        # [CLS], the marker and [SEP] stand beside the words.
        assert vectors.any(axis=2).sum(axis=1).tolist() == [words + 3, recipe.query_length]
    alone = query_vectors(model, ["what is this"], 2)
    np.testing.assert_allclose(alone[0], vectors[0, : words + 3], atol=1e-5)
    arrays = passage_vectors(model, TEXTS, 4)
    scores = [max_sim(part, arrays["vectors"], arrays["lengths"])[0] for part in (alone, vectors)]
    np.testing.assert_allclose(*scores, atol=1e-5)


def test_a_recipe_that_augments_is_what_it_was_before_it_could_not(small_model: Any) -> None:
    _, recipe = small_model(SYSTEM)
    assert "query_augmentation" not in recipe.parameters()
    without = recipe.changed(query_augmentation=False)
    assert without.parameters()["query_augmentation"] is False
    assert without.digest() != recipe.digest()


def test_markers_that_the_vocabulary_holds_are_not_added(
    small_encoder: Path, small_model: Any
) -> None:
    from transformers import AutoTokenizer

    model, _ = small_model(SYSTEM)
    added = len(model.tokenizer) - len(AutoTokenizer.from_pretrained(small_encoder))
    assert added == 2
    assert model[0].model.get_input_embeddings().num_embeddings == len(model.tokenizer)


@pytest.mark.parametrize("in_batch", [True, False])
def test_the_loss_by_hand(small_model: Any, in_batch: bool) -> None:
    import torch

    model, recipe = small_model(SYSTEM, in_batch_negatives=in_batch, loss_scale=1.0)
    model.eval()
    columns = ("query", "positive", "negative_1")
    arguments = recipe.training_arguments(model, columns)
    features = []
    for place, name in enumerate(columns):
        task, prompt = arguments["router_mapping"][name], arguments["prompts"][name]
        texts = TEXTS[2 * place : 2 * place + 2]
        features.append({**model.preprocess(texts, prompt=prompt, task=task), "task": task})
    with torch.no_grad():
        loss = recipe.training_loss(model)(features, None)
    queries = model.encode_query(TEXTS[:2])
    scores = model.similarity(queries, model.encode_document(TEXTS[2:]))
    if not in_batch:
        scores[[0, 0, 1, 1], [1, 3, 0, 2]] = -torch.inf
    expected = -torch.log_softmax(scores, dim=1)[[0, 1], [0, 1]].mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
