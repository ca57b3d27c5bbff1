"""`msshift verify` names what is not as it was built."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.plumbing import with_checksum
from tests.conftest import Build, Command


@pytest.fixture(scope="session")
def original(build_once: Build) -> Path:
    return build_once("mini:1500", "topics", "wh-words", "length")


@pytest.fixture
def built(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "msshift"))


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def edit(path: Path, change: Callable[[Any], None]) -> None:
    raw = json.loads(path.read_bytes())
    change(raw)
    path.write_text(json.dumps(with_checksum(raw)))


def named(stderr: str, folder: Path) -> set[tuple[str, str]]:
    """Return the files and codes that the lines of an error name."""
    lines = [line for line in stderr.splitlines() if line.startswith("  ")]
    found = [re.fullmatch(r"  (.+?): .+ \[([a-z-]+)\]", line) for line in lines]
    assert all(found), stderr
    return {(Path(m[1]).relative_to(folder).as_posix(), m[2]) for m in found if m}


def test_nothing_to_say(msshift: Command, built: Path) -> None:
    done = msshift("verify", built)
    assert (done.returncode, done.stdout) == (0, "")
    assert "are what was built" in done.stderr


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("topics-C2/test.parquet", "changed-bytes"),
        ("length/queries.parquet", "changed-bytes"),
        ("README.md", "changed-card"),
        ("croissant.json", "changed-bytes"),
    ],
)
def test_a_flipped_bit(msshift: Command, built: Path, file: str, code: str) -> None:
    flip(built / file)
    done = msshift("verify", built)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {built} is not what was built:\n")
    found = named(done.stderr, built)
    assert (file, code) in found
    assert {name for name, _ in found} == {file}
    assert "Traceback" not in done.stderr


def test_every_file_is_watched(msshift: Command, built: Path) -> None:
    files = [path for path in sorted(built.rglob("*")) if path.is_file()]
    for path in files:
        if path.name != "manifest.json":
            path.unlink()
    done = msshift("verify", built, "--format", "json")
    assert done.returncode == 1
    found = {(f["source"], f["code"]) for f in json.loads(done.stdout)["findings"]}
    assert found == {(str(path), "missing-file") for path in files if path.name != "manifest.json"}


@pytest.mark.parametrize("file", ["wh-words-how/train.parquet", "README.md", "croissant.json"])
def test_a_missing_file(msshift: Command, built: Path, file: str) -> None:
    (built / file).unlink()
    done = msshift("verify", built)
    assert done.returncode == 1
    assert named(done.stderr, built) == {(file, "missing-file")}


@pytest.mark.parametrize("column", ["query_id", "relevant_doc_ids"])
def test_a_column_of_another_type(msshift: Command, built: Path, column: str) -> None:
    path = built / "length-short/test.parquet"
    table = pq.read_table(path)
    numbers = pa.array(range(len(table)), pa.int64())
    pq.write_table(table.set_column(table.column_names.index(column), column, numbers), path)
    done = msshift("verify", built)
    assert done.returncode == 1
    name = "length-short/test.parquet"
    assert named(done.stderr, built) == {(name, "changed-bytes"), (name, "unreadable")}


def test_extra_files(msshift: Command, built: Path) -> None:
    (built / "length-short" / "more.parquet").write_bytes(b"")
    (built / "notes.txt").write_text("mine")
    done = msshift("verify", built)
    assert done.returncode == 1
    assert named(done.stderr, built) == {
        ("length-short/more.parquet", "extra-file"),
        ("notes.txt", "extra-file"),
    }


def more_rows_in_a_file(raw: Any) -> None:
    raw["configs"]["length-short"]["train"]["files"][0]["rows"] += 1


def more_rows_in_a_split(raw: Any) -> None:
    raw["configs"]["length-short"]["train"]["rows"] += 1


def more_rows_in_a_group(raw: Any) -> None:
    raw["shifts"]["topics"]["rows"]["C2"]["test"] += 1


def more_bytes(raw: Any) -> None:
    raw["configs"]["length-short"]["train"]["files"][0]["bytes"] += 1


def other_digest(raw: Any) -> None:
    raw["content_digest"] = "0" * 64


def other_digest_without_texts(raw: Any) -> None:
    raw["configs"]["length-short"]["train"]["ids_digest"] = "0" * 64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (more_rows_in_a_split, "rows of length-short/train: it says "),
        (more_rows_in_a_group, "rows of topics: it says "),
        (more_bytes, "bytes of length-short/train.parquet: it says "),
        (other_digest, "its digests contradict each other"),
        (other_digest_without_texts, "digest without texts of length-short/train: it says 0000"),
    ],
)
def test_a_changed_manifest(
    msshift: Command, built: Path, change: Callable[[Any], None], message: str
) -> None:
    edit(built / "manifest.json", change)
    done = msshift("verify", built)
    assert done.returncode == 1
    assert named(done.stderr, built) == {("manifest.json", "changed-manifest")}
    assert message in done.stderr


def test_a_changed_count_of_a_file(msshift: Command, built: Path) -> None:
    edit(built / "manifest.json", more_rows_in_a_file)
    done = msshift("verify", built)
    assert done.returncode == 1
    assert named(done.stderr, built) == {
        ("length-short/train.parquet", "changed-count"),
        ("manifest.json", "changed-manifest"),
    }


def test_a_manifest_that_cannot_be_read(msshift: Command, built: Path) -> None:
    (built / "manifest.json").write_text("{")
    done = msshift("verify", built)
    assert done.returncode == 1
    assert "manifest.json is not JSON" in done.stderr
    (built / "manifest.json").unlink()
    assert msshift("verify", built).returncode == 3
