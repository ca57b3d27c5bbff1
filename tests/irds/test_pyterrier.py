"""The data set in PyTerrier, found by the entry point of the package, without Java."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import ir_datasets
import pytest

from msshift_bench.data import load_dataset
from tests.conftest import REPOSITORY, Build

pt = pytest.importorskip("pyterrier", reason="pyterrier is not installed")

# What PyTerrier itself calls in pandas; nothing of ours.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.rename")


@pytest.fixture(autouse=True)
def _built(build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MSSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MSSHIFT_HOME", str(build_once("mini:500", "length", "wh-words")))
    # As pyproject.toml has it: what is installed may be older, and a release is tried on its own.
    group = "pyterrier.dataset_provider"
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    own = [EntryPoint(*item, group) for item in project["entry-points"][group].items()]
    others = pt.utils.entry_points
    monkeypatch.setattr(pt.utils, "entry_points", lambda group: (*own, *others(group)))
    monkeypatch.setattr(pt.datasets._core, "_loaded_providers", {})
    before = dict(ir_datasets.registry._registered)
    yield
    ir_datasets.registry._registered = before


def test_a_split_is_found_by_its_name_with_topics_qrels_and_passages() -> None:
    dataset = pt.get_dataset("msshift:length/short/test")
    rows = list(load_dataset("msshift", "length-short", split="test"))
    topics, qrels = dataset.get_topics(), dataset.get_qrels()
    texts = dict(zip(topics["qid"], topics["query"], strict=True))
    assert texts == {row.query_id: row.text for row in rows}
    judged = set(zip(qrels["qid"], qrels["docno"], qrels["label"], strict=True))
    assert judged == {(row.query_id, *item) for row in rows for item in row.relevant.items()}
    first = next(iter(dataset.get_corpus_iter(verbose=False)))
    assert set(first) == {"docno", "text"}
    assert not pt.java.started()


def test_names_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = pt.datasets._core._load_provider("msshift")
    names = list(provider.list_dataset_names())
    assert {"length", "length/short/train", "wh-words/how/validation"} <= set(names)
    with pytest.raises(KeyError, match="length/short/train"):
        provider.get_dataset("length/shrt/test")
    monkeypatch.setenv("MSSHIFT_HOME", str(tmp_path / "nothing"))
    assert list(provider.list_dataset_names()) == []
