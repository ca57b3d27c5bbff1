"""ColBERT: its scores, tokens and loss against the library and by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines.retrievers.colbert import (
    ColBert,
    ColBertSearch,
    max_sim,
    passage_vectors,
    query_vectors,
)
from msshift_bench.mini.generator import passages
from tests.parity.conftest import loss_of

pytestmark = pytest.mark.neural

TEXTS = [passage.text for passage in passages(6)]


def test_a_model_scores_as_the_library_does(small_model: Any) -> None:
    model, _ = small_model(ColBert)
    queries = query_vectors(model, TEXTS[:3], 2)
    arrays = passage_vectors(model, TEXTS, 4)
    expected = model.similarity(model.encode_query(TEXTS[:3]), model.encode_document(TEXTS))
    found = max_sim(queries, arrays["vectors"], arrays["lengths"])
    np.testing.assert_allclose(found, expected.numpy(), atol=0.02)  # 16 bits on disk
    scored = ColBertSearch(batch_size=4).score(model, TEXTS[:3], TEXTS, [np.arange(6)] * 3)
    np.testing.assert_allclose(np.stack(list(scored)), found, atol=1e-5)


def test_queries_are_filled_up_with_masks_and_punctuation_is_skipped(
    small_encoder: Path, small_model: Any
) -> None:
    from transformers import AutoTokenizer

    model, recipe = small_model(ColBert, dimensions=8)
    assert query_vectors(model, ["a", "what is this"], 2).shape == (2, recipe.query_length, 8)
    features = model.preprocess(["a"], prompt=model.prompts["query"], task="query")
    tokens = model.tokenizer.convert_ids_to_tokens(features["input_ids"][0])
    assert tokens[:2] == ["[CLS]", "[unused0]"]
    assert tokens.count("[MASK]") == recipe.query_length - int(features["attention_mask"].sum())
    plain, marked = passage_vectors(model, ["one two", "one, two."], 2)["lengths"]
    assert plain == marked
    # Two markers are added to the vocabulary, which has none.
    assert len(model.tokenizer) - len(AutoTokenizer.from_pretrained(small_encoder)) == 2
    assert model[0].model.get_input_embeddings().num_embeddings == len(model.tokenizer)


def test_queries_without_augmentation_keep_their_own_tokens(
    small_model: Any, tmp_path: Path
) -> None:
    long = " ".join(["what is this"] * 20)
    model, recipe = small_model(ColBert, dimensions=8, query_augmentation=False)
    model.save_pretrained(str(tmp_path / "model"))
    for one in (model, type(model)(str(tmp_path / "model"))):
        words = len(one.tokenizer.tokenize("what is this"))
        vectors = query_vectors(one, ["what is this", long], 2)
        # The words, [CLS], the marker and [SEP].
        assert vectors.any(axis=2).sum(axis=1).tolist() == [words + 3, recipe.query_length]
    alone = query_vectors(model, ["what is this"], 2)
    np.testing.assert_allclose(alone[0], vectors[0, : words + 3], atol=1e-5)
    arrays = passage_vectors(model, TEXTS, 4)
    scores = [max_sim(part, arrays["vectors"], arrays["lengths"])[0] for part in (alone, vectors)]
    np.testing.assert_allclose(*scores, atol=1e-5)
    # The default is not in a recipe's parameters, so that older recipes keep their digests.
    assert recipe.parameters()["query_augmentation"] is False
    augmented = recipe.changed(query_augmentation=True)
    assert "query_augmentation" not in augmented.parameters()
    assert augmented.digest() != recipe.digest()


@pytest.mark.parametrize("in_batch", [True, False])
def test_the_loss_by_hand(small_model: Any, in_batch: bool) -> None:
    import torch

    model, recipe = small_model(ColBert, in_batch_negatives=in_batch, loss_scale=1.0)
    loss = loss_of(recipe, model, TEXTS)
    scores = model.similarity(model.encode_query(TEXTS[:2]), model.encode_document(TEXTS[2:]))
    if not in_batch:
        scores[[0, 0, 1, 1], [1, 3, 0, 2]] = -torch.inf
    expected = -torch.log_softmax(scores, dim=1)[[0, 1], [0, 1]].mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
