"""Inter., Extra. and Delta: the published tables, ours in their layout, and the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.fabricated import write_runs
from benchmarks.support.synthetic_entries import scored_report
from msshift_bench.evaluation import Settings, delta_notes, delta_table
from msshift_bench.evaluation.delta_tables import show_delta
from msshift_bench.stats.losses import group_loss
from tests.conftest import Build, Command

PUBLISHED: dict[str, Any] = json.loads(
    (
        Path(__file__).parents[2]
        / "msshift_bench/analysis/published/interpolation_extrapolation.json"
    ).read_text("utf-8")
)

TABLE_6 = {
    "14k": {
        "BM25": (1, 1),
        "Reranker": (-5, -1),
        "ColBERT": (-2, 7),
        "SPLADE": (-18, -7),
        "DR": (-14, -7),
    },
    "45k": {"Reranker": (-2, -1), "ColBERT": (-2, 3), "SPLADE": (-17, -8), "DR": (-14, -8)},
    "200k": {"Reranker": (-1, 1), "ColBERT": (-2, 3), "SPLADE": (-5, -5), "DR": (-11, -9)},
}
TABLE_7 = {
    "BM25": (-1, 0),
    "Reranker": (-6, -1),
    "ColBERT": (-9, -3),
    "SPLADE": (-13, -6),
    "DR": (-12, -7),
}
"""The columns Delta of both measures, in percent."""


def printed() -> Iterator[tuple[str, float, float, int]]:
    """Yield every cell of Tables 6 to 9 that has a Delta: where, Inter., Extra., Delta."""
    of_table_6 = PUBLISHED["restrain_trec_dl_19_20"]
    for table, deltas, cells in (
        *((f"6 {size}", rows, of_table_6[size]) for size, rows in TABLE_6.items()),
        ("7", TABLE_7, PUBLISHED["resttest_msmarco_dev"]),
    ):
        for system, pair in deltas.items():
            for place, delta in enumerate(pair):
                yield f"{table} {system}", *cells[system][2 * place : 2 * place + 2], delta
    for model, parts in PUBLISHED["table_8_training_methods"].items():
        if model != "columns":
            for measures in parts.values():
                for inter, extra, delta in measures.values():
                    yield f"8 {model}", inter, extra, int(delta.rstrip("%"))
    for model, row in PUBLISHED["table_9_pretraining"].items():
        if model != "columns":
            for part in ("restrain_45k_R@100", "resttest_R@100"):
                inter, extra, delta = row[part]
                yield f"9 {model}", inter, extra, int(delta.rstrip("%"))


def test_all_published_deltas_follow_from_their_printed_cells() -> None:
    exceptions = []
    for where, inter, extra, delta in printed():
        rel_loss = group_loss([[inter]], [extra]).rel_loss
        assert rel_loss is not None
        if round(-100 * rel_loss) != delta:
            exceptions.append(where)
    assert len(list(printed())) == 66
    assert exceptions == []


def test_our_table_has_the_layout_of_table_7() -> None:
    settings = Settings("RR@10 nDCG@10")
    trained = scored_report("dense", 0.2, shifts=["resttest"], seeds=(1, 2), settings=settings)
    lexical = scored_report("bm25", 0.2, shifts=["resttest"], per_group=False, settings=settings)
    table = delta_table([*lexical.systems, *trained.systems], settings.measures)
    assert table.header == (
        *("system", "MRR@10 Inter.", "Extra.", "Delta"),
        *("nDCG@10 Inter.", "Extra.", "Delta"),
    )
    bm25, dense = ([cell.text for cell in row] for row in table.rows)
    assert bm25[1] == bm25[2] != "-"
    assert bm25[3] == bm25[6] == "0.0%"
    loss = trained.systems[0].measures["RR@10"].loss
    assert loss is not None
    assert loss.rel_loss is not None
    assert dense[1:3] == [f"{100 * loss.avg_in:.1f}", f"{100 * loss.out:.1f}"]
    assert dense[3].startswith(f"{-100 * loss.rel_loss:+.1f}% [")
    (line,) = delta_notes(trained.systems)
    assert "minus Rel Loss" in line
    assert "queries only" not in line


@pytest.mark.parametrize(
    ("rel_loss", "interval", "shown"),
    [
        (0.1234, (0.1, 0.15), "-12.3% [-15.0, -10.0]"),
        (-0.01, (-0.02, 0.0001), "+1.0% [0.0, +2.0]"),
        (-0.0, None, "0.0%"),
        (None, None, "-"),
    ],
)
def test_a_delta_is_a_turned_rel_loss(
    rel_loss: float | None, interval: tuple[float, float] | None, shown: str
) -> None:
    assert show_delta(rel_loss, interval) == shown


def test_the_command(build_once: Build, msshift: Command, tmp_path: Path) -> None:
    data = build_once("mini:300", "length")
    write_runs(tmp_path / "runs/dense", data)
    write_runs(tmp_path / "runs/lexical", data, one=True)
    done = msshift("evaluate", "runs", "--data", data, "--delta", "--measures", "RR@10 ASL@5")
    assert done.returncode == 0, done.stderr
    assert "Query length (length), means x 100 (not ASL@5)" in done.stdout
    assert "of ASL@5 lower is better: the sign of its Delta is turned" in done.stdout
    assert "Delta: minus the mean of the groups' Rel Losses" in done.stdout
    assert "MRR@10 Inter." in done.stdout
    assert "Delta = Extra. / Inter. - 1 is minus Rel Loss" in done.stdout
    assert "Avg In " not in done.stdout.partition("Inter. is")[0]
    refused = msshift("evaluate", "runs", "--data", data, "--delta", "--by", "length")
    assert refused.returncode == 2
    assert "--delta is for whole run sets" in refused.stderr
