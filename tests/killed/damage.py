"""Damage to the bytes of a file, in one place that is drawn."""

from __future__ import annotations

import random

__all__ = ["cut", "flip_at", "flipped", "left_out", "put_in", "repeated"]


def flip_at(data: bytes, place: int, bit: int) -> bytes:
    """Return the bytes with one bit flipped."""
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def flipped(data: bytes, rng: random.Random) -> bytes:
    return flip_at(data, rng.randrange(len(data)), rng.randrange(8))


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(1, len(data))]


def left_out(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice([1, 1, 2, 7, 50]) :]


def put_in(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice([b"\0", bytes(4), rng.randbytes(3), b"BZh9"]) + data[at:]


def repeated(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[: at + 30] + data[at:]
