"""What pages say of the code, its figures and its tables is what the code says and gives today."""

from __future__ import annotations

import csv
import gzip
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from benchmarks.leakage_tiers import tables
from msshift_bench.analysis import align_scores, analyse_published, find_links
from msshift_bench.analysis.paper_tables import load_published
from msshift_bench.baselines import open_system
from msshift_bench.baselines.systems import searcher as block_search
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.evaluation import read_per_query
from msshift_bench.leakage import THRESHOLDS, TIERS
from msshift_bench.shifts import SHIFTS
from msshift_bench.similarity import INDICATORS
from msshift_bench.stats import Figure, detectable_rel_loss
from scripts.experiments.arithmetic import EncoderShape, Work, work_of
from scripts.experiments.tables import PAPER_NAME
from scripts.leakage_tables import known_queries, near_queries
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


ANALYSIS = (REPOSITORY / "docs" / "analysis.md").read_text(encoding="utf-8")


def test_the_figures_of_the_papers_own_link_are_those_that_are_computed() -> None:
    figures = analyse_published().figures
    of_link = figures.where(**find_links(figures)[0].about)
    assert len(of_link) == 5
    for slope in of_link:
        order = figures.where(figure="spearman", shift="topics", slice="all", system=slope.system)[
            0
        ]
        low, high = (10 * end for end in slope.interval or (0, 0))
        cells = slope.system, f"{order.value:.1f}", f"{order.p_uncorrected:.3f}"
        cells += f"{10 * slope.value:.1f}", f"[{low:.1f}, {high:.1f}]"
        assert f"| {' | '.join(cells)} |\n" in ANALYSIS


def test_the_alignment_of_the_papers_own_figures_is_what_is_computed() -> None:
    tables = load_published("interpolation_extrapolation")
    restrain, resttest = tables["restrain_trec_dl_19_20"]["45k"], tables["resttest_msmarco_dev"]
    rows = {model: [*row[2:4], resttest[model][3]] for model, row in restrain.items()}
    methods, pretrained = tables["table_8_training_methods"], tables["table_9_pretraining"]
    for model, row in {**methods, **pretrained}.items():
        # Rows that are those of Tables 6 and 7, too, and the header.
        if model not in ("columns", "BERT", "BERT + RandNeg", "coCon-marco + RandNeg"):
            here = [row[name] for name in row if name.endswith("R@100")] or [
                row["restrain_45k"]["R@100"], row["resttest"]["R@100"]
            ]  # fmt: skip
            rows[model] = [*here[0][:2], here[1][1]]
    names = ("interpolation", "extrapolation", "ReSTTest")
    scores = {model: dict(zip(names, row, strict=True)) for model, row in rows.items()}
    for row in align_scores(scores, "R@100").tables()[0].rows:
        _, *cells = (cell.text for cell in row)
        assert f"| {' | '.join(cells)} |\n" in ANALYSIS


def test_the_table_of_indicators_is_theirs() -> None:
    against = {"same": "same split", "train": "training queries", "": "-"}
    for name, row in INDICATORS.items():
        cells = [
            f"`{name}`",
            "query" if row.per_query else "set of queries",
            row.needs or "-",
            against[row.against],
            row.higher,
            row.source,
        ]
        assert f"| {' | '.join(cells)} |\n" in ANALYSIS
    assert len(re.findall(r"(?m)^\| `[a-z-]+` \| (query|set of queries) \|", ANALYSIS)) == len(
        INDICATORS
    )


def test_every_number_of_the_conclusions_is_printed_above_them() -> None:
    walk, _, conclusions = ANALYSIS.partition("## A walk-through")[2].partition(
        "### What may be conc"
    )
    printed = "".join(re.findall(r"<!-- \$ [^\n]+ -->\n(.*?)<!-- end -->", walk, re.DOTALL))
    # The table of both times repeats what an earlier version of the page printed.
    printed += "".join(re.findall(r"(?m)^\|.*$", conclusions))
    known = set(re.findall(r"\d+\.\d+", printed))
    numbers = re.findall(r"\d+\.\d+", conclusions)
    assert len(numbers) > 30
    # 0.05 is the level of the tests.
    assert set(numbers) - known <= {"0.05"}
    assert set(re.findall(r"\d+%", re.sub(r"\d+\.\d+%", "", conclusions))) <= set(
        re.findall(r"\d+%", printed)
    ) | {"95%"}


LEAKAGE = (REPOSITORY / "docs" / "leakage.md").read_text(encoding="utf-8")


def test_its_table_of_tiers_is_what_is_planted_and_found() -> None:
    _, by_tier = tables(3000)
    for row in by_tier.rows:
        assert f"| {' | '.join(cell.text for cell in row)} |\n" in LEAKAGE


def test_it_names_every_tier_and_threshold() -> None:
    assert all(f"| `{tier}` |" in LEAKAGE for tier in TIERS)
    assert f"| {THRESHOLDS['terms']:.2f} | 403 | 0.926 |" in LEAKAGE
    assert f"has {THRESHOLDS['']} as its\ndefault" in LEAKAGE


