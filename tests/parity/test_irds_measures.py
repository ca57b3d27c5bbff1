"""ir_measures, given an experiment by its id, says what the evaluator says."""

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
from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import load_dataset
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.evaluation import Settings, evaluate_run_sets
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import Figures
from tests.support.fabricated import write_run

GROUPS = tuple(SHIFTS["length"].groups)
MEASURES = ("RR@10", "nDCG@10", "R@10")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a folder with the run set of two models on a data set that is registered."""
    folder = tmp_path_factory.mktemp("parity")
    before = dict(ir_datasets.registry._registered)
    build_dataset(open_collection("mini:500"), ["length"], folder / "msshift")
    irds.register(folder / "msshift")
    for held_out in GROUPS:
        write_run(folder / "system" / "length" / f"{held_out}.run", rankings(folder, held_out))
    yield folder
    ir_datasets.registry._registered = before


def rankings(folder: Path, held_out: str) -> Iterator[tuple[str, list[str]]]:
    """Rank a relevant passage somewhere among twelve, and leave out some queries altogether."""
    for group in GROUPS:
        for row in load_dataset(folder / "msshift", f"length-{group}", split="test"):
            draw = hashlib.sha256(f"{held_out} {row.query_id}".encode()).digest()[0]
            passages = [f"other-{n}" for n in range(12)]
            passages[draw % 12] = row.relevant_doc_ids[0]
            if draw > 25:
                yield row.query_id, passages


@pytest.fixture(scope="module")
def ours(folder: Path) -> Figures:
    settings = Settings(measures=MEASURES)
    runs, data = [folder / "system"], folder / "msshift"
    return evaluate_run_sets(runs, data, settings=settings, allow=["partial"]).figures


@pytest.mark.parametrize("group", GROUPS)
def test_avg_in_and_out_by_id(folder: Path, ours: Figures, group: str) -> None:
    def theirs(held_out: str) -> dict[str, float]:
        run = ir_measures.read_trec_run(str(folder / "system" / "length" / f"{held_out}.run"))
        qrels = ir_datasets.load(f"msshift/length/{group}/test").qrels
        means = ir_measures.calc_aggregate(map(ir_measures.parse_measure, MEASURES), qrels, run)
        return {str(measure): mean for measure, mean in means.items()}

    (other,) = set(GROUPS) - {group}
    for measure in MEASURES:
        of_group = ours.where(measure=measure, group=group)
        avg_in, out = (of_group.where(figure=name)[0].number for name in ("avg_in", "out"))
        assert 0.1 < out < 0.9
        assert out == pytest.approx(theirs(group)[measure], abs=1e-12)
        assert avg_in == pytest.approx(theirs(other)[measure], abs=1e-12)


def test_its_command_line_takes_the_id(
    folder: Path, ours: Figures, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(folder / "system" / "length" / "long.run")
    test_set = "msshift/length/short/test"
    monkeypatch.setattr(sys, "argv", ["ir_measures", test_set, run, "RR@10", "--places", "12"])
    main_cli()
    name, value = capsys.readouterr().out.split()
    assert name == "RR@10"
    (row,) = ours.where(figure="model_score", measure="RR@10", group="short", model="long")
    assert float(value) == pytest.approx(row.value, abs=1e-12)
