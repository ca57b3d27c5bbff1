"""How many processors this process may use."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["allowed_processors", "thread_count"]

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def allowed_processors() -> float:
    """Return how many processors this process may use: by affinity, and by the quota of a cgroup.

    A container's quota may be a fraction.
    """
    if hasattr(os, "sched_getaffinity"):
        count: float = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text().split()
        return min(count, int(quota) / int(period))
    except (OSError, ValueError):  # no cgroup, or "max"
        return count


def thread_count() -> int:
    """Return how many threads compute at once without waiting for each other, at least 1."""
    return max(1, int(allowed_processors()))
