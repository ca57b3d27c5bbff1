"""Where an output is written: nothing but a file is replaced, and no input."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from msshift_bench.cli import app
from msshift_bench.errors import MsShiftError, NotFoundError, UsageError
from tests.conftest import Command
from tests.support.fabricated import write_runs
from tests.support.file_bytes import file_bytes

SETS = "evaluate runs --data msshift"
ONE = "score my.run --qrels qrels.txt"
TWO = "compare runs --data msshift"
EXPORT = "export length-short-triples {} --data msshift"
NEAR = "similarity --data msshift --indicator"
LINKS = "analyse runs --data msshift"
TRAIN = "leakage experiment --collection own"
VARIANTS = "variants typos --data msshift"


@pytest.fixture
def folder(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Inputs of which no file can be read as what it is: none is, before a target is checked."""
    folder = tmp_path / "work"
    shutil.copytree(data, folder / "msshift")
    for system in ("dense", "sparse"):
        write_runs(folder / "runs" / system, folder / "msshift")
    (folder / "runs" / "dense" / "length" / "short.run.json").write_text("{}")
    (folder / "runs" / "dense" / "length" / "short.run.gz").write_bytes(gzip.compress(b"no run"))
    (folder / "my.run").write_text("no run")
    (folder / "qrels.txt").write_text("no qrels")
    (folder / "labels.tsv").write_text("no labels")
    (folder / "own").mkdir()
    (folder / "own" / "collection.tsv").write_text("no collection")
    (folder / "link").symlink_to("my.run")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{SETS} --per-query runs/dense/length/short.run.gz", "short.run.gz is an input"),
        (f"{SETS} --per-query runs/dense/length/short.run.json", "short.run.json is an input"),
        (f"{SETS} --output msshift/manifest.json", "msshift/manifest.json is in the input"),
        (f"{SETS} --output msshift/new.json", "msshift/new.json is in the input"),
        (f"{SETS} --by labels.tsv --per-query labels.tsv", "labels.tsv is an input"),
        (f"{SETS} --output x.json --per-query ./x.json", "x.json is given for two outputs"),
        (f"{SETS} --per-query runs", "runs is a folder; give the name of a file"),
        (f"{ONE} --per-query my.run", "my.run is an input"),
        (f"{ONE} --per-query link", "link is an input"),
        (f"{ONE} --per-query qrels.txt", "qrels.txt is an input"),
        (f"{TWO} --output runs/dense/length/short.run.json", "short.run.json is an input"),
        (EXPORT.format("msshift/README.md"), "msshift/README.md is in the input .*msshift"),
        (
            f"{EXPORT.format('own/collection.tsv')} --text --collection ~/own",
            "is an input and would be",
        ),
        (f"{EXPORT.format('x.tsv')} --collection own", "--collection is only for texts; add"),
        (f"{NEAR} unseen-words --output msshift/length/queries.parquet", "is in the input"),
        (f"{LINKS} --output runs/dense/length/short.run.json", "short.run.json is an input"),
        (f"{LINKS} --output runs/dense/x.json --models runs/dense", "is in the input runs/dense"),
        (f"{TRAIN} --test own --output own/x.json", "own/x.json is in the input own"),
        (f"{VARIANTS} --out msshift/manifest.json", "msshift/manifest.json is in the input"),
        (f"{VARIANTS} --out labels.tsv --queries labels.tsv", "labels.tsv is an input"),
    ],
)
def test_what_is_read_is_no_output(
    folder: Path, line: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSSHIFT_COLLECTION", "own")
    monkeypatch.setenv("HOME", str(folder))
    before = file_bytes(folder)
    with pytest.raises(UsageError, match=message) as raised:
        app(line.split(), standalone_mode=False)
    assert raised.value.exit_code == 2
    assert file_bytes(folder) == before


@pytest.mark.parametrize(
    "line",
    [
        f"{SETS} --output reprots/x.json",
        f"{SETS} --per-query reprots/x.parquet",
        f"{ONE} --output reprots/x.json",
        f"{TWO} --output reprots/x.json",
        f"{TRAIN} --output reprots/x.json",
        EXPORT.format("reprots/x.tsv"),
    ],
)
def test_no_folder_is_made_for_a_typing_error(folder: Path, line: str) -> None:
    with pytest.raises(NotFoundError, match="no folder reprots for the output x"):
        app(line.split(), standalone_mode=False)
    assert not (folder / "reprots").exists()


def test_a_target_that_can_be_written_does_not_hide_what_is_wrong(folder: Path) -> None:
    with pytest.raises(MsShiftError, match="field-count"):
        app(f"{SETS} --output x.json".split(), standalone_mode=False)
    assert not (folder / "x.json").exists()


def test_a_link_stays_and_its_file_holds_what_is_printed(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("1 0 a 1\n")
    (tmp_path / "r.run").write_text("1 Q0 a 1 1 t\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "x.json").symlink_to("elsewhere/x.json")
    done = msshift(
        *["score", "r.run", "--qrels", "q.txt", "--output", "x.json", "--format", "json"]
    )
    assert (tmp_path / "x.json").is_symlink()
    assert json.loads(done.stdout) == json.loads((tmp_path / "elsewhere/x.json").read_bytes())
