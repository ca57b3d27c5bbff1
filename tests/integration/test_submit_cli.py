"""A system on its way to the leaderboard, as the how-to tells a stranger."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_meta, write_runs
from msshift_bench.baselines.driver import run_baseline
from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import UsageError
from msshift_bench.evaluation.run_set_report import evaluate_run_sets
from msshift_bench.leaderboard.entries import entries_folder, load_entries
from msshift_bench.leaderboard.hub_results import write_hub_results
from msshift_bench.leaderboard.rescoring import SETTINGS
from msshift_bench.leaderboard.submission import parse_submission, read_submission
from msshift_bench.plumbing import with_checksum
from tests.conftest import REPOSITORY, Command
from tests.support.documents import run_blocks

PAGE = (REPOSITORY / "docs" / "leaderboard.md").read_text(encoding="utf-8")
SHIFTS = ("topics", "wh-words", "length")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `msshift demo` leaves, with runs that nobody trained for; its own test trains them."""
    folder = tmp_path_factory.mktemp("demo") / "msshift-demo"
    mini = open_collection("mini")
    build_dataset(mini, SHIFTS, folder / "msshift")
    for shift in SHIFTS:
        write_runs(folder / "runs" / "bi-encoder", folder / "msshift", shift)
    run_baseline("bm25", ["length"], collection=mini, data=folder / "msshift", out=folder / "runs")
    return folder


