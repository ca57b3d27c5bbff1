"""ir_measures, given the id of a test set, computes Avg In and Out as msshift does."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import ir_datasets
import ir_measures
import pytest
from ir_measures.__main__ import main_cli

from msshift_bench import irds
from msshift_bench.data.dataset import load_dataset
from msshift_bench.evaluation import Settings, evaluate_run_sets
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build
from tests.support.fabricated import write_run

GROUPS = tuple(SHIFTS["length"].groups)
MEASURES = ("RR@10", "nDCG@10", "R@10")


def rankings(data: Path, held_out: str) -> Iterator[tuple[str, list[str]]]:
    """Rank a relevant passage among twelve, and leave out some queries."""
    for group in GROUPS:
        for row in load_dataset(data, f"length-{group}", split="test"):
            draw = hashlib.sha256(f"{held_out} {row.query_id}".encode()).digest()[0]
            passages = [f"other-{n}" for n in range(12)]
            passages[draw % 12] = row.relevant_doc_ids[0]
            if draw > 25:
                yield row.query_id, passages


def test_avg_in_and_out_by_id(
    build_once: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = build_once("mini:500", "length")
    registered = dict(ir_datasets.registry._registered)
    monkeypatch.setattr(ir_datasets.registry, "_registered", registered)
    irds.register(data)
    runs = {group: tmp_path / "system" / "length" / f"{group}.run" for group in GROUPS}
    for group, run in runs.items():
        write_run(run, rankings(data, group))
    settings = Settings(measures=MEASURES)
    result = evaluate_run_sets([tmp_path / "system"], data, settings=settings, allow=["partial"])
    for group, other in (GROUPS, GROUPS[::-1]):
        qrels = list(ir_datasets.load(f"msshift/length/{group}/test").qrels)
        for figure, held_out in (("out", group), ("avg_in", other)):
            ranked = ir_measures.read_trec_run(str(runs[held_out]))
            theirs = ir_measures.calc_aggregate(
                map(ir_measures.parse_measure, MEASURES), qrels, ranked
            )
            for measure, mean in theirs.items():
                (ours,) = result.figures.where(measure=str(measure), group=group, figure=figure)
                assert 0.1 < ours.number < 0.9
                assert ours.number == pytest.approx(mean, abs=1e-12)

    words = ["msshift/length/short/test", str(runs["long"]), "RR@10", "--places", "12"]
    monkeypatch.setattr(sys, "argv", ["ir_measures", *words])
    main_cli()
    name, value = capsys.readouterr().out.split()
    (row,) = result.figures.where(measure=name, group="short", model="long", figure="model_score")
    assert float(value) == pytest.approx(row.value, abs=1e-12)
