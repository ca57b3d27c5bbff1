"""Files that hold a checksum of themselves, so that a flipped bit does not go unseen.

A JSON file's checksum is the SHA-256 of the other members as JSON with sorted keys and without
spaces, in UTF-8. A file without one was written by an earlier version, or by a user, and is taken
as it is. A sealed array is numpy's ``.npy``, and behind it the 32 bytes of its SHA-256; numpy
itself reads it, and does not look at them.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "CHECKSUM",
    "is_as_written",
    "map_sealed_array",
    "seal_array",
    "unseal_array",
    "with_checksum",
]

CHECKSUM = "checksum"
"""The member that holds it: 64 hexadecimal digits."""

_PIECE = 1 << 20
"""Bytes that are read at once to be checked."""


def _checksum(value: Mapping[str, Any]) -> str:
    others = {name: one for name, one in value.items() if name != CHECKSUM}
    text = json.dumps(others, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def with_checksum(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its checksum as the last member."""
    return {**value, CHECKSUM: _checksum(value)}


def is_as_written(value: Mapping[str, Any]) -> bool:
    """Say whether a JSON object has the content that it was written with, as far as it says."""
    return CHECKSUM not in value or value[CHECKSUM] == _checksum(value)


def seal_array(array: np.ndarray[Any, Any]) -> bytes:
    """Return the bytes of a sealed array."""
    import numpy as np

    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    buffer.write(hashlib.sha256(buffer.getbuffer()).digest())
    return buffer.getvalue()


def unseal_array(content: bytes) -> np.ndarray[Any, Any]:
    """Return the array that `seal_array` sealed.

    Raises:
        ValueError: if it is not as it was sealed.
    """
    import numpy as np

    _check_seal(io.BytesIO(content), len(content))
    array: np.ndarray[Any, Any] = np.lib.format.read_array(io.BytesIO(content))
    return array


def map_sealed_array(path: Path) -> np.ndarray[Any, Any]:
    """Check the file of a sealed array, and map it: the array takes no memory of its own.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not as it was sealed.
    """
    import numpy as np

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
        raise ValueError("the array is not as it was written")
