"""Folders of MTEB's predictions as run sets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from msshift_bench.data import open_dataset
from msshift_bench.evaluation import compare_run_sets, evaluate_run_sets
from msshift_bench.leaderboard import submit_system
from msshift_bench.runs import find_run_sets, read_run
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, Command
from tests.support.fabricated import write_runs, write_system
from tests.support.refusals import check_refusals

SHIFT = SHIFTS["wh-words"]

Rankings = Mapping[str, Mapping[str, float]]


def write_predictions(folder: Path, name: str, parts: Mapping[str, Rankings]) -> None:
    """Write rankings of test sets as MTEB 2.26.24 does."""
    folder.mkdir(parents=True, exist_ok=True)
    for test, rankings in parts.items():
        meta = {"model_name": name, "revision": "no_revision_available"}
        value = {"mteb_model_meta": meta, "default": {"test": rankings}}
        path = folder / f"msshift-{SHIFT.name}-{test}_predictions.json"
        path.write_text(json.dumps(value), encoding="utf-8")


def by_test_set(run: Path, data: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Return the rankings of a run for each test set."""
    rankings = read_run(run)
    tests = open_dataset(data).test_sets(SHIFT)
    return {test: {row.query_id: rankings[row.query_id] for row in tests[test]} for test in tests}


@pytest.fixture(scope="module")
def world(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set, run sets, and the same rankings as predictions."""
    folder = tmp_path_factory.mktemp("predicted")
    data = build_once("mini:300", "length", "wh-words")
    shutil.copytree(data, folder / "msshift")
    write_runs(folder / "runs" / "tiny", data, "wh-words")
    write_runs(folder / "runs" / "one", data, "wh-words", one=True)
    for group in SHIFT.groups:
        run = folder / f"runs/tiny/wh-words/{group}.run.gz"
        model = f"me/tiny@without-{group}"
        parts = by_test_set(run, data)
        write_predictions(folder / "predictions" / model.replace("/", "__"), model, parts)
    parts = by_test_set(folder / "runs/one/wh-words.run.gz", data)
    write_predictions(folder / "predictions" / "me__one", "me/one", parts)
    return folder


def rows_of(figures: Iterable[tuple[object, ...]]) -> set[tuple[object, ...]]:
    def named(value: object) -> object:
        return value.removeprefix("me/") if isinstance(value, str) else value

    return {tuple(map(named, row)) for row in figures}


def test_predictions_give_the_figures_of_run_files(world: Path) -> None:
    data, measures = world / "msshift", "RR@10 nDCG@10 R@100"
    for evaluate in (evaluate_run_sets, compare_run_sets):
        expected = evaluate(world / "runs", data, settings=measures).figures
        found = evaluate(world / "predictions", data, settings=measures).figures
        assert rows_of(found) == rows_of(expected)
    systems = {
        (part.system, part.trained_per_group) for part in find_run_sets(world / "predictions")
    }
    assert systems == {("me/tiny", True), ("me/one", False)}


def test_commands_take_predictions_next_to_runs(world: Path, msshift: Command) -> None:
    mixed = world / "mixed"
    shutil.copytree(world / "predictions", mixed)
    shutil.copytree(world / "runs" / "one", mixed / "one")
    # A folder given twice counts once, and what is of other tasks does not count.
    (mixed / "me__one" / "MSMARCO_predictions.json").write_text("{}")
    done = msshift("evaluate", mixed, mixed / "me__one", "--data", world / "msshift")
    assert done.returncode == 0, done.stderr
    for system in ("me/tiny", "me/one", "one"):
        assert f"  {system} " in done.stdout
    alone = msshift(
        "compare", mixed, "--data", world / "msshift", "--reference", "me/one", "--format", "csv"
    )
    assert "lead_out" in alone.stdout


def test_a_folder_of_predictions_may_be_the_reference(world: Path) -> None:
    folder = world / "predictions" / "me__one"
    result = compare_run_sets(world / "runs" / "tiny", world / "msshift", reference=folder)
    assert result.figures.where(figure="lead_out").names("against") == ["me/one"]


def test_of_a_query_in_two_test_sets_the_first_ranking_counts(world: Path, tmp_path: Path) -> None:
    shutil.copytree(world / "predictions" / "me__one", tmp_path / "me__one")
    data = world / "msshift"
    parts = by_test_set(world / "runs/one/wh-words.run.gz", data)
    shared = next(iter(parts["wha"]))
    parts["who"][shared] = {"0": 1.0}
    write_predictions(tmp_path / "me__one", "me/one", parts)
    expected = evaluate_run_sets(world / "predictions" / "me__one", data).figures
    assert evaluate_run_sets(tmp_path, data).figures == expected


def test_predictions_in_the_wrong_place_are_refused(world: Path, tmp_path: Path) -> None:
    data = world / "msshift"
    parts = by_test_set(world / "runs/one/wh-words.run.gz", data)
    for folder, name in {
        "second": "me/first",
        "me__a@without-why": "me/a@without-why",
        "me__b@without-who": "me/b@without-who",
        "me__f@without-": "me/f@without-",
    }.items():
        write_predictions(tmp_path / folder / folder, name, parts)
    broken = tmp_path / "broken" / "me__c"
    write_predictions(broken, "me/c", {"who": parts["who"]})
    (broken / "msshift-wh-words-who_predictions.json").write_text('{"mteb_model_meta": {"x": 1}}')
    write_predictions(tmp_path / "part" / "me__d", "me/d", {"who": parts["who"]})
    write_predictions(tmp_path / "other" / "me__g", "me/g", {"none": parts["who"]})
    both = tmp_path / "both"
    write_predictions(both / "me__e", "me/e", parts)
    write_predictions(both / "me__e@without-who", "me/e@without-who", parts)
    system = write_system(tmp_path / "system.toml", wh_words="none")

    def refused(folder: str) -> object:
        return lambda: evaluate_run_sets(tmp_path / folder, data)

    check_refusals(
        {
            "another model's name: RunError [other-model] me/first second fix": refused("second"),
            "no such group: RunError [no-place] why fix": refused("me__a@without-why"),
            "no group at all: RunError [no-place] '' fix": refused("me__f@without-"),
            "other groups: RunError [missing-run] [missing-run] wha how fix": refused(
                "me__b@without-who"
            ),
            "no test set: RunError [no-place] wh-words how wha fix": refused("other"),
            "no name: RunError [other-model] me__c fix": refused("broken"),
            "no test queries: RunError [no-query-answered] wha fix": refused("part"),
            "two forms: UsageError me__e@without-who": refused("both"),
            "ranks: UsageError has no ranks": lambda: evaluate_run_sets(
                world / "predictions", data, settings=ties_by_rank()
            ),
            "a submission: UsageError me/one write_run": lambda: submit_system(
                world / "predictions" / "me__one", system, tmp_path / "out", data
            ),
        }
    )


def ties_by_rank() -> object:
    from msshift_bench.evaluation import Settings

    return Settings(ties="rank")
