"""Single runs, comparisons, slices and every output format, through the console script."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import scipy.stats

from msshift_bench import __version__
from msshift_bench.analysis import load_published
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import Figure
from tests.conftest import Command
from tests.integration.test_published_matrix import QUERIES, write_run, write_test_sets
from tests.support.figures import read_figures

GOLD = Path(__file__).parent / "gold"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the published SPLADE matrix as run set, a weaker system, and BM25's row."""
    folder = tmp_path_factory.mktemp("published")
    write_test_sets(folder / "msshift", SHIFTS["topics"])
    matrix = load_published("ms_shift_v1")["splade_topics_matrix"]
    groups = matrix["columns"]
    for held_out, row in matrix["rows"].items():
        means = dict(zip(groups, row, strict=True))
        write_run(folder / "runs" / "splade-max" / "topics" / f"{held_out}.run", means)
        weaker = {
            group: mean - (0.06 if group == held_out else 0.03) for group, mean in means.items()
        }
        write_run(folder / "runs" / "weaker" / "topics" / f"{held_out}.run", weaker)
    bm25 = {g: m / 100 for g, m in load_published("ms_shift_v2")["topics_bm25"].items()}
    write_run(folder / "runs" / "bm25" / "topics.run", bm25)
    return folder


def test_latex_matches_the_gold_file(msshift: Command, published: Path) -> None:
    done = msshift(
        "evaluate", published / "runs", "--data", published / "msshift", "--format", "latex"
    )
    assert done.returncode == 0, done.stderr
    gold = (GOLD / "topics.tex").read_text()
    assert done.stdout == gold.replace("msshift-bench 0.1.0", f"msshift-bench {__version__}")


def test_the_best_figures_are_bold_and_one_seed_is_labelled() -> None:
    latex = (GOLD / "topics.tex").read_text()
    splade, weaker = latex.split("weaker &")
    assert r"\textbf{36.8}" in splade
    assert "textbf" not in weaker
    assert r"\textbf{12.3\%}" in splade
    # One seed: over queries the loss is sure, of another training nothing is known.
    assert "$^{*}$" not in latex
    assert r"95\% interval, queries only" in splade


