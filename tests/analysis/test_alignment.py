"""Alignment: two rank correlations of the same models, and the scores that they are of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr
from typer.testing import CliRunner

from msshift_bench.analysis import (
    RANK_CORRELATIONS,
    ModelScores,
    align_scores,
    alignment_panels,
    compare_correlations,
    fieller_interval,
    read_model_scores,
)
from msshift_bench.analysis.dependent_correlations import _meng_p, _permutation_p
from msshift_bench.analysis.paper_tables import align_published, load_published
from msshift_bench.analysis.rank_correlations import correlate_ranks
from msshift_bench.arrays import Floats
from msshift_bench.cli import app
from msshift_bench.errors import DataError, NotFoundError

DRAWN = np.random.default_rng(3).standard_normal((3, 9)).round(1)
"""Three measures of nine models, with ties."""

SCORES = """model,beir,interpolation,extrapolation,trec covid
a,0.30,0.61,0.50,0.1
b,0.35,0.60,0.52,0.2
c,0.31,0.63,0.51,0.3
d,0.40,0.62,0.60,0.2
e,0.45,0.64,0.65,0.5
f,0.50,0.59,0.70,0.4
"""


@pytest.mark.parametrize("kind", RANK_CORRELATIONS)
def test_correlations_are_those_of_scipy_and_their_intervals_hold_them(kind: str) -> None:
    reference = {"spearman": spearmanr, "kendall": kendalltau}[kind]
    first, second, third = DRAWN
    found = compare_correlations(kind, first, second, third)
    assert found.first == pytest.approx(reference(first, third).statistic)
    assert found.second == pytest.approx(reference(second, third).statistic)
    for value, interval in (
        (found.first, found.first_interval),
        (found.second, found.second_interval),
        (found.difference, found.interval),
    ):
        assert value is not None
        assert interval is not None
        assert interval.low < value < interval.high
    back = compare_correlations(kind, second, first, third)
    assert back.difference == pytest.approx(-(found.difference or 0))
    assert (back.p, back.meng_p) == pytest.approx((found.p, found.meng_p))


def test_a_clear_difference_and_none() -> None:
    third = np.arange(6.0)
    found = compare_correlations("spearman", -third, third**3, third)
    assert (found.first, found.second, found.difference) == (-1, 1, 2)
    assert found.p == 2 / 2**6
    assert (found.first_interval, found.second_interval, found.meng_p) == (None, None, None)
    first, _, other = DRAWN
    same = compare_correlations("spearman", first, 10 * first, other)
    assert (same.difference, same.p, same.meng_p) == (0, 1, 1)
    flat = compare_correlations("kendall", np.ones(6), third, third)
    assert (flat.first, flat.second, flat.difference, flat.p) == (None, 1, None, None)
    with pytest.raises(DataError, match="takes 5 models, and here are 4"):
        compare_correlations("kendall", *DRAWN[:, :4])


@pytest.mark.slow
def test_both_tests_reject_as_often_as_they_say() -> None:
    # Both measures correlate at 0.6 with the third, and with each other.
    factor = np.linalg.cholesky(np.full((3, 3), 0.6) + 0.4 * np.eye(3))
    rng = np.random.default_rng(0)
    rejected = []
    for _ in range(300):
        x, y, z = factor @ rng.standard_normal((3, 8))
        a, b, between = (
            float(correlate_ranks("spearman", *two)) for two in ((x, z), (y, z), (x, y))
        )
        meng = _meng_p(a, b, between, 8)
        permuted = _permutation_p("spearman", x, y, z, b - a)
        rejected.append((permuted <= 0.1, meng is not None and meng <= 0.1))
    shares = np.mean(rejected, axis=0)
    assert np.all((shares > 0.03) & (shares < 0.17)), shares


def test_the_interval_of_a_printed_correlation() -> None:
    # NQ in Table 5. By hand: atanh(0.935) = 1.697, and 1.96 * sqrt(1.06 / 21) = 0.440.
    assert fieller_interval("spearman", 24, 0.935) == pytest.approx((0.850, 0.973), abs=1e-3)
    assert fieller_interval("kendall", 24, 0.0) == pytest.approx((-0.282, 0.282), abs=1e-3)


def test_the_papers_own_figures() -> None:
    found = align_published()
    tables = load_published("interpolation_extrapolation")
    scores = {one.model: one for one in found.scores}
    assert len(scores) == 12
    # What stands in several tables is the same model with the same figures.
    row = tables["table_8_training_methods"]["BERT + RandNeg"]
    assert [scores["DR"].interpolation, scores["DR"].extrapolation] == row["restrain_45k"]["R@100"][
        :2
    ]
    assert (
        tables["table_9_pretraining"]["BERT"]["restrain_45k_R@100"][:2]
        == (row["restrain_45k"]["R@100"][:2])
    )
    twice = tables["table_8_training_methods"]["coCon-marco + RandNeg"]
    assert [scores["coCon-marco"].interpolation, scores["coCon-marco"].extrapolation] == (
        twice["restrain_45k"]["R@100"][:2]
    )
    spearman, kendall = found.alignments[0].correlations
    assert (spearman.first, spearman.second) == pytest.approx((0.73, 0.92), abs=0.005)
    assert (kendall.first, kendall.second) == pytest.approx((0.56, 0.80), abs=0.005)
    assert spearman.p == pytest.approx(0.188, abs=0.001)
    assert len(found.printed) == 2 * 14
    higher = [
        one.extrapolation > one.interpolation for one in found.printed if one.kind == "spearman"
    ]
    assert sum(higher) == 12


def test_what_a_paper_prints_is_in_the_long_table() -> None:
    found = align_published()
    assert repr(found).startswith("<Alignment: R@100 on TREC DL 2019 and 2020")
    printed = [row for row in found.tidy().rows if row.figure.startswith("printed_")]
    assert len(printed) == 2 * len(found.printed)
    (nq,) = (
        row for row in printed if (row.group, row.figure[8:]) == ("NQ", "spearman_extrapolation")
    )
    assert (nq.value, nq.label) == (0.935, "24 models")
    assert (nq.low, nq.high) == pytest.approx((0.850, 0.973), abs=1e-3)


def verdict(first: Floats, second: Floats, elsewhere: Floats) -> tuple[str, list[str]]:
    """Return what is said of models of these scores, and Spearman's row of the table."""
    scores = [
        ModelScores(f"m{n}", *map(float, pair), {"beir": float(outside)})
        for n, (*pair, outside) in enumerate(zip(first, second, elsewhere, strict=True))
    ]
    (([table], notes),) = alignment_panels(align_scores(scores, "made up"))
    return notes[0], [cell.text for cell in table.rows[0]]


