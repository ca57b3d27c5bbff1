"""The tables of pages that have no generator are those that the code computes today."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from benchmarks.leakage_tiers import tables
from msshift_bench.analysis import align_scores, analyse_published, find_links
from msshift_bench.analysis.paper_tables import load_published
from msshift_bench.baselines import open_system
from msshift_bench.evaluation.checks import ALLOWANCES
from msshift_bench.leakage import THRESHOLDS, TIERS
from msshift_bench.runs import RUN_FORMATS, TIE_POLICIES
from msshift_bench.shifts import SHIFTS
from msshift_bench.similarity import INDICATORS
from msshift_bench.stats import FIGURES, Figure, detectable_rel_loss
from scripts.arithmetic import EncoderShape, work_of
from scripts.leakage_tables import known_queries, near_queries
from tests.conftest import REPOSITORY

Row = Iterable[str]


def page(name: str) -> str:
    return (REPOSITORY / "docs" / name).read_text(encoding="utf-8")


def links_of_the_paper() -> Iterator[Row]:
    """Yield the link of Rel Loss to similarity in the paper's own figures, by system."""
    figures = analyse_published().figures
    for slope in figures.where(**find_links(figures)[0].about):
        about = {"figure": "spearman", "shift": "topics", "slice": "all", "system": slope.system}
        order = figures.where(**about)[0]
        low, high = (10 * end for end in slope.interval or (0, 0))
        yield (
            slope.system, f"{order.value:.1f}", f"{order.p_uncorrected:.3f}",
            f"{10 * slope.value:.1f}", f"[{low:.1f}, {high:.1f}]",
        )  # fmt: skip


def alignment_of_the_paper() -> Iterator[Row]:
    """Yield how the paper's ReSTrain and ReSTTest figures order the models."""
    published = load_published("interpolation_extrapolation")
    restrain = published["restrain_trec_dl_19_20"]["45k"]
    resttest = published["resttest_msmarco_dev"]
    rows = {model: [*row[2:4], resttest[model][3]] for model, row in restrain.items()}
    methods, pretrained = published["table_8_training_methods"], published["table_9_pretraining"]
    for model, row in {**methods, **pretrained}.items():
        # The header, and rows that Tables 6 and 7 have too.
        if model not in ("columns", "BERT", "BERT + RandNeg", "coCon-marco + RandNeg"):
            here = [row[name] for name in row if name.endswith("R@100")] or [
                row["restrain_45k"]["R@100"], row["resttest"]["R@100"]
            ]  # fmt: skip
            rows[model] = [*here[0][:2], here[1][1]]
    names = ("interpolation", "extrapolation", "ReSTTest")
    scores = {model: dict(zip(names, row, strict=True)) for model, row in rows.items()}
    for row in align_scores(scores, "R@100").tables()[0].rows:
        yield [cell.text for cell in row[1:]]


def indicators() -> Iterator[Row]:
    against = {"same": "same split", "train": "training queries", "": "-"}
    for name, row in INDICATORS.items():
        kind = "query" if row.per_query else "set of queries"
        yield f"`{name}`", kind, row.needs or "-", against[row.against], row.higher, row.source


def run_formats() -> Iterator[Row]:
    for row in RUN_FORMATS.values():
        endings = ", ".join(f"`{ending}`" for ending in row.endings)
        yield f"`{row.name}`", f"`{row.shape}`", row.about, endings


def tiers() -> Iterator[Row]:
    """Yield how many planted near-duplicates of each tier are found."""
    for row in tables(3000)[1].rows:
        yield [cell.text for cell in row]


def detectable_losses() -> Iterator[Row]:
    """Yield the Rel Loss that a number of test queries detects."""
    shown = re.search(r"\| test queries (.*) \|\n", page("statistics.md"))
    assert shown is not None
    numbers = [int(one.replace(",", "")) for one in re.findall(r"[\d,]+", shown[1])]
    assert len(numbers) == 7
    yield "detects", *(f"{detectable_rel_loss(number):.1%}" for number in numbers)


SYSTEMS = ("bi-encoder", "colbert", "splade", "monobert")
DISTILBERT = EncoderShape(6, 768, 3072, 30_522)
PASSAGES, QUERIES, EXAMPLES = 8_841_823, 31_244, 100_000
HOUR = 3600 * 1e14
"""Operations in an hour at the speed that the page assumes."""


def costs_of_table_2() -> Iterator[Row]:
    """Yield steps, hours and disk space of the paper's recipes."""
    for system in SYSTEMS:
        recipe: Any = open_system(system, "paper")
        assert recipe.encoder == "distilbert/distilbert-base-uncased"
        work = work_of(recipe, DISTILBERT, PASSAGES, QUERIES, EXAMPLES)
        training, search = work.training / HOUR, work.searching / HOUR
        yield (
            f"`{system}`", f"{recipe.steps_of(EXAMPLES):,}", f"{training:.1f}", f"{search:.1f}",
            f"{5 * (training + search):.0f}", f"{work.bytes(DISTILBERT) / 1e9:.0f}",
        )  # fmt: skip


