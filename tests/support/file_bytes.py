"""Folders, compared byte by byte."""

from __future__ import annotations

from pathlib import Path

__all__ = ["file_bytes"]


def file_bytes(folder: Path) -> dict[str, bytes]:
    """Return the path of every file below a folder, relative to it -> its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
