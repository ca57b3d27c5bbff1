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
from tests.conftest import Command
from tests.integration.test_published_matrix import QUERIES, write_run, write_test_sets

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
    done = msshift("compare", published / "runs", "--data", published / "msshift", "--json")
    assert done.returncode == 0, done.stderr
    (comparison,) = json.loads(done.stdout)["comparisons"]
    losses = comparison["figures"]["rel_loss"]
    assert [(one["system"], one["rank"]) for one in losses["ranking"]] == [
        ("splade-max", None),
        ("weaker", None),
    ]
    assert {one["counts"] for one in losses["ranking"]} == {"queries only"}
    (pair,) = losses["pairs"]
    assert (pair["a"], pair["b"]) == ("splade-max", "weaker")
    assert pair["overall"]["difference"] < 0
    assert pair["overall"]["interval"]["high"] < 0
    assert set(pair["adjusted_p"]) == set(SHIFTS["topics"].groups)
    text = msshift("compare", published / "runs", "--data", published / "msshift").stdout
    assert "negative where splade-max loses less" in text
    assert "one seed: splade-max, weaker" in text


def test_one_run_on_one_test_set(msshift: Command, published: Path) -> None:
    run = published / "runs" / "splade-max" / "topics" / "C1.run"
    done = msshift(
        "evaluate", run, "--test", "topics-C1", "--data", published / "msshift", "--json"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["test_set"] == "topics-C1"
    (only,) = report["runs"]
    assert only["measures"]["RR@10"]["mean"] == pytest.approx(0.339)
    assert only["measures"]["RR@10"]["queries"] == QUERIES
    assert only["extra_queries"] == 4 * QUERIES


def test_any_run_on_any_qrels(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("1 0 a 2\n1 0 b 1\n2 0 c 1\n3 0 d 1\n")
    (tmp_path / "my.run").write_text(
        "1 Q0 b 1 3.0 t\n1 Q0 a 2 2.0 t\n2 Q0 x 1 1.0 t\n2 Q0 c 2 1.0 t\n"
    )
    arguments = ("evaluate", "my.run", "--qrels", "qrels.txt", "--measures", "RR@10 nDCG@10 R@1000")
    report = json.loads(msshift(*arguments, "--json").stdout)["runs"][0]["measures"]
    # Of the tied passages of query 2 the one with the greater id comes first; 3 is missing.
    assert report["RR@10"]["mean"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert (report["RR@10"]["best"], report["RR@10"]["worst"]) == (
        pytest.approx(2 / 3),
        pytest.approx(0.5),
    )
    assert report["R@1000"]["mean"] == pytest.approx(2 / 3)
    assert (report["RR@10"]["missing"], report["RR@10"]["tied"]) == (1, 1)
    text = msshift(*arguments, "--intervals").stdout
    assert "RR@10" in text
    assert "50.0 [" in text
    assert "95% intervals: queries only, of this one run (Student's t)" in text
    low, high = scipy.stats.ttest_1samp([1, 1 / 2, 0], 0).confidence_interval(0.95)
    assert report["RR@10"]["interval"] == {"low": pytest.approx(low), "high": pytest.approx(high)}
    csv = msshift(*arguments, "--format", "csv")
    first, *rows = csv.stdout.splitlines()
    assert first == "shift,system,measure,group,figure,value,low,high,p,queries,seeds"
    assert rows[0].startswith(",my.run,RR@10,qrels.txt,mean,0.5,-0.")
    assert [row.split(",")[2] for row in rows] == ["RR@10", "nDCG@10", "R@1000"]
    for expected in (
        f"msshift-bench {__version__}",
        "ties (trec)",
        "missing queries (zero)",
        "sha256",
    ):
        assert expected in csv.stderr
    skipped = json.loads(msshift(*arguments, "--missing", "skip", "--json").stdout)["runs"][0]
    assert skipped["measures"]["R@1000"]["mean"] == 1.0
    assert msshift(*arguments, "--missing", "error").returncode == 1


def test_other_measures_are_left_to_ir_measures_and_the_output_says_so(
    msshift: Command, tmp_path: Path
) -> None:
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    (tmp_path / "my.run").write_text("1 Q0 b 1 3.0 t\n1 Q0 a 2 2.0 t\n")
    arguments = ("evaluate", "my.run", "--qrels", "qrels.txt", "--measures", "RR@10 Judged@2")
    done = msshift(*arguments)
    assert done.returncode == 0, done.stderr
    assert "Judged@2: computed by ir_measures" in done.stdout
    assert "RR@10: computed by" not in done.stdout
    found = json.loads(msshift(*arguments, "--json").stdout)["runs"][0]["measures"]
    assert found["Judged@2"]["mean"] == pytest.approx(0.5)


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


def test_a_run_from_standard_input(msshift_script: Path, tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    done = subprocess.run(
        [msshift_script, "evaluate", "-", "--qrels", "qrels.txt", "--json"],
        cwd=tmp_path,
        input="1 Q0 a 1 3.0 t\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["runs"][0]["measures"]["RR@10"]["mean"] == 1.0


def test_single_runs_and_run_sets_are_not_mixed_up(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "my.run").write_text("1 Q0 a 1 3.0 t\n")
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    done = msshift("evaluate", "my.run")
    assert done.returncode == 2
    assert "--test CONFIG, e.g. length-short, or --qrels FILE" in done.stderr
    done = msshift("evaluate", "my.run", "--qrels", "qrels.txt", "--test", "length-short")
    assert done.returncode == 2
    assert msshift("evaluate", "my.run", "--qrels", "qrels.txt", "--by", "x").returncode == 2
    assert msshift("evaluate", "my.run", "--qrels", "nowhere.txt").returncode == 3
    assert msshift("evaluate", "nowhere.run", "--qrels", "qrels.txt").returncode == 3
    done = msshift("evaluate", "my.run", "--qrels", "qrels.txt", "--correction", "hulm")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown correction 'hulm': did you mean 'holm'?" in done.stderr
    done = msshift("evaluate", "my.run", "--qrels", ".")
    assert (done.returncode, done.stderr) == (2, "error: . is a folder, not a file\n")


def test_qrels_may_come_from_a_pipe(msshift_script: str, tmp_path: Path) -> None:
    (tmp_path / "my.run").write_text("1 Q0 b 1 9 me\n1 Q0 a 2 8 me\n")
    (tmp_path / "qrels.txt").write_bytes(gzip.compress(b"# ours\n1 0 a 1\n"))
    command = f"{msshift_script} evaluate my.run --json --qrels <(cat qrels.txt)"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["measures"]["RR@10"]["mean"] == 0.5


def test_slices_by_file(msshift: Command, published: Path, tmp_path: Path) -> None:
    labels = [
        f"test-{g}-{n:04}\t{'low' if n < 700 else 'high'}"
        for g in ("C0", "C1")
        for n in range(QUERIES)
    ]
    (tmp_path / "labels.tsv").write_text("\n".join(labels) + "\n")
    done = msshift(
        "evaluate",
        published / "runs" / "splade-max",
        "--data",
        published / "msshift",
        "--by",
        "labels.tsv",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    slices = json.loads(done.stdout)["slices"]
    assert list(slices) == ["high", "low", "others"]
    assert slices["low"][0]["test_queries"] == {"C0": 700, "C1": 700}
    assert set(slices["others"][0]["test_queries"]) == {"C2", "C3", "C4"}
    (low,) = slices["low"]
    groups = low["measures"]["RR@10"]["loss"]["groups"]
    # The first 690 (C0) and 678 (C1) queries have their passage at rank 1 in the held-out runs.
    assert groups["C0"]["out"] == pytest.approx(690 / 700)
    assert groups["C1"]["out"] == pytest.approx(678 / 700)


def test_slices_by_another_shift(msshift: Command) -> None:
    assert msshift("build", "--collection", "mini:500").returncode == 0
    assert msshift("baseline", "run", "bm25", "--shift", "length").returncode == 0
    done = msshift("evaluate", "runs", "--by", "wh-word", "--json")
    assert set(json.loads(done.stdout)["slices"]) == {"wha", "how", "who", "others"}
    done = msshift("evaluate", "runs", "--by", "lengt-h")
    assert done.returncode == 2
    assert "did you mean 'length'" in done.stderr


def test_scoring_a_run_waits_for_no_heavy_library(published: Path) -> None:
    script = (
        "import sys\n"
        "from msshift_bench import Settings, JudgedQueries, evaluate_runs\n"
        "run, data = sys.argv[1:]\n"
        "evaluate_runs([run], JudgedQueries.of_config('topics-C1', data), Settings())\n"
        "heavy = {'datasets', 'ir_datasets', 'matplotlib', 'pandas', 'scipy', 'torch'}\n"
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


def test_validate(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "good.run").write_text("1 Q0 a 1 3.0 t\n1 Q0 b 2 2.0 t\n")
    (tmp_path / "bad.run").write_text("1 Q0 a 1 3.0 t\n1 Q0 a 2 2.0 t\n1 Q0 b 3 nan t\n1 Q0 c\n")
    done = msshift("validate", "good.run")
    assert (done.returncode, done.stdout) == (0, "")
    assert "good.run: 2 lines, 1 queries, 0 warnings; it can be evaluated" in done.stderr
    done = msshift("validate", "good.run", "bad.run")
    assert done.returncode == 1
    for line in (2, 3, 4):
        assert f"bad.run:{line}: " in done.stderr
    found = json.loads(msshift("validate", "bad.run", "--json").stdout)["bad.run"]
    assert not found["ok"]
    assert [finding["line"] for finding in found["errors"]] == [2, 3, 4]
    assert msshift("validate", "nowhere.run").returncode == 3


def test_validate_against_a_test_set(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "my.run").write_text("1 Q0 a 1 3.0 t\n9 Q0 b 1 2.0 t\n")
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    done = msshift("validate", "my.run", "--qrels", "qrels.txt")
    assert done.returncode == 0
    assert "my.run:2:" in done.stderr
    assert msshift("validate", "my.run", "--qrels", "qrels.txt", "--strict").returncode == 1


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_a_folder_is_not_scored_on_one_test_set(
    msshift: Command, published: Path, command: str
) -> None:
    done = msshift(command, published, "--test", "topics-C1", "--data", published / "msshift")
    assert done.returncode == 2
    assert "is a folder, and --test and --qrels score run files" in done.stderr
