"""The import contract holds and finds violations; docs/architecture.md agrees with the code."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PYPROJECT = REPOSITORY / "pyproject.toml"
TOP_FOLDERS = ("dataset_builders", "baselines", "leaderboard")
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, without the leaderboard's entries."""
    entries = shutil.ignore_patterns("entries", "__pycache__")
    return Path(
        shutil.copytree(REPOSITORY / "msshift_bench", tmp_path / "msshift_bench", ignore=entries)
    )


def lint(package: Path) -> subprocess.CompletedProcess[str]:
    """Check the contract on a package, in a process without this package."""
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--config", str(PYPROJECT)],
        cwd=package.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_module_is_installed() -> None:
    """The links in msshift_bench/ are the folders that the wheel maps."""
    setuptools = tomllib.loads(PYPROJECT.read_text())["tool"]["setuptools"]
    package = REPOSITORY / "msshift_bench"
    folders = {
        ".".join(Path(folder).relative_to(REPOSITORY).parts): Path(folder).resolve()
        for folder, _, files in os.walk(package, followlinks=True)
        if any(file.endswith(".py") for file in files)
    }
    mapped = {
        name: REPOSITORY / setuptools["package-dir"].get(name, name.replace(".", "/"))
        for name in setuptools["packages"]
    }
    assert folders == mapped


def test_imports_keep_the_contract(package: Path) -> None:
    done = lint(package)
    assert done.returncode == 0, done.stdout


FORBIDDEN = [
    (
        "runs/reader.py",
        "import msshift_bench.baselines.systems.plan",
        "runs.reader -> {0}baselines.systems.plan",
    ),
    (
        "stats/estimates.py",
        "import msshift_bench.dataset_builders",
        "stats.estimates -> {0}dataset_builders",
    ),
    ("mini/words.py", "import msshift_bench.leaderboard", "mini.words -> {0}leaderboard"),
    ("leaderboard/site.py", "import msshift_bench.baselines", "leaderboard.site -> {0}baselines"),
    ("records.py", "import msshift_bench.plumbing", "records -> {0}plumbing"),
    ("new_room.py", "", "- {0}new_room"),
    ("evaluation/evaluating.py", "def f(): import torch", "evaluation.evaluating -> torch"),
    ("evaluation/evaluating.py", "def g(): import datasets", "evaluation.evaluating -> datasets"),
    (
        "evaluation/evaluating.py",
        "def h(): import ir_datasets",
        "evaluation.evaluating -> ir_datasets",
    ),
    ("plumbing/files.py", "import msshift_bench.plumbing.folders", "allowed in {0}plumbing"),
    ("cli/board.py", "import msshift_bench.data.manifest", "cli.board -> {0}data.manifest"),
]


def test_imports_that_the_contract_forbids_are_found(package: Path) -> None:
    for module, line, _ in FORBIDDEN:
        path = package / module
        text = path.read_text() if path.exists() else ""
        path.unlink(missing_ok=True)
        path.write_text(f"{text}\n{line}\n")
    done = lint(package)
    assert done.returncode == 1
    missed = [
        shown for _, _, shown in FORBIDDEN if shown.format("msshift_bench.") not in done.stdout
    ]
    assert missed == [], done.stdout


def test_every_room_of_the_core_has_a_door() -> None:
    contracts = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
    doors = {name for one in contracts for name in one.get("allowed_importers", ())}
    rooms = {path.parent.name for path in REPOSITORY.glob("msshift_bench/*/__init__.py")}
    assert doors == {f"msshift_bench.{room}" for room in rooms - {"cli", *TOP_FOLDERS}}


def test_benchmarks_and_scripts_do_not_import_tests() -> None:
    files = [
        path
        for folder in ("benchmarks", "scripts")
        for path in (REPOSITORY / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ]
    importing = [
        path for path in files if re.search(r"^\s*(from|import) tests\b", path.read_text(), re.M)
    ]
    assert files
    assert importing == []


def test_the_page_has_the_floors_of_the_contract() -> None:
    contracts = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (floors,) = (one["layers"] for one in contracts if one["type"] == "layers")
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE)
    expected = [
        (str(len(floors) - place), ", ".join(f"`{room}`" for room in floor.split(" | ")))
        for place, floor in enumerate(floors)
    ]
    assert rows == expected


def test_paths_and_names_of_the_page_exist() -> None:
    paths = re.findall(r"`(\w+/[\w/.]*)`", PAGE)
    assert len(paths) > 40
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []
    places = re.findall(r"`(\w+)`\s+in\s+`([\w/]+\.py)`", PAGE)
    assert len(places) > 40
    missing = [
        place
        for place in places
        if not re.search(rf"^(def|class) {place[0]}\b", (REPOSITORY / place[1]).read_text(), re.M)
    ]
    assert missing == []


def test_every_p_value_and_every_mark_comes_from_infer() -> None:
    """Nothing else gives a figure a p or a mark, corrects p-values, or tests an estimate."""
    made, corrected, tested = set(), set(), set()
    for folder in ("msshift_bench", *TOP_FOLDERS):
        for path in (REPOSITORY / folder).rglob("*.py"):
            place = path.relative_to(REPOSITORY).as_posix()
            for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(call, ast.Call):
                    continue
                name = getattr(call.func, "attr", getattr(call.func, "id", ""))
                given = {word.arg: word.value for word in call.keywords}
                # A table may leave a mark out, or show that of a difference at a value.
                is_made = [
                    value
                    for word in ("p", "p_uncorrected", "mark")
                    if (value := given.get(word)) is not None
                    and not (isinstance(value, ast.Constant) and not value.value)
                    and not (isinstance(value, ast.Attribute) and value.attr == "mark")
                ]
                if name in ("_replace", "Figure") and is_made:
                    made.add(place)
                if name == "adjust":
                    corrected.add(place)
                if name in ("p_value", "two_sided_p"):
                    tested.add(place)
    stats = "msshift_bench/stats"
    assert made == {f"{stats}/figures.py"}
    assert corrected == {f"{stats}/figures.py"}
    # The paper's paired t-test is handed to infer by the claims of one seed.
    claims = "msshift_bench/evaluation/claims.py"
    own = {f"{stats}/{name}.py" for name in ("figures", "estimates")}
    assert tested == {*own, claims}
