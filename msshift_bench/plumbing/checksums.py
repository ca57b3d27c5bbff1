"""JSON files that hold a checksum of themselves, so that a flipped bit does not go unseen.

The checksum is the SHA-256 of the other members as JSON with sorted keys and without spaces, in
UTF-8. A file without one was written by an earlier version, or by a user, and is taken as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["CHECKSUM", "is_as_written", "with_checksum"]

CHECKSUM = "checksum"
"""The member that holds it: 64 hexadecimal digits."""


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
