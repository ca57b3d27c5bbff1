"""Choices that depend on a key alone, the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

__all__ = ["Draws"]


class Draws:
    """Choices that depend on a key alone: the digits of one 512-bit number."""

    __slots__ = ("_left",)

    def __init__(self, key: str) -> None:
        self._left = int.from_bytes(blake2b(key.encode()).digest(), "big")

    def below(self, bound: int) -> int:
        """Return the next number in ``[0, bound)``."""
        self._left, digit = divmod(self._left, bound)
        return digit

    def choice(self, options: Sequence[str]) -> str:
        """Return one of `options`."""
        return options[self.below(len(options))]

    def order(self, count: int) -> list[int]:
        """Return ``0 .. count - 1`` shuffled (Fisher and Yates)."""
        items = list(range(count))
        for last in range(count - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]
        return items
