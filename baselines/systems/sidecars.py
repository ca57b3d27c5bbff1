"""Sidecars: what is recorded while something is made, and the JSON file that says what made it."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from msshift_bench.data import Collection, ContentDigest, is_double_encoded
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import counted
from msshift_bench.records import Passage

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
"""What can change a ranking."""


@dataclass
class Facts:
    """Facts recorded while something is made, for the file that says what made it.

    Attributes:
        facts: subject -> facts that are the same whenever it is made again; JSON values, most of
            them objects.
        seconds: stage -> seconds in this process, which differ each time.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    @property
    def passage_count(self) -> int:
        """The number of passages; 0 until they were streamed once."""
        return int(self.facts.get("passages", {}).get("rows", 0))

    def passages_digest(self) -> str:
        """Return the digest of the passages; "" until they were streamed once."""
        return str(self.facts.get("passages", {}).get("sha256", ""))

    def stream(self, collection: Collection, stage: str = "passages") -> Iterator[Passage]:
        """Yield a collection's passages, and record their number and digest at the end.

        Args:
            collection: the collection.
            stage: what progress calls it; ``""`` for no progress.
        """
        digest = ContentDigest()
        double_encoded = 0
        for passage in counted(collection.passages(), stage, self.passage_count):
            digest.add(passage)
            double_encoded += is_double_encoded(passage.text)
            yield passage
        self.facts["passages"] = {
            "rows": digest.rows,
            "sha256": digest.hexdigest(),
            "double_encoded": double_encoded,
        }

    def circumstances(self, hardware: Mapping[str, object]) -> dict[str, object]:
        """Return what it was made with: versions, the machine without its name, and seconds.

        Args:
            hardware: what of the hardware was used beyond processors.
        """
        versions = {"python": platform.python_version()}
        for package in _PACKAGES:
            with suppress(PackageNotFoundError):
                versions[package] = version(package)
        machine = {"machine": platform.machine(), "cpus": os.cpu_count() or 1}
        return {
            "versions": versions,
            "hardware": {**machine, **hardware},
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }


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
