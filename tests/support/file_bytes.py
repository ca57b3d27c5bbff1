"""Files and folders, byte by byte."""

from __future__ import annotations

from pathlib import Path

__all__ = ["file_bytes", "flip"]


def file_bytes(folder: Path) -> dict[str, bytes]:
    """Return the path of every file below a folder, relative to it -> its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def flip(path: Path, position: int) -> Path:
    """Flip all bits of a file's byte."""
    content = bytearray(path.read_bytes())
    content[position] ^= 255
    path.write_bytes(bytes(content))
    return path
