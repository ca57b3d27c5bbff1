"""Handing a system in: where it is added, what the gate checked, what the page says to type."""

from __future__ import annotations

import html
import re
import shlex
import shutil
import zipfile
from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_meta
from msshift_bench.leaderboard.entries import entries_folder, load_entries
from msshift_bench.leaderboard.gate import check_submission
from tests.conftest import REPOSITORY, Command


def test_nothing_is_added_to_the_installed_package(
    good: Path, mini_length: Path, msshift: Command
) -> None:
    before = sorted(entries_folder().rglob("*"))
    done = msshift("leaderboard", "add", good, "--data", mini_length)
    assert done.returncode == 2
    assert "--entries leaderboard/entries in a clone of the repository" in done.stderr
    assert "pull request" in done.stderr
    assert "added" not in done.stdout
    assert sorted(entries_folder().rglob("*")) == before


def test_what_was_added_is_not_handed_in_yet(
    good: Path, mini_length: Path, msshift: Command
) -> None:
    done = msshift("leaderboard", "add", good, "--data", mini_length, "--entries", "mine")
    assert done.returncode == 0, done.stderr
    assert "rescored, held-out, scored again: length" in done.stdout
    assert "it is handed in once a pull request of the repository adds that folder" in done.stderr


def test_a_check_says_what_it_could_not_check(
    good: Path, mini_length: Path, msshift: Command, tmp_path: Path
) -> None:
    alone = msshift("leaderboard", "check", good)
    assert alone.returncode == 0, alone.stderr
    assert "'rescored' not confirmed, held-out" in alone.stdout
    assert "every figure against the per-query scores" in alone.stdout
    wanted = "give --data, the data set that the runs answer"
    assert f"NOT checked: the per-query scores of length against the run files: {wanted}" in (
        alone.stdout
    )
    assert "NOT checked: the training queries of length: they are the data set's own" in (
        alone.stdout
    )
    full = msshift("leaderboard", "check", good, "--data", mini_length)
    assert full.returncode == 0, full.stderr
    assert "NOT checked" not in full.stdout
    assert "not confirmed" not in full.stdout
    assert "the per-query scores of length against the run files" in full.stdout


def test_every_submission_is_checked_under_the_name_that_was_given(
    good: Path, msshift: Command, tmp_path: Path
) -> None:
    (tmp_path / "broken.zip").write_bytes(b"PK")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    with zipfile.ZipFile(tmp_path / "desktop.zip", "w") as file:
        file.writestr("__MACOSX/submission/._manifest.json", b"x")
    done = msshift("leaderboard", "check", "broken.zip", "empty.zip", "desktop.zip", good)
    assert done.returncode == 1
    assert "REFUSED broken.zip  unreadable\n  error: broken.zip: it is not a zip" in done.stdout
    assert "error: empty.zip: no file empty.zip/manifest.json: empty.zip is not a" in done.stdout
    assert "macOS adds __MACOSX" in done.stdout
    assert f"ok      {good}" in done.stdout
    assert "/msshift-" not in done.stdout


@pytest.mark.parametrize("name", ["no runs", "other data", "a paper's"])
def test_reasons_for_what_was_not_checked(
    name: str, good: Path, mini_length: Path, first: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(good, tmp_path / "submission"))
    scores = "the per-query scores of length against the run files"
    if name == "no runs":
        shutil.rmtree(folder / "runs")
        verdict = check_submission(folder, data=mini_length)
        assert verdict.unchecked == {scores: "the submission holds no run files; give --runs"}
    elif name == "other data":
        verdict = check_submission(folder, data=first)
        assert verdict.unchecked[scores].startswith(f"{first} has other test queries; give --data")
        assert len(verdict.unchecked) == 2
    else:
        verdict = check_submission(entries_folder() / "ms-marco" / "colbert" / "v2")
        assert list(verdict.unchecked) == ["the figures"]
    assert verdict.findings == []


def test_all_entries_say_how_many_were_scored_again(one_entry: Path, msshift: Command) -> None:
    done = msshift("leaderboard", "check", "--entries", one_entry)
    assert done.returncode == 0, done.stderr
    assert (
        "computed again from per-query scores: 1 of 1, and these from run files: 0" in done.stderr
    )
    assert "entries hold no run files: give --runs and --data" in done.stderr


# The page.


def blocks(page: str) -> list[str]:
    found = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    return [line for block in found for line in html.unescape(block).splitlines()]


def test_the_page_s_commands_run_as_they_stand(
    good: Path, mini_length: Path, one_entry: Path, msshift: Command, tmp_path: Path
) -> None:
    built = msshift("leaderboard", "build", "--entries", one_entry, "--out", "pages")
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "pages" / "submit.html").read_text("utf-8")
    shutil.copytree(good / "runs" / "made-up", tmp_path / "runs" / "my-system")
    shutil.copytree(mini_length, tmp_path / "msshift")
    # A clone of the repository holds the released entries.
    shutil.copytree(one_entry, tmp_path / "leaderboard" / "entries")
    commands = blocks(page)
    assert commands.pop(0) == "msshift submit --template > meta.toml"
    write_meta(tmp_path / "meta.toml", "my-system", length="msshift")
    assert len(commands) == 5
    for command in commands:
        done = msshift(*shlex.split(command)[1:])
        if command.endswith("--entries leaderboard/entries --data msshift"):
            # The same runs under another name are refused there, as they would be in the clone.
            assert "[same-run]" in done.stderr
            shutil.rmtree(tmp_path / "leaderboard" / "entries" / "mini" / "made-up")
            done = msshift(*shlex.split(command)[1:])
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    (entry,) = load_entries(tmp_path / "leaderboard" / "entries")
    assert entry.submission.system.name == "my-system"
    assert (tmp_path / "site" / "index.html").is_file()


def test_page_and_guide_say_how_to_hand_in(one_entry: Path, msshift: Command) -> None:
    workflow = REPOSITORY / ".github" / "workflows" / "leaderboard-gate.yml"
    assert "leaderboard check --entries" in workflow.read_text("utf-8")
    template = REPOSITORY / "leaderboard" / "templates" / "submit.html"
    guide = REPOSITORY / "docs" / "leaderboard.md"
    for document in (template, guide):
        text = document.read_text("utf-8").lower()
        for words in (
            "pull request",
            "fork the repository",
            workflow.name,
            "--entries leaderboard",
        ):
            assert words in text, (document, words)