@pytest.mark.realdata
def test_a_row_of_the_table_of_official_test_sets(real_data: Path) -> None:
    texts, sets = known_queries(real_data)
    (row,) = near_queries(texts, sets, ["length-long"])
    page = (REPOSITORY / "docs" / "official-release.md").read_text(encoding="utf-8")
    assert f"| {' | '.join(row)} |\n" in page


NEW_SHIFT = (REPOSITORY / "docs" / "new-shift.md").read_text(encoding="utf-8")


def test_it_shows_the_row_and_the_builder_as_they_are() -> None:
    shown = re.findall(r"In `([\w/.]+)`[^\n]*:\n\n```diff\n(.*?)```", NEW_SHIFT, re.DOTALL)
    assert len(shown) == 2
    for path, diff in shown:
        added = "".join(line.removeprefix("+") for line in diff.splitlines(keepends=True))
        text = (REPOSITORY / path).read_text(encoding="utf-8")
        # Without the docstring, as the page says.
        assert added in re.sub(r'    """.*?"""\n', "", text, flags=re.DOTALL) or added in text


def test_it_names_files_that_are_there() -> None:
    named = re.findall(r"^ (\S+) +\|", NEW_SHIFT, re.MULTILINE)
    assert len(named) == 4
    assert all((REPOSITORY / path).is_file() for path in named)


STATISTICS = (REPOSITORY / "docs" / "statistics.md").read_text(encoding="utf-8")


def test_the_page_has_the_figures_of_today() -> None:
    table = re.search(r"\| test queries (.*)\n.*\n\| detects (.*)", STATISTICS)
    numbers = [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", table[1])]
    assert len(numbers) == 7
    assert re.findall(r"[\d.]+%", table[2]) == [f"{detectable_rel_loss(n):.1%}" for n in numbers]


def relative_deviations(system: str) -> Iterator[float]:
    """Yield how much In - Out varies over queries, in units of Avg In, by group and seed."""
    path = REPOSITORY / "leaderboard" / "entries" / "mini" / system / "v1" / "scores.parquet"
    for scores in read_per_query(path, ("RR@10", "nDCG@10", "R@100")).values():
        for group, queries in scores.groups.items():
            pair = scores.sides("RR@10", group, queries)
            for inside, out in zip(*pair, strict=True):
                yield float((inside - out).std(ddof=1) / inside.mean())


def test_the_page_says_how_much_the_losses_on_mini_vary() -> None:
    systems = ("bi-encoder", "colbert", "monobert", "splade")
    values = [value for system in systems for value in relative_deviations(system)]
    median = f"a median of {statistics.median(values):.2f} ({len(values)} models"
    expected = f"{min(values):.2f} to {max(values):.2f} in RR@10, with {median}"
    assert expected in re.sub(r"\s+", " ", STATISTICS)


TABLE_2 = (REPOSITORY / "docs" / "table-2.md").read_text(encoding="utf-8")
SYSTEMS = ("bi-encoder", "colbert", "splade", "monobert")
DISTILBERT = EncoderShape(6, 768, 3072, 30_522)
PASSAGES, QUERIES, EXAMPLES = 8_841_823, 31_244, 100_000
SPEED = 1e14
"""Operations per second that the page assumes."""


def estimated(system: str) -> tuple[float, float, int, Work]:
    """Return hours of training and of search for one model, its steps, and its work."""
    recipe: Any = open_system(system, "paper")
    assert recipe.encoder == "distilbert/distilbert-base-uncased"
    work = work_of(recipe, DISTILBERT, PASSAGES, QUERIES, EXAMPLES)
    hours = (work.training / SPEED / 3600, work.searching / SPEED / 3600)
    return *hours, recipe.steps_of(EXAMPLES), work


@pytest.mark.parametrize("system", SYSTEMS)
def test_time_and_disk_are_those_of_the_recipes(system: str) -> None:
    training, search, steps, work = estimated(system)
    row = (
        f"| `{system}` | {steps:,} | {training:.1f} | {search:.1f} | "
        f"{5 * (training + search):.0f} | {work.bytes(DISTILBERT) / 1e9:.0f} |\n"
    )
    assert row in TABLE_2, row


def test_its_sums_are_those_of_its_rows() -> None:
    hours = [5 * (training + search) for training, search, *_ in map(estimated, SYSTEMS)]
    assert f"**{sum(hours):.0f} hours of one GPU** per seed" in TABLE_2
    assert f"{3 * sum(hours):.0f} with three" in TABLE_2
    assert f"{sum(len(SHIFTS['topics'].groups) for _ in SYSTEMS)} models" in TABLE_2


def test_what_it_expects_is_what_the_paper_printed() -> None:
    printed = load_published("ms_shift_v2")["topics"]
    for system in SYSTEMS:
        rows = [row for row in printed if row["system"] == PAPER_NAME.get(system, system)]
        assert [row["group"] for row in rows] == [*SHIFTS["topics"].groups]
        cells = [f"{row['avg_in']} / {row['out']} / {row['rel_loss_pct']}%" for row in rows]
        average = mean(row["rel_loss_pct"] for row in rows)
        assert f"| `{system}` | {' | '.join(cells)} | {average:.1f}% |\n" in TABLE_2, cells
