"""Models of sentence-transformers in memory are evaluated as saved models are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from msshift_bench import evaluate, libraries, read_run
from msshift_bench.baselines.systems import system as system_module
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.errors import DataError, UnknownNameError, UsageError
from msshift_bench.search import cached_index
from tests.baselines.conftest import Patch, Values
from tests.support.making import make_runs
from tests.support.run_files import sidecar
from tests.support.tiny_models import KINDS

pytestmark = pytest.mark.neural

SHALLOW = "RR@10 needs more passages: no ranking has more than"


@pytest.fixture
def saved(data: Path, tmp_path: Path) -> Values:
    return {"data": data, "out": tmp_path / "saved"}


def load(folder: Path, kind: str) -> Any:
    return neural_systems()[kind].load_model(folder / f"my-{kind}")


@pytest.mark.extended
@pytest.mark.parametrize("kind", KINDS)
def test_models_in_memory(kind: str, tiny_models: Path, given: Values, saved: Values) -> None:
    (one,) = make_runs(str(tiny_models / f"my-{kind}"), **saved, **{"search.depth": 3})
    model = load(tiny_models, kind)
    result = evaluate(model, name="mine", depth=3, **given)
    in_memory = evaluate(model, name="mine", depth=3, **{**given, "runs": None})
    assert (in_memory.figures, in_memory.warnings) == (result.figures, result.warnings)
    run = given["runs"] / "mine" / "length.run.gz"
    expected, found = (
        [(query, [*ranking.items()]) for query, ranking in read_run(file).items()]
        for file in (one, run)
    )
    assert found == expected
    parameters = {**sidecar(one)["parameters"], "model": neural_systems()[kind].model_type}
    assert sidecar(run)["parameters"] == parameters
    assert not result.figures.where(figure="rel_loss")
    alone = "mine: one model for all groups; it has a score on each group, but no Rel Loss"
    reranks = "mine: reranks BM25's first 3 passages, so its recall is BM25's and cannot shift"
    warnings, tag = [f"mine/length: {SHALLOW} 3", alone], "mine"
    if kind in ("monobert", "monot5", "knrm"):
        warnings, tag = [*warnings, reranks], "mine-reranks-bm25-3"
    assert (result.warnings, result.scores[0].run_facts()[0]["tag"]) == (warnings, tag)


@pytest.mark.extended
def test_rerankers_share_one_index(tiny_models: Path, given: Values, monkeypatch: Patch) -> None:
    def reranker(held_out: str) -> Any:
        model = load(tiny_models, "monobert")
        if held_out == "long":  # ranks the other way round
            model.model.classifier.weight.data.neg_()
        return model

    counted = Mock(wraps=cached_index)
    monkeypatch.setattr(system_module, "cached_index", counted)
    result = evaluate(reranker, depth=2, **given)
    counted.assert_called_once()
    (scores,) = result.scores
    assert {run["tag"] for run in scores.run_facts()} == {"reranker-reranks-bm25-2"}
    assert result.warnings == [
        f"reranker/length: {SHALLOW} 2 (2 of 2 run files)",
        "reranker: reranks BM25's first 2 passages, so its recall is BM25's and cannot shift",
    ]
    folder = given["runs"] / "reranker" / "length"
    of_groups = [sidecar(folder / f"{group}.run.gz") for group in ("short", "long")]
    assert len({facts["model"]["weights_sha256"] for facts in of_groups}) == 2
    assert {facts["hardware"]["device"] for facts in of_groups} == {"cpu"}


def test_a_models_own_similarity_is_searched_by(tiny_models: Path, given: Values) -> None:
    whole = load(tiny_models, "bi-encoder")
    bare = libraries.sentence_transformers.SentenceTransformer(modules=[*whole][:2])
    lengths = np.linalg.norm(bare.encode_document(["what is a b c", "a", "how"]), axis=1)
    assert lengths.max() > 1.01 * lengths.min()
    found = {}
    for similarity in ("cosine", "dot"):
        bare.similarity_fn_name = similarity
        evaluate(bare, name=similarity, depth=3, **given)
        run = given["runs"] / similarity / "length.run.gz"
        found[similarity] = read_run(run)
        assert sidecar(run)["parameters"]["similarity"] == similarity
    assert found["cosine"] != found["dot"]
    assert all(score <= 1.0001 for ranked in found["cosine"].values() for score in ranked.values())
    sparse = load(tiny_models, "splade")
    for model, similarity, said in (
        (bare, "euclidean", "must be dot or cosine, got 'euclidean'"),
        (sparse, "cosine", "must be dot, got 'cosine'; give a function"),
    ):
        model.similarity_fn_name = similarity
        with pytest.raises(UsageError, match=said):
            evaluate(model, **given)


def test_a_saved_model_s_similarity_may_be_named(tiny_models: Path, saved: Values) -> None:
    folder = str(tiny_models / "my-bi-encoder")
    (run,) = make_runs(folder, similarity="cosine", **{"search.depth": 3}, **saved)
    assert sidecar(run)["parameters"]["similarity"] == "cosine"
    with pytest.raises(UnknownNameError, match="field of a published model 'similarty': did you"):
        make_runs(folder, similarty="cosine", **saved)
    with pytest.raises(UnknownNameError, match="similarity 'cos'"):
        make_runs(folder, similarity="cos", **saved)
    with pytest.raises(
        UsageError, match=r"similarity is a setting of bi-encoders, and .* model of splade"
    ):
        make_runs(str(tiny_models / "my-splade"), similarity="dot", **saved)


@pytest.mark.parametrize("kind", ["bi-encoder", "splade", "colbert"])
def test_vectors_not_finite(kind: str, tiny_models: Path, saved: Values, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    broken = Path(shutil.copytree(tiny_models / f"my-{kind}", tmp_path / "broken"))
    weights = load_file(broken / "model.safetensors")
    (embeddings,) = (weights[name] for name in weights if "word_embeddings" in name)
    embeddings[300] = float("nan")  # a word of some passages
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"the model gives '.*' a vector that is not finite; train"):
        make_runs(str(broken), **saved)


def test_a_sparse_model_without_terms_makes_no_empty_run(tiny_models: Path, given: Values) -> None:
    model = load(tiny_models, "splade")
    with libraries.torch.no_grad():
        model[0].auto_model.get_output_embeddings().bias -= 1000.0
    with pytest.raises(DataError, match=r"gives none of the passages a term, .* smaller query_fl"):
        evaluate(model, name="silent", **given)
    assert not list(given["runs"].rglob("*.run.gz"))


def test_another_prompt_is_another_model(tiny_models: Path, given: Values) -> None:
    model = load(tiny_models, "bi-encoder")
    given |= {"name": "mine", "depth": 3}
    first = evaluate(model, device="cpu", **given)
    run = given["runs"] / "mine" / "length.run.gz"
    written = run.stat().st_mtime_ns
    assert evaluate(model, **given).warnings == first.warnings
    assert run.stat().st_mtime_ns == written
    model.prompts["query"] = "what is asked: "
    # It names what differs, and what the caller changes to have both.
    with pytest.raises(UsageError, match=r'query "" instead of "what is asked: "\. Choose') as told:
        evaluate(model, **given)
    assert "runs= or name=, or remove" in str(told.value)


def test_a_reranker_of_three_classes_is_refused(given: Values) -> None:
    class Wrong(libraries.sentence_transformers.CrossEncoder):
        num_labels = 3

        def __init__(self) -> None:
            libraries.torch.nn.Module.__init__(self)

    with pytest.raises(UsageError, match="3 classes; give a reranker with one or two"):
        evaluate(Wrong(), **given)