def test_verdicts_of_an_alignment() -> None:
    third = np.arange(6.0)
    # All 2^6 ways to swap are counted, and two of them differ as much.
    told, row = verdict(-third, third, third)
    assert told == "beir: extrapolation aligns better (Spearman, p = 0.031)"
    assert row[2:4] == ["-1.00", "1.00"]
    assert row[-2:] == ["0.031", "-"]
    told, _ = verdict(third, -third, third)
    assert told == "beir: interpolation aligns better (Spearman, p = 0.031)"
    told, row = verdict(third, -third, np.ones(6))
    assert told == "beir: all models score alike, so that nothing can be said"
    assert row == ["beir", "Spearman", "-", "-", "-", "-", "-"]
    with pytest.raises(DataError, match="made up holds no scores of a test set elsewhere"):
        align_scores([ModelScores(f"m{n}", n, n, {}) for n in range(5)], "made up")


@pytest.mark.slow
def test_a_file_of_scores_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scores.csv").write_text(SCORES)
    Path("scores.tsv").write_text(SCORES.replace(",", "\t"))
    command = ["analyse", "alignment", "scores.csv"]
    told = CliRunner().invoke(app, [*command, "--output", "found.json", "--plot", "points.svg"])
    assert told.exit_code == 0, told.output
    assert "beir: these 6 models cannot show that one of the two aligns better" in " ".join(
        told.output.split()
    )
    written = json.loads(Path("found.json").read_text())
    assert written["kind"] == "alignment"
    assert [one["outside"] for one in written["alignments"]] == ["beir", "trec covid"]
    first = Path("points.svg").read_bytes()
    assert first.startswith(b"<?xml")
    found = align_scores(read_model_scores("scores.tsv"), "scores.tsv")
    assert found.plot("points.svg").read_bytes() == first
    table = CliRunner().invoke(app, [*command, "--format", "csv"]).stdout.splitlines()
    assert table[0] == "system,group,figure,value,low,high,p,label"
    assert sum("spearman_difference" in line for line in table) == 2
    assert "a,beir,outside,0.3,,,," in table


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("model,interpolation\na,1\n", r"s.csv:1: no column extrapolation \[missing-column\]"),
        ("model,interpolation,extrapolation\na,1,1\n", "no column of a test set elsewhere"),
        (SCORES.replace("beir", "trec covid"), "column 'trec covid' twice"),
        (SCORES + 'z,"' + "1,2,3\n" * 30_000, r"s.csv:\d+ is no line of CSV: field larger than"),
        ('"' + SCORES * 3_000, r"s.csv:\d+ is no line of CSV: field larger than"),
        (SCORES.replace("b,", "a,"), r"s.csv:3: model 'a' again \[repeated-model\]"),
        (SCORES.replace("0.52", "high"), "s.csv:3: extrapolation of b is 'high', which is no numb"),
        (SCORES.replace("0.52", "nan"), "s.csv:3: extrapolation of b is 'nan', which is no numb"),
        (SCORES.replace(",0.2\n", "\n"), "s.csv:3: 4 columns, where the header has 5"),
        ("", "no column model, interpolation, extrapolation"),
    ],
)
def test_what_is_wrong_with_a_file(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_model_scores(path)


def test_what_is_wrong_with_a_command(tmp_path: Path) -> None:
    few = tmp_path / "few.csv"
    few.write_text("".join(SCORES.splitlines(keepends=True)[:4]))
    with pytest.raises(DataError, match=r"few.csv holds 3 models, and a comparison .* takes 5"):
        align_scores(read_model_scores(few), str(few))
    few.write_bytes(SCORES.replace("b,", "\xe9,").encode("latin-1"))
    with pytest.raises(DataError, match=r"few\.csv is not UTF-8: .* position"):
        read_model_scores(few)
    few.write_text(SCORES.replace("c,", "\nc,"))
    assert [one.model for one in read_model_scores(few)] == list("abcdef")
    with pytest.raises(NotFoundError, match="it holds a header and a line per model"):
        read_model_scores(tmp_path / "none.csv")
    for arguments in ([], ["--published", "scores.csv"]):
        told = CliRunner().invoke(app, ["analyse", "alignment", *arguments])
        assert "give a file of scores, or --published" in str(told.exception)
