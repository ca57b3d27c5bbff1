"""Models of sentence-transformers, evaluated from memory: as `baseline search` ranks with them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from msshift_bench import evaluate, read_run
from msshift_bench.baselines.rerankers.reranker import distance_to_teacher
from msshift_bench.baselines.systems import system as system_module
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.systems.shift_data import Lesson
from msshift_bench.baselines.training.teachers import _score_by_model
from msshift_bench.errors import DataError, UnknownNameError, UsageError
from msshift_bench.search import kept_index
from tests.conftest import Build
from tests.support.making import make_runs
from tests.support.run_files import sidecar
from tests.support.tiny_models import KINDS, save_tiny_models

pytestmark = [pytest.mark.neural, pytest.mark.slow]

COLLECTION = "mini:300"


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once(COLLECTION, "length")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_tiny_models(folder)
    return folder


def _load(models: Path, kind: str) -> Any:
    import sentence_transformers

    if neural_systems()[kind].module_name:
        return neural_systems()[kind].load_model(models / f"my-{kind}")
    model_class = getattr(sentence_transformers, neural_systems()[kind].model_type)
    return model_class(str(models / f"my-{kind}"), local_files_only=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_in_memory_ranks_as_the_saved_one(
    kind: str, models: Path, data: Path, tmp_path: Path
) -> None:
    folder = str(models / f"my-{kind}")
    (saved,) = make_runs(
        folder,
        ["length"],
        collection=COLLECTION,
        data=data,
        out=tmp_path / "saved",
        **{"search.depth": 5},
    )
    result = evaluate(
        _load(models, kind), "length", data=data, runs=tmp_path / "runs", name="mine", depth=5
    )
    run = tmp_path / "runs" / "mine" / "length.run.gz"
    expected, found = read_run(saved), read_run(run)
    assert found == expected
    assert [list(ranking) for ranking in found.values()] == [
        list(ranking) for ranking in expected.values()
    ]
    said = sidecar(run)["parameters"]
    assert {**sidecar(saved)["parameters"], "model": neural_systems()[kind].model_type} == said
    assert not result.figures.where(figure="rel_loss")
    alone = "mine: one model ranked for all groups: a score on each, and no Rel Loss"
    reranks = "mine: reranks BM25's first 5 passages, so that its recall is BM25's and cannot shift"
    shallow = "mine/length: RR@10 counts no passage behind rank 5: no ranking is longer"
    tag = result.scores[0].run_facts()[0]["tag"]
    if kind in ("monobert", "monot5", "knrm"):
        assert (result.doubts, tag) == ([shallow, alone, reranks], "mine-reranks-bm25-5")
    else:
        assert (result.doubts, tag) == ([shallow, alone], "mine")


def test_rerankers_from_a_factory_share_one_index(
    models: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counted(*given: Any) -> Any:
        made.append(given)
        return kept_index(*given)

    def reranker(held_out: str) -> Any:
        model = _load(models, "monobert")
        if held_out == "long":  # ranks the other way round
            model.model.classifier.weight.data.neg_()
        return model

    monkeypatch.setattr(system_module, "kept_index", counted)
    result = evaluate(reranker, "length", data=data, runs=tmp_path, depth=2)
    assert len(made) == 1
    (scores,) = result.scores
    assert {run["tag"] for run in scores.run_facts()} == {"reranker-reranks-bm25-2"}
    assert result.doubts == [
        "reranker/length: RR@10 counts no passage behind rank 2: no ranking is longer "
        "(2 of 2 run files)",
        "reranker: reranks BM25's first 2 passages, so that its recall is BM25's and cannot shift",
    ]
    said = [
        sidecar(tmp_path / "reranker" / "length" / f"{group}.run.gz") for group in ("short", "long")
    ]
    assert len({one["model"]["weights_sha256"] for one in said}) == 2
    assert {one["hardware"]["device"] for one in said} == {"cpu"}


def test_a_models_own_similarity_is_searched_by(models: Path, data: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    whole = _load(models, "bi-encoder")
    bare = SentenceTransformer(modules=[whole[0], whole[1]])  # lengths of vectors differ
    texts = ["what is a b c", "a", "how"]
    lengths = np.linalg.norm(bare.encode_document(texts), axis=1)
    assert lengths.max() > 1.01 * lengths.min()

    found = {}
    for similarity in ("cosine", "dot"):
        bare.similarity_fn_name = similarity
        runs = tmp_path / similarity
        evaluate(bare, "length", data=data, runs=runs, name="bare", depth=3)
        found[similarity] = read_run(runs / "bare" / "length.run.gz")
        assert sidecar(runs / "bare" / "length.run.gz")["parameters"]["similarity"] == similarity
    assert found["cosine"] != found["dot"]
    assert all(score <= 1.0001 for ranked in found["cosine"].values() for score in ranked.values())

    bare.similarity_fn_name = "euclidean"
    with pytest.raises(UsageError, match="by 'euclidean', and search knows dot and cosine"):
        evaluate(bare, "length", data=data)


def test_a_saved_model_is_searched_by_the_similarity_that_is_named(
    models: Path, data: Path, tmp_path: Path
) -> None:
    folder = str(models / "my-bi-encoder")
    given: dict[str, Any] = {"collection": COLLECTION, "data": data, "out": tmp_path}
    make_runs(folder, ["length"], similarity="cosine", **{"search.depth": 3}, **given)
    said = sidecar(tmp_path / "my-bi-encoder" / "length.run.gz")
    assert said["parameters"]["similarity"] == "cosine"
    with pytest.raises(UnknownNameError, match="similarity 'cos'"):
        make_runs(folder, ["length"], similarity="cos", **given)
    with pytest.raises(UsageError, match=r"similarity is of bi-encoders, and .* model of splade"):
        make_runs(str(models / "my-splade"), ["length"], similarity="dot", **given)


def test_a_sparse_model_s_other_similarity_is_not_searched_by(models: Path, data: Path) -> None:
    model = _load(models, "splade")
    model.similarity_fn_name = "cosine"
    with pytest.raises(UsageError, match="vectors by 'cosine', and search knows dot; if that will"):
        evaluate(model, "length", data=data)


@pytest.mark.parametrize("kind", ["bi-encoder", "splade", "colbert"])
def test_a_vector_that_is_not_finite_is_refused_and_not_left_out(
    kind: str, models: Path, data: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    broken = Path(shutil.copytree(models / f"my-{kind}", tmp_path / "broken"))
    weights = load_file(broken / "model.safetensors")
    (embeddings,) = (weights[name] for name in weights if "word_embeddings" in name)
    embeddings[300] = float("nan")  # a word of some passages
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"the model gives '.*' a vector that is not finite; train"):
        make_runs(str(broken), ["length"], collection=COLLECTION, data=data, out=tmp_path / "runs")


def test_a_sparse_model_without_terms_is_refused_and_makes_no_empty_run(
    models: Path, data: Path, tmp_path: Path
) -> None:
    import torch

    model = _load(models, "splade")
    with torch.no_grad():
        model[0].auto_model.get_output_embeddings().bias -= 1000.0
    with pytest.raises(DataError, match=r"gives none of the passages a term, .* smaller query_fl"):
        evaluate(model, "length", data=data, runs=tmp_path, name="silent")
    assert not list(tmp_path.rglob("*.run.gz"))


def test_a_teacher_whose_weights_were_changed_is_refused(models: Path) -> None:
    lesson = Lesson((), [], pa.array([], pa.string()), [])
    with pytest.raises(UsageError, match="my-bi-encoder is not the model that the sidecar beside"):
        _score_by_model(
            models / "my-bi-encoder", 8, "0" * 64, lesson, lambda: pytest.fail("no index")
        )


def test_the_distance_to_a_teacher_is_that_of_the_paper_or_of_softmaxes() -> None:
    import torch

    scores, taught = torch.tensor([[2.0, 1.0], [0.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 1.0]])
    # Margins 1 and 0 for the teacher's 1 and 2.
    assert float(distance_to_teacher(scores, taught, "margin-mse")) == (0**2 + 2**2) / 2
    softmax = np.exp(2) / (1 + np.exp(2))
    second = softmax * np.log(softmax / 0.5) + (1 - softmax) * np.log((1 - softmax) / 0.5)
    found = float(distance_to_teacher(scores, taught, "kl"))
    assert found == pytest.approx((0 + second) / 2, rel=1e-5)


def test_another_prompt_is_another_model(models: Path, data: Path, tmp_path: Path) -> None:
    model = _load(models, "bi-encoder")
    given: dict[str, Any] = {"data": data, "runs": tmp_path, "name": "mine", "depth": 3}
    first = evaluate(model, "length", device="cpu", **given)
    written = (tmp_path / "mine" / "length.run.gz").stat().st_mtime_ns
    assert evaluate(model, "length", **given).doubts == first.doubts
    assert (tmp_path / "mine" / "length.run.gz").stat().st_mtime_ns == written
    model.prompts["query"] = "what is asked: "
    with pytest.raises(UsageError) as caught:
        evaluate(model, "length", **given)
    # It names what differs, and what the caller changes to have both.
    assert 'differs from this request: query "" instead of "what is asked: ". Choose another ' in (
        str(caught.value)
    )
    assert "runs= or name=, or remove" in str(caught.value)


def test_a_reranker_of_three_classes_is_refused_before_anything_is_read(data: Path) -> None:
    import torch
    from sentence_transformers import CrossEncoder

    class Wrong(CrossEncoder):
        num_labels = 3

        def __init__(self) -> None:
            torch.nn.Module.__init__(self)

    with pytest.raises(UsageError, match="3 classes; a reranker needs one or two"):
        evaluate(Wrong(), "length", data=data)


def test_weights_of_16_bits_have_a_digest() -> None:
    import torch

    from msshift_bench.baselines.training.backbones import weights_digest

    layer = torch.nn.Linear(2, 2)
    assert weights_digest(layer) != weights_digest(layer.to(torch.bfloat16))
