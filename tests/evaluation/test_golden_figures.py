"""Every figure and every table of the made world, and the boards' figures, as they were before."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from msshift_bench import Figure
from msshift_bench.cli import app
from msshift_bench.leaderboard import entries_folder, open_entry
from tests.support.golden import WRITE, Golden, check_figures, read_csv

GOLDEN = Path(__file__).parent / "golden"

_RUNS = "runs/bm25/length.run runs/late/length/short.run runs/sparse/length/seed-1/short.run"
CALLS: Mapping[str, str] = {
    "losses-macro": "evaluate runs --measures RR@10,nDCG@10,ASL@5 --average macro",
    "losses-pooled": (
        "evaluate runs --measures nDCG@10,ASL@5 --average pooled --shift length --shift wh-words"
    ),
    "losses-skip": (
        "evaluate runs --missing skip --ties expected --correction benjamini-hochberg "
        "--shift wh-words"
    ),
    "losses-partial": "evaluate partial --allow partial",
    "delta": "evaluate runs --measures RR@10,ASL@5 --delta --shift length --shift wh-words",
    "slices-labels": "evaluate runs --by labels.tsv --shift length --shift topics",
    "slices-groups": "evaluate runs --by wh-words --shift length",
    "leaked": "evaluate runs --without-leaked leaked --shift length --shift wh-words",
    "leaked-pooled": "evaluate runs --without-leaked leaked --average pooled --shift length",
    "leaked-lower": "evaluate runs --without-leaked leaked --measures ASL@5 --shift topics",
    "pairs": "compare runs",
    "pairs-lower": "compare runs --measures ASL@5 --shift length",
    "pairs-pooled": "compare runs --average pooled --missing skip --shift wh-words",
    "reference": "compare runs --reference bm25",
    "extra": "evaluate runs --also-test graded=graded --measures RR@10,nDCG@10,ASL@5",
    "variants": "evaluate runs --also-test typos=typos.tsv --measures RR@10,ASL@5",
    "variants-graded": "evaluate runs --also-test mistyped=mistyped --measures nDCG@10",
    "runs-qrels": f"score {_RUNS} --qrels qrels.tsv --measures RR@10,ASL@5,NumRet",
    "runs-leaked": f"score {_RUNS} --test length-short --without-leaked leaked",
    "runs-pairs": f"score {_RUNS} --qrels qrels.tsv --reference runs/bm25/length.run",
    "runs-reference": f"score {_RUNS} --test length-long --reference runs/bm25/length.run",
}
"""The name of a call -> its words."""

FORMATS = {"text": "txt", "markdown": "md", "latex": "tex"}
"""Format -> the ending of its golden file."""

TABLES = [(name, "text") for name in CALLS]
TABLES += product(("losses-pooled", "pairs-lower"), ("markdown", "latex"))
"""The calls and formats whose output is compared."""

pytestmark = pytest.mark.extended


Call = Callable[[str, str], tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def call(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Call:
    """Return a function that gives what a call prints in a format, and its JSON."""
    output = tmp_path_factory.mktemp("output") / "output.json"

    @cache
    def run(name: str, table_format: str) -> tuple[str, dict[str, Any]]:
        words = [*CALLS[name].split(), "--format", table_format, "--output", str(output)]
        with contextlib.chdir(world):
            done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, done.stderr
        return done.stdout, json.loads(output.read_bytes())

    return run


def test_every_figure_is_as_it_was(call: Call) -> None:
    figures = [(name, Figure(**row)) for name in CALLS for row in call(name, "text")[1]["figures"]]
    check_figures(GOLDEN / "figures.csv.gz", "call", figures)


@pytest.mark.parametrize(("name", "table_format"), TABLES)
def test_every_table_is_as_it_was(name: str, table_format: str, call: Call, golden: Golden) -> None:
    golden.check(f"{name}.{FORMATS[table_format]}", call(name, table_format)[0])


def test_every_figure_of_the_boards_is_as_it_was() -> None:
    folder, golden = entries_folder(), GOLDEN / "entries.csv.gz"
    places = {path.relative_to(folder).as_posix() for path in folder.glob("*/*/v*")}
    if not WRITE:
        # An entry that joins a board later changes no figure of the others.
        places &= {line[0] for line in read_csv(golden)}
    entries = {place: open_entry(folder / place) for place in sorted(places)}
    figures = [(place, figure) for place, entry in entries.items() for figure in entry.figures]
    check_figures(golden, "entry", figures)
