"""Compressed files of several streams, as parallel compressors and ``cat`` make them."""

from __future__ import annotations

import bz2
import functools
import gzip
import lzma
from collections.abc import Callable

import pyarrow as pa

__all__ = ["COMPRESSORS", "SKIPPABLE", "zstd"]

SKIPPABLE = b"\x50\x2a\x4d\x18\x04\0\0\0note"
"""A frame of zstd's format that holds no data, as pzstd writes one before every other."""


def zstd(data: bytes) -> bytes:
    """Compress into one frame, without a checksum: damage inside may go unseen."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gz": functools.partial(gzip.compress, mtime=0),
    "bz2": bz2.compress,
    # The default takes room for 8 MB anew for every stream.
    "xz": functools.partial(lzma.compress, preset=0),
    "zst": zstd,
}
