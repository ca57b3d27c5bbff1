"""Conditions that a command runs under: variables, umask, limits, rights, a small disk. Linux."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Conditions", "can_mount", "filled", "is_root", "small_disk"]

_NEW_NETWORK, _SECURE_BITS, _NO_ROOT, _CAPABILITIES = 0x40000000, 28, 0b11, 0x20080522
"""CLONE_NEWNET; PR_SET_SECUREBITS; SECBIT_NOROOT, locked; the version of capabilities(7)."""

_DISK_SIZE = 256 << 20


@dataclass(frozen=True, slots=True)
class Conditions:
    """How the process of a command differs from a usual one.

    Attributes:
        environment: variable -> value; `None` removes it.
        umask: the mask of new files' rights; `None` keeps the usual one.
        largest: the size in bytes that no file may exceed; `None` sets no limit.
        has_rights: whether root keeps the rights that other users lack.
        has_network: whether there is a network.
    """

    environment: Mapping[str, str | None] = field(default_factory=dict)
    umask: int | None = None
    largest: int | None = None
    has_rights: bool = True
    has_network: bool = True

    def apply(self) -> None:
        """Change this process, except for its environment, before it becomes the command."""
        # A shell starts processes in the background with SIGINT ignored.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self.umask is not None:
            os.umask(self.umask)
        if self.largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.largest, self.largest))
        if not self.has_network:
            _call("unshare", _NEW_NETWORK)
        if not self.has_rights and is_root():
            _call("prctl", _SECURE_BITS, _NO_ROOT, 0, 0, 0)
            _call("capset", (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)())


def is_root() -> bool:
    """Return whether this process has root's rights, which some conditions need."""
    return os.geteuid() == 0


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def can_mount() -> bool:
    """Return whether disks can be mounted."""
    try:
        with small_disk():
            return True
    except OSError:
        return False


@contextmanager
def small_disk() -> Iterator[Path]:
    """Yield the folder of an empty disk (tmpfs).

    Raises:
        OSError: if none can be mounted.
    """
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_SIZE}", "tmpfs", folder]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"no disk can be mounted: {done.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def filled(disk: Path, room: int) -> Iterator[None]:
    """Leave `room` bytes of a disk free until the block ends."""
    filler, stat = disk / "filler", os.statvfs(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, stat.f_bavail * stat.f_frsize - room))
    try:
        yield
    finally:
        filler.unlink()
