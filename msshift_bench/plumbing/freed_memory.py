"""How a process handles memory that it does not need any more."""

from __future__ import annotations

import sys

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD = (-1, 256 << 20)
_MMAP_THRESHOLD = (-3, 32 << 20)
"""Parameters of glibc's mallopt(3), and their values: bytes."""


def keep_freed_memory() -> None:
    """Let this process keep up to 256 MB of freed memory for what it reads next.

    By default glibc returns it to the system after every file, and gets it back for the next one,
    page by page, which takes a tenth of the time of many small files. Other C libraries have no
    such setting, and are left as they are.
    """
    if sys.platform != "linux":
        return
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        for option, value in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            set_option(option, value)
