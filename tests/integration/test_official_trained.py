"""The official edition, from a checkout to a board of it: imported, trained on, submitted."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import load_dataset, open_dataset
from msshift_bench.dataset_builders.build import import_official
from msshift_bench.errors import UsageError
from msshift_bench.leaderboard.description import BOARDS
from msshift_bench.leaderboard.gate import check_entry
from msshift_bench.leaderboard.submit import submit_system
from tests.support.board_digests import data_digest
from tests.support.fabricated import write_system
from tests.support.making import make_runs
from tests.support.official_checkout import write_mini_checkout
from tests.support.run_files import sidecar
from tests.support.tiny_recipes import tiny_recipe

pytestmark = pytest.mark.neural

COLLECTION = "mini:300"

VALIDATION = {"every": 3, "queries": 10, "depth": 5, "patience": 0}


def import_checkout(folder: Path, trained_share: float) -> Path:
    """Return the official edition of a checkout that trains on a share of its queries."""
    collection = open_collection(COLLECTION)
    checkout = write_mini_checkout(folder / "checkout", collection, trained_share=trained_share)
    import_official([checkout], folder / "msshift", collection=collection)
    return folder / "msshift"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return import_checkout(tmp_path_factory.mktemp("official"), 0.75)


def train(data: Path, folder: Path, **options: Any) -> list[Path]:
    """Train a bi-encoder on `length` without each of its groups; return the runs."""
    recipe = folder / "tiny.toml"
    recipe.write_text(tiny_recipe("bi-encoder", validation=VALIDATION))
    return make_runs("bi-encoder", data=data, recipe=recipe, out=folder / "runs", **options)


@pytest.mark.extended
def test_the_official_edition_is_trained_on_and_submitted(
    data: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for run in train(data, tmp_path):
        facts = sidecar(run)
        training = facts["training"]
        assert (facts["edition"], training["leaked"]) == ("official-2022", 0)
        validated = len(load_dataset(data, f"length-{facts['held_out']}", split="validation"))
        assert training["validation_queries"] == validated > 10
        assert training["weights_kept"] == "best"
        assert list(training["history"]) == ["3", "6", "7"]

    # The board of the official edition is changed to accept the digest of these test sets.
    board = BOARDS["ms-marco"]
    change = partial(object.__setattr__, board, "shifts")
    request.addfinalizer(partial(change, board.shifts))
    change({"length": (data_digest("length", data),)})
    described = write_system(tmp_path / "system.toml", "bi-encoder", length="msshift")
    described.write_text(described.read_text().replace('board = "mini"', f'board = "{board.id}"'))
    submission = tmp_path / "submission"
    entry = submit_system(tmp_path / "runs" / "bi-encoder", described, submission, data)
    assert entry.training_class == "held-out"
    checked = check_entry(entry.folder, open_dataset(data), submission / "runs")
    assert [str(finding) for finding in checked.findings if finding.severity == "error"] == []
    assert checked.rescored


@pytest.mark.extended
def test_without_validation_queries_the_last_weights_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Every query is trained on or tested with.
    data = import_checkout(tmp_path / "used-up", 1.0)
    (run,) = train(data, tmp_path, held_out=["short"])
    (warning,) = [line for line in caplog.messages if "no validation queries" in line]
    assert warning.startswith("bi-encoder without short of length: ")
    assert sidecar(run)["parameters"]["validation"] == VALIDATION
    training = sidecar(run)["training"]
    assert (training["steps"], training["leaked"]) == (7, 0)
    assert (training["validation_queries"], training["weights_kept"]) == (0, "last")
    assert "history" not in training


def test_an_edition_without_training_queries_is_refused(data: Path, tmp_path: Path) -> None:
    released = tmp_path / "checkout"
    released.mkdir()
    (released / "EVAL").symlink_to(data.parent / "checkout" / "EVAL")
    import_official([released], tmp_path / "msshift", collection=open_collection(COLLECTION))
    with pytest.raises(UsageError, match=r"has no train queries of length-short: it was import"):
        train(tmp_path / "msshift", tmp_path)
