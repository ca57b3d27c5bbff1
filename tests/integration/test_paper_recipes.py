"""The paper's recipes: their plan at the size of MS MARCO, and their first steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from msshift_bench.baselines import Plan, Run, make, open_system
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.training.neural import Neural
from msshift_bench.cli import app
from msshift_bench.data.collection import Collection
from msshift_bench.dataset_builders.cut import Cut, cut_table
from msshift_bench.dataset_builders.write import write_dataset
from msshift_bench.mini.generator import passages
from msshift_bench.records import Grouping, Passage, Qrel, Row
from msshift_bench.search.ranking import Ranking
from msshift_bench.shifts import get_shift
from tests.conftest import Build
from tests.support.run_files import sidecar
from tests.support.tiny_recipes import NEURAL

pytestmark = [pytest.mark.neural, pytest.mark.slow]

PASSAGES = 8_841_823
"""Of MS MARCO."""

TEST_QUERIES = dict(zip(get_shift("topics").groups, (6595, 5960, 6255, 5868, 6566), strict=True))
"""Of the official topics."""

ALL_QUERIES = sum(TEST_QUERIES.values()) + len(TEST_QUERIES)


@pytest.fixture(scope="module")
def distilbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that says what DistilBERT's shape is; a plan needs no weights."""
    import torch
    import transformers

    config = transformers.DistilBertConfig(
        vocab_size=30_522, n_layers=6, dim=768, n_heads=12, hidden_dim=3072
    )
    with torch.device("meta"):
        model = transformers.DistilBertForMaskedLM(config)
    assert sum(one.numel() for one in model.distilbert.parameters()) == 66_362_880
    folder = tmp_path_factory.mktemp("encoder") / "distilbert"
    config.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def small_distilbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an untrained DistilBERT of few layers and dimensions."""
    import torch
    import transformers

    from msshift_bench.baselines.training.backbones import _SPECIAL, learn_word_pieces

    folder = tmp_path_factory.mktemp("encoder") / "small-distilbert"
    texts = [passage.text for passage in passages(300)]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=learn_word_pieces(texts, 2000), **_SPECIAL
    )
    config = transformers.DistilBertConfig(
        vocab_size=len(tokenizer), n_layers=2, dim=96, n_heads=4, hidden_dim=192
    )
    torch.manual_seed(0)
    transformers.DistilBertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


# ---- the plan -------------------------------------------------------------------------------


class Vast(Collection):
    """As many passages as MS MARCO has, all the same, and the queries of the data set `topics`."""

    name = "vast"
    layout = "tsv"

    def passages(self) -> Iterator[Passage]:
        return repeat(Passage("1", "text"), PASSAGES)

    def _query_rows(self, _: object) -> Iterator[tuple[str, int, str, str]]:
        return ((self.name, n, str(n), "text") for n in range(ALL_QUERIES))

    def _qrel_rows(self, _: object) -> Iterator[tuple[str, int, Qrel]]:
        return iter(())


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set with as many test queries as the official topics have."""
    folder = tmp_path_factory.mktemp("vast") / "msshift"
    groups = [group for group, size in TEST_QUERIES.items() for _ in range(size)]
    test = [Row(str(n), "text", group, ("1",), (1,)) for n, group in enumerate(groups)]
    train = [
        Row(str(len(test) + n), "text", group, ("1",), (1,)) for n, group in enumerate(TEST_QUERIES)
    ]
    rows = {"train": train, "validation": (), "test": test}
    write_dataset(
        folder,
        [Cut(Grouping("topics", {}, "vast", {}), cut_table(rows))],
        edition="rebuilt",
        collection={"name": "vast", "text": "raw"},
        parameters={},
    )
    return folder


@pytest.mark.parametrize("system", NEURAL)
def test_the_plan_at_the_size_of_ms_marco(
    system: str, topics: Path, distilbert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msshift_bench.data.dataset.open_collection", lambda *_, **__: Vast())
    monkeypatch.setattr(Neural, "check", lambda *_: None)  # reads all passages, for BM25
    command = ["run", system, "--recipe", "paper", "--set", f"encoder={distilbert}"]
    command += ["--set", "precision=fp32"]
    command += ["--shift", "topics", "--data", str(topics), "--collection", "vast"]
    command += ["--out", str(tmp_path / "runs"), "--dry-run"]
    done = CliRunner().invoke(app, [*command, "--format", "json"], catch_exceptions=False)
    folder = tmp_path / "runs" / system / "topics"
    assert json.loads(done.stdout) == [
        {"run": str(folder / f"{group}.run.gz"), "state": "new"} for group in TEST_QUERIES
    ]
    assert not (tmp_path / "runs").exists()


# ---- the first steps ------------------------------------------------------------------------


@pytest.fixture(scope="session")
def length(build_once: Build) -> Path:
    return build_once("mini:300", "length")


def shortened(recipe: Neural, encoder: Path) -> Neural:
    """Return a recipe of two steps for a machine without a GPU, its other fields unchanged."""
    validation = recipe.validation and recipe.validation.changed(every=2, queries=2, depth=2)
    return recipe.changed(
        encoder=str(encoder),
        precision="fp32",
        batch_size=4,
        accumulate=2,
        steps=2,
        warmup_steps=0,  # with more, the first step would change nothing
        negatives_pool=2,
        validation=validation,
    )


@pytest.mark.parametrize("system", NEURAL)
def test_the_first_steps(
    system: str,
    length: Path,
    small_distilbert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    architecture: Any = neural_systems()[system]
    models = []

    def first_passage(_search: Any, model: Any, task: Run) -> Iterator[tuple[str, Ranking]]:
        models.append(model)
        yield from ((row.query_id, {"1": 1.0}) for row in task.queries)

    monkeypatch.setattr(architecture.searcher(), "rank", first_passage)
    recipe = shortened(open_system(system, "paper"), small_distilbert)
    plan = Plan(
        system=recipe,
        shifts=["length"],
        data=length,
        collection="mini:300",
        out=tmp_path,
        held_out=["short"],
    )
    (run,) = make(plan)
    said = sidecar(run)
    training = said["training"]
    assert training["steps"] == 2
    assert training["weights_sha256"] != training["initial_weights_sha256"]
    assert ("history" in training) == (recipe.validation is not None)
    (model,) = models
    (transformer, *_) = model
    assert transformer.auto_model.config.n_layers == 2
    assert transformer.auto_model.config.dim == 96
