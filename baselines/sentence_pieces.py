"""The file of a SentencePiece model: its pieces, read without the library.

It is a message of Protocol Buffers, ``ModelProto`` in sentencepiece_model.proto. Field 1 holds a
piece, with its text (1) and its logarithmic probability (2); field 3 the normaliser, with the
table of characters (2).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from msshift_bench.errors import DataError

__all__ = ["read_pieces"]

_NUMBER, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
"""How a field is written."""


def read_pieces(content: bytes) -> tuple[list[tuple[str, float]], bytes | None]:
    """Return the pieces with their scores, and the table of the normaliser, if there is one.

    Args:
        content: the bytes of the file.

    Raises:
        DataError: if it is no such file.
    """
    pieces: list[tuple[str, float]] = []
    normaliser: bytes | None = None
    try:
        for field, value in _fields(content):
            if field == 1:
                parts = dict(_fields(value))
                pieces.append((parts[1].decode(), struct.unpack("<f", parts.get(2, bytes(4)))[0]))
            elif field == 3:
                normaliser = dict(_fields(value)).get(2) or None
    except (IndexError, KeyError, UnicodeDecodeError, ValueError, struct.error):
        pieces = []
    if not pieces:
        raise DataError("a file spiece.model is no model of SentencePiece; copy it again")
    return pieces, normaliser


def _fields(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each field of a message; whole numbers have none."""
    place = 0
    while place < len(content):
        key, place = _number(content, place)
        kind = key & 7
        if kind == _NUMBER:
            _, place = _number(content, place)
            continue
        if kind == _BYTES:
            size, place = _number(content, place)
        elif kind in (_FOUR_BYTES, _EIGHT_BYTES):
            size = 4 if kind == _FOUR_BYTES else 8
        else:
            raise ValueError(kind)
        if place + size > len(content):
            raise ValueError(size)
        yield key >> 3, content[place : place + size]
        place += size


def _number(content: bytes, place: int) -> tuple[int, int]:
    """Return a number of seven bits per byte, and the place after it."""
    value = shift = 0
    while True:
        byte = content[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