def test_compare(msshift: Command, published: Path) -> None:
    arguments = ("compare", published / "runs", "--data", published / "msshift")
    done = msshift(*arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    figures = read_figures(done.stdout)
    ranks = figures.where(figure="rank")
    assert [(row.system, row.value) for row in ranks] == [("splade-max", None), ("weaker", None)]
    losses = figures.where(figure="rel_loss")
    assert losses.names("counts") == ["queries only"]
    whole, *groups = sorted(losses.where(against="weaker"), key=lambda row: row.group != "mean")
    assert whole.system == "splade-max"
    assert whole.high < 0
    assert {row.group for row in groups if row.p is not None} == set(SHIFTS["topics"].groups)
    text = msshift(*arguments).stdout
    assert "negative where splade-max loses less" in text
    assert "one seed: splade-max, weaker" in text


def test_one_run_on_one_test_set(msshift: Command, published: Path) -> None:
    run = published / "runs" / "splade-max" / "topics" / "C1.run"
    done = msshift(
        *("score", run, "--test", "topics-C1", "--data", published / "msshift"),
        *("--format", "json"),
    )
    assert done.returncode == 0, done.stderr
    (score,) = read_figures(done.stdout).where(figure="score")
    assert (score.group, score.measure, score.queries) == ("topics-C1", "RR@10", QUERIES)
    assert score.value == pytest.approx(0.339)
    (facts,) = json.loads(done.stdout)["runs"]
    assert facts["extra_queries"] == 4 * QUERIES


def test_any_run_on_any_qrels(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("1 0 a 2\n1 0 b 1\n2 0 c 1\n3 0 d 1\n")
    (tmp_path / "my.run").write_text(
        "1 Q0 b 1 3.0 t\n1 Q0 a 2 2.0 t\n2 Q0 x 1 1.0 t\n2 Q0 c 2 1.0 t\n"
    )
    arguments = ("score", "my.run", "--qrels", "qrels.txt", "--measures", "RR@10 nDCG@10 R@1000")
    figures = read_figures(msshift(*arguments, "--format", "json").stdout)
    values = {(row.figure, row.measure): row.value for row in figures}
    # Of the tied passages of query 2 the one with the greater id comes first; 3 is missing.
    expected = {
        ("queries", ""): 3,
        ("missing", ""): 1,
        ("tied", ""): 1,
        ("score", "RR@10"): (1 + 1 / 2 + 0) / 3,
        ("tie_best", "RR@10"): 2 / 3,
        ("tie_worst", "RR@10"): 0.5,
        ("score", "R@1000"): 2 / 3,
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected)
    low, high = scipy.stats.ttest_1samp([1, 1 / 2, 0], 0).confidence_interval(0.95)
    score = figures.first(figure="score", measure="RR@10")
    assert low < 0 < 1 < high
    assert score.interval == (0, 1)  # No mean lies outside.
    text = msshift(*arguments).stdout
    assert "50.0 [" in text
    assert "95% intervals: queries only, of this one run (Student's t)" in text
    csv = msshift(*arguments, "--format", "csv")
    rows = [line.split(",") for line in csv.stdout.splitlines()]
    assert rows[0] == [*Figure._fields]
    assert [row[5] for row in rows if row[0] == "score"] == ["RR@10", "nDCG@10", "R@1000"]
    for expected in (
        f"msshift-bench {__version__}",
        "ties (trec)",
        "missing queries (zero)",
        "sha256",
    ):
        assert expected in csv.stderr
    skipped = read_figures(msshift(*arguments, "--missing", "skip", "--format", "json").stdout)
    assert skipped.first(figure="score", measure="R@1000").value == 1.0
    assert msshift(*arguments, "--missing", "error").returncode == 1


def test_other_measures_are_left_to_ir_measures_and_the_output_says_so(
    msshift: Command, tmp_path: Path
) -> None:
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    (tmp_path / "my.run").write_text("1 Q0 b 1 3.0 t\n1 Q0 a 2 2.0 t\n")
    arguments = ("score", "my.run", "--qrels", "qrels.txt", "--measures", "RR@10 Judged@2")
    done = msshift(*arguments)
    assert done.returncode == 0, done.stderr
    assert "Judged@2: computed by ir_measures" in done.stdout
    assert "RR@10: computed by" not in done.stdout
    figures = read_figures(msshift(*arguments, "--format", "json").stdout)
    assert figures.first(measure="Judged@2").value == pytest.approx(0.5)


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_measures_with_commas_in_brackets(
    msshift: Command, published: Path, tmp_path: Path, command: str
) -> None:
    done = msshift(
        command,
        published / "runs",
        *("--data", published / "msshift", "--output", "out.json"),
        *("--measures", "RR@10,RR(rel=1, judged_only=False)@10,AP(rel=1, judged_only=False)@5"),
    )
    assert done.returncode == 0, done.stderr
    settings = json.loads((tmp_path / "out.json").read_text())["settings"]
    assert settings["measures"] == ["RR@10", "AP@5"]


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_measures_without_a_loss_are_refused_for_run_sets(
    msshift: Command, published: Path, command: str
) -> None:
    arguments = (command, published / "runs", "--data", published / "msshift")
    counts = msshift(*arguments, "--measures", "RR@10 NumRet")
    assert counts.returncode == 2
    assert counts.stderr.startswith("error: NumRet is a sum over queries, not a mean")
    unknown = msshift(*arguments, "--measures", "nDCG(rel=2)@10")
    assert unknown.returncode == 2
    assert "there is no parameter 'rel'; nDCG takes cutoff (nDCG@cutoff)" in unknown.stderr
    assert "Traceback" not in unknown.stderr


def test_runs_and_qrels_may_come_from_pipes(msshift_script: str, tmp_path: Path) -> None:
    (tmp_path / "my.run").write_text("1 Q0 b 1 9 me\n1 Q0 a 2 8 me\n")
    (tmp_path / "qrels.txt").write_bytes(gzip.compress(b"# ours\n1 0 a 1\n"))
    command = f"{msshift_script} score - --format json --qrels <(cat qrels.txt) <my.run"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert read_figures(done.stdout).first(figure="score").value == 0.5


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("evaluate my.run", 2, "'msshift score my.run --test length-short', or --qrels FILE"),
        ("compare my.run", 2, "and --reference RUN compares it"),
        ("score my.run", 2, "--test CONFIG, e.g. length-short, or --qrels FILE"),
        ("score runs --test length-short", 2, "evaluate the folder's run sets: msshift evaluate r"),
        ("score my.run --qrels qrels.txt --test length-short", 2, "give one of them"),
        ("score my.run --check --output x.json", 2, "--output and --check do not go together"),
        ("score my.run --qrels nowhere.txt", 3, "no qrels file nowhere.txt"),
        ("score nowhere.run --qrels qrels.txt", 3, "there is no file nowhere.run"),
        ("score my.run --qrels .", 2, "error: . is a folder, not a file\n"),
        (
            "score my.run --qrels qrels.txt --correction hulm",
            2,
            "unknown correction 'hulm': did you mean 'holm'?",
        ),
        ("score my.run --qrels qrels.txt --format xls", 2, "unknown format 'xls': valid are"),
        ("score my.run --qrels qrels.txt --output x.xls", 2, "unknown ending of --output '.xls'"),
        ("evaluate runs --allow identcal", 2, "did you mean 'identical'? valid are partial, "),
    ],
)
def test_what_cannot_be_scored_is_said(
    msshift: Command, tmp_path: Path, line: str, code: int, message: str
) -> None:
    (tmp_path / "my.run").write_text("1 Q0 a 1 3.0 t\n")
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    (tmp_path / "runs").mkdir()
    done = msshift(*line.split())
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr


