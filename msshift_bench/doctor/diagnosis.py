"""One thing that the doctor looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Diagnosis", "State"]


class State(StrEnum):
    """How something is.

    Attributes:
        OK: as it should be.
        NOTE: nothing is wrong, and something could be had besides.
        WARNING: work will be slow, or fail, or give numbers that compare with few.
        MISSING: something is needed and not there.
        DAMAGED: data are not what was built.
    """

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the doctor found in one place.

    Attributes:
        code: a stable identifier, e.g. ``"threads"``; never reworded between versions.
        state: how it is.
        found: one sentence: what there is.
        cure: one sentence: what to do; "" where there is nothing to do.
    """

    code: str
    state: State
    found: str
    cure: str = ""
