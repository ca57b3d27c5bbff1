"""Decompressing a file to its end: all of its streams, or an error that says it is damaged.

A compressed file may hold several streams, one after the other: parallel compressors write such
files, and so does ``cat``. The standard library's readers of bzip2 and xz ignore anything after the
first stream that they cannot read, and with it every line after a flipped bit. This module refuses
what ``gzip -t``, ``bzip2 -t``, ``xz -t`` and ``zstd -t`` refuse, and also bytes after the last
stream, of which gzip and bzip2 only warn.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["DamagedInputError", "decompressed"]

_INPUT_BYTES = 1 << 18
_OUTPUT_BYTES = 1 << 18
_XZ_PADDING_UNIT = 4
_MAX_RATIO = 200
_RATIO_FROM = 10_000_000_000


class DamagedInputError(Exception):
    """Compressed input is truncated or corrupt; readers turn this into a finding."""


class _Decoder(Protocol):
    """A decompressor of one stream, like those of the standard library's bz2 and lzma."""

    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _GzipDecoder:
    """zlib's decompressor, with the attributes of the other two."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._zlib.decompress(data or self._zlib.unconsumed_tail, max_length)


class _Format(NamedTuple):
    """A format whose streams may follow each other.

    Attributes:
        magic: the first bytes of a file.
        decoder: makes a decompressor of one stream.
        padding_unit: zero bytes may follow a stream in multiples of so many; 0 for none.
        inside: whether another stream may come after zero bytes.
    """

    magic: bytes
    decoder: Callable[[], _Decoder]
    padding_unit: int = 0
    inside: bool = False


_FORMATS = (
    _Format(b"\x1f\x8b", cast("Callable[[], _Decoder]", _GzipDecoder), 1),
    _Format(b"BZh", cast("Callable[[], _Decoder]", bz2.BZ2Decompressor)),
    _Format(
        b"\xfd7zXZ\0",
        cast("Callable[[], _Decoder]", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ)),
        _XZ_PADDING_UNIT,
        inside=True,
    ),
)
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
_HEAD_BYTES = max(len(known.magic) for known in _FORMATS)


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
    if file.seekable():
        file.seek(0)
    else:
        file = cast("BinaryIO", io.BufferedReader(_Rejoined(head, file), _OUTPUT_BYTES))
    stream: io.RawIOBase
    for known in _FORMATS:
        if head.startswith(known.magic):
            stream = _Streams(file, known)
            break
    else:
        skippable = head[1:4] == _ZSTD_SKIPPABLE and head[0] >> 4 == 5
        if not (skippable or head.startswith(_ZSTD_MAGIC)):
            return file
        stream = _Zstd(file)
    if file.seekable():
        stream = _Bounded(stream, file.seek(0, io.SEEK_END))
        file.seek(0)
    return cast("BinaryIO", io.BufferedReader(stream, _OUTPUT_BYTES))


class _Bounded(io.RawIOBase):
    """A decompressed stream that ends with an error if it holds far more than its file."""

    def __init__(self, stream: io.RawIOBase, stored: int) -> None:
        self._stream, self._left = stream, max(_RATIO_FROM, _MAX_RATIO * stored)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        size = self._stream.readinto(buffer) or 0
        self._left -= size
        if self._left < 0:
            message = f"it holds more than {_MAX_RATIO} times its size, so it is a bomb"
            raise DamagedInputError(f"the compressed input is not read: {message}")
        return size


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


class _Streams(io.RawIOBase):
    """All streams of a compressed file, one after the other."""

    def __init__(self, file: BinaryIO, known: _Format) -> None:
        self._file, self._format = file, known
        self._input = b""
        self._decoder: _Decoder | None = known.decoder()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        with memoryview(buffer).cast("B") as target:
            while self._decoder or self._begin_next():
                # More at once would go through memory that is new to the process each time.
                data = self._decode(min(len(target), _OUTPUT_BYTES))
                if data:
                    target[: len(data)] = data
                    return len(data)
        return 0

    def _decode(self, size: int) -> bytes:
        """Decompress up to `size` bytes; none if more input is needed, or a stream ends."""
        decoder = self._decoder
        assert decoder is not None
        if decoder.needs_input and not (self._input or self._more()):
            raise DamagedInputError("the compressed input is damaged: it ends too early")
        try:
            data = decoder.decompress(self._input, size)
        except (zlib.error, lzma.LZMAError, OSError, ValueError) as error:
            raise DamagedInputError(f"the compressed input is damaged: {error}") from error
        self._input = b""
        if decoder.eof:
            self._input, self._decoder = decoder.unused_data, None
        return data

    def _more(self) -> bool:
        """Read more input if all is used up; say whether there was any."""
        self._input = self._input or self._file.read(_INPUT_BYTES)
        return bool(self._input)

    def _begin_next(self) -> bool:
        """Go to the next stream; say whether there is one.

        Raises:
            DamagedInputError: if zero bytes follow that the format does not allow.
        """
        zeros = 0
        while self._more() and not self._input[0]:
            rest = self._input.lstrip(b"\0")
            zeros += len(self._input) - len(rest)
            self._input = rest
        unit = self._format.padding_unit
        if zeros and (not unit or zeros % unit or (self._input and not self._format.inside)):
            message = f"{zeros} zero bytes follow the end of its data"
            raise DamagedInputError(f"the compressed input is damaged: {message}")
        if self._input:
            self._decoder = self._format.decoder()
        return bool(self._input)


class _Zstd(io.RawIOBase):
    """All frames of a file in zstd's format, which pyarrow reads one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        import pyarrow as pa  # only for zstd, so that importing this room stays light

        self._frames = pa.CompressedInputStream(file, "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        try:
            return int(self._frames.readinto(buffer))
        except OSError as error:
            if error.errno is not None:  # the file itself cannot be read
                raise
            raise DamagedInputError(f"the compressed input is damaged: {error}") from error
