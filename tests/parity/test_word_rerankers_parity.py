"""KNRM, DUET and PACRR against their papers' equations, place by place, and their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.rerankers.reranker import pair_scores
from msshift_bench.baselines.rerankers.word_networks import Duet, Knrm, Pacrr
from msshift_bench.baselines.rerankers.word_reranker import WordReranker, WordTable

pytestmark = pytest.mark.neural

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord")
QUERY_LENGTH, PASSAGE_LENGTH = 4, 9
PAIRS = [
    ("birch the delta", "amber BIRCH cedar delta ember fjord"),
    ("fjord unseen ember birch amber", "unseen amber unseen fjord fjord birch, and ember delta x9"),
    ("what is it", "cedar cedar"),
]
"""Stop words count nowhere, ``unseen`` has no vector, and the second query is one word too long."""

CHANGES: dict[str, dict[str, Any]] = {
    "knrm": {"finetune": True},
    "pacrr": {"longest": 3, "filters": 3, "kept": 2, "hidden": 4},
    "duet": {"filters": 3, "hidden": 4, "pooled": 3, "dropout": 0.0},
}


def model_of(system: WordReranker[Any]) -> tuple[Any, Any, WordTable]:
    """Return an untrained model of six words in 64 bits, its recipe and its words."""
    import sentence_transformers
    import torch

    from msshift_bench.baselines.rerankers import word_reranker

    rng = np.random.default_rng(4)
    vectors = np.concatenate([np.zeros((1, 5)), rng.normal(size=(6, 5))]).astype(np.float32)
    table = WordTable(WORDS, (9, 5, 4, 3, 2, 1), 20, vectors)
    recipe = open_system(system.name, "mini").changed(
        query_length=QUERY_LENGTH, passage_length=PASSAGE_LENGTH, **CHANGES[system.name]
    )
    torch.manual_seed(1)
    module = word_reranker._scorer_class(system)(recipe, table)
    for weights in module.network.parameters():  # Capreolus' sigma of 0.001 hides the gradient.
        if weights.ndim == 1 and weights.shape == (11,) and float(weights[0].detach()) < 0.01:
            weights.data[0] = 0.05
    return sentence_transformers.CrossEncoder(modules=[module]), recipe, table


def idf(table: WordTable, word: str) -> float:
    frequency = dict(zip(WORDS, table.frequencies, strict=True)).get(word, 0)
    return math.log((table.passages + 1) / (frequency + 1))


def words_of(text: str, length: int) -> list[str]:
    stop = {"the", "what", "is", "it", "and"}
    return [word for word in text.lower().replace(",", "").split() if word not in stop][:length]


def vector(table: WordTable, word: str) -> Any:
    return table.vectors[WORDS.index(word) + 1] if word in WORDS else None


def similarity(table: WordTable, one: str, other: str) -> float:
    left, right = vector(table, one), vector(table, other)
    if left is None or right is None:
        return float(one == other)
    return float(left @ right / math.sqrt((left @ left) * (right @ right)))


def weights_of(model: Any) -> dict[str, Any]:
    return {
        name.partition("network.")[2]: value.detach().double().numpy()
        for name, value in model[0].state_dict().items()
    }


def relu(value: Any) -> Any:
    return np.maximum(value, 0)


def knrm(w: dict[str, Any], table: WordTable, query: list[str], passage: list[str]) -> float:
    """Equations 2 to 6 of Xiong et al.: sum_i log sum_j K_k(M_ij), then linear."""
    features = np.zeros(11)
    for k, (mean, width) in enumerate(zip(w["means"], w["widths"], strict=True)):
        for term in query:
            count = sum(
                math.exp(-((similarity(table, term, word) - mean) ** 2) / (2 * width**2))
                for word in passage
            )
            features[k] += math.log(count + 1e-6)
    return float(w["combine.weight"][0] @ features + w["combine.bias"][0])


def pacrr(w: dict[str, Any], table: WordTable, query: list[str], passage: list[str]) -> float:
    """Section 3 of Hui et al.: convolutions, the best filter, the best places, and the shares."""
    sim = np.zeros((QUERY_LENGTH + 2, PASSAGE_LENGTH + 2))
    for i, term in enumerate(query):
        for j, word in enumerate(passage):
            sim[i, j] = similarity(table, term, word)
    total = sum(math.exp(idf(table, term)) for term in query)
    values: list[float] = []
    for i in range(QUERY_LENGTH):
        for n in (1, 2, 3):
            kernels, biases = (w[f"convolutions.{n - 1}.{part}"] for part in ("weight", "bias"))
            found = [
                max(
                    relu(float((kernel[0] * sim[i : i + n, j : j + n]).sum() + bias))
                    for kernel, bias in zip(kernels, biases, strict=True)
                )
                for j in range(PASSAGE_LENGTH)
            ]
            values += sorted(found, reverse=True)[:2]
        values.append(math.exp(idf(table, query[i])) / total if i < len(query) else 0.0)
    hidden = relu(w["combine.0.weight"] @ values + w["combine.0.bias"])
    hidden = relu(w["combine.2.weight"] @ hidden + w["combine.2.bias"])
    return float(w["combine.4.weight"][0] @ hidden + w["combine.4.bias"][0])


def duet(w: dict[str, Any], table: WordTable, query: list[str], passage: list[str]) -> float:
    """Sections 3.1 and 3.2 of Mitra et al., with rectifiers and three words to a run."""
    local = []
    for filter_, bias in zip(
        w["local.convolution.weight"], w["local.convolution.bias"], strict=True
    ):
        rows = np.full(QUERY_LENGTH, bias)
        for i, term in enumerate(query):
            equal = [float(term == word) for word in passage]
            rows[i] += idf(table, term) * float(filter_[: len(passage)] @ equal)
        local.append(relu(rows))
    inner = np.array(local).T.ravel()  # of each query word, all filters
    inner = relu(w["local.combine.0.weight"] @ inner + w["local.combine.0.bias"])
    score = float(w["local.combine.3.weight"][0] @ inner + w["local.combine.3.bias"][0])

    def runs(text: list[str], length: int, part: str) -> Any:
        rows = np.zeros((length, 5))
        for i, word in enumerate(text):
            if word in WORDS:
                rows[i] = vector(table, word)
        kernel, bias = w[f"distributed.{part}.weight"], w[f"distributed.{part}.bias"]
        return np.array(
            [
                relu(np.einsum("fdr,rd->f", kernel, rows[i : i + 3]) + bias)
                for i in range(length - 2)
            ]
        )

    asked = runs(query, QUERY_LENGTH, "query").max(axis=0)
    asked = w["distributed.query_layer.weight"] @ asked + w["distributed.query_layer.bias"]
    found = runs(passage, PASSAGE_LENGTH, "passage")
    pooled = np.array([found[i : i + 3].max(axis=0) for i in range(len(found) - 2)])
    layer = w["distributed.passage_layer.weight"][:, :, 0]
    told = relu(pooled @ layer.T + w["distributed.passage_layer.bias"])
    matched = (asked * told).T @ w["distributed.windows.weight"][0]
    matched = relu(matched + w["distributed.windows.bias"][0])
    combine = w["distributed.combine.weight"][0]
    return score + float(combine @ matched + w["distributed.combine.bias"][0])


SYSTEMS = [(Knrm, knrm), (Pacrr, pacrr), (Duet, duet)]
IDS = [system.name for system, _ in SYSTEMS]


@pytest.mark.parametrize(("system", "by_hand"), SYSTEMS, ids=IDS)
def test_a_score_is_the_equations_of_the_paper(
    system: WordReranker[Any], by_hand: Any, tmp_path: Any
) -> None:
    model, _, table = model_of(system)
    given = [
        (words_of(query, QUERY_LENGTH), words_of(passage, PASSAGE_LENGTH))
        for query, passage in PAIRS
    ]
    expected = [by_hand(weights_of(model), table, *pair) for pair in given]
    assert len({round(one, 3) for one in expected}) == len(PAIRS)
    scores = pair_scores(model, PAIRS, 2)
    np.testing.assert_allclose(scores, expected, rtol=2e-4, atol=1e-5)

    # A saved model scores the same pairs the same.
    model.save_pretrained(str(tmp_path / "kept"), create_model_card=False)
    again = system.load_model(tmp_path / "kept")
    np.testing.assert_array_equal(pair_scores(again, PAIRS, 2), scores)


@pytest.mark.extended
@pytest.mark.parametrize("system", [system for system, _ in SYSTEMS], ids=IDS)
def test_gradients_are_finite_differences(system: WordReranker[Any]) -> None:
    import torch

    model, _, _ = model_of(system)
    network = model[0].network.double()
    weights = {name: one for name, one in network.named_parameters() if one.requires_grad}
    # Only KNRM's recipe trains the word vectors; a cosine in 32 bits is too coarse to difference.
    assert (weights.pop("embedding.weight", None) is not None) == (system is Knrm)
    features = model[0].preprocess(PAIRS[:2])
    given = (features["query"], features["passage"], features["inverse_frequencies"].double())

    def scores(*values: Any) -> Any:
        return torch.func.functional_call(network, dict(zip(weights, values, strict=True)), given)

    values = tuple(weights.values())
    assert torch.autograd.gradcheck(scores, values, rtol=1e-4)
    gradients = torch.autograd.grad(scores(*values).sum(), values)
    assert sum(int(one.count_nonzero()) for one in gradients) > 8


def test_the_hinge_loss_by_hand() -> None:
    import torch

    model, recipe, _ = model_of(Knrm)
    texts = [[pair[0] for pair in PAIRS], *[[passage] * 3 for _, passage in PAIRS]]
    with torch.no_grad():
        found = recipe.changed(loss="hinge").training_loss(model)(texts, None).item()
    raw = [
        pair_scores(model, [(query, passage[0]) for passage in texts[1:]], 8) for query in texts[0]
    ]
    expected = np.mean([max(0.0, 1 - row[0] + other) for row in raw for other in row[1:]])
    assert found == pytest.approx(expected, rel=1e-5)
