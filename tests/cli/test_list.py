"""``msshift list`` describes the groups of the data set at hand, and marks them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msshift_bench.data import open_dataset
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, Command


@pytest.fixture
def built(build_copy: Build) -> Path:
    return build_copy("mini:500", "topics", "wh-words", "length")


def rows(shown: str, shift: str) -> dict[str, list[str]]:
    """Return the cells of a shift's table: group -> the others."""
    _, table = shown.split(f"\n{shift}: ") if not shown.startswith(f"{shift}: ") else ("", shown)
    lines = [line.split("   ") for line in table.splitlines()[4:]]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    return {row[0]: row[1:] for row in cells[: len(SHIFTS[shift].groups)]}


def test_groups_of_the_build_are_listed_with_different_ones_of_the_release(
    msshift: Command, built: Path
) -> None:
    manifest = open_dataset(built).manifest
    shown = msshift("list").stdout
    for shift in ("topics", "length"):
        for group, about in manifest.describe_groups(shift).items():
            counts, release = manifest.shifts[shift]["rows"][group], SHIFTS[shift].groups[group]
            assert (about != release) == (shift == "topics")
            numbers = [str(counts["train"]), str(counts["test"])]
            assert rows(shown, shift)[group] == [*dict.fromkeys([about, release]), *numbers]
    assert "queries in the data set (top terms)" in shown
    assert "queries in the release" in shown
    assert f"msshift: rebuilt, from mini:500, content {manifest.content_digest[:12]}" in shown


def test_a_shift_that_was_not_built_is_marked(msshift: Command, build_copy: Build) -> None:
    build_copy("mini:500", "length")
    shown = msshift("list").stdout
    assert "(rules: k-means; not in msshift)" in shown
    assert "resttest: five buckets of training and test queries" in shown
    assert "(rules: split-space; built by split-space)" in shown
    built = {
        name: shift["built"]
        for name, shift in json.loads(msshift("list", "--format", "json").stdout)["shifts"].items()
    }
    assert built.pop("length")["groups"]["long"]["queries"] == "from the median on"
    assert set(built.values()) == {None}


def test_without_a_data_set_the_release_is_listed(msshift: Command, tmp_path: Path) -> None:
    done = msshift("list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "names and public figures" in done.stdout
    assert "no built data set; 'msshift build'" in done.stdout
    assert json.loads(msshift("list", "--format", "json").stdout)["data"] is None
    (tmp_path / "msshift").mkdir()
    (tmp_path / "msshift" / "manifest.json").write_text("{}")
    assert "warning: msshift/manifest.json has schema None" in msshift("list").stderr


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_data_set_that_was_named_must_be_there(msshift: Command, how: str) -> None:
    named = msshift("list", "--data", "x") if how == "option" else msshift("list", MSSHIFT_HOME="x")
    assert (named.returncode, named.stdout) == (3, "")
    assert "no built data set at x" in named.stderr
