"""A disk that is full but for so many bytes (tmpfs, which takes root's rights to mount)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["can_mount", "filled", "small_disk"]

SIZE = 256 << 20


def can_mount() -> bool:
    """Say whether disks can be mounted here."""
    try:
        with small_disk():
            return True
    except OSError:
        return False


@contextmanager
def small_disk() -> Iterator[Path]:
    """Give the folder of a disk that holds nothing.

    Raises:
        OSError: if none can be mounted here.
    """
    with tempfile.TemporaryDirectory() as folder:
        mounting = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder]
        done = subprocess.run(mounting, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"no disk can be mounted here: {done.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def filled(disk: Path, room: int) -> Iterator[None]:
    """Leave so many bytes of a disk free, until the block ends."""
    filler, stat = disk / "filler", os.statvfs(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, stat.f_bavail * stat.f_frsize - room))
    try:
        yield
    finally:
        filler.unlink()
