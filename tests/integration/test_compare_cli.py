"""``msshift compare``: systems with and without a loss, single runs, a baseline, every format."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_runs
from tests.conftest import Build, Command

COLUMNS = "shift,system,measure,group,figure,value,low,high,p,queries,seeds"


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


def test_a_system_without_a_loss_is_compared_by_avg_in_and_out(
    msshift: Command, work: Path
) -> None:
    done = msshift("compare", "runs/bm25", "runs/dense", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (comparison,) = report["comparisons"]
    assert list(comparison["figures"]) == ["avg_in", "out"]
    assert comparison["seeds"] == {"bm25": None, "dense": 1}
    for figure in comparison["figures"].values():
        (pair,) = figure["pairs"]
        assert pair["overall"]["counts"] == "queries only"
    assert report["remarks"] == ["wh-words: not compared, because only dense has runs for it"]
    text = msshift("compare", "runs/bm25", "runs/dense").stdout
    assert "not trained per group: bm25" in text
    assert "Rel Loss  " not in text


def test_the_baseline_is_tested_against_every_other_in_all_three_figures(
    msshift: Command, work: Path
) -> None:
    done = msshift("compare", "runs", "--baseline", "splade", "--json")
    assert done.returncode == 0, done.stderr
    (comparison,) = json.loads(done.stdout)["comparisons"]
    pairs = {
        figure: [(pair["a"], pair["b"]) for pair in found["pairs"]]
        for figure, found in comparison["figures"].items()
    }
    everybody = [("bm25", "splade"), ("dense", "splade")]
    assert pairs == {"avg_in": everybody, "out": everybody, "rel_loss": everybody[1:]}
    (first, _) = comparison["figures"]["out"]["pairs"]
    # One pair counts seeds and one queries only, so that either is a family of its own.
    assert first["overall"]["counts"] == "queries and seeds"
    assert first["adjusted_overall_p"] == first["overall"]["p"]
    text = msshift("compare", "runs", "--baseline", "splade").stdout
    assert "mean, * differs from splade" in text
    assert "holm-corrected over the pairs with splade" in text
    assert "dense - splade; in Rel Loss negative where dense loses less" in text


@pytest.mark.parametrize("baseline", ["bm25", "runs/bm25", "./runs/bm25"])
def test_a_baseline_is_a_name_or_a_folder_also_one_that_is_not_among_the_runs(
    msshift: Command, work: Path, baseline: str
) -> None:
    runs = ["runs"] if baseline == "bm25" else ["runs/splade"]
    done = msshift("compare", *runs, "--shift", "length", "--baseline", baseline, "--json")
    assert done.returncode == 0, done.stderr
    (comparison,) = json.loads(done.stdout)["comparisons"]
    assert comparison["baseline"] == "bm25"
    assert list(comparison["figures"]) == ["avg_in", "out"]


def test_a_name_stands_for_the_system_where_a_folder_is_called_so_too(
    msshift: Command, work: Path
) -> None:
    (work / "bm25").mkdir()
    (work / "bm25" / "index.bin").touch()
    arguments = ("compare", "runs", "--shift", "length", "--baseline", "bm25")
    plain = msshift(*arguments)
    done = msshift(*arguments, "--output", "compared.json")
    assert (plain.returncode, done.returncode) == (0, 0), done.stderr
    assert done.stdout == plain.stdout
    (comparison,) = json.loads((work / "compared.json").read_text())["comparisons"]
    assert comparison["baseline"] == "bm25"


def test_stars_stand_where_seeds_are_counted_and_nowhere_else(msshift: Command, work: Path) -> None:
    arguments = ("compare", "runs", "--shift", "length", "--baseline", "bm25")
    text = msshift(*arguments, "--format", "markdown").stdout
    starred = [line for line in text.splitlines() if line.startswith("| ") and r"\*" in line]
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
    done = msshift("compare", "runs", "--shift", "length", "--baseline", "bm25", "--format", "csv")
    assert done.stdout.splitlines()[0] == f"{COLUMNS},against"
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
    assert "holm-corrected over the pairs with bm25" in done.stderr


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
    every = ("compare", "a.run.gz", "b.run.gz", "--test", "length-short")
    done = msshift(*every)
    assert done.returncode == 0, done.stderr
    assert "length-short, MRR@10 x 100: A - B" in done.stdout
    assert "queries only" in done.stdout
    assert "*" not in done.stdout
    baseline = msshift(
        *("compare", "b.run.gz", "--baseline", "a.run.gz", "--test", "length-short"),
        *("--format", "csv"),
    )
    rows = list(csv.DictReader(baseline.stdout.splitlines()))
    assert [row["value"] for row in rows if row["system"] == "a.run.gz"] == [
        row["value"]
        for row in csv.DictReader(
            msshift(
                "evaluate", "a.run.gz", "--test", "length-short", "--format", "csv"
            ).stdout.splitlines()
        )
    ]
    (difference,) = [row for row in rows if row["against"]]
    assert (difference["system"], difference["against"]) == ("b.run.gz", "a.run.gz")
    assert difference["seeds"] == ""


def test_single_runs_on_any_qrels(msshift: Command, tmp_path: Path) -> None:
    ids = range(1, 9)
    (tmp_path / "qrels.txt").write_text("".join(f"{n} 0 r{n} 1\n" for n in ids))
    (tmp_path / "good.run").write_text("".join(f"{n} Q0 r{n} 1 9 t\n" for n in ids))
    lines = [f"{n} Q0 x 1 9 t\n{n} Q0 r{n} 2 {8 - n / 10} t\n" for n in ids]
    (tmp_path / "worse.run").write_text("".join(lines[1:]))
    arguments = ("compare", "good.run", "worse.run", "--qrels", "qrels.txt", "--json")
    (comparison,) = json.loads(msshift(*arguments).stdout)["comparisons"]
    (pair,) = comparison["figures"]["mean"]["pairs"]
    assert pair["overall"]["value_b"] == pytest.approx(7 / 16)
    assert comparison["queries"] == {"qrels.txt": 8}
    # Without the query that one run lacks, both are scored on the same seven.
    (comparison,) = json.loads(msshift(*arguments, "--missing", "skip").stdout)["comparisons"]
    (pair,) = comparison["figures"]["mean"]["pairs"]
    assert (pair["overall"]["value_a"], pair["overall"]["value_b"]) == (1.0, 0.5)
    assert comparison["queries"] == {"qrels.txt": 7}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("runs --baseline bm24", "unknown baseline 'bm24': did you mean 'bm25'?"),
        ("runs/bm25", "it takes two systems with complete run sets for the same shift"),
        ("runs --shift wh-words --baseline dense", "and there are: wh-words: dense"),
        ("a.run --qrels qrels.txt", "nothing to compare: it takes two runs"),
        ("a.run a.run --qrels qrels.txt", "a.run is given twice"),
        ("a.run b.run --qrels qrels.txt --measures NumRet", "NumRet is no mean"),
        ("a.run b.run --qrels qrels.txt --shift length", "--shift is for run sets"),
        ("a.run b.run", "--test CONFIG, e.g. length-short, or --qrels FILE"),
        ("runs --format xls", "unknown format 'xls'"),
    ],
)
def test_what_cannot_be_compared_is_said(
    msshift: Command, work: Path, arguments: str, message: str
) -> None:
    (work / "qrels.txt").write_text("1 0 a 1\n")
    for name in ("a.run", "b.run"):
        (work / name).write_text("1 Q0 a 1 3.0 t\n")
    done = msshift("compare", *arguments.split())
    assert done.returncode == 2
    assert message in done.stderr
