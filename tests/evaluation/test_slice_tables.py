"""A slice says how many queries it has, and has no percentage where these are too few."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_run
from msshift_bench.data import DataInfo
from msshift_bench.evaluation.evaluator import Evaluator, SystemResult
from msshift_bench.evaluation.loss_tables import loss_table, notes
from msshift_bench.evaluation.run_set_report import Report
from msshift_bench.evaluation.scores import slice_scores
from msshift_bench.evaluation.settings import Settings
from msshift_bench.records import Row
from msshift_bench.runs import find_run_sets
from msshift_bench.shifts import SHIFTS

SIZES = {
    "many": {"short": 20, "long": 21},
    "few": {"short": 20, "long": 19},
    "one-group": {"short": 20, "long": 0},
    "hardly": {"short": 3, "long": 4},
}
"""Label -> group -> queries with that label."""

ROWS = {
    (group, label): [
        Row(f"{group}-{label}-{n}", "text", group, (f"d-{label}-{n}",), (1,)) for n in range(size)
    ]
    for label, sizes in SIZES.items()
    for group, size in sizes.items()
}


@pytest.fixture(params=[(), (1, 2)], ids=["one seed", "two seeds"])
def slices(
    tmp_path: Path, request: pytest.FixtureRequest
) -> tuple[Report, dict[str, list[SystemResult]]]:
    """The slices of a system that finds a query lower, the higher its number, and of BM25."""
    settings = Settings()
    everything = [row for rows in ROWS.values() for row in rows]
    for seed in request.param or (0,):
        for held_out in ("short", "long", None):
            rankings = [
                (row.query_id, [f"x{n}" for n in range(number % 3 + seed * (row.group == held_out))]
                + [row.relevant_doc_ids[0]])
                for number, row in enumerate(everything)
            ]  # fmt: skip
            place = f"seed-{seed}/" if request.param else ""
            name = f"dense/length/{place}{held_out}.run" if held_out else "bm25/length.run"
            write_run(tmp_path / name, rankings)
    tests = {
        group: [row for (of, _), rows in ROWS.items() if of == group for row in rows]
        for group in ("short", "long")
    }
    evaluator = Evaluator(SHIFTS["length"], tests, settings)
    whole = [
        evaluator.evaluate(run_set, allow_identical=True) for run_set in find_run_sets(tmp_path)
    ]
    labels = {row.query_id: label for (_, label), rows in ROWS.items() for row in rows}
    found: dict[str, list[SystemResult]] = {}
    for result in whole:
        for label, part in slice_scores(result.scores, labels).items():
            found.setdefault(label, []).append(evaluator.summarise(part))
    return Report(DataInfo(), settings, whole, found), found


def rows_of(results: list[SystemResult], label: str) -> dict[str, list[str]]:
    """Return the rows of a slice's table, by their figure (or system): the cells' texts."""
    table = loss_table(results, Settings().measures[0], label)
    return {
        row[1].text or row[0].text: [cell.text for cell in row[2:]] for row in table.rows
    }  # fmt: skip


@pytest.mark.parametrize(
    ("label", "counts", "shown"),
    [
        ("many", ["20", "21", "41"], [True, True, True]),
        ("few", ["20", "19", "39"], [True, False, False]),
        ("one-group", ["20", "0", "20"], [True, False, True]),
        ("hardly", ["3", "4", "7"], [False, False, False]),
    ],
)
def test_a_slice_shows_its_queries_and_no_percentage_of_few(
    slices: tuple[Report, dict[str, list[SystemResult]]],
    label: str,
    counts: list[str],
    shown: list[bool],
) -> None:
    rows = rows_of(slices[1][label], label)
    assert next(iter(rows)) == "queries"
    assert rows["queries"] == counts
    assert rows["Out"][0] != "-"
    percentages = {
        name: texts
        for name, texts in rows.items()
        if name.startswith(("Rel Loss", "95%", "sd", "variance", "p ("))
    }
    assert len(percentages) >= 3
    assert [text not in ("-", "") for text in rows["Rel Loss"]] == shown
    for name, texts in percentages.items():
        for text, may_show in zip(texts, shown, strict=True):
            assert may_show or text in ("-", ""), (name, texts)


def test_the_whole_has_no_such_row_and_the_notes_say_why(
    slices: tuple[Report, dict[str, list[SystemResult]]],
) -> None:
    report, _ = slices
    table = loss_table(report.systems, report.settings.measures[0])
    assert next(row[0].text for row in table.rows) != "queries"
    assert "slices: no Rel Loss of fewer than 20 queries" in notes(report, report.systems)
