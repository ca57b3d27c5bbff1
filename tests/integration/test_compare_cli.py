"""``msshift compare`` and ``score --reference``: systems, single runs, every format."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from msshift_bench.stats import Figure, Figures
from tests.conftest import Build, Command
from tests.support.fabricated import write_runs
from tests.support.figures import read_figures


@pytest.fixture(scope="module")
def made(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three systems on a data set: one with seeds, one with a single seed, and one run for all."""
    folder = tmp_path_factory.mktemp("compared")
    data = build_once("mini:300", "length", "wh-words")
    write_runs(folder / "runs" / "splade", data, seeds=(1, 2, 3))
    write_runs(folder / "runs" / "dense", data)
    write_runs(folder / "runs" / "dense", data, "wh-words")
    write_runs(folder / "runs" / "bm25", data, one=True)
    (folder / "msshift").symlink_to(data)
    return folder


@pytest.fixture
def work(made: Path, tmp_path: Path) -> Path:
    """The test's folder, in which commands run, with the three systems."""
    for name in ("runs", "msshift"):
        (tmp_path / name).symlink_to(made / name)
    return tmp_path


def pairs_of(figures: Figures) -> dict[str, list[tuple[str, str]]]:
    """Return figure -> the pairs of systems that it was compared for."""
    differences = [row for row in figures if row.against]
    pairs: dict[str, list[tuple[str, str]]] = {row.figure: [] for row in differences}
    for row in differences:
        if row.group == "mean":
            pairs[row.figure].append((row.system, row.against))
    return pairs


def test_a_system_without_a_loss_is_compared_by_avg_in_and_out(
    msshift: Command, work: Path
) -> None:
    done = msshift("compare", "runs/bm25", "runs/dense", "--format", "json")
    assert done.returncode == 0, done.stderr
    figures = read_figures(done.stdout)
    pair = [("bm25", "dense")]
    assert pairs_of(figures) == {"avg_in": pair, "out": pair}
    assert figures.where(against="dense").names("counts") == ["queries only"]
    seeds = figures.where(figure="out", group="mean", against="")
    assert [(row.system, row.seeds) for row in seeds] == [("bm25", None), ("dense", 1)]
    doubts = [note["text"] for note in json.loads(done.stdout)["notes"] if note["kind"] == "doubt"]
    assert doubts == ["wh-words: not compared, because only dense has runs for it"]
    text = msshift("compare", "runs/bm25", "runs/dense").stdout
    assert "not trained per group: bm25" in text
    assert "Rel Loss  " not in text


def test_the_reference_is_tested_against_every_other_in_all_three_figures(
    msshift: Command, work: Path
) -> None:
    done = msshift("compare", "runs", "--reference", "splade", "--format", "json")
    assert done.returncode == 0, done.stderr
    figures = read_figures(done.stdout)
    everybody = [("bm25", "splade"), ("dense", "splade")]
    assert pairs_of(figures) == {"avg_in": everybody, "out": everybody, "rel_loss": everybody[1:]}
    # One pair counts seeds and one queries only; both are corrected for two tests.
    wholes = figures.where(figure="out", against="splade", group="mean")
    assert wholes.names("counts") == ["queries and seeds", "queries only"]
    assert wholes.names("family") == ["holm over 2 tests (pairs)"]
    text = msshift("compare", "runs", "--reference", "splade").stdout
    assert "mean, * or † differs from splade" in text
    assert "p: holm over 4 tests (pairs x groups), holm over 2 tests (pairs); " in text
    assert "dense - splade; in Rel Loss negative where dense loses less" in text


