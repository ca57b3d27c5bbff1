"""Sidecars: the JSON file beside a run that records what made it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from msshift_bench.errors import UsageError

__all__ = ["check_same", "hardware", "installed_versions", "read_json"]

_PACKAGES = (
    "msshift-bench",
    "bm25s",
    "datasets",
    "faiss-cpu",
    "numba",
    "numpy",
    "PyStemmer",
    "rank-bm25",
    "scipy",
    "sentence-transformers",
    "tokenizers",
    "torch",
    "transformers",
)


def installed_versions() -> dict[str, str]:
    """Return the version of Python and of every installed package that can change a ranking."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def hardware() -> dict[str, object]:
    """Return the machine's hardware, without its name or user."""
    return {"machine": platform.machine(), "cpus": os.cpu_count() or 1}


def check_same(
    recorded: Mapping[str, object], identity: Mapping[str, object], source: Path, way_out: str
) -> None:
    """Check that the facts in a file equal the requested ones.

    Raises:
        UsageError: naming every difference, and how to go on.
    """
    differences = list(_differences(recorded, identity))
    if differences:
        raise UsageError(f"{source} differs from this request: {'; '.join(differences)}. {way_out}")


def read_json(path: Path, cure: str = "it is in the way, move it") -> dict[str, Any]:
    """Return the JSON object in a file.

    Args:
        path: the file.
        cure: what to do if it holds something else.

    Raises:
        UsageError: if it holds something else.
    """
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"{path} is not a JSON object; {cure}")
    return value


def _differences(recorded: Mapping[str, object], identity: Mapping[str, object]) -> Any:
    for key, value in identity.items():
        recorded_value = recorded.get(key)
        if isinstance(value, Mapping) and isinstance(recorded_value, Mapping):
            names = sorted({*value, *recorded_value})
            yield from _differences(
                {name: recorded_value.get(name) for name in names}, {n: value.get(n) for n in names}
            )
        elif recorded_value != value:
            yield f"{key} {json.dumps(recorded_value)} instead of {json.dumps(value)}"
