"""The package's modules, parsed once for all tests of a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.conftest import REPOSITORY

__all__ = ["FOLDERS", "modules_in", "syntax_tree"]

FOLDERS = ("msshift_bench", "dataset_builders", "baselines", "leaderboard")
"""The folders that become one package."""


@cache
def modules_in(folder: str) -> tuple[Path, ...]:
    """Return the files of one of `FOLDERS`, in order."""
    return tuple(sorted((REPOSITORY / folder).rglob("*.py")))


@cache
def syntax_tree(path: Path) -> ast.Module:
    """Return what a module says; nobody may change it."""
    return ast.parse(path.read_text(encoding="utf-8"))
