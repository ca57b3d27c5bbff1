"""Sidecars: the JSON file beside a run that records what made it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from msshift_bench.data import sha256_of
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import is_as_written

__all__ = ["check_same", "hardware", "installed_versions", "is_complete", "read_json"]

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


def is_complete(run: Path, sidecar: Path, identity: Mapping[str, object], elsewhere: str) -> bool:
    """Return whether a run is there, whole, and the requested one.

    Args:
        run: the run file.
        sidecar: the file that says what made it.
        identity: what decides the requested run.
        elsewhere: what the caller changes to have it written elsewhere.

    Raises:
        UsageError: if the sidecar differs from `identity`, was changed, or describes another run.
    """
    if not sidecar.is_file():
        return False
    made_again = f"remove it and {run.name}, and the run is made again"
    recorded = read_json(sidecar, made_again)
    if not is_as_written(recorded):
        raise UsageError(f"{sidecar} was changed after it was written; {made_again}")
    check_same(
        recorded,
        identity,
        sidecar,
        f"Choose another {elsewhere}, or remove {sidecar} and {run.name}",
    )
    if not run.is_file():
        return False
    if sha256_of(run) != recorded.get("run_sha256"):
        raise UsageError(
            f"{run} is not the run that {sidecar.name} describes; remove both to make it again"
        )
    return True


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
