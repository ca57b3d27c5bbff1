"""The official edition, from a checkout to a board of it: imported, trained on, submitted."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from msshift_bench.baselines import run_baseline
from msshift_bench.collection import Collection, open_collection
from msshift_bench.dataset_builders.importing import import_official
from msshift_bench.dataset_builders.official_training import TRAINING_COLUMNS
from msshift_bench.dataset_builders.wh_words import matching_groups
from msshift_bench.errors import UsageError
from msshift_bench.leaderboard.boards import BOARDS
from msshift_bench.leaderboard.check import check_submission
from msshift_bench.leaderboard.rescoring import data_digest
from msshift_bench.leaderboard.submitting import submit
from tests.fabricated import write_meta
from tests.run_files import sidecar
from tests.tiny_recipes import NEURAL, tiny_recipe

pytestmark = [pytest.mark.neural, pytest.mark.slow]

COLLECTION = "mini:400"

VALIDATION = {"every": 3, "queries": 10, "depth": 5, "patience": 0}

FILES = {f"C{n}": str(n) for n in range(5)} | {g: g for g in ("wha", "how", "who")}


def write_checkout(folder: Path, collection: Collection) -> Path:
    """Write a checkout of the release in which every query is trained on or tested."""
    relevant = collection.qrels.relevant()
    tests: dict[str, dict[str, str]] = defaultdict(dict)
    lines = ["\t".join(TRAINING_COLUMNS)]
    words = {"wha": 0, "how": 1, "who": 2}
    asked = [(query_id, text) for query_id, text in collection.queries if query_id in relevant]
    for number, (query_id, text) in enumerate(asked):
        topic = number % 6
        word = min((words[g] for g in matching_groups(text, "substring")), default=3)
        length = int(len(text.split(" ")) > 5)
        if number % 5 == 0:
            tests["long" if length else "short"][query_id] = text
            if topic < 5:
                tests[f"C{topic}"][query_id] = text
            if word < 3:
                tests[list(words)[word]][query_id] = text
        else:
            lines.append(f"{text}\t{topic}\t{int(topic < 5)}\t{word}\t{int(word < 3)}\t{length}\t1")
    for group, queries in tests.items():
        name = FILES.get(group, group)
        for kind, content in (
            (f"queries/queries_{name}.tsv", "".join(f"{q}\t{t}\n" for q, t in queries.items())),
            (
                f"qrel/qrel_{name}.json",
                json.dumps({q: dict.fromkeys(relevant[q], 1) for q in queries}),
            ),
        ):
            path = folder / "EVAL" / kind
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    (folder / "TRAIN").mkdir()
    (folder / "TRAIN" / "queries_clustering.tsv").write_text(
        "".join(f"{line}\n" for line in lines), encoding="utf-8"
    )
    return folder


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkout(tmp_path_factory.mktemp("official"), open_collection(COLLECTION))


@pytest.fixture(scope="module")
def data(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "msshift"
    import_official([checkout], folder, collection=open_collection(COLLECTION))
    return folder


@pytest.fixture
def board(data: Path) -> Iterator[str]:
    """Let the board of the official edition accept the made-up test sets."""
    board = BOARDS["ms-marco"]
    released = board.shifts
    object.__setattr__(board, "shifts", {"length": (data_digest("length", data),)})
    yield board.id
    object.__setattr__(board, "shifts", released)


@pytest.mark.parametrize("system", NEURAL)
def test_the_official_edition_is_trained_on_and_submitted(
    system: str, data: Path, board: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(tiny_recipe(system, validation=VALIDATION))
    with caplog.at_level(logging.WARNING, "msshift_bench"):
        runs = run_baseline(
            system,
            ["length"],
            data=data,
            collection=COLLECTION,
            out=tmp_path / "runs",
            recipe=recipe,
        )
    assert [record.getMessage() for record in caplog.records] == [
        f"{system} without {group} of length: the data set holds no validation queries, so "
        "training goes on to step 7 without early stopping, and the last weights are kept"
        for group in ("short", "long")
    ]
    for run in runs:
        said = sidecar(run)
        assert said["edition"] == "official-2022"
        assert said["parameters"]["validation"] == VALIDATION
        training = said["training"]
        assert (training["steps"], training["leaked"]) == (7, 0)
        assert (training["validation_queries"], training["weights_kept"]) == (0, "last")
        assert "history" not in training

    meta = write_meta(tmp_path / "meta.toml", system, length="msshift")
    meta.write_text(meta.read_text().replace('board = "mini"', f'board = "{board}"'))
    submitted = submit(tmp_path / "runs" / system, meta, tmp_path / "submission", data)
    assert submitted.training.exposure == "held-out"
    checked = check_submission(tmp_path / "submission", data=data)
    assert [str(finding) for finding in checked.findings if finding.severity == "error"] == []
    assert checked.rescored == ("length",)


def test_an_edition_without_training_queries_says_so(checkout: Path, tmp_path: Path) -> None:
    released = tmp_path / "checkout"
    released.mkdir()
    (released / "EVAL").symlink_to(checkout / "EVAL")
    import_official([released], tmp_path / "data", collection=open_collection(COLLECTION))
    with pytest.raises(UsageError, match=r"holds no train queries of length-short: it was import"):
        run_baseline(
            "bi-encoder",
            ["length"],
            data=tmp_path / "data",
            collection=COLLECTION,
            out=tmp_path / "runs",
            recipe="mini",
        )
