from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.support.fabricated import write_run
from benchmarks.support.synthetic_entries import scored_report
from msshift_bench.data.manifest import DataInfo
from msshift_bench.errors import RunError, UnknownNameError, UsageError
from msshift_bench.evaluation.evaluator import Evaluator
from msshift_bench.evaluation.loss_tables import loss_table, matrix_table, notes
from msshift_bench.evaluation.named_measures import parse_measure
from msshift_bench.evaluation.run_set_report import Report
from msshift_bench.evaluation.settings import Settings
from msshift_bench.output.rendering import to_latex, to_markdown
from msshift_bench.records import Row
from msshift_bench.runs.runsets import find_run_sets
from msshift_bench.shifts import SHIFTS

LENGTH = SHIFTS["length"]
RR10 = parse_measure("RR@10")

TEST_SETS = {
    "short": [
        Row("s1", "a", "short", ("d1",), (1,)),
        Row("s2", "b", "short", ("d2", "d9"), (1, 1)),
    ],
    "long": [Row("l1", "a b", "long", ("d3",), (1,)), Row("l2", "c d", "long", ("d4",), (1,))],
}


def write(path: Path, ranks: dict[str, int]) -> None:
    """Write a run that has each query's first relevant passage at the given rank, or nowhere."""
    relevant = {
        row.query_id: row.relevant_doc_ids[0] for rows in TEST_SETS.values() for row in rows
    }
    rankings = []
    for query_id, rank in ranks.items():
        docs = [f"x{n}" for n in range(10)]
        if rank:
            docs[rank - 1] = relevant[query_id]
        rankings.append((query_id, docs))
    write_run(path, rankings)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    write(root / "dense" / "length" / "short.run", {"s1": 2, "s2": 4, "l1": 1, "l2": 2})
    write(root / "dense" / "length" / "long.run", {"s1": 1, "s2": 1, "l1": 2, "l2": 0})
    write(root / "bm25" / "length.run", {"s1": 1, "s2": 2, "l1": 5, "l2": 1})
    return root


def evaluate(root: Path, settings: Settings | None = None, *, partial: bool = False) -> Report:
    evaluator = Evaluator(LENGTH, TEST_SETS, settings, DataInfo("1.0.0", "rebuilt", "abc", "toy"))
    results = [evaluator.evaluate(r, allow_partial=partial) for r in find_run_sets([root])]
    return Report(evaluator.data, evaluator.settings, results)


def test_avg_in_out_and_rel_loss(runs: Path) -> None:
    bm25, dense = evaluate(runs).systems
    loss = dense.measures["RR@10"].loss
    assert loss is not None
    short, long = loss.groups["short"], loss.groups["long"]
    assert (short.avg_in, short.out) == (1.0, (1 / 2 + 1 / 4) / 2)
    assert short.rel_loss == pytest.approx(0.625)
    assert (long.avg_in, long.out) == (0.75, 0.25)
    assert loss.rel_loss == pytest.approx((0.625 + 2 / 3) / 2)
    assert short.tests.t_p is not None
    assert bm25.measures["RR@10"].loss is None
    assert bm25.measures["RR@10"].mean("short") == 0.75
    assert bm25.measures["RR@10"].mean("long") == pytest.approx(0.6)


def test_the_matrix_has_a_row_per_model(runs: Path) -> None:
    _, dense = evaluate(runs).systems
    result = dense.measures["RR@10"]
    means = [[result.mean(g, h) for g in LENGTH.groups] for h in LENGTH.groups]
    assert means == [[0.375, 0.75], [1.0, 0.25]]


def test_missing_queries_score_zero_and_are_counted(runs: Path) -> None:
    write(runs / "dense" / "length" / "short.run", {"s1": 1, "l1": 1})
    _, dense = evaluate(runs).systems
    result = dense.measures["RR@10"]
    cells = {(cell.held_out, cell.group): cell for cell in result.cells}
    assert cells["short", "short"].mean == 0.5
    assert cells["short", "short"].queries == 2
    assert [cells["short", g].missing for g in LENGTH.groups] == [1, 1]
    assert [cells["long", g].missing for g in LENGTH.groups] == [0, 0]


def test_missing_queries_can_be_skipped_for_all_models_or_refused(runs: Path) -> None:
    write(runs / "dense" / "length" / "short.run", {"s1": 1, "l1": 1, "l2": 1})
    _, dense = evaluate(runs, Settings(missing="skip")).systems
    for cell in dense.measures["RR@10"].cells:
        assert cell.queries == (1 if cell.group == "short" else 2)
    with pytest.raises(RunError, match="1 of 4 test queries are not in it: s2"):
        evaluate(runs, Settings(missing="error"))