@pytest.mark.parametrize("reference", ["bm25", "runs/bm25", "./runs/bm25"])
def test_a_reference_is_a_name_or_a_folder_also_one_that_is_not_among_the_runs(
    msshift: Command, work: Path, reference: str
) -> None:
    runs = ["runs"] if reference == "bm25" else ["runs/splade"]
    arguments = ("compare", *runs, "--shift", "length", "--reference", reference)
    done = msshift(*arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    figures = read_figures(done.stdout)
    assert set(figures.names("against")) == {"", "bm25"}
    assert list(pairs_of(figures)) == ["avg_in", "out"]


def test_a_name_stands_for_the_system_where_a_folder_is_called_so_too(
    msshift: Command, work: Path
) -> None:
    (work / "bm25").mkdir()
    (work / "bm25" / "index.bin").touch()
    arguments = ("compare", "runs", "--shift", "length", "--reference", "bm25")
    plain = msshift(*arguments)
    done = msshift(*arguments, "--output", "compared.json")
    assert (plain.returncode, done.returncode) == (0, 0), done.stderr
    assert done.stdout == plain.stdout
    assert set(read_figures((work / "compared.json").read_text()).names("against")) == {"", "bm25"}


def test_stars_stand_where_seeds_are_counted_and_nowhere_else(msshift: Command, work: Path) -> None:
    arguments = ("compare", "runs", "--shift", "length", "--reference", "bm25")
    text = msshift(*arguments, "--format", "markdown").stdout
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    starred = [line for line in rows if r"\*" in line]
    assert any(line.startswith("| dense") and "†" in line for line in rows)
    assert any(line.startswith("| splade") for line in starred)
    assert not any("queries only" in line or line.startswith("| dense") for line in starred)
    latex = msshift(*arguments, "--format", "latex").stdout
    for part in (
        r"% needs \usepackage{booktabs}",
        r"\centering",
        r"\label{tab:length-rr-10-against-bm25}",
        r"\label{tab:length-rr-10-splade-minus-bm25}",
        "$^{*}$",
    ):
        assert part in latex


def test_csv_is_one_long_table_of_numbers_and_notes_go_to_stderr(
    msshift: Command, work: Path
) -> None:
    done = msshift("compare", "runs", "--shift", "length", "--reference", "bm25", "--format", "csv")
    assert done.stdout.splitlines()[0] == ",".join(Figure._fields)
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert {row["figure"] for row in rows} == {"avg_in", "out"}
    differences = [row for row in rows if row["against"]]
    assert {(row["system"], row["against"], row["seeds"]) for row in differences} == {
        ("dense", "bm25", "1"),
        ("splade", "bm25", "3"),
    }
    own = {(row["system"], row["group"], row["figure"]): row for row in rows if not row["against"]}
    for row in differences:
        place = row["group"], row["figure"]
        expected = float(own["splade" if row["system"] == "splade" else "dense", *place]["value"])
        expected -= float(own["bm25", *place]["value"])
        assert float(row["value"]) == pytest.approx(expected, abs=1e-9)
        assert float(row["low"]) < float(row["value"]) < float(row["high"])
        assert 0 <= float(row["p"]) <= 1
    assert {row["family"] for row in rows if row["against"]} == {
        "holm over 4 tests (pairs x groups)", "holm over 2 tests (pairs)",
    }  # fmt: skip


def test_a_system_whose_runs_are_not_complete_is_left_out(msshift: Command, work: Path) -> None:
    shutil.copytree(work / "runs", work / "part")
    (work / "part" / "dense" / "length" / "short.run.gz").unlink()
    arguments = ("compare", "part", "--shift", "length")
    assert "go on without it (--allow partial)" in msshift(*arguments).stderr
    done = msshift(*arguments, "--allow", "partial")
    assert done.returncode == 0, done.stderr
    assert "bm25 - splade" in done.stdout
    assert "dense -" not in done.stdout
    assert "warning: length: dense is left out, because run files of it are missing" in done.stderr


def test_systems_of_one_name_are_told_apart(msshift: Command, work: Path) -> None:
    write_runs(work / "paper" / "bm25", work / "msshift", one=True)
    done = msshift("compare", "runs/bm25", "paper/bm25", "--shift", "length")
    assert done.returncode == 0, done.stderr
    assert "paper/bm25 - runs/bm25" in done.stdout
    table = msshift("evaluate", "runs/bm25", "paper/bm25").stdout
    assert "paper/bm25" in table
    assert "runs/bm25" in table


def test_single_runs_are_compared_over_queries_only(msshift: Command, work: Path) -> None:
    first, second = work / "runs/bm25/length.run.gz", work / "runs/dense/length/short.run.gz"
    shutil.copy(first, work / "a.run.gz")
    shutil.copy(second, work / "b.run.gz")
    every = ("score", "b.run.gz", "--reference", "a.run.gz", "--test", "length-short")
    done = msshift(*every)
    assert done.returncode == 0, done.stderr
    assert "length-short, MRR@10 x 100: run - a.run.gz" in done.stdout
    assert "queries only" in done.stdout
    assert "*" not in done.stdout
    assert "†: p at most 0.05, queries only, of these very models" in done.stdout
    figures = read_figures(msshift(*every, "--format", "json").stdout)
    alone = ("score", "a.run.gz", "--test", "length-short", "--format", "json")
    assert [*figures.where(system="a.run.gz")] == [*read_figures(msshift(*alone).stdout)]
    (lead,) = figures.where(against="a.run.gz")
    assert (lead.system, lead.figure, lead.seeds, lead.mark) == ("b.run.gz", "score", None, "†")


def test_single_runs_on_any_qrels(msshift: Command, tmp_path: Path) -> None:
    ids = range(1, 9)
    (tmp_path / "qrels.txt").write_text("".join(f"{n} 0 r{n} 1\n" for n in ids))
    (tmp_path / "good.run").write_text("".join(f"{n} Q0 r{n} 1 9 t\n" for n in ids))
    lines = [f"{n} Q0 x 1 9 t\n{n} Q0 r{n} 2 {8 - n / 10} t\n" for n in ids]
    (tmp_path / "worse.run").write_text("".join(lines[1:]))
    arguments = ("score", "good.run", "--qrels", "qrels.txt", "--reference", "worse.run")
    for missing, value, queries in (("zero", 1 - 7 / 16, 8), ("skip", 0.5, 7)):
        # Without the query that one run lacks, both are scored on the same seven.
        done = msshift(*arguments, "--missing", missing, "--format", "json")
        (lead,) = read_figures(done.stdout).where(against="worse.run")
        assert (lead.value, lead.queries) == (pytest.approx(value), queries)
        assert ("differences: on the 7 queries that all runs hold" in done.stdout) == (queries < 8)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("compare runs --reference bm24", "unknown reference 'bm24': did you mean 'bm25'?"),
        ("compare runs/bm25", "it takes two systems with complete run sets for the same shift"),
        (
            "compare runs --shift wh-words --reference dense",
            "wh-words: not compared, because only dense",
        ),
        ("compare runs --format xls", "unknown format 'xls'"),
        ("score a.run --reference a.run --qrels qrels.txt", "nothing to compare: it takes two ru"),
        ("score a.run a.run --qrels qrels.txt", "a.run is given twice"),
        (
            "score a.run --reference b.run --qrels qrels.txt --measures NumRet",
            "NumRet is a sum over queries, not a mean",
        ),
    ],
)
def test_what_cannot_be_compared_is_said(
    msshift: Command, work: Path, line: str, message: str
) -> None:
    (work / "qrels.txt").write_text("1 0 a 1\n")
    for name in ("a.run", "b.run"):
        (work / name).write_text("1 Q0 a 1 3.0 t\n")
    done = msshift(*line.split())
    assert done.returncode == 2
    assert message in done.stderr
