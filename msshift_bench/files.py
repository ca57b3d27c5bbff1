"""Writing so that nothing half-written ever stands under a final name.

A file or folder is written under a temporary name beside its final one and renamed when it is
complete. The temporary name is fixed and locked: a process that was killed leaves nothing that its
successor does not take over, and two processes that write the same thing at once are told.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msshift_bench.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["lock", "replace_folder", "write_atomically", "write_json", "write_parquet"]

ROW_GROUP = 20_000
"""Rows of a Parquet file that are read together."""


def lock(descriptor: int, target: Path) -> None:
    """Take the lock of an open file or folder until it is closed.

    Args:
        descriptor: of what is locked.
        target: what it stands for, for the message.

    Raises:
        UsageError: if another process holds the lock.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"another process is writing {target}; wait for it, or stop it") from None


def _partial(target: Path) -> Path:
    return target.with_name(f".{target.name}.partial")


@contextmanager
def write_atomically(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears under its name only when the block has ended without an error.

    Raises:
        UsageError: if another process is writing the same file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(path)
    with os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT, 0o666), "wb") as file:
        lock(file.fileno(), path)
        try:
            file.truncate(0)
            yield file
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented JSON, keys in the order given, whole or not at all."""
    with write_atomically(path) as file:
        file.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False).encode())
        file.write(b"\n")


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write an Arrow table as Parquet, whole or not at all."""
    import pyarrow.parquet as pq

    with write_atomically(path) as file:
        pq.write_table(table, file, compression="zstd", row_group_size=ROW_GROUP)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Give an empty folder that takes the place of `folder` when the block ends without an error.

    What stood at `folder` before is removed only after its successor is in place; if a kill falls
    between the two renames, the next call puts the old folder back before it begins.

    Raises:
        UsageError: if another process is writing the same folder.
    """
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(folder)
    previous = folder.with_name(f".{folder.name}.previous")
    partial.mkdir(exist_ok=True)
    descriptor = os.open(partial, os.O_RDONLY)
    try:
        lock(descriptor, folder)
        if previous.exists() and not folder.exists():
            previous.rename(folder)
        shutil.rmtree(previous, ignore_errors=True)
        for entry in partial.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        try:
            yield partial
        except BaseException:
            shutil.rmtree(partial)
            raise
        if folder.exists():
            folder.rename(previous)
        partial.rename(folder)
        shutil.rmtree(previous, ignore_errors=True)
    finally:
        os.close(descriptor)
