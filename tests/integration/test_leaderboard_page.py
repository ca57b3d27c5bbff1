"""The blocks of docs/leaderboard.md, and the commands of the leaderboard's page, run unchanged."""

from __future__ import annotations

import html
import re
import shlex
import shutil
from pathlib import Path

import pytest

from msshift_bench.leaderboard import CLASSES
from msshift_bench.leaderboard.description import BOARDS
from msshift_bench.leaderboard.entries import BADGES, load_entries
from tests.conftest import REPOSITORY, Build, Command
from tests.support.documents import run_blocks
from tests.support.fabricated import write_runs, write_system

PAGE = (REPOSITORY / "docs" / "leaderboard.md").read_text(encoding="utf-8")
SHIFTS = ("topics", "wh-words", "length")


@pytest.mark.extended
def test_the_blocks_of_the_page_run(build_once: Build, tmp_path: Path) -> None:
    """The runs are fabricated: another test runs the demo, which trains."""
    demo = tmp_path / "msshift-demo"
    shutil.copytree(build_once("mini", *BOARDS["mini"].shifts), demo / "msshift")
    for shift in SHIFTS:
        write_runs(demo / "runs" / "bi-encoder", demo / "msshift", shift)
    (described,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "system.toml").write_text(described, encoding="utf-8")
    first = "$ msshift demo\n"
    assert first in PAGE
    ran = run_blocks(PAGE.replace(first, ""), tmp_path)
    assert [command[1:3] for command in ran] == [
        ["submit", "msshift-demo/runs/bi-encoder"],
        ["leaderboard", "check"],
        ["leaderboard", "build"],
    ]
    (entry,) = load_entries(tmp_path / "submission" / "entries")
    assert entry.folder.is_relative_to(tmp_path / "submission/entries/mini/demo-bi-encoder/v1")
    assert (entry.badge, entry.training_class) == ("by its authors", "held-out")
    assert list(entry.scores) == list(SHIFTS)
    assert "Tiny bi-encoder" in (tmp_path / "site/mini/topics-rr-10.html").read_text("utf-8")


def test_every_class_and_badge_is_explained() -> None:
    for name in (*CLASSES, *BADGES):
        assert f"\n| {name} | " in PAGE


@pytest.mark.extended
def test_the_commands_of_the_submission_page_run(
    good: Path, mini_length: Path, board_site: Path, msshift: Command, tmp_path: Path
) -> None:
    page = (board_site / "submit.html").read_text("utf-8")
    blocks = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    commands = [line for block in blocks for line in html.unescape(block).splitlines()]
    assert commands.pop(0) == "msshift submit --template > system.toml"
    assert len(commands) == 3
    shutil.copytree(good / "runs" / "made-up", tmp_path / "runs" / "my-system")
    shutil.copytree(mini_length, tmp_path / "msshift")
    write_system(tmp_path / "system.toml", "my-system", length="msshift")
    for command in commands:
        done = msshift(*shlex.split(command)[1:])
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    (entry,) = load_entries(tmp_path / "submission" / "entries")
    assert (entry.description.name, entry.badge) == ("mini/my-system", "by its authors")
    workflow = REPOSITORY / ".github" / "workflows" / "leaderboard-gate.yml"
    assert "leaderboard check --entries" in workflow.read_text("utf-8")
    assert workflow.name in page
