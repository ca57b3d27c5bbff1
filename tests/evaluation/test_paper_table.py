"""The table of a paper: one LaTeX table over shifts, by hand, and compiled where LaTeX is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from msshift_bench.output import RENDERERS, column_format, paper_table
from msshift_bench.stats import DAGGER, STAR, Figure, Figures
from tests.support.command_line import run_msshift
from tests.support.figures import read_figures

VALUE = column_format("value", "{:.1f}".format, is_marked=True)
ENDS = column_format("interval", str)


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of the rows below the header."""
    body = text.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    return [line.removesuffix(r" \\").split(" & ") for line in body.strip().splitlines()]


def test_systems_are_rows_and_shifts_have_their_columns() -> None:
    figures = [
        Figure(name, shift=shift, system=system, group="mean", value=value, mark=mark, seeds=seeds)
        for shift in ("length", "topics")
        for system, seeds, name, value, mark in (
            ("a_b", 3, "avg_in", 30.0, ""),
            ("a_b", 3, "out", 31.0, ""),
            ("a_b", 3, "rel_loss", -3.0, STAR),
            ("bm25", None, "score", 20.0, ""),
        )
    ]
    on_a_group = figures[0]._replace(group="short", value=99.0)
    table = paper_table(Figures([on_a_group, *figures]), "MRR@10", [VALUE])
    text = RENDERERS["latex"](table)
    assert rows_of(text) == [
        [r"a\_b", *["30.0", "31.0", "$-$3.0$^{*}$"] * 2],
        ["bm25", *["20.0", "20.0", "--"] * 2],
    ]
    assert r" & \multicolumn{3}{c}{Query length} & \multicolumn{3}{c}{Query topics} \\" in text
    assert r"\cmidrule(lr){2-4} \cmidrule(lr){5-7}" in text
    assert "% needs \\usepackage{booktabs}\n" in text
    assert "adjustbox" not in text
    assert "MRR@10; average: mean; seeds: a\\_b 3. *: p at most 0.05" in text


def test_marks_are_those_of_the_difference_from_the_reference() -> None:
    lead = Figure("lead", shift="length", system="a", against="b", group="mean", value=9.0)
    figures = [
        *(
            Figure("score", shift="length", system=name, group="mean", value=20.0, low=1, high=2)
            for name in "ab"
        ),
        lead._replace(mark=DAGGER, family="holm over 1 test (systems)", counts="queries only"),
    ]
    table = paper_table(Figures(figures), "MRR@10", [VALUE, ENDS])
    text = RENDERERS["latex"](table)
    assert rows_of(text) == [
        ["a", r"20.0$^{\dagger}$"],
        ["", "(1, 2)"],
        ["b", "20.0"],
        ["", "(1, 2)"],
    ]
    assert r"\multicolumn{1}{c}{Query length}" in text
    assert "marks: difference from b" in text
    assert "holm over 1 test (systems)" in text


@pytest.mark.extended
def test_the_table_of_a_command_has_its_figures(world: Path) -> None:
    words = ["compare", "runs", "--reference", "bm25"]
    text = run_msshift([*words, "--format", "latex"], world).stdout
    figures = read_figures(run_msshift([*words, "--format", "json"], world).stdout)
    assert text.count(r"\begin{table}") == 1
    plain = [[cell.replace("$-$", "-").partition("$^")[0] for cell in row] for row in rows_of(text)]
    assert [row[0] for row in plain] == figures.names("system")
    for name, *cells in plain:
        expected = []
        for shift in figures.names("shift"):
            known = figures.where(system=name, shift=shift, group="mean", against="")
            for side in ("avg_in", "out", "rel_loss"):
                row = known.first(figure=(side, "score") if side != "rel_loss" else side)
                end = r"\%" * (side == "rel_loss")
                expected.append("--" if row is None else f"{100 * row.value:.1f}{end}")
        assert cells == expected


@pytest.mark.parametrize(
    "words", ["evaluate runs", "evaluate runs --format latex --delta", "compare runs --format csv"]
)
def test_intervals_are_for_the_one_table(world: Path, words: str) -> None:
    done = run_msshift([*words.split(), "--intervals"], world)
    assert done.returncode == 2
    assert "--intervals is for the one table of --format latex, got --format" in done.stderr


@pytest.mark.extended
@pytest.mark.parametrize(
    "words",
    [
        "evaluate runs --format latex --intervals",
        "compare runs --format latex --reference bm25",
        "compare runs --format latex --shift topics",
        "evaluate runs --format latex --delta",
        "evaluate runs --format latex-full",
        "compare runs --format latex-full --reference bm25",
    ],
)
def test_the_table_compiles_with_booktabs_alone(world: Path, tmp_path: Path, words: str) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    table = run_msshift(words.split(), world).stdout
    head = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
    (tmp_path / "paper.tex").write_text(f"{head}\n{table}\n\\end{{document}}\n", "utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
