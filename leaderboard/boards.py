"""The leaderboards: each holds results that can be compared."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Literal

from msshift_bench.shifts import get_shift

__all__ = ["BOARDS", "Board", "digest_of_test_sets"]


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """One leaderboard.

    Attributes:
        id: the name of its folder of entries, e.g. ``"ms-marco"``.
        title: the title of its page.
        description: the data of its results.
        kind: ``"ms-marco"`` for the benchmark itself, ``"toy"`` for anything smaller.
        warning: the warning on top of every page of the board; "" for none.
        shifts: shift -> digests of the test sets that it accepts (`digest_of_test_sets`), in
            the order in which the page shows them.
        groups: shift -> group -> one line on it.
    """

    id: str
    title: str
    description: str
    kind: Literal["ms-marco", "toy"]
    warning: str
    shifts: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, Mapping[str, str]]


def _read() -> dict[str, Board]:
    tables = tomllib.loads((files(__package__) / "boards.toml").read_text("utf-8"))
    return {
        name: Board(
            name,
            table["title"],
            table["description"].strip(),
            table["kind"],
            table["warning"].strip(),
            MappingProxyType(
                {get_shift(shift).name: tuple(ok) for shift, ok in table["shifts"].items()}
            ),
            MappingProxyType(
                {
                    shift: table.get("groups", {}).get(shift, get_shift(shift).groups)
                    for shift in table["shifts"]
                }
            ),
        )
        for name, table in tables.items()
    }


BOARDS: Mapping[str, Board] = MappingProxyType(_read())
"""Every board by its id, the benchmark itself first."""


def digest_of_test_sets(members: Mapping[str, Iterable[str]]) -> str:
    """Return the digest of a shift's test sets: 64 hexadecimal digits.

    It is the SHA-256 of the lines ``group<tab>query_id``, sorted.

    Args:
        members: group -> ids of its test queries.
    """
    lines = sorted(f"{group}\t{query_id}\n" for group, ids in members.items() for query_id in ids)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
