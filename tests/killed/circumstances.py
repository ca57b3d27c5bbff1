"""What a process may meet: another clock, no network, less rights, less room. Linux only.

All but the clock stay with the process when it becomes another program.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Circumstances", "can_cut_network"]

_NEW_NETWORK, _SECURE_BITS, _NO_ROOT, _CAPABILITIES = 0x40000000, 28, 0b11, 0x20080522
"""CLONE_NEWNET; PR_SET_SECUREBITS; SECBIT_NOROOT, locked; the version of capabilities(7)."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What differs from an undisturbed run.

    Attributes:
        environment: variable -> value; `None` takes it away.
        umask: the mask of new files' rights; `None` leaves it.
        largest: the size in bytes that no file may exceed; `None` leaves it.
        has_rights: whether root may read what nobody else may.
        has_network: whether there is a network, be it only the machine's own.
        later: seconds by which the clock is wrong.
    """

    environment: Mapping[str, str | None] = field(default_factory=dict)
    umask: int | None = None
    largest: int | None = None
    has_rights: bool = True
    has_network: bool = True
    later: float = 0.0

    def meet(self) -> None:
        """Put this process into the circumstances; there is no way back."""
        for name, value in self.environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if self.umask is not None:
            os.umask(self.umask)
        if self.largest is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.largest, self.largest))
        if not self.has_network:
            _call("unshare", _NEW_NETWORK)
        if not self.has_rights:
            _drop_rights()
        if self.later:
            now, now_ns = time.time, time.time_ns
            time.time = lambda: now() + self.later
            time.time_ns = lambda: now_ns() + int(self.later * 1e9)


def can_cut_network() -> bool:
    """Say whether a process can be cut off: this takes root's rights."""
    return os.geteuid() == 0


def _drop_rights() -> None:
    """Be like any other user, whom files' rights stop, but for the name."""
    if os.geteuid():
        return
    _call("prctl", _SECURE_BITS, _NO_ROOT, 0, 0, 0)
    _call("capset", (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)())


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
