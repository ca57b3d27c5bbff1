"""Figures of a shift whose groups are training sets, for one test set."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_run
from msshift_bench.evaluation import Evaluator, Settings, SystemResult
from msshift_bench.output import looks_of
from msshift_bench.records import Row
from msshift_bench.report.certainty_figures import draw_ties
from msshift_bench.report.matrix_figures import draw_matrices
from msshift_bench.report.report_figure import ReportFigure
from msshift_bench.runs import find_run_sets
from msshift_bench.shifts import SHIFTS

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.slow

RESTRAIN = SHIFTS["restrain-60"]
SETTINGS = Settings()
(RR10,) = SETTINGS.measures


@pytest.fixture
def result(tmp_path: Path) -> SystemResult:
    """Of two queries, one has its relevant passage in a tie of two, by either model."""
    rows = [Row(f"q{n}", "a", "test", (f"d{n}",), (1,)) for n in (1, 2)]
    for held_out, above in (("interpolation", 0), ("extrapolation", 3)):
        path = tmp_path / "dense" / RESTRAIN.name / f"{held_out}.run"
        ranking = [f"x{n}" for n in range(above)]
        write_run(path, [(f"q{n}", [*ranking, f"d{n}", "e"]) for n in (1, 2)])
        # The last line of q1, which comes first, gets the score of the line above it.
        lines = path.read_text().splitlines()
        lines[above + 1] = lines[above + 1].replace(f" {100 - above - 2} ", f" {100 - above - 1} ")
        path.write_text("\n".join(lines) + "\n")
    (run_set,) = find_run_sets([tmp_path])
    return Evaluator(RESTRAIN, {"test": rows}, SETTINGS).evaluate(run_set)


def test_ties_are_those_of_the_model_that_is_far_from_the_test_queries(
    result: SystemResult,
) -> None:
    drawn = draw_ties([result], RR10, looks_of(["dense"]))
    assert isinstance(drawn, ReportFigure)
    ((*_, held_out, group, score, worst, best, tied, queries),) = drawn.rows
    assert (held_out, group, tied, queries) == ("extrapolation", "test", 1, 2)
    assert (worst, best) == pytest.approx(((1 / 4 + 1 / 5) / 2, 1 / 4))
    assert score in (worst, best)


def test_a_matrix_says_what_its_models_were_trained_on(result: SystemResult) -> None:
    (drawn,) = draw_matrices([result], RR10, SETTINGS)
    assert "Rows are the models trained on a group" in drawn.caption
    out, inside = (RR10.show(result.measures["RR@10"].mean("test", one))
                   for one in ("extrapolation", "interpolation"))  # fmt: skip
    assert f"on test, {out} on extrapolation and {inside} otherwise" in drawn.alternative
