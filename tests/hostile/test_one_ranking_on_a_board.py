"""One system under two names on a board is found by its rankings and by its scores."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from msshift_bench.errors import Finding
from msshift_bench.leaderboard import check_entries
from msshift_bench.leaderboard.submit import submit_system
from tests.conftest import Build
from tests.support.fabricated import write_run, write_runs, write_system


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini", "length")


def halve(run: Path, keeps: Callable[[int], bool]) -> None:
    """Halve the scores of a run, and reverse the rankings of some queries."""
    lines = [line.split() for line in gzip.decompress(run.read_bytes()).decode().splitlines()]
    for number, fields in enumerate(lines):
        score = float(fields[4]) / 2
        fields[4] = str(score if keeps(number) else -score)
    text = "".join(" ".join([*fields[:5], "other"]) + "\n" for fields in lines)
    run.write_bytes(gzip.compress(text.encode(), mtime=0))


def findings(folder: Path, data: Path, keeps: Callable[[int], bool], *, old: bool) -> list[Finding]:
    """Return the findings for a system that is submitted twice, with other scores and name."""
    runs = write_runs(folder / "runs/first", data)
    shutil.copytree(runs, folder / "runs/second")
    for run in (folder / "runs/second").rglob("*.run.gz"):
        halve(run, keeps)
    for name in ("first", "second"):
        system = write_system(folder / f"{name}.toml", name, length="msshift")
        submit_system(folder / "runs" / name, system, folder / name, data)
        shutil.copytree(folder / name / "entries", folder / "board", dirs_exist_ok=True)
    for path in (folder / "board").rglob("scores.parquet") if old else ():
        table = pq.read_table(path)
        head = json.loads(table.schema.metadata[b"msshift_bench"])
        for run in head["runs"]:
            del run["ranking"]
        renewed = {**table.schema.metadata, b"msshift_bench": json.dumps(head).encode()}
        pq.write_table(table.replace_schema_metadata(renewed), path)
    return check_entries(folder / "board")[1]


def test_other_scores_and_another_tag_are_the_same_ranking(tmp_path: Path, data: Path) -> None:
    by_code = {found.code: found for found in findings(tmp_path, data, lambda _: True, old=False)}
    assert by_code["same-ranking"].severity == "error"
    assert "mini/first" in by_code["same-ranking"].message


def test_entries_without_digests_are_compared_by_their_scores(tmp_path: Path, data: Path) -> None:
    (found,) = findings(tmp_path, data, lambda number: number > 30, old=True)
    assert (found.code, found.severity) == ("near-scores", "warning")
    assert "mini/first" in found.message


@pytest.mark.extended
@pytest.mark.parametrize(("every", "moved", "warned"), [(33, 2, True), (1, 100, False)])
def test_a_copy_with_the_first_two_passages_swapped_is_a_warning(
    tmp_path: Path, data: Path, every: int, moved: int, warned: bool
) -> None:
    """Of every 33rd query, the first two passages are swapped; of other systems, all passages."""
    runs = write_runs(tmp_path / "runs/first", data)
    shutil.copytree(runs, tmp_path / "runs/second")
    for run in (tmp_path / "runs/second").rglob("*.run.gz"):
        rankings: dict[str, list[str]] = {}
        for line in gzip.decompress(run.read_bytes()).decode().splitlines():
            query_id, _, doc_id, *_ = line.split()
            rankings.setdefault(query_id, []).append(doc_id)
        swapped = (
            (query_id, [*found[:moved][::-1], *found[moved:]] if number % every == 0 else found)
            for number, (query_id, found) in enumerate(rankings.items())
        )
        write_run(run, swapped)
    for name in ("first", "second"):
        system = write_system(tmp_path / f"{name}.toml", name, length="msshift")
        submit_system(tmp_path / "runs" / name, system, tmp_path / name, data)
        shutil.copytree(tmp_path / name / "entries", tmp_path / "board", dirs_exist_ok=True)
    verdicts, found = check_entries(tmp_path / "board")
    assert all(verdict.accepted for verdict in verdicts)
    assert [(one.code, one.severity) for one in found] == [("near-scores", "warning")] * warned
    assert all("equal a run's of mini/first" in one.message for one in found)