def test_an_incomplete_run_set_gets_no_aggregate_unless_asked(runs: Path) -> None:
    (runs / "dense" / "length" / "long.run").unlink()
    with pytest.raises(RunError, match="trained without 'long'"):
        evaluate(runs)
    report = evaluate(runs, partial=True)
    dense = report.systems[1]
    assert dense.partial
    assert dense.measures["RR@10"].loss is None
    assert dense.measures["RR@10"].mean("short", "short") == 0.375
    assert "too few runs" in to_markdown(loss_table(report.systems, RR10))
    said = "\n".join(notes(report, report.systems))
    assert "dense: 1 run file, 1 seed, no run of the model trained without long; " in said
    assert "bm25: 1 run file, not trained per group; " in said


def test_replicates_are_averaged(runs: Path) -> None:
    root = runs / "seeded" / "length"
    for seed, rank in ((1, 1), (2, 2)):
        write(root / f"seed-{seed}" / "short.run", {"s1": 4, "s2": 4, "l1": rank, "l2": 1})
        write(root / f"seed-{seed}" / "long.run", {"s1": rank, "s2": 1, "l1": 4, "l2": 4})
    report = evaluate(runs)
    seeded = next(result for result in report.systems if result.system == "seeded")
    loss = seeded.measures["RR@10"].loss
    assert loss is not None
    assert loss.seeds == 2
    assert loss.groups["short"].avg_in == pytest.approx((1 + 0.75) / 2)
    assert loss.groups["short"].out == 0.25
    assert loss.groups["short"].spread is not None
    assert "sd of 2 seeds" in to_markdown(loss_table(report.systems, RR10))


def test_lower_is_better_for_search_lengths(runs: Path) -> None:
    _, dense = evaluate(runs, Settings(measures=("ASL@100",))).systems
    loss = dense.measures["ASL@100"].loss
    assert loss is not None
    # s1 at rank 2 has one passage above it; s2 has 3 above one and misses the other, 100.
    assert loss.groups["short"].out == pytest.approx((1 + (3 + 100) / 2) / 2)
    assert loss.groups["short"].loss == pytest.approx(
        loss.groups["short"].out - loss.groups["short"].avg_in
    )
    assert loss.groups["short"].loss > 0


def test_scores_can_be_restricted_afterwards(runs: Path) -> None:
    evaluator = Evaluator(LENGTH, TEST_SETS)
    (dense,) = [s for s in find_run_sets([runs]) if s.system == "dense"]
    scores = evaluator.score(dense)
    loss = evaluator.summarise(scores.restricted_to({"s1", "l1"})).measures["RR@10"].loss
    assert loss is not None
    assert (loss.groups["short"].out, loss.groups["long"].out) == (0.5, 0.5)
    only_short = evaluator.summarise(scores.restricted_to({"s1"})).measures["RR@10"].loss
    assert only_short is not None
    assert list(only_short.groups) == ["short"]


def test_settings_are_checked() -> None:
    assert [str(one) for one in Settings(("MRR@10", "rr@10")).measures] == ["RR@10"]
    parsed = Settings((parse_measure("nDCG@10"), "RR@10"))
    assert Settings("nDCG@10, rr@10") == parsed
    with pytest.raises(UnknownNameError, match="measure 'RRR@10'"):
        Settings(measures=("RRR@10",))
    with pytest.raises(UnknownNameError, match="correction"):
        Settings(correction="hulm")
    with pytest.raises(UnknownNameError, match="tie policy"):
        Settings(ties="random")
    with pytest.raises(UnknownNameError, match="policy for missing queries"):
        Settings(missing="ignore")
    with pytest.raises(UsageError, match="at least one measure"):
        Settings(measures=())
    with pytest.raises(UsageError, match="test sets were given for short"):
        Evaluator(LENGTH, {"short": []})


def test_the_json_report_is_plain_and_complete(runs: Path) -> None:
    report = json.loads(json.dumps(evaluate(runs).to_json(), allow_nan=False))
    assert report["schema"] == 2
    assert report["data"]["edition"] == "rebuilt"
    assert report["settings"]["ties"] == "trec"
    bm25, dense = report["systems"]
    assert bm25["measures"]["RR@10"]["loss"] is None
    assert {run["held_out"] for run in dense["runs"]} == {"short", "long"}
    assert all(len(run["digest"]) == 64 for run in dense["runs"])
    group = dense["measures"]["RR@10"]["loss"]["groups"]["short"]
    assert group["rel_loss"] == pytest.approx(0.625)
    assert set(group["intervals"]["rel_loss"]) == {"low", "high"}


