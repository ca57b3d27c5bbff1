"""How-to pages: the extras that they need, and blocks that run as they stand."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path

import pytest

from msshift_bench.stats import Figure
from scripts.releasing import smoke
from tests.conftest import REPOSITORY
from tests.support.documents import run_blocks


def page(name: str) -> str:
    return (REPOSITORY / "docs" / name).read_text(encoding="utf-8")


def test_pages_name_the_extras_that_their_commands_need() -> None:
    known = {
        tuple(line.split()[:2]): need.partition(" ")[0] for line, need in smoke.COMMANDS if need
    }
    commands = 0
    for file in sorted((REPOSITORY / "docs").glob("*.md")):
        text = file.read_text(encoding="utf-8")
        for line in re.findall(r"^\$ msshift (.*)", text, re.MULTILINE):
            first, *rest = line.split()
            needs = {known.get((first, *rest[:1]), ""), "irds" if first == "irds" else ""}
            needs |= {"plots"} if "--plot" in rest else set()
            for need in needs - {""}:
                commands += 1
                named = rf"msshift-bench\[[^\]]*\b({need}|all)\b"
                assert re.search(named, text), f"{file.name}: msshift {line} needs {need!r}"
    assert commands > 20


@pytest.mark.slow
def test_runs_are_evaluated_step_by_step(tmp_path: Path) -> None:
    ran = run_blocks(page("evaluate-runs.md"), tmp_path)
    assert len(ran) == 12
    assert (tmp_path / "losses.svg").is_file()
    assert "\nrel_loss,,length,words,,RR@10,short," in (tmp_path / "figures.csv").read_text()


def test_every_column_and_every_figure_is_explained() -> None:
    _, _, section = page("evaluate-runs.md").partition("## The figures as data")
    tables = section.partition("\n| figure |")
    columns, figures = (
        re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)))
        for text in tables[::2]
    )
    assert columns == list(Figure._fields)
    golden = REPOSITORY / "tests" / "evaluation" / "golden" / "figures.csv.gz"
    with gzip.open(golden, "rt", encoding="utf-8") as file:
        assert {row["figure"] for row in csv.DictReader(file)} == set(figures)


def test_a_collection_is_cut_step_by_step(tmp_path: Path) -> None:
    ran = run_blocks(page("own-collection.md"), tmp_path)
    assert [command[1] for command in ran] == ["-c", "build", "verify", "run", "evaluate"]
    assert "cc-by-4.0" in (tmp_path / "msshift" / "README.md").read_text()
