"""The script that makes this project's own entries, from the data set to the gate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from msshift_bench.leaderboard.entries import load_entries
from msshift_bench.runs import sidecar_path
from scripts.fill_page import main, printed
from tests.conftest import REPOSITORY
from tests.support.command_line import SCRIPT
from tests.support.fabricated import write_runs
from tests.support.tiny_recipes import write_recipes


def own_entries(
    *arguments: str | Path, **environment: str | Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [REPOSITORY / "scripts" / "own_entries", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PATH": f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}",
            **{name: str(value) for name, value in environment.items()},
        },
    )


@pytest.mark.extended
def test_entries_are_made_in_place_of_those_that_are_there(tmp_path: Path) -> None:
    work, entries = tmp_path / "work", tmp_path / "entries"
    released = REPOSITORY / "leaderboard/entries/mini/bm25"
    shutil.copytree(released, entries / "mini/bm25")
    scores = pq.read_table(entries / "mini/bm25/v2/scores.parquet")
    (before,) = load_entries(entries)
    head = before.head
    done = own_entries("mini", work, SYSTEMS="bm25", ENTRIES=entries)
    assert done.returncode == 0, done.stderr
    (entry,) = load_entries(entries)
    assert entry.description.place == "mini/bm25/v2", "its own entries are replaced, not added to"
    assert pq.read_table(entry.folder / "scores.parquet").equals(scores)
    assert entry.head == head
    assert entry.badge == "rescored"
    assert list(entry.scores) == ["topics", "wh-words", "length"]


@pytest.mark.extended
@pytest.mark.neural
def test_a_system_of_the_slice_is_trained_on_topics_from_one_encoder(tmp_path: Path) -> None:
    work, recipes = tmp_path / "work", write_recipes(tmp_path / "recipes")
    for name in ("bi-encoder", "pretrain"):
        (recipes / f"{name}-mini.toml").rename(recipes / f"{name}-pool.toml")
    given = {"SYSTEMS": "bi-encoder", "ENTRIES": tmp_path / "entries", "MSSHIFT_RECIPES": recipes}
    done = own_entries("msmarco-pool", work, "mini:300", **given)
    # The board's test sets are those of the slice.
    assert done.returncode == 1, done.stderr
    assert "test-set-not-accepted" in done.stderr
    kept = work / "trained/runs/bi-encoder/topics"
    runs = {path.relative_to(kept).as_posix() for path in kept.rglob("*.run.gz")}
    assert runs == {f"seed-{seed}/C{group}.run.gz" for seed in range(3) for group in range(5)}
    recorded = json.loads(sidecar_path(kept / "seed-0/C0.run.gz").read_text("utf-8"))
    assert recorded["parameters"]["encoder"] == str(work / "encoders/pool")
    assert recorded["encoder"]["seen"] == "the 300 passages of mini:300; no query and no judgement"


def test_a_page_is_filled_with_what_commands_print(tmp_path: Path) -> None:
    (tmp_path / "table.md").write_text("| splade | Avg In |\n")
    there, elsewhere = (
        f"<!-- $ cat WORK/{name}.md -->\nstale\n<!-- end -->\n" for name in ("table", "other")
    )
    assert printed("echo typos=WORK/typo.tsv", tmp_path) is None
    assert printed("echo typos=WORK/table.md", tmp_path) == "typos=WORK/table.md"
    page = tmp_path / "page.md"
    page.write_text(f"One.\n{there}Two.\n{elsewhere}")
    main(tmp_path, page)
    first = page.read_text()
    filled = there.replace("stale\n", "\n| splade | Avg In |\n\n")
    assert first == f"One.\n{filled}Two.\n{elsewhere}"
    main(tmp_path, page, check=True)
    page.write_text(first.replace("| splade | Avg In |", "| splade | Avg Im |"))
    with pytest.raises(SystemExit, match="is not the text of"):
        main(tmp_path, page, check=True)
    assert "Avg Im" in page.read_text()
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match="names nothing that is in"):
        main(tmp_path / "empty", page)


@pytest.mark.extended
def test_commands_of_msshift_print_markdown(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(SCRIPT.parent), prepend=os.pathsep)
    write_runs(tmp_path / "runs" / "splade", data)
    (tmp_path / "msshift").symlink_to(data)
    table = printed("msshift evaluate WORK/runs --data WORK/msshift", tmp_path)
    assert table is not None
    assert table.count("| splade | Avg In |") == table.count("more notes: --verbose") == 1


def test_a_board_without_own_entries_is_refused(tmp_path: Path) -> None:
    done = own_entries("ms-marco", tmp_path / "work")
    assert done.returncode == 2
    assert "no entries of its own on ms-marco" in done.stderr
