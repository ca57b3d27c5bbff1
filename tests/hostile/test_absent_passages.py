"""Relevant passages that the collection lacks: every table says how many there are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msshift_bench.cli import app
from msshift_bench.plumbing import with_checksum
from tests.conftest import Build
from tests.support.fabricated import write_run, write_runs

FORMATS = ("text", "markdown", "latex", "json")
ABSENT = "relevant passages are not in the collection that was searched"


@pytest.fixture(scope="module")
def world(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs, and a data set whose manifest counts passages that its collection lacks."""
    folder = tmp_path_factory.mktemp("absent")
    shutil.copytree(build_once("mini:500", "length"), folder / "msshift")
    path = folder / "msshift/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["collection"]["passages"] = {"rows": 500, "relevant": 1600, "relevant_absent": 1300}
    del manifest["checksum"]
    path.write_text(json.dumps(with_checksum(manifest)))
    for name in ("a", "b"):
        write_runs(folder / "runs" / name, folder / "msshift")
    return folder


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize(
    "words",
    [
        "evaluate {0}/runs --data {0}/msshift",
        "compare {0}/runs --data {0}/msshift",
        "score {0}/runs/a/length/short.run.gz --test length-short --data {0}/msshift",
    ],
)
def test_what_the_manifest_counts(world: Path, words: str, table_format: str) -> None:
    done = CliRunner().invoke(app, [*words.format(world).split(), "--format", table_format])
    assert done.exit_code == 0, done.stderr
    assert f"1,300 {ABSENT}" in done.stdout
    assert f"1,300 {ABSENT}" in done.stderr


@pytest.mark.parametrize("table_format", FORMATS)
def test_what_the_sidecar_of_a_run_counts(tmp_path: Path, table_format: str) -> None:
    (tmp_path / "dl").mkdir()
    (tmp_path / "dl/queries.tsv").write_text("".join(f"q{n}\twho\n" for n in range(9)))
    (tmp_path / "dl/qrels.tsv").write_text("".join(f"q{n} 0 d 1\n" for n in range(9)))
    for place in (".", "also/dl"):
        run = write_run(
            tmp_path / "runs/bm25" / place / "length.run", [(f"q{n}", ["d"]) for n in range(9)]
        )
        facts = {"relevant_not_in_collection": {"test": 7}}
        run.with_name("length.run.json").write_text(json.dumps(with_checksum(facts)))
    words = ["evaluate", str(tmp_path / "runs"), "--also-test", f"dl={tmp_path / 'dl'}"]
    done = CliRunner().invoke(app, [*words, "--format", table_format])
    assert done.exit_code == 0, repr(done.exception)
    assert f"bm25 on dl (length): 7 {ABSENT}" in done.stdout