def test_slices_by_file(msshift: Command, published: Path, tmp_path: Path) -> None:
    labels = [
        f"test-{g}-{n:04}\t{'low' if n < 700 else 'high'}"
        for g in ("C0", "C1")
        for n in range(QUERIES)
    ]
    (tmp_path / "labels.tsv").write_text("\n".join(labels) + "\n")
    runs, data = published / "runs" / "splade-max", published / "msshift"
    done = msshift("evaluate", runs, "--data", data, "--by", "labels.tsv", "--format", "json")
    assert done.returncode == 0, done.stderr
    figures = read_figures(done.stdout)
    assert figures.names("slice") == ["", "high", "low", "others"]
    out = {(row.slice, row.group): row for row in figures.where(figure="out")}
    assert (out["low", "C0"].queries, out["low", "C1"].queries) == (700, 700)
    assert {group for slice_, group in out if slice_ == "others"} == {"C2", "C3", "C4", "mean"}
    # The first 690 (C0) and 678 (C1) queries have their passage at rank 1 in the held-out runs.
    assert out["low", "C0"].value == pytest.approx(690 / 700)
    assert out["low", "C1"].value == pytest.approx(678 / 700)


def test_slices_by_another_shift(msshift: Command) -> None:
    assert msshift("build", "--collection", "mini:500").returncode == 0
    assert msshift("run", "bm25", "--shift", "length").returncode == 0
    done = msshift("evaluate", "runs", "--by", "wh-word", "--format", "json")
    labels = read_figures(done.stdout).names("slice")
    assert set(labels) == {"", "wha", "how", "who", "others"}
    done = msshift("evaluate", "runs", "--by", "lengt-h")
    assert done.returncode == 2
    assert "did you mean 'length'" in done.stderr


def test_scoring_a_run_waits_for_no_heavy_library(published: Path) -> None:
    script = (
        "import sys\n"
        "from msshift_bench import score_runs\n"
        "run, data = sys.argv[1:]\n"
        "score_runs([run], 'topics-C1', data=data)\n"
        "heavy = {'datasets', 'ir_datasets', 'matplotlib', 'pandas', 'scipy.stats', 'torch'}\n"
        "loaded = heavy & sys.modules.keys()\n"
        "assert not loaded, loaded\n"
    )
    run = published / "runs" / "splade-max" / "topics" / "C1.run"
    arguments = [sys.executable, "-c", script, run, published / "msshift"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_per_query_scores(msshift: Command, published: Path, tmp_path: Path) -> None:
    done = msshift(
        "evaluate",
        published / "runs",
        "--data",
        published / "msshift",
        "--per-query",
        "q.parquet",
    )
    assert done.returncode == 0, done.stderr
    table = pq.read_table(tmp_path / "q.parquet")
    assert table.num_rows == (5 + 5 + 1) * 5 * QUERIES
    head = json.loads(table.schema.metadata[b"msshift_bench"])
    assert head["data"]["edition"] == "rebuilt"
    assert head["settings"]["ties"] == "trec"
    assert all(len(run["digest"]) == 64 for run in head["runs"])
    cells = (
        table.group_by(["system", "held_out", "group"]).aggregate([("score", "mean")]).to_pylist()
    )
    mean = {(c["system"], c["held_out"], c["group"]): c["score_mean"] for c in cells}
    assert mean["splade-max", "C3", "C3"] == pytest.approx(0.246)
    assert mean["bm25", None, "C0"] == pytest.approx(0.192)


def test_runs_are_only_checked(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "good.run").write_text("1 Q0 a 1 3.0 t\n1 Q0 b 2 2.0 t\n")
    (tmp_path / "bad.run").write_text("1 Q0 a 1 3.0 t\n1 Q0 a 2 2.0 t\n1 Q0 b 3 nan t\n1 Q0 c\n")
    done = msshift("score", "good.run", "--check")
    assert (done.returncode, done.stdout) == (0, "")
    assert "good.run: 2 lines, 1 queries, 0 warnings; it can be scored" in done.stderr
    done = msshift("score", "good.run", "bad.run", "--check")
    assert done.returncode == 1
    for line in (2, 3, 4):
        assert f"bad.run:{line}: " in done.stderr
    text = msshift("score", "bad.run", "--check", "--format", "json").stdout
    checked = json.loads(text)["bad.run"]
    assert not checked["ok"]
    assert [finding["line"] for finding in checked["errors"]] == [2, 3, 4]
    assert msshift("score", "nowhere.run", "--check").returncode == 3


def test_runs_are_checked_against_a_test_set(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "my.run").write_text("1 Q0 a 1 3.0 t\n9 Q0 b 1 2.0 t\n")
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    arguments = ("score", "my.run", "--check", "--qrels", "qrels.txt")
    done = msshift(*arguments)
    assert done.returncode == 0
    assert "my.run:2:" in done.stderr
    assert msshift(*arguments, "--strict").returncode == 1
