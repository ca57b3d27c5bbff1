"""Which folders are listed, which files are opened, and which runs are decoded, and how often."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.runs import sources

__all__ = ["Watched", "watching"]


@dataclass
class Watched:
    """How often each path was used; paths are resolved.

    Attributes:
        listed: folder -> how often it was listed.
        opened: file -> how often it was opened.
        decoded: run -> how often it was decoded, as text or as Parquet.
    """

    listed: Counter[str] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    decoded: Counter[str] = field(default_factory=Counter)


_current: list[Watched] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    # A hook stays for as long as the process runs.
    if not _current or event not in ("os.listdir", "os.scandir", "open"):
        return
    path = arguments[0]
    if isinstance(path, str | bytes | os.PathLike):
        counter = _current[-1].opened if event == "open" else _current[-1].listed
        counter[os.path.realpath(os.fsdecode(path))] += 1


sys.addaudithook(_audit)


@contextmanager
def watching(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """Count what is listed, opened and decoded inside, in every thread of this process."""
    watched = Watched()
    for name in ("open_stream", "unpacked_batches"):
        opener = getattr(sources, name)

        def counting(path: Path, *arguments: Any, _opener: Any = opener) -> Any:
            watched.decoded[os.path.realpath(path)] += 1
            return _opener(path, *arguments)

        monkeypatch.setattr(sources, name, counting)
    _current.append(watched)
    try:
        yield watched
    finally:
        _current.pop()
