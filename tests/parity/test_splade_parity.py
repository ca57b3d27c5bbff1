"""SPLADE against the formulas of its papers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.retrievers.splade import (
    SparseSearch,
    Splade,
    other_positives_loss,
    sparse_vectors,
)
from msshift_bench.baselines.training.trainer import in_processes
from msshift_bench.mini.generator import passages
from tests.parity.conftest import loss_of

pytestmark = pytest.mark.neural

TEXTS = [passage.text for passage in passages(7)]


@pytest.fixture(scope="module")
def made(small_model: Any) -> tuple[Any, Any]:
    model, recipe = small_model(Splade, query_flops=0.3, passage_flops=0.2, flops_steps=4)
    return model, recipe


def _by_hand(model: Any, text: str, length: int) -> Any:
    """Return the vector of one text, without a batch (SPLADE v2, equations 1 and 6)."""
    import torch

    tokens = model.tokenizer(text, truncation=True, max_length=length, return_tensors="pt")
    with torch.no_grad():
        logits = model[0].model(**tokens).logits[0]
    return torch.log(1 + torch.relu(logits)).max(dim=0).values


def test_a_vector_is_the_formula(made: tuple[Any, Any]) -> None:
    model, recipe = made
    for method, length in (
        (model.encode_query, recipe.query_length),
        (model.encode_document, recipe.passage_length),
    ):
        found = sparse_vectors(method, TEXTS, batch_size=3).toarray()
        expected = np.stack([_by_hand(model, text, length).numpy() for text in TEXTS])
        assert 0 < (expected > 0).mean() < 1
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_the_logarithm_of_the_maximum_is_the_librarys_pooling(made: tuple[Any, Any]) -> None:
    import torch
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    model, _ = made
    library = SpladePooling("max")
    features = model.preprocess(["one", " ".join(TEXTS)], task="document")
    assert not features["attention_mask"].all()  # the first text is padded
    mask = features["attention_mask"]
    logits = model[0].eval()(features)["token_embeddings"].detach()
    found = {}
    for name, pooling in (("ours", model[1]), ("the library's", library.train())):
        leaf = logits.clone().requires_grad_()
        vectors = pooling({"token_embeddings": leaf * 1, "attention_mask": mask})
        vectors["sentence_embedding"].square().sum().backward()
        pooling.eval()  # from here on the library computes in place
        with torch.no_grad():
            alone = pooling({"token_embeddings": logits.clone(), "attention_mask": mask})
        found[name] = (vectors["sentence_embedding"], alone["sentence_embedding"], leaf.grad)
    for ours, theirs in zip(*found.values(), strict=True):
        assert ours.equal(theirs)


def test_the_loss_by_hand(made: tuple[Any, Any]) -> None:
    import torch

    model, recipe = made
    parts = loss_of(recipe, model, TEXTS)
    queries, positives, negatives = (
        torch.stack([_by_hand(model, text, length) for text in TEXTS[2 * place : 2 * place + 2]])
        for place, length in enumerate((12, 40, 40))
    )
    documents = torch.cat([positives, negatives])
    scores = queries @ documents.T * recipe.loss_scale
    expected = {
        "base_loss": -torch.log_softmax(scores, dim=1)[[0, 1], [0, 1]].mean(),
        "document_regularizer_loss": 0.2 * (documents.mean(dim=0) ** 2).sum(),
        "query_regularizer_loss": 0.3 * (queries.mean(dim=0) ** 2).sum(),
    }
    assert {name: value.item() for name, value in parts.items()} == pytest.approx(
        {name: value.item() for name, value in expected.items()}, rel=1e-4
    )


def test_the_weights_rise_with_the_square_of_the_step(made: tuple[Any, Any]) -> None:
    model, recipe = made
    loss = recipe.training_loss(model)
    (callback,) = recipe.callbacks(loss)
    state = SimpleNamespace(max_steps=1000, global_step=0)
    callback.on_train_begin(None, state, None)
    weights: list[float] = []
    for state.global_step in (0, 1, 2, 3, 4, 5, 999):
        callback.on_step_begin(None, state, None)
        weights += [loss.document_regularizer_weight, loss.query_regularizer_weight]
    rising = [0, 1 / 16, 4 / 16, 9 / 16, 1, 1, 1]
    assert weights == pytest.approx([most * part for part in rising for most in (0.2, 0.3)])


def regularise() -> None:
    """Compare the regulariser's gradients of two processes and of one."""
    import torch
    from torch import distributed

    recipe = Splade.model_construct(
        loss_scale=1.0, query_flops=1.0, passage_flops=1.0, teacher=None, in_batch_negatives="all"
    )
    torch.manual_seed(0)
    weight = torch.rand(5, 7, requires_grad=True)
    texts = torch.rand(8, 5)

    def gradient(part: Any) -> Any:
        regulariser = recipe.training_loss(None).document_regularizer
        regulariser.compute_loss_from_embeddings(part @ weight).backward()
        found = weight.grad.clone()
        weight.grad = None
        return found

    alone = gradient(texts)
    distributed.init_process_group("gloo")
    first = 4 * distributed.get_rank()
    together = gradient(texts[first : first + 4])
    distributed.all_reduce(together)  # DistributedDataParallel takes the mean over the processes.
    assert distributed.get_world_size() == 2
    torch.testing.assert_close(together / 2, alone)
    assert together.any()
    distributed.destroy_process_group()


