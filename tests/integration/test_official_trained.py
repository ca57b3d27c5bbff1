"""The official edition, from a checkout to a board of it: imported, trained on, submitted."""

from __future__ import annotations

from collections.abc import Iterator
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
from tests.conftest import Command
from tests.support.board_digests import data_digest
from tests.support.fabricated import write_system
from tests.support.making import make_runs
from tests.support.official_checkout import write_mini_checkout
from tests.support.run_files import sidecar
from tests.support.tiny_recipes import tiny_recipe

pytestmark = [pytest.mark.neural, pytest.mark.extended]

COLLECTION = "mini:300"

VALIDATION = {"every": 3, "queries": 10, "depth": 5, "patience": 0}


def imported(folder: Path, trained_share: float) -> Path:
    """Return the official edition of a checkout that trains on a share of its queries."""
    collection = open_collection(COLLECTION)
    checkout = write_mini_checkout(folder / "checkout", collection, trained_share=trained_share)
    import_official([checkout], folder / "msshift", collection=collection)
    return folder / "msshift"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return imported(tmp_path_factory.mktemp("official"), 0.75)


@pytest.fixture(scope="module")
def used_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set of which every query is trained on or tested with."""
    return imported(tmp_path_factory.mktemp("used-up"), 1.0)


def trained(data: Path, folder: Path) -> list[Path]:
    """Train a bi-encoder on `length` without each of its groups; return the runs."""
    recipe = folder / "tiny.toml"
    recipe.write_text(tiny_recipe("bi-encoder", validation=VALIDATION))
    given: dict[str, Any] = {"data": data, "collection": COLLECTION, "recipe": recipe}
    return make_runs("bi-encoder", ["length"], out=folder / "runs", **given)


@pytest.fixture
def board(data: Path) -> Iterator[str]:
    """Let the board of the official edition accept the made-up test sets."""
    board = BOARDS["ms-marco"]
    released = board.shifts
    object.__setattr__(board, "shifts", {"length": (data_digest("length", data),)})
    yield board.id
    object.__setattr__(board, "shifts", released)


def test_the_official_edition_is_trained_on_and_submitted(
    data: Path, board: str, tmp_path: Path
) -> None:
    for run in trained(data, tmp_path):
        said = sidecar(run)
        assert (said["edition"], said["training"]["leaked"]) == ("official-2022", 0)
        validated = len(load_dataset(data, f"length-{said['held_out']}", split="validation"))
        assert said["training"]["validation_queries"] == validated > 10
        assert said["training"]["weights_kept"] == "best"
        assert list(said["training"]["history"]) == ["3", "6", "7"]

    described = write_system(tmp_path / "system.toml", "bi-encoder", length="msshift")
    described.write_text(described.read_text().replace('board = "mini"', f'board = "{board}"'))
    submission = tmp_path / "submission"
    entry = submit_system(tmp_path / "runs" / "bi-encoder", described, submission, data)
    assert entry.training_class == "held-out"
    checked = check_entry(entry.folder, open_dataset(data), submission / "runs")
    assert [str(finding) for finding in checked.findings if finding.severity == "error"] == []
    assert checked.rescored


def test_without_validation_queries_the_last_weights_are_kept(
    used_up: Path, tmp_path: Path, msshift: Command
) -> None:
    (tmp_path / "tiny.toml").write_text(tiny_recipe("bi-encoder", validation=VALIDATION))
    given = (
        "--shift",
        "length",
        "--held-out",
        "short",
        "--recipe",
        "tiny.toml",
        "--collection",
        COLLECTION,
    )
    done = msshift("run", "bi-encoder", "--data", used_up, *given)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "validation" in line] == [
        "bi-encoder without short of length: the data set holds no validation queries, so "
        "training goes on to the last step without early stopping, and the last weights are kept"
    ]
    (run,) = done.stdout.splitlines()
    said = sidecar(tmp_path / run)
    assert said["parameters"]["validation"] == VALIDATION
    training = said["training"]
    assert (training["steps"], training["leaked"]) == (7, 0)
    assert (training["validation_queries"], training["weights_kept"]) == (0, "last")
    assert "history" not in training


def test_an_edition_without_training_queries_says_so(data: Path, tmp_path: Path) -> None:
    released = tmp_path / "checkout"
    released.mkdir()
    (released / "EVAL").symlink_to(data.parent / "checkout" / "EVAL")
    import_official([released], tmp_path / "msshift", collection=open_collection(COLLECTION))
    with pytest.raises(UsageError, match=r"holds no train queries of length-short: it was import"):
        trained(tmp_path / "msshift", tmp_path)
