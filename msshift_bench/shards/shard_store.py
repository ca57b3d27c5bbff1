"""Where the results of shards stand: a folder, or a place in an object store (by fsspec)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from msshift_bench.errors import (
    IntegrityError,
    MissingError,
    MissingExtraError,
    UsageError,
    require,
)
from msshift_bench.plumbing import (
    map_sealed_array,
    seal_array,
    unseal_array,
    write_atomically,
)

__all__ = ["ShardStore"]

_WHAT = "a shard folder that is a URL"

_BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oci", "oss"}
"""fsspec's systems that have no folders: to make one would make the bucket, however misspelt."""


class ShardStore:
    """A folder of arrays, each of them there whole or not at all.

    Args:
        place: a folder, or a URL that fsspec knows, such as ``memory://shards``.

    Attributes:
        place: the same, as text; it means the same on every machine that sees the folder.
        folder: the folder; `None` for a URL.

    Raises:
        MissingExtraError: if it is a URL and fsspec, or its part for such URLs, is not installed.
        UsageError: if fsspec knows no such URLs.

    What reads or writes at a URL raises MissingError if that fails: no such bucket, no permission,
    no answer.
    """

    def __init__(self, place: str | Path) -> None:
        self.folder = None if "://" in str(place) else Path(place).expanduser().absolute()
        self.place = str(place) if self.folder is None else str(self.folder)
        if self.folder is None:
            fsspec = require("fsspec", "cluster", _WHAT)
            try:
                # A listing that is kept would hide what other machines have written since.
                found = fsspec.core.url_to_fs(self.place, use_listings_cache=False)
            except ImportError as error:
                raise MissingExtraError("cluster", f"{self.place} ({error}), which") from error
            except ValueError as error:
                raise UsageError(f"{self.place} cannot be a shard folder: {error}") from error
            self._system, self._root = found
            kind = self._system.protocol
            self._has_folders = _BUCKETS.isdisjoint({kind} if isinstance(kind, str) else kind)

    def within(self, name: str) -> ShardStore:
        """Return the store of a folder below this one."""
        return ShardStore(f"{self.place.rstrip('/')}/{name}")

    def stands(self, name: str) -> bool:
        """Return whether there is an array of this name."""
        if self.folder is not None:
            return (self.folder / name).exists()
        with self._reached():
            there: bool = self._system.exists(self._path(name))
        return there

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Write an array, whole or not at all."""
        self.write_bytes(name, seal_array(array))

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        if self.folder is not None:
            with write_atomically(self.folder / name) as file:
                file.write(content)
            return
        partial = self._path(f".{name}.partial")
        with self._reached():
            if self._has_folders:
                self._system.makedirs(self._root, exist_ok=True)
            self._system.pipe_file(partial, content)
            self._system.mv(partial, self._path(name))

    def load(self, name: str) -> NDArray[Any]:
        """Return an array; read-only, mapped from its file where that is possible.

        Raises:
            IntegrityError: if it was damaged, be it by a single bit.
        """
        try:
            if self.folder is not None:
                return map_sealed_array(self.folder / name)
            with self._reached():
                content = self._system.cat_file(self._path(name))
            return unseal_array(content)
        except ValueError as error:
            raise IntegrityError(
                f"{self.place}/{name} was damaged after it was written: remove it, and type the "
                "same command again"
            ) from error

    def remove(self, name: str) -> None:
        """Remove an array."""
        if self.folder is not None:
            (self.folder / name).unlink()
        else:
            with self._reached():
                self._system.rm_file(self._path(name))

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Turn whatever goes wrong at a URL into one error: each system has its own."""
        try:
            yield
        except Exception as error:
            raise MissingError(
                f"{self.place} cannot be used: {type(error).__name__}: {error}. Is there such a "
                "bucket, does it answer, and do the credentials allow to read, write and delete?"
            ) from error

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"
