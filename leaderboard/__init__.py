"""The leaderboard: submissions, the gate that checks them, the boards' entries, and their page.

The figures in ``published/`` are results that papers report; each file names its source. Golden
tests compare with them; they are never mixed with figures measured here.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from msshift_bench.errors import UnknownNameError

__all__ = ["load_published", "published_tables"]

_FOLDER = files(__name__) / "published"


def published_tables() -> tuple[str, ...]:
    """Return the names that `load_published` takes."""
    names = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def load_published(name: str) -> dict[str, Any]:
    """Return a paper's tables as numbers, e.g. ``ms_shift_v2``.

    Raises:
        UnknownNameError: if there are no such tables.
    """
    if name not in published_tables():
        raise UnknownNameError("published tables", name, published_tables())
    tables: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text("utf-8"))
    return tables
