"""Draws that depend on a key alone, so that they are the same on every machine and in any order."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msshift_bench.errors import UsageError

__all__ = ["KeyedDraws", "check_seed", "sample"]

_Item = TypeVar("_Item")


def check_seed(seed: int) -> None:
    """Check that keyed hashes can take a seed: their keys hold 64 bytes, with the purpose.

    Raises:
        UsageError: if it needs more than 64 bits.
    """
    if not -(2**63) <= seed < 2**64:
        raise UsageError(f"seed {seed} is beyond 64 bits; give a smaller one")


def sample(query_ids: Iterable[str], count: int, *, seed: int, purpose: str) -> frozenset[str]:
    """Choose the `count` ids with the smallest keyed hashes.

    Args:
        query_ids: the ids to choose from, in any order.
        count: how many to choose; all, if there are fewer.
        seed: the build's seed.
        purpose: the sample's purpose; samples for different purposes are independent.
    """
    key = f"{seed}/{purpose}".encode()
    keyed = (
        (hashlib.blake2b(query_id.encode(), digest_size=16, key=key).digest(), query_id)
        for query_id in query_ids
    )
    return frozenset(query_id for _, query_id in heapq.nsmallest(count, keyed))


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
