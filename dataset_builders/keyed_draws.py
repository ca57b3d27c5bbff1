"""Draws that depend on a key alone, so that they are the same on every machine and in any order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from msshift_bench.errors import UsageError

__all__ = ["KeyedDraws", "check_seed"]

_Item = TypeVar("_Item")


def check_seed(seed: int) -> None:
    """Check that keyed hashes can take a seed: their keys hold 64 bytes, with the purpose.

    Raises:
        UsageError: if it needs more than 64 bits.
    """
    if not -(2**63) <= seed < 2**64:
        raise UsageError(f"seed {seed} is beyond 64 bits; give a smaller one")


class KeyedDraws:
    """A stream of draws that a key decides.

    Args:
        key: e.g. the seed, the purpose and a query's id; other keys give independent draws.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._drawn = 0

    def below(self, end: int) -> int:
        """Return a whole number from 0 to `end` - 1; all are equally likely, but for 1 in 2**50.

        Args:
            end: at least 1, and at most 2**14.
        """
        number = self._drawn.to_bytes(8, "big")
        self._drawn += 1
        drawn = hashlib.blake2b(number + self._key, digest_size=8).digest()
        return int.from_bytes(drawn, "big") % end

    def choose(self, items: Sequence[_Item]) -> _Item:
        """Return one of the items, of which there is at least one."""
        return items[self.below(len(items))]
