"""Decompression of all streams of a file, with an error for damaged files.

A compressed file may have several streams, from parallel compressors or ``cat``. pyarrow reads all
streams of gzip, bzip2 and zstd, and raises an error for other bytes after a stream. The standard
library's reader of xz ignores the rest of a file after the first unreadable stream; this module's
reader raises an error. This module rejects the files that ``gzip -t``, ``bzip2 -t``, ``xz -t`` and
``zstd -t`` reject. Bytes after the last stream are also an error; gzip and bzip2 only warn of them.
"""

from __future__ import annotations

import bz2
import io
import lzma
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from msshift_bench.libraries import pyarrow as pa

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_XZ = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)
_DECOMPRESSORS: dict[str, Callable[[], Any]] = {"bz2": bz2.BZ2Decompressor, "xz": _XZ}
"""Decompressors for xz, which pyarrow cannot read, and for bzip2, for files with empty streams."""

_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
_HEAD_BYTES = max(map(len, _MAGIC))
_BLOCK_BYTES = 1 << 18
_MAX_RATIO = 200
_RATIO_FROM = 10_000_000_000


class DamagedInputError(Exception):
    """Compressed input is damaged or a decompression bomb; line readers add a finding instead."""


def decompressed(file: BinaryIO) -> BinaryIO:
    """Return a file's content as a stream, decompressed if its first bytes are of a known format.

    Known formats are gzip, bzip2, xz (also with padding) and zstd (also with skippable frames),
    with one or several streams. Other content is returned unchanged.

    Args:
        file: the file, at its beginning; it need not be seekable.

    Returns:
        A stream whose reads raise `DamagedInputError` if the compressed bytes are damaged, or if
        they are a decompression bomb: over 10 GB and over 200 times the size of the file on disk.
        Pipes have no check for bombs. The check for damage is complete only at the stream's end.
    """
    head = file.read(_HEAD_BYTES)
    stored = None
    if file.seekable():
        stored = file.seek(0, io.SEEK_END)
        file.seek(0)
    else:
        file = _stream(chain([head], iter(partial(file.read, _BLOCK_BYTES), b"")))
    names = (name for magic, name in _MAGIC.items() if head.startswith(magic))
    is_skippable = head[1:4] == _ZSTD_SKIPPABLE and head[0] >> 4 == 5
    name = next(names, "zstd" if is_skippable else None)
    return file if name is None else _stream(_decompress(file, name, stored))


def _stream(pieces: Iterable[bytes]) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(_ConcatenatedStream(pieces), _BLOCK_BYTES))


class _ConcatenatedStream(io.RawIOBase):
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = filter(None, pieces)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        with memoryview(buffer).cast("B") as target:
            self._left = self._left or memoryview(next(self._pieces, b""))
            size = min(len(self._left), len(target))
            target[:size] = self._left[:size]
            self._left = self._left[size:]
            return size


def _decompress(file: BinaryIO, name: str, stored: int | None) -> Iterator[bytes]:
    """Yield a file's content; raise `DamagedInputError` if it is damaged or a decompression bomb.

    `name` is its format, `stored` its size in bytes, `None` for a pipe.
    """
    try:
        if name in _DECOMPRESSORS:
            pieces = _unpack(file, _DECOMPRESSORS[name])
        else:
            pieces = iter(partial(pa.CompressedInputStream(file, name).read, _BLOCK_BYTES), b"")
        size = 0
        for piece in pieces:
            size += len(piece)
            if stored is not None and size > max(_RATIO_FROM, _MAX_RATIO * stored):
                raise DamagedInputError(
                    f"the content has more than {_MAX_RATIO} times the size of the compressed input"
                )
            yield piece
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        if getattr(error, "errno", None) is not None:  # the file itself cannot be read
            raise
        raise DamagedInputError(f"the compressed input is damaged: {error}") from error


def _unpack(file: BinaryIO, decompressor: Callable[[], Any]) -> Iterator[bytes]:
    """Yield the content of all streams of a bzip2 or xz file; `EOFError` if one is incomplete.

    xz may have padding in multiples of four bytes.
    """
    packed = file.read(_BLOCK_BYTES)
    while packed:
        stream = decompressor()
        while not stream.eof:
            if stream.needs_input and not packed:
                packed = file.read(_BLOCK_BYTES)
                if not packed:
                    raise EOFError("the last stream is incomplete")
            yield stream.decompress(packed, _BLOCK_BYTES)
            packed = b""
        packed = stream.unused_data or file.read(_BLOCK_BYTES)
        zeros = 0
        while decompressor is _XZ and packed.startswith(b"\0"):
            rest = packed.lstrip(b"\0")
            zeros += len(packed) - len(rest)
            packed = rest or file.read(_BLOCK_BYTES)
        if zeros % 4:
            raise EOFError(f"{zeros} zero bytes follow the last stream, not a multiple of 4")