@pytest.mark.slow
def test_the_page_does_what_it_says(demo: Path, tmp_path: Path) -> None:
    shutil.copytree(demo, tmp_path / "msshift-demo")
    (meta,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "meta.toml").write_text(meta, encoding="utf-8")
    first = "$ msshift demo\n"
    assert first in PAGE
    ran = run_blocks(PAGE.replace(first, ""), tmp_path)
    assert [command[1:3] for command in ran] == [
        ["submit", "msshift-demo/runs/bi-encoder"],
        ["leaderboard", "check"],
        ["leaderboard", "add"],
        ["leaderboard", "check"],
        ["leaderboard", "build"],
        ["leaderboard", "reproduce"],
    ]
    assert (tmp_path / "site" / "index.html").is_file()
    (entry,) = load_entries(tmp_path / "my-entries")
    assert (entry.submission.badge, entry.submission.training.exposure) == ("rescored", "held-out")
    assert entry.submission.shifts == SHIFTS
    assert not (entry.folder / "runs").exists()
    files = [folder / "scores.parquet" for folder in (entry.folder, tmp_path / "submission")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert list(entry.scores()) == list(SHIFTS)


def test_every_link_of_the_page_leads_somewhere() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        file = REPOSITORY / "docs" / link.partition("#")[0]
        assert link.startswith("https://") or file.exists(), link


def test_the_report_is_the_evaluator_s(demo: Path, msshift: Command, tmp_path: Path) -> None:
    data, runs = demo / "msshift", demo / "runs" / "bi-encoder"
    meta = write_meta(
        tmp_path / "meta.toml",
        "bi-encoder",
        **dict.fromkeys(("topics", "wh_words", "length"), "msshift"),
    )
    hub = ("--hub-dataset", "my-org/msshift")
    done = msshift("submit", runs, "--meta", meta, "--data", data, *hub)
    assert done.returncode == 0, done.stderr
    _check_hub_results(tmp_path)
    assert "training queries: held-out" in done.stdout
    submission = json.loads((tmp_path / "submission" / "submission.json").read_text())
    report = evaluate_run_sets([runs], data, settings=SETTINGS).to_json()
    for system in (*report["systems"], *submission["report"]["systems"]):
        for run in system["runs"]:
            run["name"] = Path(run["name"]).name
    assert submission["report"] == json.loads(json.dumps(report))


def _check_hub_results(folder: Path) -> None:
    """Check what the Hub is to read beside a submission, with the Hub's own library."""
    import yaml
    from huggingface_hub import parse_eval_result_entries

    written = folder / "submission-hub"
    names = {file.relative_to(written).as_posix() for file in written.rglob("*.yaml")}
    assert names == {"eval.yaml", ".eval_results/msshift.yaml"}
    benchmark = yaml.safe_load((written / "eval.yaml").read_text("utf-8"))
    assert list(benchmark) == ["name", "description", "evaluation_framework", "tasks"]
    assert [task["config"] for task in benchmark["tasks"]] == list(SHIFTS)
    values = yaml.safe_load((written / ".eval_results" / "msshift.yaml").read_text("utf-8"))
    entries = parse_eval_result_entries(values)
    assert [entry.task_id for entry in entries] == [task["id"] for task in benchmark["tasks"]]
    assert {entry.dataset_id for entry in entries} == {"my-org/msshift"}
    content = json.loads((folder / "submission" / "submission.json").read_text())
    for entry, system in zip(entries, content["report"]["systems"], strict=True):
        overall = system["measures"]["RR@10"]["loss"]["overall"]
        assert entry.value == round(overall["out"], 4)
        assert f"Rel Loss {overall['rel_loss']:.1%}" in str(entry.notes)
        assert entry.source_url == "https://example.org/code"
        assert entry.date == content["submitted"]
    submission = parse_submission(content)
    training = dataclasses.replace(submission.training, exposure="trained-on-test")
    with pytest.raises(UsageError, match="its scores as zero-shot"):
        write_hub_results(dataclasses.replace(submission, training=training), "o/d", folder / "x")


def test_results_for_the_hub_name_no_source_and_no_loss_where_there_is_none(
    good: Path, tmp_path: Path
) -> None:
    content = json.loads((good / "submission.json").read_text())
    (record,) = content["report"]["systems"]
    record["measures"]["RR@10"]["loss"]["overall"].update(avg_in=0.0, out=0.25, rel_loss=None)
    content["system"]["links"] = {}
    _, values = write_hub_results(parse_submission(content), "my-org/msshift", tmp_path / "hub")
    (line,) = values.read_text().splitlines()
    assert json.loads(line.removeprefix("- ")) == {
        "dataset": {"id": "my-org/msshift", "task_id": "length-out"},
        "value": 0.25,
        "date": content["submitted"],
        "notes": "RR@10, mean of 2 groups (short, long); Avg In 0.0000",
    }


def test_the_hub_reads_the_mean_that_the_board_shows(good: Path, tmp_path: Path) -> None:
    submission = read_submission(good)
    report = submission.report
    assert report is not None
    (system,) = report.systems
    queries = {group: 10 * int(group) for group in "12345"}
    untrained = {
        name: dataclasses.replace(
            measure,
            loss=None,
            cells=tuple(
                dataclasses.replace(
                    measure.cells[0], held_out=None, group=group, queries=n, mean=n / 100
                )
                for group, n in queries.items()
            ),
        )
        for name, measure in system.measures.items()
    }
    system = dataclasses.replace(system, shift="resttest", test_queries=queries, measures=untrained)
    submission = dataclasses.replace(
        submission, report=dataclasses.replace(report, systems=(system,))
    )
    _, values = write_hub_results(submission, "my-org/msshift", tmp_path / "hub")
    found = json.loads(values.read_text().removeprefix("- "))
    # On this shift each query counts alike, as its authors count: (100 + 400 + ... + 2500) / 15000.
    assert found["value"] == 0.3667
    assert found["notes"].startswith("RR@10, mean of all queries of 5 groups (1, 2, 3, 4, 5); not")


def test_an_untrained_system_and_its_sidecar(demo: Path, msshift: Command, tmp_path: Path) -> None:
    meta = write_meta(tmp_path / "meta.toml", "bm25", length="none")
    meta.write_text(meta.read_text().replace('hardware = "none"', 'hardware = ""'))
    arguments = ("--meta", meta, "--data", demo / "msshift", "--out", "out", "--no-runs")
    arguments += ("--hub-dataset", "my-org/msshift")
    done = msshift("submit", demo / "runs" / "bm25", *arguments)
    assert done.returncode == 0, done.stderr
    submission = json.loads((tmp_path / "out" / "submission.json").read_text())
    assert submission["training"]["class"] == "none"
    cells = submission["report"]["systems"][0]["measures"]["RR@10"]["cells"]
    value = round(sum(cell["mean"] for cell in cells) / len(cells), 4)
    (line,) = (tmp_path / "out-hub" / ".eval_results" / "msshift.yaml").read_text().splitlines()
    assert f'"value": {value}, ' in line
    assert "; not trained per group" in line
    assert submission["training"]["hardware"].startswith("machine ")
    assert submission["training"]["seeds"] == []
    assert not (tmp_path / "out" / "runs").exists()
    added = msshift("leaderboard", "add", "out", "--entries", "entries", "--data", demo / "msshift")
    assert added.returncode == 1
    assert "the submission holds no run files [not-rescored]" in added.stderr
    assert "fix: give --runs" in added.stderr
    # The folder of the system's runs is called otherwise than the system: that is what is said.
    (tmp_path / "runs" / "bm52").mkdir(parents=True)
    for command in (("add", "out", "--entries", "entries"), ("check", "out")):
        other = msshift("leaderboard", *command, "--runs", "runs", "--data", demo / "msshift")
        assert "runs has no folder bm25" in other.stdout + other.stderr
        assert "other test queries" not in other.stderr


def test_what_a_reranker_reranks_is_taken_from_its_sidecar(
    demo: Path, msshift: Command, tmp_path: Path
) -> None:
    runs = Path(shutil.copytree(demo / "runs" / "bm25", tmp_path / "bm25"))
    (sidecar,) = runs.glob("*.json")
    said = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps(with_checksum({**said, "candidates": "reranks BM25's first 7"})))
    meta = write_meta(tmp_path / "meta.toml", "bm25", length="none")
    for given, expected in (
        ('""', "reranks BM25's first 7"),
        ('"reranks a web search"', "reranks a web search"),
    ):
        meta.write_text(re.sub("candidates = .*", f"candidates = {given}", meta.read_text()))
        done = msshift("submit", runs, "--meta", meta, "--data", demo / "msshift", "--out", "out")
        assert done.returncode == 0, done.stderr
        submission = json.loads((tmp_path / "out" / "submission.json").read_text())
        assert submission["system"]["candidates"] == expected


