"""Models that MTEB runs on this package's tasks, and what its predictions give here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msshift_bench as ms
from msshift_bench.libraries import Library
from tests.conftest import REPOSITORY, Build
from tests.support.documents import run_blocks
from tests.support.lanes import needs
from tests.support.tiny_encoder import make_tiny_encoder

mteb: Any = Library("mteb", "mteb")
pytestmark = [
    needs("mteb", "mteb"),
    pytest.mark.extended,
    pytest.mark.neural,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

MEASURES = "RR@10 nDCG@10 R@100"
GROUPS = ("wha", "how", "who")


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length", "wh-words")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return held-out group -> a tiny model, each with other vectors of words."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    folder = tmp_path_factory.mktemp("encoder")
    texts = [passage.text for passage in ms.open_collection("mini:300").passages()]
    make_tiny_encoder(folder, texts, length=64, layers=1, hidden=32)
    made = {}
    for seed, group in enumerate(GROUPS):
        made[group] = SentenceTransformer(modules=[Transformer(str(folder)), Pooling(32)])
        weights = made[group][0].auto_model.embeddings.word_embeddings.weight
        torch.manual_seed(seed)
        with torch.no_grad():
            weights.copy_(torch.randn(weights.shape))
    return made


def predict(model: Any, name: str, tasks: list[Any], folder: Path) -> Any:
    """Run a model by MTEB under a name; its predictions go into a folder of that name."""
    wrapped = mteb.SentenceTransformerEncoderWrapper(model)
    wrapped.mteb_model_meta = wrapped.mteb_model_meta.model_copy(update={"name": name})
    place = folder / wrapped.mteb_model_meta.model_name_as_path()
    options = {"cache": None, "show_progress_bar": False}
    return mteb.evaluate(wrapped, tasks, prediction_folder=place, **options)


def values_of(result: ms.Result) -> dict[tuple[str, ...], float | None]:
    """Return names of a figure, without its system's -> its value."""
    return {
        (row.figure, row.group, row.model, row.measure): row.value
        for row in result.figures
        if row.figure not in ("tie_best", "tie_worst")
    }


def test_held_out_models_give_the_figures_of_evaluate(
    data: Path, models: dict[str, Any], tmp_path: Path
) -> None:
    tasks = ms.mteb_tasks(data, shifts="wh-words")
    assert [task.metadata.name for task in tasks] == [f"msshift-wh-words-{g}" for g in GROUPS]
    for group, model in models.items():
        predict(model, f"me/tiny@without-{group}", tasks, tmp_path / "predictions")
    expected = ms.evaluate(
        lambda group: models[group], "wh-words", data=data, measures=MEASURES, progress=False
    )
    found = ms.evaluate_run_sets(tmp_path / "predictions", data, settings=MEASURES)
    assert values_of(found) == pytest.approx(values_of(expected), abs=1e-9)
    assert found.figures.where(figure="rel_loss", system="me/tiny")


def test_one_model_gives_its_scores_as_mteb_does(
    data: Path, models: dict[str, Any], tmp_path: Path
) -> None:
    tasks = ms.mteb_tasks(data, shifts="wh-words")
    scores = predict(models["how"], "me/tiny", tasks, tmp_path)
    expected = ms.evaluate(models["how"], "wh-words", data=data, measures=MEASURES, progress=False)
    found = ms.evaluate_run_sets(tmp_path, data, settings=MEASURES)
    assert values_of(found) == pytest.approx(values_of(expected), abs=1e-9)
    by_mteb = [result.get_score() for result in scores]
    ours = [row.value for row in found.figures.where(figure="score", measure="RR@10")]
    assert by_mteb == pytest.approx(ours[:3], abs=1e-9)
    with pytest.raises(ms.MsShiftError, match="contains predictions of me/tiny"):
        options = {"cache": None, "show_progress_bar": False}
        other = mteb.SentenceTransformerEncoderWrapper(models["who"])
        mteb.evaluate(other, tasks, prediction_folder=tmp_path / "me__tiny", **options)


def test_texts_come_from_the_collection_where_the_data_set_has_none(
    data: Path, tmp_path: Path
) -> None:
    collection = ms.open_collection("mini:300")
    ms.build_dataset(collection, ["length"], tmp_path / "ids", texts=False)
    queries = []
    for place in (tmp_path / "ids", data):
        task = ms.mteb_tasks(place, shifts="length")[0]
        task.load_data()
        part = task.dataset["default"]["test"]
        queries.append(list(part["queries"]))
        assert len(part["corpus"]) == 300
        assert part["relevant_docs"].keys() == set(part["queries"]["id"])
    assert queries[0] == queries[1]
    with pytest.raises(ms.MsShiftError, match="mini:400"):
        ms.mteb_tasks(data, "mini:400")


def test_the_blocks_of_the_page_run(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "mteb.md").read_text(encoding="utf-8")
    assert run_blocks(page, tmp_path)
    assert len(list(tmp_path.glob("predictions/*/*.json"))) == 3 * 3
