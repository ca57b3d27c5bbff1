"""How-to pages: the extras that they need, and facts that are the code's."""

from __future__ import annotations

import csv
import gzip
import re

from msshift_bench.baselines.systems import searcher as block_search
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.stats import Figure
from scripts.releasing import smoke
from tests.conftest import REPOSITORY


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


def test_every_type_of_model_and_the_sizes_that_decide_the_memory_are_named() -> None:
    text = page("evaluate-a-model.md")
    for architecture in neural_systems().values():
        assert text.count(f"| {architecture.model_type} |") == 1
        assert f"evaluate({architecture.model_type}(" in text
    assert f"in blocks of {block_search._SIZE:,}." in text
    assert f"up to {block_search._QUERIES:,} queries" in text
