"""Every console and Python block of these pages runs unchanged, in the order of the page."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean

import ir_measures
import pytest

from msshift_bench import load_dataset
from tests.conftest import REPOSITORY
from tests.support.documents import run_blocks
from tests.support.figures import read_figures
from tests.support.tiny_recipes import write_recipes

TRAINS = [pytest.mark.neural, pytest.mark.extended]
LONG = [pytest.mark.extended]

PAGES = [
    # Another test runs the demo.
    pytest.param("README.md", ("scripts/demo", "scripts/test", "pip"), {}),
    pytest.param("docs/index.md", (), {}),
    pytest.param("docs/start.md", (), {}),
    pytest.param("docs/analysis.md", (), {}, marks=LONG),
    pytest.param("docs/baselines.md", (), {}, marks=TRAINS),
    pytest.param("docs/data.md", (), {}, marks=LONG),
    pytest.param("docs/evaluate-a-model.md", (), {}, marks=TRAINS),
    pytest.param(
        "docs/evaluate-runs.md", (),
        {"losses.svg": "<svg", "figures.csv": "\nrel_loss,,length,words,,RR@10,short,"}, marks=LONG,
    ),
    pytest.param("docs/ir_datasets.md", (), {"metadata.json": '"msshift/length"'}, marks=LONG),
    pytest.param("docs/leakage.md", (), {"found-topics/found.json": ""}),
    pytest.param("docs/new-shift.md", (), {}),
    pytest.param(
        "docs/own-collection.md", (), {"msshift/README.md": "cc-by-4.0", "losses.svg": "<svg"}
    ),
    pytest.param("docs/own-groups.md", (), {"msshift/README.md": "letters-a_to_m"}),
    pytest.param("docs/own-trainer.md", (), {"table.tex": "static & "}, marks=TRAINS),
    pytest.param("docs/python.md", (), {}, marks=LONG),
    pytest.param("docs/report.md", (), {"report/report.html": "bm25"}, marks=LONG),
    pytest.param("docs/troubleshooting.md", (), {}, marks=TRAINS),
    pytest.param("docs/variants.md", (), {"runs/bm25/length.run.json": '"bm25"'}),
]  # fmt: skip
"""A page, programs that are not run, and file -> a text that its commands write there."""


def check_own_trainer(folder: Path) -> None:
    """Compare the figures of the page with the scores of ir_measures on its run files."""
    measure = ir_measures.RR @ 10
    scores: dict[tuple[str, str], list[float]] = {}
    for seed in (1, 2, 3):
        for held_out in ("short", "long"):
            run = folder / f"runs/static/length/seed-{seed}/{held_out}.run.gz"
            with gzip.open(run, "rt", encoding="utf-8") as file:
                ranked = list(ir_measures.read_trec_run(file.read()))
            for group in ("short", "long"):
                rows = load_dataset(folder / "msshift", f"length-{group}", split="test")
                qrels = {row.query_id: row.relevant for row in rows}
                values = [one.value for one in ir_measures.iter_calc([measure], qrels, ranked)]
                assert len(values) == len(rows)
                scores.setdefault((held_out, group), []).append(fmean(values))
    figures = read_figures((folder / "figures.json").read_text("utf-8")).where(system="static")
    table = (folder / "table.tex").read_text("utf-8")
    means = []
    for group, other in (("short", "long"), ("long", "short")):
        avg_in, out = fmean(scores[other, group]), fmean(scores[group, group])
        means.append((avg_in, out, (avg_in - out) / avg_in))
        expected = dict(zip(("avg_in", "out", "rel_loss"), means[-1], strict=True))
        found = {one.figure: one.value for one in figures.where(group=group, model="")}
        assert {name: found[name] for name in expected} == pytest.approx(expected)
    avg_in, out, rel_loss = (100 * fmean(values) for values in zip(*means, strict=True))
    (printed,) = [line for line in table.splitlines() if line.startswith("static & ")]
    cells = [cell.partition("$")[0].strip("\\% ") for cell in printed.split(" & ")[1:]]
    assert cells == [f"{value:.1f}" for value in (avg_in, out, rel_loss)]
    assert (folder / "submission/entries/mini/static/v1/scores.parquet").is_file()


CHECKS: Mapping[str, Callable[[Path], None]] = {"docs/own-trainer.md": check_own_trainer}
"""A page, and a check of the folder in which its blocks were run."""


@pytest.mark.every(2)
@pytest.mark.parametrize(("page", "skipping", "left"), PAGES)
def test_the_blocks_of_a_page_run(
    page: str, skipping: tuple[str, ...], left: dict[str, str], tmp_path: Path
) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    recipes = write_recipes(tmp_path / "recipes")
    environment = {"MSSHIFT_RECIPES": str(recipes)}
    assert run_blocks(text, tmp_path, skipping=skipping, environment=environment)
    for name, words in left.items():
        assert words in (tmp_path / name).read_text("utf-8"), name
    if page in CHECKS:
        CHECKS[page](tmp_path)
    assert not list(tmp_path.rglob(".work"))
