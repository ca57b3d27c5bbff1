"""The numbers of runs and qrels: plain ASCII decimals only.

Python's ``int`` and ``float`` also read underscores between digits, and in strings the digits of
every script; these functions read bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["MAX_RANK", "MAX_RELEVANCE", "decimal_numbers", "rank_numbers", "whole_number"]

MAX_RANK = 10**18
"""The highest rank that is accepted."""

MAX_RELEVANCE = 2**31 - 1
"""The highest relevance that is accepted, and with a minus sign the lowest: sums of them do not
overflow."""

_T = TypeVar("_T")


def whole_number(field: bytes, lowest: int, highest: int) -> int | None:
    """Return a field's value; `None` if it is not a whole number from `lowest` to `highest`."""
    try:
        number = int(field)
    except ValueError:
        return None
    return number if lowest <= number <= highest and b"_" not in field else None


def decimal_numbers(fields: Sequence[bytes]) -> list[float]:
    """Return each field's value, which may be infinite; NaN if it is not a decimal number."""
    return _all_or_each(float, _decimal_number, fields)


def rank_numbers(fields: Sequence[bytes]) -> list[int]:
    """Return each field's value; -1 if it is not a whole number from 0 to `MAX_RANK`."""
    numbers = _all_or_each(int, _rank_number, fields)
    if fields and (min(numbers) < 0 or max(numbers) > MAX_RANK):
        return list(map(_rank_number, fields))
    return numbers


def _decimal_number(field: bytes) -> float:
    try:
        return float(field) if b"_" not in field else math.nan
    except ValueError:
        return math.nan


def _rank_number(field: bytes) -> int:
    number = whole_number(field, 0, MAX_RANK)
    return -1 if number is None else number


def _all_or_each(
    parse: Callable[[bytes], _T], parse_one: Callable[[bytes], _T], fields: Sequence[bytes]
) -> list[_T]:
    """Parse all fields by a fast plain function; if one is odd, parse each with care."""
    try:
        if b"_" not in b"".join(fields):
            return list(map(parse, fields))
    except ValueError:
        pass
    return [parse_one(field) for field in fields]
