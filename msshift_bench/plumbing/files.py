"""Atomic writing of files.

A file is written under a temporary name in the same folder, and renamed when it is complete. The
temporary name is fixed, and the temporary file is locked. So a process overwrites the temporary
file of a killed process. If two processes write the same file at once, the second gets an error.
`folders` does the same for folders.

Only regular files are replaced. For a link, its target is written, and the link stays. Folders,
pipes, devices and this process's output are errors.

Some files contain a checksum, to detect flipped bits. In a JSON file, the checksum is the SHA-256
of the other members as JSON with sorted keys and without spaces, in UTF-8. A file without checksum
is from an earlier version, or from a user, and is not checked. A sealed array is numpy's ``.npy``,
followed by the 32 bytes of its SHA-256, which numpy ignores.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import io
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from msshift_bench.errors import MissingError, NotFoundError, UsageError
from msshift_bench.libraries import compute as pc, numpy as np, parquet as pq, pyarrow as pa

ROW_GROUP = 20_000
"""Number of rows per row group of a Parquet file."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a write that do not contain the file's name."""

_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
"""Errors of hard links where a copy works: other disk, disk without links, other user's file."""

MAX_UNPACKED = 1 << 30
"""Maximum size in bytes of the texts of an untrusted Parquet file, and of each row group."""

_TOO_LARGE = f"it unpacks to more than {MAX_UNPACKED:,} bytes"

_LONGEST = 255
"""Maximum length of a file's name in bytes, on common file systems."""

CHECKSUM = "checksum"
"""The JSON member with the checksum: 64 hexadecimal digits."""

_PIECE = 1 << 20
"""Number of bytes read at once for a checksum."""


def check_locks() -> None:
    """Check that the system has file locks; without them, two processes could damage a file.

    Raises:
        MissingError: on Windows, which has other locks.
    """
    if importlib.util.find_spec("fcntl") is None:
        raise MissingError(
            "msshift needs the file locks of Linux and macOS; on Windows, install and run msshift "
            "in the Windows Subsystem for Linux (wsl --install)"
        )


def open_locked(path: Path, target: Path, *, is_file: bool = False) -> int | None:
    """Return the descriptor of a folder or a file, locked until the descriptor is closed.

    Args:
        path: the folder, or the file, which is made if missing.
        target: the file or folder that the lock protects, for the message.
        is_file: whether `path` is a file.

    Returns:
        The descriptor; `None` if another process renamed `path` between opening and locking.

    Raises:
        UsageError: if another process holds the lock.
        OSError: if `path` cannot be opened.
        MissingError: on Windows.
    """
    check_locks()
    import fcntl

    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW if is_file else os.O_RDONLY | os.O_DIRECTORY
    descriptor, is_ours = os.open(path, flags | os.O_CLOEXEC, 0o666), False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            is_ours = os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except BlockingIOError:
        raise UsageError(f"another process is writing {target}; wait for it, or stop it") from None
    finally:
        if not is_ours:
            os.close(descriptor)
    return descriptor if is_ours else None


def partial_name(name: str) -> str:
    """Return the temporary name of a file or folder: ``.<name>.partial``; a long name is hashed."""
    partial = f".{name}.partial"
    if len(os.fsencode(partial)) <= _LONGEST:
        return partial
    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()}.partial"


