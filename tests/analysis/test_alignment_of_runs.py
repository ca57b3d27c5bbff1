"""An alignment of runs: in-domain and zero-shot scores, and scores on extra test sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.analysis import scores_of_runs
from msshift_bench.errors import NotFoundError, UsageError
from msshift_bench.stats import MEAN, Figures
from tests.conftest import Build, Command, WriteFolder
from tests.support.fabricated import write_run, write_runs
from tests.support.figures import read_figures

SYSTEMS = ("a", "b", "c", "d", "e", "f")
EXTRA = ("--extra-test", "toy=toy")
DOCS = [f"d{n}" for n in range(12)]


@pytest.fixture
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length", "wh-words")


@pytest.fixture
def runs(data: Path, tmp_path: Path, tsv_folder: WriteFolder) -> Path:
    """Run sets of six systems, with runs for a test set with passages of its own."""
    tsv_folder("toy", collection="d1\tone\nd2\ttwo\n")
    for place, system in enumerate(SYSTEMS):
        write_runs(tmp_path / "runs" / system, data)
        for shift, group in enumerate(("short", "long")):
            first = [*DOCS[place + shift :], *DOCS[: place + shift]]
            ranked = [("q1", first), ("q2", DOCS[::-1])]
            write_run(tmp_path / f"runs/{system}/extra/toy/length/{group}.run", ranked)
    # One model for all groups has no Out.
    write_runs(tmp_path / "runs" / "bm25", data, one=True)
    write_run(tmp_path / "runs/bm25/extra/toy/length.run", [("q1", DOCS), ("q2", DOCS)])
    return tmp_path / "runs"


@pytest.mark.extended
def test_it_equals_the_alignment_of_a_file_of_the_same_scores(
    runs: Path, data: Path, tmp_path: Path, msshift: Command
) -> None:
    def figures(*command: object) -> Figures:
        done = msshift(*command, "--format", "json")
        assert done.returncode == 0, done.stderr
        return read_figures(done.stdout)

    measure = ("--data", data, "--measures", "nDCG@10")
    found = figures("analyse", "runs", *measure, *EXTRA, "--plot", "runs.svg")
    inside = figures("evaluate", "runs", *measure)
    outside = figures("evaluate", "runs", *measure, *EXTRA)
    lines = ["model,interpolation,extrapolation,toy"]
    for system in SYSTEMS:
        means = [inside.where(figure=f, group=MEAN, system=system) for f in ("avg_in", "out")]
        means.append(outside.where(figure="score", model=MEAN, system=system))
        lines.append(",".join([system, *(repr(rows[0].value) for rows in means)]))
    (tmp_path / "scores.csv").write_text("\n".join(lines) + "\n")
    of_file = figures("analyse", "scores.csv", "--plot", "file.svg")
    assert found == of_file
    assert len(found.where(figure="spearman", test="toy")) == 3
    assert found.names("system")[:6] == [*SYSTEMS]
    assert (tmp_path / "runs.svg").read_bytes() == (tmp_path / "file.svg").read_bytes()


def test_what_cannot_be_aligned(runs: Path, data: Path, msshift: Command) -> None:
    toy = {"toy": runs.parent / "toy"}
    scores = scores_of_runs(runs, toy, data)
    assert [*scores] == [*SYSTEMS]
    write_runs(runs / "a", data, "wh-words")
    with pytest.raises(UsageError, match=r"wh-words, length.*one shift.*\(--shift\)"):
        scores_of_runs(runs, toy, data)
    assert scores_of_runs(runs, toy, data, "length") == scores
    with pytest.raises(NotFoundError, match="no system has runs for other"):
        scores_of_runs(runs, {"other": runs.parent / "toy"}, data, "length")
    for arguments, words in (
        (("runs/a", *EXTRA, "--shift", "length"), "1 models"),
        (("runs", *EXTRA, "--bins", "3"), "remove --bins"),
        (("--published", *EXTRA), "remove --extra-test"),
    ):
        done = msshift("analyse", *arguments, "--data", data)
        assert done.returncode in (1, 2)
        assert words in done.stderr
