"""Decompressing a file to its end: all of its streams, or an error that says it is damaged.

A compressed file may hold several streams, one after the other: parallel compressors write such
files, and so does ``cat``. pyarrow reads all streams of gzip and zstd, and refuses whatever else
comes behind one. The standard library's readers of bzip2 and xz ignore anything after the first
stream that they cannot read, and with it every line after a flipped bit; this module's does not.
What is refused is what ``gzip -t``, ``bzip2 -t``, ``xz -t`` and ``zstd -t`` refuse, and also bytes
after the last stream, of which gzip and bzip2 only warn.
"""

from __future__ import annotations

import bz2
import io
import lzma
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["DamagedInputError", "decompressed"]

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_PADDING_UNITS = {"bz2": 0, "xz": 4}
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
_HEAD_BYTES = max(map(len, _MAGIC))
_BLOCK_BYTES = 1 << 18
_MAX_RATIO = 200
_RATIO_FROM = 10_000_000_000


class DamagedInputError(Exception):
    """Compressed input is truncated or corrupt; readers turn this into a finding."""


def decompressed(file: BinaryIO) -> BinaryIO:
    """Return a file's content, decompressed if its first bytes say that it is compressed.

    It reads gzip, bzip2, xz and zstd, each in one stream or in many, xz with padding, zstd with
    skippable frames.

    Args:
        file: the file, at its beginning; it need not be seekable.

    Returns:
        A stream whose reads raise `DamagedInputError` if the compressed bytes cannot be read to
        their end, or if they are a decompression bomb: from 10 GB on, a file on disk that holds 200
        times its size. The check is complete only at the stream's end.
    """
    head = file.read(_HEAD_BYTES)
    stored = None
    if file.seekable():
        stored = file.seek(0, io.SEEK_END)
        file.seek(0)
    else:
        file = cast("BinaryIO", io.BufferedReader(_Rejoined(head, file), _BLOCK_BYTES))
    names = (name for magic, name in _MAGIC.items() if head.startswith(magic))
    is_skippable = head[1:4] == _ZSTD_SKIPPABLE and head[0] >> 4 == 5
    name = next(names, "zstd" if is_skippable else None)
    if name is None:
        return file
    return cast("BinaryIO", io.BufferedReader(_Decompressed(file, name, stored), _BLOCK_BYTES))


class _Rejoined(io.RawIOBase):
    """A stream that cannot seek, with the bytes already read put back before the rest."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        with memoryview(buffer).cast("B") as target:
            data = self._head or self._rest.read(len(target))
            self._head = data[len(target) :]
            data = data[: len(target)]
            target[: len(data)] = data
            return len(data)


class _Decompressed(io.RawIOBase):
    """A decompressed stream, which ends with an error if it is damaged, or far longer than stored.

    Args:
        file: the compressed file.
        name: its format.
        stored: bytes of the file; `None` if that is not known, as of a pipe.
    """

    def __init__(self, file: BinaryIO, name: str, stored: int | None) -> None:
        if name in _PADDING_UNITS:
            self._stream: Any = _Streams(file, name)
        else:
            import pyarrow as pa  # here, so that importing this room stays light

            self._stream = pa.CompressedInputStream(file, name)
        self._left = None if stored is None else max(_RATIO_FROM, _MAX_RATIO * stored)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        try:
            size = int(self._stream.readinto(buffer))
        except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
            if getattr(error, "errno", None) is not None:  # the file itself cannot be read
                raise
            raise DamagedInputError(f"the compressed input is damaged: {error}") from error
        if self._left is not None:
            self._left -= size
            if self._left < 0:
                message = f"it holds more than {_MAX_RATIO} times its size, so it is a bomb"
                raise DamagedInputError(f"the compressed input is not read: {message}")
        return size


class _Streams:
    """All streams of a file in the format of bzip2, or of xz, which zero bytes may follow."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._padding_unit = file, _PADDING_UNITS[name]
        xz = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)
        self._decompressor: Callable[[], Any] = xz if name == "xz" else bz2.BZ2Decompressor
        self._input = b""
        self._stream: Any = self._decompressor()

    def readinto(self, buffer: WriteableBuffer) -> int:
        with memoryview(buffer).cast("B") as target:
            while self._stream or self._begin_next():
                data = self._decompress(len(target))
                if data:
                    target[: len(data)] = data
                    return len(data)
        return 0

    def _decompress(self, size: int) -> bytes:
        """Decompress up to `size` bytes; none if more input is needed, or a stream ends."""
        if self._stream.needs_input and not self._more():
            raise EOFError("it ends too early")
        data: bytes = self._stream.decompress(self._input, size)
        self._input = b""
        if self._stream.eof:
            self._input, self._stream = self._stream.unused_data, None
        return data

    def _more(self) -> bool:
        """Read more input if all is used up; say whether there was any."""
        self._input = self._input or self._file.read(_BLOCK_BYTES)
        return bool(self._input)

    def _begin_next(self) -> bool:
        """Go to the next stream; say whether there is one."""
        zeros = 0
        while self._padding_unit and self._more() and not self._input[0]:
            rest = self._input.lstrip(b"\0")
            zeros += len(self._input) - len(rest)
            self._input = rest
        if self._padding_unit and zeros % self._padding_unit:
            raise EOFError(f"{zeros} zero bytes follow the end of its data")
        if self._more():
            self._stream = self._decompressor()
        return self._stream is not None
