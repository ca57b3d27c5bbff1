"""``msshift analyse``: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Build, Command
from tests.support.fabricated import write_runs


@pytest.fixture
def work(build_once: Build, tmp_path: Path) -> Path:
    """A folder with a data set, two systems on question words, and files of queries."""
    data = build_once("mini:300", "length", "wh-words")
    (tmp_path / "msshift").symlink_to(data)
    write_runs(tmp_path / "runs" / "dense", data, "wh-words", seeds=(1, 2))
    write_runs(tmp_path / "runs" / "bm25", data, "wh-words", one=True)
    (tmp_path / "train.tsv").write_text("1\tcheap flights to rome\n2\twho is the pope\n")
    (tmp_path / "near.tsv").write_text("8\tcheap rooms in rome\n9\twho is rome\n")
    (tmp_path / "far.tsv").write_text("9\tquantum chromodynamics\n")
    return tmp_path


def test_run_sets_are_analysed_and_their_link_predicts(msshift: Command, work: Path) -> None:
    done = msshift("analyse", "runs", "--output", "analysis.json")
    assert done.returncode == 0, done.stderr
    for title in (
        "wh-words: Rel Loss in RR@10 against weighted-jaccard of test queries",
        "wh-words: Rel Loss in ASL@100 by unseen-words of the query",
        "Detectable Rel Loss in RR@10",
    ):
        assert title in done.stdout
    assert "These data cannot show a link between weighted-jaccard" in done.stdout
    # What is about all figures stands once, below the last table.
    assert done.stdout.count("slope x 100: points of Rel Loss per 1") == 1
    analysis = json.loads((work / "analysis.json").read_text())
    assert analysis["kind"] == "analysis"
    assert {row.get("measure") for row in analysis["figures"]} == {None, "RR@10", "ASL@100"}
    queries = ("--train", "train.tsv", "--test", "near.tsv", "--measures", "RR@10")
    refused = msshift("analyse", "runs", *queries)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "outside the range of the link's 3 groups, 0." in refused.stderr
    foretold = msshift("analyse", "runs", *queries, "--extrapolate", "--format", "json")
    assert foretold.returncode == 0, foretold.stderr
    figures = json.loads(foretold.stdout)["figures"]
    assert [row["system"] for row in figures if row["figure"] == "foretold"] == ["dense"]
    assert "warning: These data cannot show a link" in foretold.stderr
    assert "warning: extrapolated" in foretold.stderr


def test_the_papers_figures_are_analysed_and_predict(msshift: Command, work: Path) -> None:
    done = msshift("analyse", "--published", "--format", "csv", "--verbose")
    assert done.returncode == 0, done.stderr
    spearman = "spearman,,topics,splade-max,weighted-jaccard,RR@10,all,,all,-1,,,0.2666666667,"
    spearman += "0.01666666667,,holm over 20 tests (rank correlations of this call)"
    assert spearman in done.stdout
    assert "a perfect order of 5 groups has p = 0.017 before any correction" in done.stderr
    files = ("--published", "--train", "train.tsv", "--test")
    near = msshift("analyse", *files, "near.tsv")
    assert near.returncode == 0, near.stderr
    assert "95% prediction interval" in near.stdout
    assert "mean of systems" in near.stdout
    far = msshift("analyse", *files, "far.tsv")
    assert far.returncode == 1
    assert "the link's 8 groups, 0.2261 to 0.4268" in far.stderr


def test_of_the_papers_figures_some_are_chosen(msshift: Command, work: Path) -> None:
    (work / "msshift.toml").write_text('shifts = ["length"]\n')
    done = msshift("analyse", "--published", "--shift", "wh-words", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert {row["shift"] for row in json.loads(done.stdout)["figures"]} == {"wh-words"}
    assert msshift("analyse", "--published").stdout.count("topics and wh-words") > 0
