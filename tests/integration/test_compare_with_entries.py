"""Systems of a leaderboard in a comparison: an entry's stored scores next to one's own runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.evaluation import Result, Settings, compare_run_sets
from msshift_bench.leaderboard import SETTINGS, entries_folder, stored_scores, submit_system
from tests.conftest import Build, Command
from tests.support.fabricated import write_runs, write_system
from tests.support.figures import read_figures
from tests.support.making import make_runs
from tests.support.refusals import check_exits, check_refusals

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def world(mini_length: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set, runs of three systems, and entries of two of them."""
    folder = tmp_path_factory.mktemp("board")
    shutil.copytree(mini_length, folder / "msshift")
    make_runs("bm25", data=mini_length, out=folder / "runs", collection="mini")
    write_runs(folder / "runs" / "tiny", mini_length, seeds=(1, 2))
    write_runs(folder / "runs" / "own", mini_length, seeds=(1, 2, 3))
    for name, declared in {"bm25": "none", "tiny": "msshift"}.items():
        system = write_system(folder / "system.toml", f"their-{name}", length=declared)
        submit_system(folder / "runs" / name, system, folder / name, mini_length)
        shutil.copytree(folder / name / "entries", folder / "entries", dirs_exist_ok=True)
    return folder


def rows_of(result: Result) -> set[tuple[object, ...]]:
    """Return all figures, systems of the board by the names of their runs."""

    def named(value: object) -> object:
        text = isinstance(value, str) and value.removesuffix(" (board)").removeprefix("their-")
        return text if isinstance(value, str) else value

    return {tuple(map(named, row)) for row in result.figures}


@pytest.mark.every(3)
@pytest.mark.parametrize("reference", [None, "tiny", "bm25"])
def test_an_entry_gives_the_figures_of_its_runs(world: Path, reference: str | None) -> None:
    settings = Settings(SETTINGS.measures)
    data = world / "msshift"
    runs = [world / "runs" / name for name in ("own", "tiny", "bm25")]
    expected = compare_run_sets(runs, data, settings=settings, reference=reference)
    others = [
        scores
        for name in ("bm25", "tiny")
        for scores in stored_scores(f"mini/their-{name}", world / "entries")
    ]
    named = reference and f"their-{reference} (board)"
    result = compare_run_sets(runs[0], data, settings=settings, reference=named, others=others)
    assert rows_of(result) == rows_of(expected)
    assert len(result.figures) == len(expected.figures) > 30


def test_the_command_names_the_board(world: Path, msshift: Command) -> None:
    words = ["compare", world / "runs/own", "--data", world / "msshift", "--entries"]
    words += [world / "entries", "--with", "mini/their-bm25", "--with", "mini/bm25/v1"]
    done = msshift(*words, "--reference", "mini/their-bm25", "--format", "json")
    assert done.returncode == 0, done.stderr
    figures = read_figures(done.stdout)
    assert set(figures.names("system")) == {"own", "their-bm25 (board)", "bm25 v1 (board)"}
    assert set(figures.where(figure="lead_out").names("against")) == {"their-bm25 (board)"}
    text = msshift(*words).stdout
    assert "their-bm25 (board): entry mini/their-bm25/v1, by its authors; training queries: " in (
        " ".join(text.split())
    )
    assert "their-bm25 (board), groups in training: unseen short, long" in " ".join(text.split())


def test_what_cannot_be_compared_is_refused(
    world: Path, build_once: Build, msshift: Command, tmp_path: Path
) -> None:
    small = build_once("mini:300", "length")
    write_runs(tmp_path / "small", small)
    entry = stored_scores("mini/bm25")

    def compare(runs: Path, data: Path, *measures: str, **options: str) -> Callable[[], Result]:
        settings = Settings(measures or ("RR@10",), **options)
        return lambda: compare_run_sets(runs, data, settings=settings, others=entry)

    own, data = world / "runs" / "own", world / "msshift"
    check_refusals(
        {
            "other queries: DataError [other-queries] [other-queries] bm25 284 44 428 62 fix": (
                compare(tmp_path / "small", small)
            ),
            "a measure: UsageError AP RR@10 nDCG@10 R@100": compare(own, data, "RR@10", "AP"),
            "ties: UsageError 'trec' --ties": compare(own, data, ties="expected"),
            "another shift: UsageError bm25 length": lambda: compare_run_sets(
                own, data, others=[part for part in entry if part.shift_name != "length"]
            ),
            "a reported entry: UsageError ms-marco/public-ance": lambda: stored_scores(
                "ms-marco/public-ance"
            ),
            "an unknown entry: UnknownNameError mini/bm52 mini/bm25": lambda: stored_scores(
                "mini/bm52"
            ),
            "an unknown version: UnknownNameError v9 v2": lambda: stored_scores("mini/bm25/v9"),
        }
    )
    check_exits(
        msshift,
        {
            f"compare {own} --data {data} --entries {entries_folder()}": "2 --entries --with",
            f"compare {own} --data {data} --with bm25": "2 bm25 mini/bm25",
        },
    )
