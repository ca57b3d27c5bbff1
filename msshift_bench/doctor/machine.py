"""Processors, threads, disk and GPU."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from msshift_bench.doctor.diagnosis import Diagnosis, State
from msshift_bench.plumbing import allowed_processors, cache_root, thread_count

__all__ = ["look_at_disk", "look_at_gpu", "look_at_threads"]

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")

_LITTLE = 2 * 1024**3
"""Bytes free below which a warning is due."""


def look_at_threads() -> Iterator[Diagnosis]:
    """Look for settings of threads that make work slower than it could be."""
    allowed = allowed_processors()
    shown = f"{allowed:g} of {os.cpu_count() or 1} processors"
    given = {name: os.environ[name] for name in _THREADS if os.environ.get(name)}
    too_many = {
        name: value for name, value in given.items() if value.isdigit() and int(value) > allowed
    }
    if too_many:
        names = ", ".join(f"{name}={value}" for name, value in too_many.items())
        yield Diagnosis(
            "threads",
            State.WARNING,
            f"{names}, and this process may use {shown}: threads will wait for each other",
            f"unset {' '.join(too_many)}",
        )
    elif allowed < (os.cpu_count() or 1) and not given:
        yield Diagnosis(
            "threads",
            State.WARNING,
            f"this process may use {shown}, and libraries start a thread for each of them",
            f"export OMP_NUM_THREADS={thread_count()}",
        )
    else:
        names = ", ".join(f"{name}={value}" for name, value in given.items())
        yield Diagnosis("threads", State.OK, shown + (f"; {names}" if names else ""))
    if os.environ.get("OMP_WAIT_POLICY", "").upper() == "ACTIVE":
        yield Diagnosis(
            "wait-policy",
            State.WARNING,
            "OMP_WAIT_POLICY=ACTIVE: idle threads spin, and training beside other work takes "
            "several times as long",
            "unset OMP_WAIT_POLICY",
        )


def look_at_disk() -> Iterator[Diagnosis]:
    """Look at the space in the working directory and in the cache, once for each disk."""
    seen = set()
    for what, folder in (("working directory", Path.cwd()), ("cache", cache_root())):
        there = folder
        while not there.exists():
            there = there.parent
        disk = there.stat().st_dev
        if disk in seen:
            continue
        seen.add(disk)
        free = shutil.disk_usage(there).free
        found = f"{free / 1024**3:,.1f} GB free for the {what} ({folder})"
        if free < _LITTLE:
            cure = "free some; 'msshift cache prune' removes what can be made again"
            yield Diagnosis("disk", State.WARNING, found, cure)
        elif not os.access(there, os.W_OK):
            cure = "work elsewhere" if what != "cache" else "set MSSHIFT_CACHE to a folder of yours"
            yield Diagnosis("disk", State.WARNING, f"the {what} cannot be written ({folder})", cure)
        else:
            yield Diagnosis("disk", State.OK, found)


def look_at_gpu() -> Iterator[Diagnosis]:
    """Look for a GPU that torch can use; without torch there is nothing to look with."""
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    if not torch.cuda.is_available():
        built = torch.version.cuda
        found = f"none that torch {torch.__version__} can use"
        if built is None:
            found += ", which is built for processors"
        yield Diagnosis("gpu", State.NOTE, found, "models train on processors, which takes longer")
        return
    for number in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(number)
        bf16 = "bf16" if torch.cuda.is_bf16_supported() else "no bf16"
        yield Diagnosis(
            "gpu", State.OK, f"{facts.name}, {facts.total_memory / 1024**3:.0f} GB, {bf16}"
        )