@pytest.mark.extended
def test_the_number_of_processes_does_not_change_the_regulariser() -> None:
    in_processes(2, regularise)


def test_candidates_are_scored_by_the_dot_product(made: tuple[Any, Any]) -> None:
    model, _ = made
    queries = sparse_vectors(model.encode_query, TEXTS[:2], 2).toarray()
    documents = sparse_vectors(model.encode_document, TEXTS, 2).toarray()
    candidates = [np.array([5, 0]), np.array([2])]
    found = list(SparseSearch(batch_size=2).score(model, TEXTS[:2], TEXTS, candidates))
    for query, places, scores in zip(queries, candidates, found, strict=True):
        np.testing.assert_allclose(scores, documents[places] @ query, rtol=1e-5)


def test_other_positives_and_own_negatives_by_hand() -> None:
    """SPLADE v2, equation 5: the negatives of other queries take no part."""
    import torch

    random = np.random.default_rng(2)
    queries, positives, one, two = random.random((4, 3, 7)).astype(np.float32)
    expected = 0.0
    for row in range(3):
        scores = [float(queries[row] @ passage) for passage in positives]
        scores += [float(queries[row] @ negative[row]) for negative in (one, two)]
        weights = np.exp(2.0 * np.array(scores))
        expected -= np.log(weights[row] / weights.sum()) / 3
    tensors = [torch.from_numpy(vectors) for vectors in (queries, positives, one, two)]
    assert float(other_positives_loss(tensors, 2.0)) == pytest.approx(expected, abs=1e-5)


def test_recipes_choose_the_in_batch_negatives() -> None:
    import torch

    mini: Any = open_system("splade", "mini")
    random = np.random.default_rng(2)
    vectors = [torch.from_numpy(one) for one in random.random((3, 4, 9))]
    others = float(other_positives_loss(vectors, mini.loss_scale))
    for negatives in ("all", "positives"):
        loss = mini.changed(in_batch_negatives=negatives).training_loss(None).loss
        found = float(loss.compute_loss_from_embeddings(vectors, None))
        assert (found == pytest.approx(others)) == (negatives == "positives")
    paper: Any = open_system("splade", "paper")
    assert (paper.query_flops, paper.passage_flops, paper.flops_steps) == (3e-4, 1e-4, 50_000)
    assert paper.in_batch_negatives == "positives"
