"""Sidecars: the JSON beside a run file that says what made it."""

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

__all__ = ["check_same", "hardware", "installed_versions", "is_complete"]

_PACKAGES = (
    "msshift-bench",
    "bm25s",
    "datasets",
    "faiss-cpu",
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
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, object]:
    """Return what the machine is; neither its name nor its user."""
    return {"machine": platform.machine(), "cpus": os.cpu_count() or 1}


def is_complete(run: Path, sidecar: Path, identity: Mapping[str, object]) -> bool:
    """Return whether a run is there, whole, and the one that is asked for.

    Raises:
        UsageError: if the sidecar says otherwise than `identity`, or the run is not the one that
            the sidecar speaks of.
    """
    if not sidecar.is_file():
        return False
    said = read_json(sidecar)
    check_same(said, identity, sidecar, f"remove {sidecar} and {run.name}")
    if not run.is_file():
        return False
    if sha256_of(run) != said.get("run_sha256"):
        raise UsageError(
            f"{run} is not the run that {sidecar.name} speaks of; remove both to make it again"
        )
    return True


def check_same(
    said: Mapping[str, object], asked: Mapping[str, object], source: Path, way_out: str
) -> None:
    """Raise if what a file says differs from what is asked for.

    Raises:
        UsageError: naming every difference, and the ways out.
    """
    differences = list(_differences(said, asked))
    if differences:
        raise UsageError(
            f"{source} says otherwise than what is asked for: {'; '.join(differences)}. "
            f"Choose another --out, or {way_out}"
        )


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        UsageError: if it holds something else.
    """
    try:
        value = json.loads(path.read_bytes())
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"{path} is not a JSON object; it is in the way, move it")
    return value


def _differences(said: Mapping[str, object], asked: Mapping[str, object]) -> Any:
    for key, value in asked.items():
        other = said.get(key)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            names = sorted({*value, *other})
            yield from _differences(
                {name: other.get(name) for name in names}, {n: value.get(n) for n in names}
            )
        elif other != value:
            yield f"{key} {json.dumps(other)} instead of {json.dumps(value)}"
