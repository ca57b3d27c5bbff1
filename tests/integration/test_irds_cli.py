"""``msshift irds`` as a user meets it, and the page that shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import load_dataset
from msshift_bench.dataset_builders.build import build_dataset
from tests.conftest import Build, Command, WriteFolder

QUERIES = "".join(f"q{i}\twhat is number {'x ' * (i % 4)}{i}\n" for i in range(40))
QRELS = "".join(f"q{i} 0 d{i % 2 + 1} 1\n" for i in range(40))


@pytest.fixture(scope="session")
def built(build_once: Build) -> Path:
    return build_once("mini:500", "length")


@pytest.fixture
def data(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MSSHIFT_HOME", str(built))
    monkeypatch.setenv("MSSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MSSHIFT_COLLECTION", raising=False)
    return built


def test_export_and_list(msshift: Command, data: Path) -> None:
    rows = list(load_dataset(data, "length-short", split="test"))
    done = msshift("irds", "export", "msshift/length/short/test", "queries", "--format", "tsv")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(f"{row.query_id}\t{row.text}\n" for row in rows)
    done = msshift("irds", "export", "msshift/length/short/test", "qrels")
    assert done.stdout == "".join(
        f"{row.query_id} 0 {doc_id} 1\n" for row in rows for doc_id in row.relevant_doc_ids
    )
    done = msshift("irds", "export", "msshift/length", "queries", "--format", "jsonl")
    whole = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(whole) == len(load_dataset(data, "length", split="queries"))
    assert whole[0].keys() == {"query_id", "text", "group", "split"}
    listed = msshift("irds", "list").stdout.split()
    assert "msmarco-passage" in listed
    assert sum(name.startswith("msshift/") for name in listed) == 7


def test_passages_of_a_folder(msshift: Command, data: Path, tsv_folder: WriteFolder) -> None:
    toy = tsv_folder(queries=QUERIES, qrels=QRELS)
    build_dataset(open_collection(toy), ["length"], toy.parent / "other")
    lookup = ("lookup", "msshift/length", "d2")
    missing = msshift("irds", "--data", "other", *lookup)
    assert missing.returncode == 3
    assert "'msshift irds --collection FOLDER ...'" in missing.stderr
    assert "Traceback" not in missing.stderr
    given = msshift("irds", "--data", "other", "--collection", toy, *lookup)
    named = msshift("irds", "--data", "other", *lookup, MSSHIFT_COLLECTION=str(toy))
    assert given.stdout == named.stdout == "d2\tanother passage\n"


@pytest.mark.extended
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 1, "Usage: ir_datasets"),
        (["no-such-command"], 1, "Usage: ir_datasets"),
        (["export", "msshift/length/shrt/test", "queries"], 1, "shrt/test not found"),
        (["lookup", "msshift/length/shrt/test", "1"], 1, "shrt/test not found"),
        (["export", "msshift/length", "bogus"], 2, "invalid choice: 'bogus'"),
        (["export", "msshift/length", "scoreddocs"], 0, "does not provide scoreddocs"),
        (["--data", "nowhere", "list"], 3, "no built data set at nowhere"),
        (["--collection", "./nowhere", "list"], 3, "no folder ./nowhere"),
        (["generate_metadata", "--file", "no/folder.json", "--datasets"], 2, "expected at least"),
        (
            ["generate_metadata", "--file", "no/folder.json", "--datasets", "msshift/length"],
            3,
            "error: ir_datasets could not get a file",
        ),
    ],
)
def test_exit_codes(
    msshift: Command, script: Command, data: Path, arguments: list[str], code: int, message: str
) -> None:
    # generate_metadata forks processes, which must not be copies of the tests' process.
    run = script if arguments[:1] == ["generate_metadata"] else msshift
    done = run("irds", *arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