def figures_of_table_2() -> Iterator[Row]:
    """Yield the figures that the paper printed."""
    for system in SYSTEMS:
        printed = load_published("ms_shift_v2")["topics"]
        name = {"splade": "splade-max"}.get(system, system)
        rows = [row for row in printed if row["system"] == name]
        assert [row["group"] for row in rows] == [*SHIFTS["topics"].groups]
        cells = [f"{row['avg_in']} / {row['out']} / {row['rel_loss_pct']}%" for row in rows]
        yield f"`{system}`", *cells, f"{mean(row['rel_loss_pct'] for row in rows):.1f}%"


def figures_of_the_bi_encoder() -> Iterator[Row]:
    """Yield the bi-encoder's rows of the paper's Table 2."""
    rows = [row for row in load_published("ms_shift_v2")["topics"] if row["system"] == "bi-encoder"]
    yield "Avg In", *(f"{row['avg_in']}" for row in rows)
    yield "Out", *(f"{row['out']}" for row in rows)
    yield "Rel Loss", *(f"{row['rel_loss_pct']}%" for row in rows)


TABLES: list[Any] = [
    pytest.param("analysis.md", links_of_the_paper, 5, marks=pytest.mark.extended),
    ("analysis.md", alignment_of_the_paper, 2),
    ("analysis.md", indicators, len(INDICATORS)),
    ("file-formats.md", run_formats, len(RUN_FORMATS)),
    ("leakage.md", tiers, 4),
    ("ms-shift.md", figures_of_the_bi_encoder, 3),
    ("statistics.md", detectable_losses, 1),
    ("table-2.md", costs_of_table_2, 4),
    ("table-2.md", figures_of_table_2, 4),
]
"""Page, function that computes the rows of a table, and their number."""


@pytest.mark.parametrize(("name", "compute", "count"), TABLES)
def test_a_table_has_the_rows_that_are_computed(
    name: str, compute: Callable[[], Iterator[Row]], count: int
) -> None:
    rows = [f"| {' | '.join(cells)} |\n" for cells in compute()]
    assert len(rows) == count
    text = page(name)
    assert [row for row in rows if row not in text] == []


def test_the_table_of_indicators_has_no_other_row() -> None:
    kinds = re.findall(r"(?m)^\| `[a-z-]+` \| (query|set of queries) \|", page("analysis.md"))
    assert len(kinds) == len(INDICATORS)


def test_every_tier_and_threshold_is_in_a_table() -> None:
    text = page("leakage.md")
    assert [tier for tier in TIERS if f"| `{tier}` |" not in text] == []
    assert f"| {THRESHOLDS['terms']:.2f} | 403 | 0.926 |" in text


def test_the_page_of_figures_has_every_tie_policy_and_allowance() -> None:
    text = page("what-is-measured.md")
    assert [name for name in TIE_POLICIES if f"| `{name}`" not in text] == []
    assert [name for name in ALLOWANCES if f"`--allow {name}`" not in text] == []
    codes = re.findall(r"error `([\w-]+)`", text)
    assert len(codes) == 9
    known = page("error-codes.md")
    assert [code for code in codes if f"`{code}`" not in known] == []


def test_every_column_and_every_figure_has_a_row() -> None:
    section = page("file-formats.md").partition("## Figures\n")[2].partition("\n## ")[0]
    columns, figures = (
        re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)))
        for text in section.partition("\n| figure |")[::2]
    )
    assert columns == list(Figure._fields)
    golden = REPOSITORY / "tests" / "evaluation" / "golden" / "figures.csv.gz"
    with gzip.open(golden, "rt", encoding="utf-8") as file:
        assert {row["figure"] for row in csv.DictReader(file)} == set(figures) == set(FIGURES)


@pytest.mark.extended
@pytest.mark.realdata
def test_a_row_of_the_table_of_official_test_sets(real_data: Path) -> None:
    texts, sets = known_queries(real_data)
    (row,) = near_queries(texts, sets, ["length-long"])
    assert f"| {' | '.join(row)} |\n" in page("official-release.md")


def test_the_new_shift_page_shows_code_as_it_is() -> None:
    shown = re.findall(
        r"In `([\w/.]+)`[^\n]*:\n\n```diff\n(.*?)```", page("new-shift.md"), re.DOTALL
    )
    assert len(shown) == 2
    for path, diff in shown:
        added = "".join(line.removeprefix("+") for line in diff.splitlines(keepends=True))
        text = (REPOSITORY / path).read_text(encoding="utf-8")
        # The page leaves docstrings out.
        assert added in re.sub(r'    """.*?"""\n', "", text, flags=re.DOTALL) or added in text
