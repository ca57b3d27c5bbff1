"""``msshift demo`` from end to end; its models barely train, what they learn is tested apart."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from msshift_bench.shifts import SHIFTS
from tests.conftest import Command
from tests.support.answers import check_answer
from tests.support.figures import read_figures
from tests.support.tiny_recipes import write_recipes

pytestmark = [pytest.mark.extended, pytest.mark.neural]

SHIFTS_MADE = ("topics", "wh-words", "length")
MODELS = sum(len(SHIFTS[shift].groups) for shift in SHIFTS_MADE)


def made(told: str) -> dict[str, int]:
    """Return system -> how many runs the demo reports."""
    return {name: int(runs) for name, runs in re.findall(r"^    (\S+): (\d+) runs", told, re.M)}


def test_the_demo_of_all_systems_continues_the_short_one(
    msshift: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipes = str(write_recipes(tmp_path / "recipes"))
    command = ("demo", "--collection", "mini:300", "--out", "demo")
    with monkeypatch.context() as without_plots:
        without_plots.setitem(sys.modules, "matplotlib", None)
        done = msshift(*command, MSSHIFT_RECIPES=recipes)
    assert done.returncode == 0, done.stderr
    assert "a report needs the 'plots' extra" in done.stderr
    assert not (tmp_path / "demo" / "report").exists()
    assert made(done.stderr) == {"bm25": 3, "bi-encoder": MODELS}
    (hint,) = re.findall(r"msshift (evaluate .+) shows intervals", done.stdout)
    evaluated = msshift(*shlex.split(hint))
    assert evaluated.returncode == 0, evaluated.stderr
    assert evaluated.stdout.count("interval, queries only") >= len(SHIFTS_MADE)
    answers = json.loads((tmp_path / "demo" / "figures.json").read_bytes())["answers"]
    assert [(one["shift"], one["system"]) for one in answers] == [
        (shift, system) for shift in SHIFTS_MADE for system in ("bm25", "bi-encoder")
    ]
    for answer in answers:
        check_answer(answer, evaluated.stdout)
        assert f"\n{answer['text']}\n" in done.stdout
    runs = sorted((tmp_path / "demo" / "runs" / "bi-encoder").rglob("*.run.gz"))
    written = [path.stat().st_mtime_ns for path in runs]
    assert len(runs) == MODELS

    done = msshift(*command, "--all", MSSHIFT_RECIPES=recipes)
    assert done.returncode == 0, done.stderr
    systems = ["bi-encoder", "splade", "colbert", "monobert"]
    assert made(done.stderr) == {"bm25": 3, **dict.fromkeys(systems, MODELS)}
    assert [path.stat().st_mtime_ns for path in runs] == written
    title = "Query length (length), MRR@10 x 100"
    table = done.stdout.partition(title)[2].partition("Avg In:")[0]
    assert set(re.findall(r"^  (\S+)  ", table, re.M)) == {"system", "bm25", *systems}
    # What all tables rest on is printed once, and what one of them rests on is left to `evaluate`.
    assert done.stdout.count("data: mini:300, edition rebuilt") == 1
    assert "sha256" not in done.stdout
    page = (tmp_path / "demo" / "report" / "report.html").read_text()
    assert all(f'id="matrix-length-{system}"' in page for system in systems)
    assert 'id="lead-length"' in page
    figures = read_figures((tmp_path / "demo" / "figures.json").read_text())
    assert len({(row.shift, row.system) for row in figures}) == 3 * (len(systems) + 1)
