"""SPLADE, ColBERT and monoBERT against the formulas of their papers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.rerankers.reranker import MonoBert, RerankSearch, pair_scores
from msshift_bench.baselines.retrievers.colbert import (
    ColBert,
    ColBertSearch,
    max_sim,
    passage_vectors,
    query_vectors,
)
from msshift_bench.baselines.retrievers.splade import (
    SparseSearch,
    Splade,
    other_positives_loss,
    sparse_vectors,
)
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.training.trainer import in_processes
from msshift_bench.data.collection import open_collection
from msshift_bench.errors import UsageError
from msshift_bench.mini.generator import passages
from msshift_bench.records import Query, Row
from msshift_bench.search.bm25 import Bm25
from tests.parity.conftest import loss_of
from tests.support.bare_runs import bare_run

pytestmark = pytest.mark.neural

SEVEN = [passage.text for passage in passages(7)]
TEXTS = SEVEN[:6]


# ---- SPLADE ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(small_model: Any) -> tuple[Any, Any]:
    model, recipe = small_model(Splade, query_flops=0.3, passage_flops=0.2, flops_steps=4)
    return model, recipe


def _vector(model: Any, text: str, length: int) -> Any:
    """Return the vector of one text, without a batch (SPLADE v2, equations 1 and 6)."""
    import torch

    tokens = model.tokenizer(text, truncation=True, max_length=length, return_tensors="pt")
    with torch.no_grad():
        logits = model[0].model(**tokens).logits[0]
    return torch.log(1 + torch.relu(logits)).max(dim=0).values


def test_a_vector_of_splade_is_the_formula(made: tuple[Any, Any]) -> None:
    model, recipe = made
    for method, length in (
        (model.encode_query, recipe.query_length),
        (model.encode_document, recipe.passage_length),
    ):
        found = sparse_vectors(method, SEVEN, batch_size=3).toarray()
        expected = np.stack([_vector(model, text, length).numpy() for text in SEVEN])
        assert 0 < (expected > 0).mean() < 1
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_the_logarithm_of_the_maximum_is_the_librarys_pooling(made: tuple[Any, Any]) -> None:
    import torch
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    model, _ = made
    library = SpladePooling("max")
    features = model.preprocess(["one", " ".join(SEVEN)], task="document")
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


def test_the_loss_of_splade_by_hand(made: tuple[Any, Any]) -> None:
    import torch

    model, recipe = made
    parts = loss_of(recipe, model, SEVEN)
    queries, positives, negatives = (
        torch.stack([_vector(model, text, length) for text in SEVEN[2 * place : 2 * place + 2]])
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


def test_splade_scores_candidates_by_the_dot_product(made: tuple[Any, Any]) -> None:
    model, _ = made
    queries = sparse_vectors(model.encode_query, SEVEN[:2], 2).toarray()
    documents = sparse_vectors(model.encode_document, SEVEN, 2).toarray()
    candidates = [np.array([5, 0]), np.array([2])]
    found = list(SparseSearch(batch_size=2).score(model, SEVEN[:2], SEVEN, candidates))
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


# ---- ColBERT ---------------------------------------------------------------------------------


def test_colbert_scores_as_the_library_does(small_model: Any) -> None:
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
def test_the_loss_of_colbert_by_hand(small_model: Any, in_batch: bool) -> None:
    import torch

    model, recipe = small_model(ColBert, in_batch_negatives=in_batch, loss_scale=1.0)
    loss = loss_of(recipe, model, TEXTS)
    scores = model.similarity(model.encode_query(TEXTS[:2]), model.encode_document(TEXTS[2:]))
    if not in_batch:
        scores[[0, 0, 1, 1], [1, 3, 0, 2]] = -torch.inf
    expected = -torch.log_softmax(scores, dim=1)[[0, 1], [0, 1]].mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


# ---- monoBERT --------------------------------------------------------------------------------


def _score(model: Any, query: str, passage: str) -> float:
    """The score of one pair, without a batch."""
    import torch

    tokens = model.tokenizer(query, passage, truncation=True, max_length=52, return_tensors="pt")
    with torch.no_grad():
        return float(model[0].model(**tokens).logits)


def test_monobert_ranks_by_its_scores(
    small_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msshift_bench.baselines.rerankers.reranker._PAIRS", 25)
    model, _ = small_model(MonoBert)
    collection = open_collection("mini:60")
    queries = [Query(*query) for query in (*collection.queries.items(), ("none", "zzzz"))]
    queries = [*queries[:7], queries[-1]]
    rows = tuple(Row.judged(*query, "short", {}) for query in queries)
    run = bare_run(collection, tmp_path, queries=rows)
    texts = {passage.doc_id: passage.text for passage in collection.passages()}
    bm25 = Bm25(collection.passages())
    search = RerankSearch(depth=10, batch_size=4)

    found = dict(search.rank(model, run))

    assert list(found) == [query.query_id for query in queries]
    assert found["none"] == {}
    for query, candidates in zip(queries, bm25.search(q.text for q in queries), strict=True):
        ranking = found[query.query_id]
        assert ranking.keys() == set(list(candidates)[:10])
        pairs = list(ranking.items())
        assert pairs == sorted(pairs, key=lambda pair: (pair[1], pair[0]), reverse=True)
        for doc_id, score in pairs:
            expected = _score(model, query.text, texts[doc_id])
            assert score == pytest.approx(expected, abs=1e-5)

    # What was scored is not scored again.
    assert len(list((tmp_path / "scores").iterdir())) == 4
    assert dict(search.rank(None, run)) == found


@pytest.mark.parametrize("kind", ["binary", "softmax"])
def test_the_losses_of_monobert_by_hand(small_model: Any, kind: str) -> None:
    import torch

    model, recipe = small_model(MonoBert, loss=kind)
    loss = loss_of(recipe, model, TEXTS)
    scores = torch.tensor(
        [
            [_score(model, TEXTS[row], TEXTS[row + 2 * column]) for column in (1, 2)]
            for row in (0, 1)
        ]
    )
    if kind == "softmax":
        expected = -torch.log_softmax(scores, dim=1)[:, 0].mean()
    else:
        relevant = torch.sigmoid(scores)
        expected = -torch.log(torch.stack([relevant[:, 0], 1 - relevant[:, 1]])).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_reranker_of_two_classes_scores_their_difference() -> None:
    logits = np.array([[0.5, 2.0], [1.0, -1.0]], np.float32)
    model = SimpleNamespace(num_labels=2, predict=lambda *_, **__: logits)
    assert pair_scores(model, [("a", "b")] * 2, 2).tolist() == [1.5, -2.0]
    with pytest.raises(UsageError, match="the model has 3 classes"):
        RerankSearch().check_model(SimpleNamespace(num_labels=3))


# ---- losses of a teacher and of judgements ---------------------------------------------------

TRANSFORMERS = [one for one in neural_systems().values() if not one.module_name]
"""The systems with losses of their own; the word rerankers share monoBERT's."""


