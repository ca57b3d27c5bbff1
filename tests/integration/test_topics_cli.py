"""``msshift verify --topics`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msshift_bench.data.collection import open_collection
from tests.conftest import Build, Command, WriteFolder
from tests.support.tsv_files import qrel_lines


@pytest.fixture
def built(build_copy: Build) -> Path:
    return build_copy("mini:500", "topics", "length")


def test_the_three_levels_of_an_unchanged_data_set(msshift: Command, built: Path) -> None:
    done = msshift("verify", "--topics", "replay")
    assert done.returncode == 0, done.stderr
    assert "replayed/msshift: the same rows as msshift (content " in done.stdout
    done = msshift("verify", "--topics", "embed")
    assert done.returncode == 0, done.stderr
    assert "encoder: the same; embeddings: the same\n750 of 750 queries fall" in done.stdout
    done = msshift("verify", "--topics", "retrain", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["identical"], found["same_bytes"], found["regrouped"]) == (True, True, 0.0)


def test_texts_that_have_changed_are_found(
    msshift: Command, built: Path, tsv_folder: WriteFolder
) -> None:
    source = open_collection("mini:500")
    changed = tsv_folder(
        "changed",
        queries="".join(f"{i}\t{text[::-1]}\n" for i, text in source.queries.items()),
        qrels="".join(qrel_lines(source.qrels)),
    )
    done = msshift("verify", "--topics", "embed", "--collection", changed)
    assert done.returncode == 1
    assert "are not what this encoder gives" in done.stderr
    done = msshift("verify", "--topics", "replay", "--collection", changed)
    assert done.returncode == 1
    assert "replayed/msshift differs from msshift in topics/queries" in done.stderr
    done = msshift("verify", "--topics", "retrain", "--collection", changed)
    assert done.returncode == 0
    assert "change their topic" in done.stdout
    assert "'--topics replay' gives the same" in done.stderr


@pytest.mark.parametrize("level", ["replay", "embed", "retrain"])
def test_what_is_missing_is_said(msshift: Command, build_copy: Build, level: str) -> None:
    done = msshift("verify", "--topics", level)
    assert done.returncode == 3
    assert "no built data set at msshift" in done.stderr
    build_copy("mini:500", "length")
    done = msshift("verify", "--topics", level)
    assert done.returncode == 1
    assert "publishes no clusters" in done.stderr


def test_an_encoder_that_is_not_there(msshift: Command) -> None:
    done = msshift(
        "build", "topics", "--collection", "mini:500", "--encoder", "./nowhere", HF_HUB_OFFLINE="1"
    )
    assert done.returncode == 3
    assert "the one that needs no model: --encoder terms" in done.stderr
    assert "Traceback" not in done.stderr