def test_a_run_that_is_not_its_sidecar_s(demo: Path, msshift: Command, tmp_path: Path) -> None:
    runs = Path(shutil.copytree(demo / "runs" / "bm25", tmp_path / "bm25"))
    run = runs / "length.run.gz"
    run.write_bytes(gzip.compress(gzip.decompress(run.read_bytes()), mtime=1))
    meta = write_meta(tmp_path / "meta.toml", "bm25", length="none")
    done = msshift("submit", runs, "--meta", meta, "--data", demo / "msshift")
    assert done.returncode == 1
    assert "[sidecar-differs]" in done.stderr


def test_a_run_of_other_data_is_not_submitted(demo: Path, msshift: Command, tmp_path: Path) -> None:
    runs = Path(shutil.copytree(demo / "runs" / "bm25", tmp_path / "bm25"))
    (sidecar,) = runs.glob("*.json")
    said = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps(with_checksum({**said, "data_digest": "a" * 64})))
    meta = write_meta(tmp_path / "meta.toml", "bm25", length="none")
    done = msshift("submit", runs, "--meta", meta, "--data", demo / "msshift")
    assert done.returncode == 1
    assert "length.run.gz was made on the data set aaaaaaaaaaaa" in done.stderr
    assert not (tmp_path / "submission").exists()


def test_shifts_may_differ_in_their_replicates(
    demo: Path, msshift: Command, tmp_path: Path
) -> None:
    data, runs = demo / "msshift", tmp_path / "runs" / "made-up"
    write_runs(runs, data, "wh-words", seeds=(0, 3))
    write_runs(runs, data, "length")
    meta = write_meta(tmp_path / "meta.toml", length="msshift", wh_words="msshift")
    done = msshift("submit", runs, "--meta", meta, "--data", data)
    assert done.returncode == 0, done.stderr
    submission = json.loads((tmp_path / "submission" / "submission.json").read_text())
    assert submission["training"]["seeds"] == [0, 3]
    checked = msshift("leaderboard", "check", "submission", "--data", data)
    assert checked.returncode == 0, checked.stderr

    meta.write_text(meta.read_text().replace("seeds = []", "seeds = [0, 1]"))
    refused = msshift("submit", runs, "--meta", meta, "--data", data, "--out", "other")
    assert refused.returncode == 1
    assert "training.seeds: [0, 1], and the run sets have the seeds [0, 3]" in refused.stderr


