"""`msshift verify` names what is not as it was built."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench import verify_dataset
from msshift_bench.errors import NotFoundError
from msshift_bench.plumbing import with_checksum
from tests.conftest import Build, Command
from tests.support.file_bytes import flip
from tests.support.small_report import COLLECTION, SHIFTS

Spoil = Callable[[Path], object]
Named = set[tuple[str, str]]


@pytest.fixture(scope="session")
def original(build_once: Build) -> Path:
    return build_once(COLLECTION, *SHIFTS, "topics")


@pytest.fixture
def built(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "msshift"))


def named(stderr: str, folder: Path) -> Named:
    """Return the files and codes that the lines of an error name."""
    lines = [line for line in stderr.splitlines() if line.startswith("  ")]
    found = [re.fullmatch(r"  (.+?): .+ \[([a-z-]+)\]", line) for line in lines]
    assert all(found), stderr
    return {(Path(m[1]).relative_to(folder).as_posix(), m[2]) for m in found if m}


def flipped(file: str) -> Spoil:
    return lambda folder: flip(folder / file, (folder / file).stat().st_size // 2)


def removed(file: str) -> Spoil:
    return lambda folder: (folder / file).unlink()


def added(file: str) -> Spoil:
    return lambda folder: (folder / file).touch()


def retyped(file: str, column: str) -> Spoil:
    def spoil(folder: Path) -> None:
        table = pq.read_table(folder / file)
        numbers = pa.array(range(len(table)), pa.int64())
        place = table.column_names.index(column)
        pq.write_table(table.set_column(place, column, numbers), folder / file)

    return spoil


def edited(*path: str | int, by: int | str = 1) -> Spoil:
    """Return what adds to a number of the manifest, or replaces a text."""

    def spoil(folder: Path) -> None:
        raw = json.loads((folder / "manifest.json").read_bytes())
        within = raw
        for part in path[:-1]:
            within = within[part]
        within[path[-1]] = by if isinstance(by, str) else within[path[-1]] + by
        (folder / "manifest.json").write_text(json.dumps(with_checksum(raw)))

    return spoil


TEST, TRAIN = "length-short/test.parquet", ("configs", "length-short", "train")
MANIFEST = ("manifest.json", "changed-manifest")

CASES: list[tuple[Spoil, Named, str]] = [
    *(
        (flipped(file), {(file, code)}, "differs from its manifest")
        for file, code in (
            ("topics-C2/test.parquet", "changed-bytes"),
            ("length/queries.parquet", "changed-bytes"),
            ("README.md", "changed-card"),
            ("croissant.json", "changed-bytes"),
        )
    ),
    *(
        (removed(file), {(file, "missing-file")}, "")
        for file in ("wh-words-how/train.parquet", "README.md", "croissant.json")
    ),
    *(
        (retyped(TEST, column), {(TEST, "changed-bytes"), (TEST, "unreadable")}, "")
        for column in ("query_id", "relevant_doc_ids")
    ),
    *(
        (added(file), {(file, "extra-file")}, "")
        for file in ("length-short/more.parquet", "notes.txt")
    ),
    (edited(*TRAIN, "rows"), {MANIFEST}, "rows of length-short/train: expected "),
    (edited("shifts", "topics", "rows", "C2", "test"), {MANIFEST}, "rows of topics: expected "),
    (
        edited(*TRAIN, "files", 0, "bytes"),
        {MANIFEST},
        "bytes of length-short/train.parquet: expected",
    ),
    (
        edited("content_digest", by="0" * 64),
        {MANIFEST},
        "its content digest does not match its splits",
    ),
    (
        edited(*TRAIN, "ids_digest", by="0" * 64),
        {MANIFEST},
        "digest without texts of length-short/train: expected 0000",
    ),
    (
        edited(*TRAIN, "files", 0, "rows"),
        {MANIFEST, ("length-short/train.parquet", "changed-count")},
        "",
    ),
]


@pytest.mark.extended
@pytest.mark.parametrize(("spoil", "expected", "words"), CASES)
def test_what_is_not_as_it_was_built_is_named(
    msshift: Command, built: Path, spoil: Spoil, expected: Named, words: str
) -> None:
    spoil(built)
    done = msshift("verify", built)
    assert (done.returncode, done.stdout) == (1, "")
    first, second, *_ = done.stderr.splitlines()
    assert first.startswith(f"checking {built}: ")
    assert second == f"error: {built} differs from its manifest:"
    found = named(done.stderr, built)
    # What else is wrong with bytes that were changed depends on where.
    assert expected <= found
    assert all((file, "changed-bytes") in expected for file, _ in found - expected)
    assert words in done.stderr


def test_every_file_is_watched(msshift: Command, built: Path) -> None:
    files = [path for path in sorted(built.rglob("*")) if path.is_file()]
    for path in files:
        if path.name != "manifest.json":
            path.unlink()
    done = msshift("verify", built, "--format", "json")
    assert done.returncode == 1
    found = {(f["source"], f["code"]) for f in json.loads(done.stdout)["findings"]}
    assert found == {(str(path), "missing-file") for path in files if path.name != "manifest.json"}


def test_a_manifest_that_cannot_be_read(msshift: Command, built: Path) -> None:
    (built / "manifest.json").write_text("{")
    done = msshift("verify", built)
    assert done.returncode == 1
    assert "manifest.json is not JSON" in done.stderr
    (built / "manifest.json").unlink()
    assert msshift("verify", built).returncode == 3


def test_the_installed_data_set_is_checked_only_by_its_path(
    msshift: Command, original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = shutil.copytree(original, tmp_path / "cache" / "data" / "msshift")
    cache = {"MSSHIFT_CACHE": str(tmp_path / "cache"), "MSSHIFT_HOME": ""}
    (tmp_path / ".msshift.partial").mkdir()  # A build was killed.
    for arguments in (["verify"], ["verify", "--topics", "replay"]):
        done = msshift(*arguments, **cache)
        assert (done.returncode, done.stdout) == (3, "")
        assert f"give the folder to check, e.g. the installed data set, {installed}" in done.stderr
    done = msshift("verify", installed, **cache)
    assert done.returncode == 0
    assert done.stderr.splitlines()[0].startswith(f"checking {installed}: ")
    done = msshift("verify", **{**cache, "MSSHIFT_HOME": str(installed)})
    assert done.returncode == 0
    for name, value in cache.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError, match="give the folder to check"):
        verify_dataset()
    assert verify_dataset(installed)[1] == []
