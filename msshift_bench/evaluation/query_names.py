"""Query sets that runs often hold by mistake, known by a few digests of their ids.

For each set, the module keeps the smallest SHA-256 digests of its query ids, 12 hexadecimal digits
of each: any superset holds the ids with these digests, and nothing else is likely to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from itertools import islice
from types import MappingProxyType

__all__ = ["KNOWN", "first_ids", "looks_like"]

KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "MS MARCO dev-small": (
            "0000f727854b", "000a297e4a3d", "0015f2d847bb", "001a79c12c51",
            "002efe92464b", "0038df586e51", "0039cf64d319", "003a78c23aa9",
        ),
        "TREC DL 2019": (
            "04702059768e", "05217ca452c2", "0e07d6a53ae8", "1870ced3b4f9",
            "1ef4f859c8c4", "262333c24ae5", "27f7f0ae18ea", "2c636a8669bf",
        ),
        "TREC DL 2020": (
            "043f6082cdb9", "0aabcde6a605", "0b3522bcf3bd", "13c51afaa901",
            "15f3724b9417", "18c583ddc6be", "1a5aaef11752", "1adc0b785320",
        ),
    }
)  # fmt: skip
"""Name -> the smallest digests of the ids of its 6,980, 43 and 54 judged queries."""


def looks_like(query_ids: Collection[bytes]) -> str:
    """Return the known set that the ids hold, except perhaps for a few; ``""`` for none.

    Args:
        query_ids: in UTF-8.
    """
    found = {hashlib.sha256(query_id).hexdigest()[:12] for query_id in query_ids}
    names = [
        name
        for name, digests in KNOWN.items()
        if len(found.intersection(digests)) >= len(digests) - 1
    ]
    return " and ".join(f"{name}'s queries" for name in names)


def first_ids(query_ids: Collection[str]) -> str:
    """Return the first five ids of a set, in the order of text, for a message."""
    shown = ", ".join(islice(sorted(query_ids), 5))
    return shown + (", ..." if len(query_ids) > 5 else "")