@contextmanager
def write_atomically(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing, renamed to `path` when the block ends without an error.

    After an error, `path` is unchanged. The folder is made if missing.

    Raises:
        UsageError: if another process is writing the same file, or `path` cannot be a file.
        OSError: if the file cannot be written; the error's ``filename`` is `path`.
    """
    _check_is_file(path)
    path, as_named = Path(os.path.realpath(path)), path
    partial = path.with_name(partial_name(path.name))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(_lock_partial(partial, as_named), "wb") as file:
            try:
                file.truncate(0)
                yield file
                file.flush()
                os.fsync(file.fileno())
                partial.replace(path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
    except OSError as error:
        if error.filename == str(partial) or (error.filename is None and error.errno in _FULL):
            error.filename, error.filename2 = str(as_named), None
        raise


def _lock_partial(partial: Path, target: Path) -> int:
    """Return the descriptor of the temporary file of `target`, locked; it is made if missing."""
    descriptor = None
    while descriptor is None:
        descriptor = open_locked(partial, target, is_file=True)
    return descriptor


def _check_is_file(path: Path) -> None:
    """Check that a path does not exist, or is a regular file, but not this process's output."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    for descriptor in (1, 2):
        with suppress(OSError):  # The parent process may have closed it.
            if os.path.samestat(status, os.fstat(descriptor)):
                raise UsageError(
                    f"{path} is the standard output or error of this command; give another file"
                )
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe, a device or a socket"
        raise UsageError(f"{path} is {kind}; give the name of a file to write")


def link_file(source: Path, target: Path) -> None:
    """Link a file to another name, or copy it if links are not possible.

    Args:
        source: the file, or a link to it.
        target: the new name, which must not exist.

    Raises:
        OSError: if `target` exists, or cannot be written.
    """
    try:
        os.link(os.path.realpath(source), target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(source, target)


def write_bytes(path: Path, content: bytes) -> None:
    """Write the content of a file atomically; errors as in `write_atomically`."""
    with write_atomically(path) as file:
        file.write(content)


def write_json(path: Path, value: object) -> None:
    """Write `value` atomically as indented JSON, with keys in their order.

    Raises:
        ValueError: if a number is NaN or infinite.
        UsageError, OSError: see `write_atomically`.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    # A lone surrogate cannot be encoded in UTF-8; it is written as a JSON escape.
    write_bytes(path, text.encode(errors="backslashreplace") + b"\n")


def write_array(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Write an array, not of objects, atomically as ``.npy``; errors as in `write_atomically`."""
    with write_atomically(path) as file:
        # With a real file, numpy writes to its descriptor, and its errors lack cause and path.
        writer: Any = SimpleNamespace(write=file.write)
        np.lib.format.write_array(writer, array, allow_pickle=False)


def _checksum(value: Mapping[str, Any]) -> str:
    others = {name: item for name, item in value.items() if name != CHECKSUM}
    text = json.dumps(others, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def with_checksum(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its checksum as the last member, or in place of an earlier one."""
    return {**value, CHECKSUM: _checksum(value)}


def checksum_matches(value: Mapping[str, Any]) -> bool:
    """Return whether the checksum of a JSON object matches; true without a checksum."""
    return CHECKSUM not in value or value[CHECKSUM] == _checksum(value)


def sha256_of_parts(parts: Iterable[bytes | pa.Buffer]) -> str:
    """Return the SHA-256 of concatenated parts: 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def seal_array(array: np.ndarray[Any, Any]) -> bytes:
    """Return the bytes of a sealed array: ``.npy``, and its SHA-256."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    buffer.write(hashlib.sha256(buffer.getbuffer()).digest())
    return buffer.getvalue()


def unseal_array(content: bytes) -> np.ndarray[Any, Any]:
    """Return the array from the bytes of `seal_array`.

    Raises:
        ValueError: if the bytes were changed, or are no sealed array.
    """
    _check_seal(io.BytesIO(content), len(content))
    array: np.ndarray[Any, Any] = np.lib.format.read_array(io.BytesIO(content))
    return array


def map_sealed_array(path: Path) -> np.ndarray[Any, Any]:
    """Return a sealed array, checked and memory-mapped from its file, read-only.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the file was changed.
    """
    with path.open("rb") as file:
        _check_seal(file, path.stat().st_size)
    return np.lib.format.open_memmap(path, mode="r")


def _check_seal(file: IO[bytes], size: int) -> None:
    digest = hashlib.sha256()
    left = size - digest.digest_size
    while left > 0 and (piece := file.read(min(_PIECE, left))):
        digest.update(piece)
        left -= len(piece)
    if left or file.read() != digest.digest():
        raise ValueError("the array was changed: its SHA-256 does not match")


def write_parquet(path: Path, table: pa.Table, row_group: int = ROW_GROUP) -> None:
    """Write an Arrow table atomically as Parquet; errors as in `write_atomically`.

    Args:
        path: the file.
        table: the rows.
        row_group: number of rows per row group.
    """
    with write_atomically(path) as file:
        pq.write_table(table, file, compression="zstd", row_group_size=row_group)


class TooLargeError(ValueError):
    """The content of a file unpacks to more than `MAX_UNPACKED` bytes."""


def unpacked_batches(
    source: Path | pa.BufferReader, columns: Sequence[str], rows: int, *, in_all: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an untrusted file, until its texts exceed `MAX_UNPACKED` bytes.

    A Parquet dictionary stores a repeated text once, but decoded rows have a copy each: a small
    file can become gigabytes. So the batches have texts as dictionaries.

    Args:
        source: the Parquet file, or its bytes.
        columns: the columns to read; each must be in the file once.
        rows: the maximum number of rows of a batch.
        in_all: whether the caller keeps all batches in memory; then all texts count together.

    Raises:
        TooLargeError: if the texts of a batch (with `in_all`, of all batches) or a row group are
            larger.
        pa.ArrowException, OSError: if the file is not Parquet, or cannot be read.
    """
    if isinstance(source, Path):
        source = source.absolute()  # Arrow reads a relative path with a colon as a URI.
    size, parquet = 0, pq.read_metadata(source).schema
    leaves = [parquet.column(number) for number in range(len(parquet))]
    texts = [leaf.path for leaf in leaves if leaf.logical_type.type == "STRING"]
    with pq.ParquetFile(source, read_dictionary=texts) as file:
        for group in range(file.num_row_groups):
            if file.metadata.row_group(group).total_byte_size > MAX_UNPACKED:
                raise TooLargeError(_TOO_LARGE)
            for batch in file.iter_batches(rows, [group], columns):
                size *= in_all
                for part in batch.columns:
                    if pa.types.is_list(part.type):
                        part = part.flatten()
                    if pa.types.is_dictionary(part.type):
                        lengths = pc.binary_length(part.dictionary.cast("string"))
                        size += pc.sum(lengths.take(part.indices)).as_py() or 0
                if size > MAX_UNPACKED:
                    raise TooLargeError(_TOO_LARGE)
                yield batch


def check_target(path: Path, *, inputs: Iterable[Path] = (), others: Iterable[Path] = ()) -> None:
    """Check that a file can be written; call it before a long computation.

    The check makes no file and no folder: a missing folder is probably a typing error.

    Args:
        path: the file.
        inputs: files that must not be overwritten, and folders in which no file may be written.
            Missing inputs are ignored.
        others: the other output files.

    Raises:
        NotFoundError: if the folder of the file does not exist.
        UsageError: if `path` cannot be a file, is an input or another output, or another process
            is writing it.
        OSError: if the file cannot be written.
    """
    _check_is_file(path)
    end = Path(os.path.realpath(path))
    for other in others:
        if end == Path(os.path.realpath(other)):
            raise UsageError(f"{path} is given for two outputs; give a different file for each")
    for source in inputs:
        real = Path(os.path.realpath(source))
        if real.is_file() and (end == real or (end.exists() and end.samefile(real))):
            raise UsageError(f"{path} is an input and would be overwritten; write to another file")
        if real.is_dir() and end.is_relative_to(real):
            raise UsageError(f"{path} is in the input {source}; write to another folder")
    if not end.parent.is_dir():
        folder = end.parent if path.is_symlink() else path.parent
        raise NotFoundError(
            f"no folder {folder} for the output {end.name}; make the folder, or correct the name"
        )
    if end.exists() and not os.access(end, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    partial = end.with_name(partial_name(end.name))
    descriptor = _lock_partial(partial, path)
    try:
        partial.unlink()
    finally:
        os.close(descriptor)
