"""The notebooks run from their first cell to the last, one after the other, and hold no output."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from scripts.site.pages import NOTEBOOKS
from tests.conftest import REPOSITORY
from tests.support.forking import PRELOADED, run_forked

NAMES = ("evaluate", "analyse")
"""The notebooks in the order in which they are to be run: the second reads what the first wrote."""


def cells(name: str) -> list[dict[str, Any]]:
    notebook = json.loads((REPOSITORY / NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    found: list[dict[str, Any]] = notebook["cells"]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_kept_without_what_it_printed(name: str) -> None:
    found = cells(name)
    assert len({cell["id"] for cell in found}) == len(found) > 6
    code = [cell for cell in found if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    text = "".join(found[0]["source"])
    assert text.startswith(f"# {name.capitalize()}\n")
    assert "pip install 'msshift-bench[" in text


@pytest.mark.extended
def test_the_notebooks_run(tmp_path: Path) -> None:
    environment = {**os.environ, "MSSHIFT_CACHE": str(tmp_path / "cache")}
    printed = ""
    for name in NAMES:
        code = ["".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "code"]
        done = run_forked("\n".join(code), [], tmp_path, environment, PRELOADED)
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    assert json.loads((tmp_path / "figures.json").read_text("utf-8"))
    assert (tmp_path / "losses.svg").is_file()
    assert "{'train': 192, 'validation': 37, 'test': 44}" in printed
    assert "a Rel Loss between 0.4% and 13.2%" in printed
