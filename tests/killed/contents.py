"""What is in a folder, for comparing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msshift_bench.plumbing import CHECKSUM

__all__ = ["Contents", "contents", "differences"]

Contents = Mapping[str, str | None]
"""Path below a folder -> SHA-256 of the file; `None` for a folder."""


def contents(folder: Path) -> dict[str, str | None]:
    """Return path -> SHA-256 of everything below a folder; `None` for a folder.

    What a run's sidecar says of the time that it took is left out, with its checksum, and so are
    the dates of badges and the lock files of the datasets library, which bear the names of folders.
    """
    found: dict[str, str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.parent.name == "datasets" and name.endswith(".lock"):
            continue
        if not path.is_file():
            found[name] = None
            continue
        data = path.read_bytes()
        if name.endswith(".run.json"):
            with suppress(ValueError):  # It may be damaged.
                told = {**json.loads(data), "seconds": None, CHECKSUM: None}
                data = json.dumps(told).encode()
        if path.name == "rescored.csv":
            data = re.sub(rb",[0-9-]{10}$", b"", data, flags=re.MULTILINE)
        found[name] = hashlib.sha256(data).hexdigest()
    return found


def differences(found: Contents, expected: Contents) -> list[str]:
    """Return one sentence for everything that is not as in an undisturbed run."""
    return [
        f"{name} is {'left' if name not in expected else 'missing'}"
        for name in sorted(found.keys() ^ expected.keys())
    ] + [
        f"{name} is different"
        for name in sorted(found.keys() & expected.keys())
        if found[name] != expected[name]
    ]
