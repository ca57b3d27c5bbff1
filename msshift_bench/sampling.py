"""Keyed sampling: random choices that depend on a key and on names only, never on positions.

Every choice is a BLAKE2b hash. Its key contains the seed and the purpose, so that choices for
different purposes are independent. Data sets, runs and annotation sheets depend on these bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence


def keyed_hash(name: str, key: str = "", size: int = 16) -> bytes:
    """Return the BLAKE2b hash of a name.

    Args:
        name: the name, e.g. a query's id.
        key: the key, e.g. the seed and the purpose; at most 64 bytes.
        size: the length of the hash in bytes, 1 to 64.

    Examples:
        >>> sorted(["q1", "q2", "q3"], key=lambda name: keyed_hash(name, "8/order"))
        ['q3', 'q1', 'q2']
    """
    return hashlib.blake2b(name.encode(), digest_size=size, key=key.encode()).digest()


def keyed_number(name: str, key: str = "", size: int = 8) -> int:
    """Return the hash of a name as an integer, 0 or more; see `keyed_hash`."""
    return int.from_bytes(keyed_hash(name, key, size), "big")


def keyed_hashes(names: Iterable[str], key: str = "", size: int = 8) -> bytes:
    """Return the hashes of names, concatenated in their order; see `keyed_hash`."""
    secret = key.encode()
    return b"".join(
        hashlib.blake2b(name.encode(), digest_size=size, key=secret).digest() for name in names
    )


class KeyedDraws:
    """Endless stream of random draws that the key determines.

    Args:
        key: e.g. the seed, the purpose and a query's id; different keys give independent draws.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._drawn = 0

    def below(self, end: int) -> int:
        """Return an integer from 0 to `end` - 1, uniform up to a relative error of 2**-50.

        Args:
            end: the number of possible results, 1 to 2**14.
        """
        number = self._drawn.to_bytes(8, "big")
        self._drawn += 1
        drawn = hashlib.blake2b(number + self._key, digest_size=8).digest()
        return int.from_bytes(drawn, "big") % end

    def choose(self, items: Sequence[str]) -> str:
        """Return a random item of a non-empty sequence."""
        return items[self.below(len(items))]


class KeyedDigits:
    """A few dozen random draws that the key determines: the digits of one 512-bit number.

    When the number is used up, every further draw is 0.

    Args:
        key: e.g. the size of a collection and the purpose; different keys give independent draws.
    """

    __slots__ = ("_left",)

    def __init__(self, key: str) -> None:
        self._left = keyed_number(key, size=64)

    def below(self, end: int) -> int:
        """Return the next integer from 0 to `end` - 1."""
        self._left, digit = divmod(self._left, end)
        return digit

    def choose(self, items: Sequence[str]) -> str:
        """Return a random item of a non-empty sequence."""
        return items[self.below(len(items))]

    def order(self, count: int) -> list[int]:
        """Return the integers from 0 to `count` - 1 in random order (Fisher-Yates shuffle)."""
        items = list(range(count))
        for last in range(count - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]
        return items