def value_of(loss: Any) -> float:
    return sum(float(part) for part in loss.values()) if isinstance(loss, dict) else float(loss)


@pytest.mark.parametrize("system", TRANSFORMERS, ids=lambda one: one.name)
def test_the_loss_is_the_teacher_s_and_the_weighted_judgements(
    system: Any, small_model: Any
) -> None:
    import torch

    model, recipe = small_model(system)
    flops = {"query_flops": 0.0, "passage_flops": 0.0} if system.name == "splade" else {}
    judged = recipe.changed(**flops)
    taught = judged.changed(teacher="bm25")
    labels: Any = torch.tensor([[3.0, 1.0], [2.0, 2.5]])
    if system.name == "monobert":
        labels = list(labels)
    values = [
        value_of(loss_of(one, model, TEXTS, labels))
        for one in (judged, taught, taught.changed(judgement_weight=0.25))
    ]
    assert min(values) > 0
    assert values[2] == pytest.approx(values[1] + 0.25 * values[0], rel=1e-5)


def test_a_weight_of_judgements_needs_a_teacher(small_model: Any) -> None:
    _, recipe = small_model(neural_systems()["bi-encoder"])
    with pytest.raises(UsageError, match=r"must be 0 without a teacher, got 0\.5"):
        recipe.changed(judgement_weight=0.5)
