"""Rows of parametrised tests, of which the first lane runs only some."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib.util import find_spec
from typing import Any

import pytest


def needs(library: str, extra: str) -> pytest.MarkDecorator:
    """Skip tests without a library, which is not imported while tests are collected."""
    return pytest.mark.skipif(find_spec(library) is None, reason=f"needs the extra {extra}")


def with_first(rows: Iterable[Any], first: Collection[Any]) -> list[Any]:
    """Return the rows as parameters; all rows that are not in `first` are extended tests."""
    rows = list(rows)
    assert all(row in rows for row in first), "a row of the first lane is no row of the test"
    return [
        row
        if row in first
        else pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.extended)
        for row in rows
    ]


def diagonal(doors: Iterable[str], kinds: Iterable[str]) -> list[Any]:
    """Return all pairs of a door and a kind; the first lane tries each kind at one door.

    It tries each door too, where there are as many kinds as doors.
    """
    doors = list(doors)
    return [
        pytest.param(door, kind, marks=[] if at == number % len(doors) else pytest.mark.extended)
        for number, kind in enumerate(kinds)
        for at, door in enumerate(doors)
    ]
