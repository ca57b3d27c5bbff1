"""The notebooks run from their first cell to the last, and are stored without output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.site.pages import NOTEBOOKS
from tests.conftest import REPOSITORY
from tests.support.command_line import run_source

NAMES = ("evaluate", "analyse")
"""The notebooks in the order in which they are to be run: the second reads what the first wrote."""


def cells(name: str) -> list[dict[str, Any]]:
    notebook = json.loads((REPOSITORY / NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    found: list[dict[str, Any]] = notebook["cells"]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_stored_without_output(name: str) -> None:
    found = cells(name)
    assert len({cell["id"] for cell in found}) == len(found) > 6
    code = [cell for cell in found if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    for cell in code:
        compile("".join(cell["source"]), name, "exec")


@pytest.mark.extended
def test_the_notebooks_run(tmp_path: Path) -> None:
    printed = ""
    for name in NAMES:
        code = ["".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "code"]
        environment = {"MSSHIFT_CACHE": str(tmp_path / "cache")}
        done = run_source("\n".join(code), tmp_path, environment)
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    assert json.loads((tmp_path / "figures.json").read_text("utf-8"))
    assert (tmp_path / "losses.svg").is_file()
    assert "{'train': 192, 'validation': 37, 'test': 44}" in printed
    assert "a Rel Loss between 0.4% and 13.2%" in printed