def test_one_seed_counts_queries_only_wherever_its_interval_stands() -> None:
    single, several = (
        scored_report("brittle", 0.3, shifts=["length"], seeds=seeds)
        for seeds in ((None,), (1, 2, 3))
    )
    rows = [row[1].text for row in loss_table(single.systems, RR10).rows]
    assert rows[3:] == ["95% interval, queries only", "p (holm), queries only"]
    assert "$^{*}$" not in to_latex(loss_table(single.systems, RR10))
    assert r"95\% interval, queries only" in to_latex(loss_table(single.systems, RR10))
    text = "\n".join(notes(single, single.systems))
    assert "brittle: one seed: intervals and p count queries only" in text
    rows = [row[1].text for row in loss_table(several.systems, RR10).rows]
    assert rows[3:] == ["95% interval", "sd of 3 seeds", "variance from seeds", "p (holm)"]
    assert "$^{*}$" in to_latex(loss_table(several.systems, RR10))


def test_notes_say_what_makes_an_interval_wide_and_what_would_halve_it() -> None:
    report = scored_report("brittle", 0.3, shifts=["length"], seeds=(1, 2))
    text = "\n".join(notes(report, report.systems))
    assert "two seeds make an interval that is mostly uninformative" in text
    loss = report.systems[0].measures["RR@10"].loss
    assert loss is not None
    assert loss.uncertainty is not None
    share = loss.uncertainty.seed_share
    assert share is not None
    assert loss.uncertainty.more_seeds_to_halve(2, 0.95) is None
    assert f"{100 * share:.0f}% of the variance of its average Rel Loss comes from" in text
    assert "no number of seeds would halve its interval" in text


def test_resttest_is_averaged_over_its_queries() -> None:
    report = scored_report("brittle", 0.2, shifts=["resttest", "length"], seeds=(1, 2))
    by_shift = {one.shift.name: one.measures["RR@10"].loss for one in report.systems}
    averages = {name: loss.average for name, loss in by_shift.items() if loss is not None}
    assert averages == {"resttest": "pooled", "length": "macro"}
    resttest = next(one for one in report.systems if one.shift.name == "resttest")
    assert loss_table([resttest], RR10).header[-1] == "all queries"
    chosen = scored_report("brittle", 0.2, shifts=["resttest"], settings=Settings(average="macro"))
    loss = chosen.systems[0].measures["RR@10"].loss
    assert loss is not None
    assert loss.average == "macro"


def test_tables_in_every_format(runs: Path) -> None:
    report = evaluate(runs)
    table = loss_table(report.systems, RR10)
    lines = to_markdown(table).splitlines()
    assert lines[0] == "**Query length (length), MRR@10 x 100**"
    assert lines[2] == "| system |  | short | long | mean |"
    assert lines[4] == "| bm25 |  | 75.0 | 60.0 | 67.5 |"
    assert lines[7] == "|  | Rel Loss | 62.5% | 66.7% | 64.6% |"
    assert loss_table(report.systems, RR10, brief=True).rows == table.rows[:4]
    assert "| dense | Avg In | 100.0 | 75.0 | 87.5 |" in to_markdown(table)
    assert r"dense & Avg In & 100.0 & 75.0 & 87.5 \\" in to_latex(table)
    assert "| without short | **37.5** | 75.0 |" in to_markdown(
        matrix_table(report.systems[1], RR10)
    )
    text = "\n".join(notes(report, report.systems))
    for expected in ("edition rebuilt", "ties (trec)", "missing queries (zero)", "short 2, long 2"):
        assert expected in text


def test_the_best_system_is_marked(runs: Path) -> None:
    for held_out in LENGTH.groups:
        source = (runs / "dense" / "length" / f"{held_out}.run").read_text()
        target = runs / "twin" / "length" / f"{held_out}.run"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source)
    write(runs / "twin" / "length" / "long.run", {"s1": 1, "s2": 1, "l1": 1, "l2": 1})
    table = loss_table(evaluate(runs).systems, RR10)
    rows = {(row[1].text, n): row for n, row in enumerate(table.rows)}
    best_losses = [
        row[3].text for (figure, _), row in rows.items() if row[3].best and figure == "Rel Loss"
    ]
    assert best_losses == ["-33.3%"]
    assert not np.any([cell.best for cell in table.rows[0]])