def test_the_template_names_every_field(msshift: Command, tmp_path: Path) -> None:
    done = msshift("submit", "--template")
    assert done.returncode == 0
    (tmp_path / "meta.toml").write_text(done.stdout)
    empty = tomllib.loads(done.stdout)
    filled = tomllib.loads(write_meta(tmp_path / "other.toml", length="none").read_text())
    assert empty.keys() == filled.keys()
    assert empty["system"].keys() == filled["system"].keys()
    assert empty["training"].keys() == filled["training"].keys()
    (tmp_path / "runs").mkdir()
    refused = msshift("submit", "runs", "--meta", "meta.toml")
    assert refused.returncode == 1
    for field in ("board", "authors", "system.name", "system.title", "system.family"):
        assert re.search(rf"meta.toml:\d+: {field}: ", refused.stderr), field
    assert "fix: one of: msshift, none, undeclared, a path" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("submit",), 2, "--template prints such a file"),
        (("submit", "runs", "--meta", "no.toml"), 3, "'msshift submit --template > no.toml'"),
        (
            ("submit", "runs", "--meta", "."),
            3,
            ". is not a file; 'msshift submit --template > meta",
        ),
        (("submit", "runs", "--meta", "no.toml", "--out", "."), 2, ". holds the working directory"),
        (("submit", "runs", "--meta", "no.toml", "--out", "/"), 2, "/ is the root of the file sy"),
        (("leaderboard", "check", "nothing"), 3, "no submission at nothing"),
        (("leaderboard", "check", "--entries", "nothing"), 3, "no folder nothing"),
        (("leaderboard", "check", "x.zip", "--base", "."), 2, "are for the check of all entries"),
        (("leaderboard", "check", "--data", "nothing"), 3, "no built data set at nothing"),
        (("leaderboard", "add", "nothing", "--entries", "mine"), 3, "no submission at nothing"),
    ],
)
def test_what_cannot_be_done(
    arguments: tuple[str, ...], code: int, message: str, msshift: Command
) -> None:
    done = msshift(*arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_submit_does_not_replace_what_is_no_submission(
    demo: Path, msshift: Command, tmp_path: Path
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("x")
    meta = write_meta(tmp_path / "meta.toml", length="msshift")
    done = msshift("submit", demo / "runs" / "bi-encoder", "--meta", meta, "--out", "thesis")
    assert done.returncode == 2
    assert "holds something else than a submission" in done.stderr
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "x"


def test_submit_loses_nothing_that_lies_beside_what_it_wrote(
    demo: Path, msshift: Command, tmp_path: Path
) -> None:
    meta = write_meta(tmp_path / "meta.toml", "bm25", length="none")
    arguments = ("--meta", meta, "--data", demo / "msshift", "--hub-dataset", "my-org/msshift")
    runs = demo / "runs" / "bm25"
    for _ in range(2):
        done = msshift("submit", runs, *arguments)
        assert done.returncode == 0, done.stderr
    for path, said in (
        (tmp_path / "submission" / "meta.toml", "meta.toml, which is no file of a submission"),
        (tmp_path / "submission-hub" / ".git" / "HEAD", ".git/HEAD, which would be lost"),
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        done = msshift("submit", runs, *arguments)
        assert done.returncode == 2
        assert said in done.stderr
        assert path.read_text() == "mine"
        path.unlink()
    kept = tmp_path / "submission" / "runs" / "bm25"
    done = msshift("submit", kept, *arguments, "--no-runs")
    assert done.returncode == 2
    assert "submission/runs/bm25 is in submission, and the runs there would be lost" in done.stderr
    done = msshift("submit", kept, *arguments)
    assert done.returncode == 0, done.stderr
    assert (kept / "length.run.gz").is_file()


def test_two_systems_are_two_submissions(demo: Path, msshift: Command, tmp_path: Path) -> None:
    meta = write_meta(tmp_path / "meta.toml", length="msshift")
    done = msshift("submit", demo / "runs", "--meta", meta, "--data", demo / "msshift")
    assert done.returncode == 2
    assert "a submission is of one system, and there are bi-encoder, bm25" in done.stderr


def test_the_entries_of_the_package_are_accepted(msshift: Command) -> None:
    done: subprocess.CompletedProcess[str] = msshift("leaderboard", "check")
    assert done.returncode == 0, done.stdout + done.stderr
    versions = sum(len(entry.history) + 1 for entry in load_entries())
    assert len(done.stdout.splitlines()) >= versions
    assert done.stdout.count("\nok ") + done.stdout.startswith("ok ") == versions
    unchanged = msshift("leaderboard", "check", "--base", entries_folder())
    assert unchanged.returncode == 0
