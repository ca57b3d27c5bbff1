"""Alignment: two rank correlations of the same models, and the scores that they are of."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr
from typer.testing import CliRunner

from msshift_bench.analysis import (
    align_published,
    align_scores,
    load_published,
    plot_alignment,
    read_model_scores,
)
from msshift_bench.arrays import Floats
from msshift_bench.cli import app
from msshift_bench.evaluation import Result
from tests.conftest import Command
from tests.support.golden import Golden

DRAWN = np.random.default_rng(3).standard_normal((3, 9)).round(1)
"""Three scores of nine models, with ties."""

SCORES = """model,beir,interpolation,extrapolation,trec covid
a,0.30,0.61,0.50,0.1
b,0.35,0.60,0.52,0.2
c,0.31,0.63,0.51,0.3
d,0.40,0.62,0.60,0.2
e,0.45,0.64,0.65,0.5
f,0.50,0.59,0.70,0.4
"""


def aligned(interpolation: Floats, extrapolation: Floats, elsewhere: Floats) -> Result:
    """Align models of these scores."""
    columns = {"interpolation": interpolation, "extrapolation": extrapolation, "beir": elsewhere}
    scores = {
        f"m{n}": {name: float(column[n]) for name, column in columns.items()}
        for n in range(len(elsewhere))
    }
    return align_scores(scores, "made up")


@pytest.mark.parametrize("kind", ["spearman", "kendall"])
def test_correlations_are_those_of_scipy_and_their_intervals_hold_them(kind: str) -> None:
    reference = {"spearman": spearmanr, "kendall": kendalltau}[kind]
    first, second, third = DRAWN
    figures = aligned(*DRAWN).figures.where(figure=kind)
    expected = [reference(regime, third).statistic for regime in (first, second)]
    expected.append(expected[1] - expected[0])
    assert [row.value for row in figures] == pytest.approx(expected)
    for row in figures:
        assert row.low < row.value < row.high
    swapped = aligned(second, first, third).figures.where(figure=kind)
    assert swapped[2].value == pytest.approx(-expected[2])
    assert swapped[2].p == pytest.approx(figures[2].p)


def test_clear_differences_and_none(golden: Golden) -> None:
    third = np.arange(6.0)
    scores = {
        "extrapolation": (-third, third**3, third),  # p is 2 of all 2^6 ways to swap
        "interpolation": (third, -third, third),
        "the same": (DRAWN[0], 10 * DRAWN[0], DRAWN[2]),
        "one alike": (np.ones(6), third, third),
        "all alike": (third, -third, np.ones(6)),
    }
    shown = {name: aligned(*columns) for name, columns in scores.items()}
    golden.check_results("alignments.md", {**shown, "published": align_published()})


@pytest.mark.slow
def test_differences_of_nothing_are_found_as_often_as_they_should_be() -> None:
    # Both regimes correlate at 0.6 with the scores elsewhere, and with each other.
    factor = np.linalg.cholesky(np.full((3, 3), 0.6) + 0.4 * np.eye(3))
    rng = np.random.default_rng(0)
    p_values = [
        aligned(*(factor @ rng.standard_normal((3, 8)))).figures.where(figure="spearman")[2].p
        for _ in range(100)
    ]
    assert 0.02 < np.mean([p is not None and p <= 0.1 for p in p_values]) < 0.19


def test_what_stands_in_several_tables_of_the_paper_is_one_model() -> None:
    tables = load_published("interpolation_extrapolation")
    scores = align_published().figures.where(figure="score")
    methods, pretrained = tables["table_8_training_methods"], tables["table_9_pretraining"]
    for model, values in (
        ("DR", methods["BERT + RandNeg"]["restrain_45k"]["R@100"]),
        ("DR", pretrained["BERT"]["restrain_45k_R@100"]),
        ("coCon-marco", methods["coCon-marco + RandNeg"]["restrain_45k"]["R@100"]),
    ):
        assert [row.value for row in scores.where(system=model)][:2] == values[:2]


@pytest.mark.slow
def test_a_file_of_scores_from_the_command_line(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text(SCORES)
    (tmp_path / "scores.tsv").write_text(SCORES.replace(",", "\t"))
    done = msshift("analyse", "scores.csv", "--plot", "points.svg", "--format", "json")
    written = json.loads(done.stdout)
    tests = [row["test"] for row in written["figures"] if row["figure"] == "kendall"]
    assert (written["kind"], tests) == ("alignment", ["beir"] * 3 + ["trec covid"] * 3)
    found = align_scores(read_model_scores(tmp_path / "scores.tsv"), "scores.tsv")
    drawn = plot_alignment(found.figures, tmp_path / "again.svg").read_bytes()
    assert (tmp_path / "points.svg").read_bytes() == drawn
    assert drawn.startswith(b"<?xml")


WRONG = {
    "no extrapolation": "model,interpolation\na,1\n",
    "a column again": SCORES.replace("beir", "trec covid"),
    "a mark that is not closed": SCORES + 'z,"1,2,3\n',
    "a model again": SCORES.replace("b,", "a,"),
    "a word": SCORES.replace("0.52", "high"),
    "no number": SCORES.replace("0.52", "nan"),
    "an empty cell": SCORES.replace(",0.2\n", "\n"),
    "a cell too many": SCORES.replace("0.35", "0,35"),
    "nothing": "",
    "latin-1": SCORES.replace("b,", "\xe9,").encode("latin-1"),
}
"""What is wrong with a file of scores -> the file."""


def test_what_is_wrong_with_scores_is_named(tmp_path: Path, golden: Golden) -> None:
    refusals = {}
    for number, (wrong, content) in enumerate(WRONG.items()):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        refusals[wrong] = partial(read_model_scores, path)
    few, blank = tmp_path / "few.csv", tmp_path / "blank.csv"
    few.write_text("".join(SCORES.splitlines(keepends=True)[:4]))
    blank.write_text(SCORES.replace("c,", "\nc,"))
    assert list(read_model_scores(blank)) == list("abcdef")
    regimes = {"interpolation": 1.0, "extrapolation": 1.0}
    models = [f"m{n}" for n in range(5)]
    elsewhere = {model: {**regimes, "dl19": 1.0} for model in models[:4]}
    align = partial(align_scores, source="made up")
    refusals |= {
        "no file": partial(read_model_scores, tmp_path / "none.csv"),
        "no test set elsewhere": partial(align, dict.fromkeys(models, regimes)),
        "a model without a score": partial(align, elsewhere | {"m4": regimes}),
        "few models": partial(align, read_model_scores(few)),
    }
    golden.check_refusals("wrong-scores.txt", refusals)
    for arguments, words in (
        ([str(few), str(few)], "a file of models' scores is analysed alone; got "),
        ([str(few), "--train", "q.tsv", "--test", "q.tsv"], "an alignment foretells none"),
        (["--published", "losses", "--plot", "p.svg"], "--plot draws an alignment"),
        (["--published", "alignment", "--plot", "p.gif"], "gif"),
    ):
        done = CliRunner().invoke(app, ["analyse", *arguments])
        assert words in str(done.exception)
