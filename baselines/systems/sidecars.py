"""Facts for sidecars and other JSON files that describe how a run or a model was made."""

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
"""The packages whose versions can change a ranking."""


@dataclass
class Facts:
    """Facts and times recorded while a run or a model is made.

    Attributes:
        facts: subject -> reproducible facts, equal if it is made again; JSON values.
        seconds: stage -> seconds in this process.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the ``with`` block to a stage, in seconds."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    @property
    def passage_count(self) -> int:
        """The number of passages; 0 before they were streamed once."""
        return int(self.facts.get("passages", {}).get("rows", 0))

    def passages_digest(self) -> str:
        """Return the digest of the passages; "" before they were streamed once."""
        return str(self.facts.get("passages", {}).get("sha256", ""))

    def stream(self, collection: Collection, stage: str = "passages") -> Iterator[Passage]:
        """Yield a collection's passages; record their number and digest after the last passage.

        Args:
            collection: the collection.
            stage: the name in the progress; ``""`` for no progress.
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
        """Return ``versions`` of packages, ``hardware`` and ``seconds``, without the host's name.

        Args:
            hardware: facts about hardware other than CPUs, e.g. ``{"device": "cpu"}``.
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
    recorded: Mapping[str, object], identity: Mapping[str, object], source: Path, fix: str
) -> None:
    """Check that the facts in a file equal the requested facts.

    Args:
        recorded: the facts in the file. Its top-level keys that `identity` lacks are ignored; a
            missing key counts as `None`.
        identity: the requested facts.
        source: the file.
        fix: the last sentence of the message.

    Raises:
        UsageError: if a fact differs; the message has all differences.
    """
    differences = list(_differences(recorded, identity))
    if differences:
        raise UsageError(f"{source} differs from this request: {'; '.join(differences)}. {fix}")


def read_json(path: Path, fix: str = "move the file away") -> dict[str, Any]:
    """Return the JSON object in a file.

    Args:
        path: the file.
        fix: the last part of the message.

    Raises:
        UsageError: if the content of the file is no JSON object.
        OSError: if the file cannot be read.
    """
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"{path} is not a JSON object; {fix}")
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
