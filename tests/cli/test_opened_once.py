"""A command opens its data set once, and digests its collection's queries at most once."""

from __future__ import annotations

from collections.abc import ItemsView
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from msshift_bench.cli import app
from msshift_bench.data import dataset as data_module, manifest as manifest_module
from msshift_bench.data.digests import ContentDigest
from msshift_bench.dataset_builders import write
from tests.conftest import Build
from tests.support.fabricated import write_runs

AMENDED = 2
"""Times that a command reads the manifest which changes the data set: to open it, and once it
holds the folder, because another process may have changed the data set in between."""


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("line", "manifests", "digests"),
    [
        ("verify DATA", 1, 0),
        ("evaluate RUNS --data DATA --by length", 1, 0),
        ("compare RUNS --data DATA", 1, 0),
        ("score RUN --data DATA --shift length --by length", 1, 0),
        ("run bm25 --data DATA --out OUT --dry-run", 1, 1),
        ("triples DATA --negatives 2 --depth 20", AMENDED, 1),
        ("export length-long-triples OUT --data DATA --text", 1, 1),
    ],
)
def test_a_command_opens_its_data_set_once(
    build_copy: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    manifests: int,
    digests: int,
) -> None:
    data = build_copy("mini:500", "length")
    for system in ("a", "b"):
        write_runs(tmp_path / "runs" / system, data)
    if "export" in line:
        arguments = ["triples", str(data), "--negatives", "2", "--depth", "20"]
        assert CliRunner().invoke(app, arguments).exit_code == 0
    read: list[Path] = []
    digested: list[object] = []

    def read_manifest(folder: Path) -> manifest_module.Manifest:
        read.append(folder)
        return manifest_module.read_manifest(folder)

    def digest(rows: Any) -> ContentDigest:
        if isinstance(rows, ItemsView):  # query_id -> text
            digested.append(rows)
        return of(rows)

    of = ContentDigest.of
    monkeypatch.setattr(data_module, "read_manifest", read_manifest)
    monkeypatch.setattr(write, "read_manifest", read_manifest)
    monkeypatch.setattr(ContentDigest, "of", digest)
    places = {"DATA": data, "RUNS": tmp_path / "runs", "OUT": tmp_path / "out"}
    places["RUN"] = tmp_path / "runs/a/length/short.run.gz"
    done = CliRunner().invoke(app, [str(places.get(word, word)) for word in line.split()])
    assert done.exit_code == 0, done.output
    assert (len(read), len(digested)) == (manifests, digests), read
