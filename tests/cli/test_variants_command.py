"""`msshift variants`: whose queries they are, and whether two files follow one rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Build, Command


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length")


def test_files_of_one_rule_do_not_differ_and_those_of_two_do(
    data: Path, tmp_path: Path, msshift: Command
) -> None:
    for name, seed in (("ours", "0"), ("others", "1")):
        options = ("--copies", "3", "--seed", seed, "--out", f"{name}.tsv")
        made = msshift("variants", "typos", "--data", data, *options)
        assert made.returncode == 0, made.stderr
    check = ("variants", "--check", "ours.tsv", "--data", data, "--against")
    done = msshift(*check, "others.tsv")
    assert done.returncode == 0, done.stderr
    assert "Do the two files follow one rule?" in done.stdout
    assert "they differ in no statistic beyond chance" in done.stdout

    # A second edit in each: the last letter is cut off.
    typed = [line.split("\t") for line in (tmp_path / "ours.tsv").read_text().splitlines()]
    (tmp_path / "cut.tsv").write_text(
        "".join(f"{query_id}\t{text[:-1]}\ta\n" for query_id, text, m in typed if m == "typos-1")
    )
    done = msshift(*check, "cut.tsv")
    assert "they differ beyond chance in: kind" in done.stdout
    told = json.loads(msshift(*check, "cut.tsv", "--format", "json").stdout)
    kind = next(test for test in told["tests"] if test["statistic"] == "kind")
    assert kind["p"] <= kind["corrected_p"] < 0.001
    assert told["queries"] == 106
    assert sum(told["edits"]["typos-1"].values()) == 106


def test_queries_are_of_a_data_set_with_texts_or_of_a_file(
    data: Path, tmp_path: Path, msshift: Command, build_once: Build
) -> None:
    (tmp_path / "queries.tsv").write_text("1\tcheap flights\n2\tflights to rome\n")
    make = ("variants", "typos", "--out", "made.tsv")
    done = msshift(*make, "--queries", "queries.tsv")
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in (tmp_path / "made.tsv").read_text().splitlines()]
    assert [line[0] for line in lines] == ["1", "2"]
    done = msshift(*make, "--queries", "queries.tsv", "--shift", "length")
    assert (done.returncode, "--queries names a file" in done.stderr) == (2, True)
    done = msshift(*make, "--data", build_once("mini:300", "length", texts=False))
    assert done.returncode == 2
    assert "holds ids only; add the texts with 'msshift import'" in done.stderr
    done = msshift("variants", "--check", "made.tsv", "--data", data)
    assert done.returncode == 1
    assert "'1'" in done.stderr
