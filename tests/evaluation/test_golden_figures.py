"""Figures of the made world and of the boards, to eight digits, and a table of each layout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from msshift_bench import Figure
from msshift_bench.leaderboard import entries_folder, open_entry
from tests.support.command_line import run_msshift
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
    "reference-all": "compare runs --reference dense-all --shift length",
    "extra": "evaluate runs --extra-test graded=graded --measures RR@10,nDCG@10,ASL@5",
    "variants": "evaluate runs --extra-test typos=typos.tsv --measures RR@10,ASL@5",
    "variants-graded": "evaluate runs --extra-test mistyped=mistyped --measures nDCG@10",
    "runs-qrels": f"score {_RUNS} --qrels qrels.tsv --measures RR@10,ASL@5,NumRet",
    "runs-leaked": f"score {_RUNS} --test length-short --without-leaked leaked",
    "runs-pairs": f"score {_RUNS} --qrels qrels.tsv --reference runs/bm25/length.run",
    "runs-slices": (
        "score runs/bm25/length.run --shift length --by labels.tsv --measures RR@10,ASL@5"
    ),
    "runs-slices-leads": (f"score {_RUNS} --shift length --reference runs/bm25/length.run"),
    "runs-reference": f"score {_RUNS} --test length-long --reference runs/bm25/length.run",
}
"""The name of a call -> its words."""

TABLES: Mapping[str, str] = {
    "losses.txt": "evaluate partial --allow partial",
    "losses.md": "evaluate partial --allow partial --format markdown",
    "losses.tex": "evaluate partial --allow partial --format latex-full",
    "paper.tex": "evaluate runs --format latex --intervals",
    "paper-reference.tex": "compare runs --reference bm25 --format latex",
    "delta.txt": "evaluate runs/late runs/bm25 --measures RR@10,ASL@5 --delta --shift length",
    "slices.txt": "evaluate runs/late --by wh-words --shift length",
    "leaked.txt": "evaluate runs/late --without-leaked leaked --shift length",
    "pairs.txt": "compare runs/late runs/dense --shift length",
    "reference.txt": "compare runs/late runs/dense runs/bm25 --reference bm25 --shift length",
    "drops.txt": "compare runs/dense runs/dense-all --reference dense-all --shift length",
    "extra.txt": "evaluate runs/late runs/dense-all --extra-test graded=graded",
    "variants.txt": "evaluate runs/late --extra-test mistyped=mistyped --measures nDCG@10",
    "scores.txt": "score runs/bm25/length.run --qrels qrels.tsv --measures RR@10,ASL@5,NumRet",
    "leads.txt": f"score {_RUNS} --test length-long --reference runs/bm25/length.run",
    "by-group.txt": f"score {_RUNS} --shift length --reference runs/bm25/length.run",
}
"""A small table of each layout and format: its golden file -> the words of the call."""


@pytest.mark.extended
def test_every_figure_is_as_it_was(world: Path, tmp_path: Path) -> None:
    figures = []
    for name, words in CALLS.items():
        done = run_msshift([*words.split(), "--output", str(tmp_path / "output.json")], world)
        assert done.returncode == 0, done.stderr
        rows = json.loads((tmp_path / "output.json").read_bytes())["figures"]
        figures += [(name, Figure(**row)) for row in rows]
    check_figures(GOLDEN / "figures.csv.gz", "call", figures)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", TABLES)
def test_the_layout_of_a_table(name: str, world: Path, golden: Golden) -> None:
    done = run_msshift([*TABLES[name].split(), "--verbose"], world)
    assert done.returncode == 0, done.stderr
    golden.check(name, done.stdout)


@pytest.mark.extended
def test_every_figure_of_the_boards_is_as_it_was() -> None:
    folder, golden = entries_folder(), GOLDEN / "entries.csv.gz"
    places = {path.relative_to(folder).as_posix() for path in folder.glob("*/*/v*")}
    if not WRITE:
        # An entry that joins a board later changes no figure of the others.
        places &= {line[0] for line in read_csv(golden)}
    entries = {place: open_entry(folder / place) for place in sorted(places)}
    figures = [(place, figure) for place, entry in entries.items() for figure in entry.figures]
    check_figures(golden, "entry", figures)
