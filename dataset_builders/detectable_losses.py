"""What the test sets of a build can show, in words for its command and its card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msshift_bench.stats import (
    ASSUMED_CORRELATION,
    ASSUMED_DEVIATION,
    POWER,
    PUBLISHED_LOSS,
    SIGNIFICANT,
    detectable_rel_loss,
    queries_to_detect,
)

__all__ = ["explain_detectable", "show_detectable"]


def show_detectable(queries: int) -> str:
    """Return the smallest Rel Loss that so many test queries can show, e.g. ``2.3%``, or ``-``."""
    found = detectable_rel_loss(queries)
    return "-" if found is None else f"{found:.1%}"


def explain_detectable(shifts: Mapping[str, Any], column: str) -> Sequence[str]:
    """Return what the figures of `show_detectable` rest on, and the groups that are too small.

    Args:
        shifts: a manifest's shifts.
        column: how the column of the figures is called.
    """
    lines = [
        f"{column}: the smallest Rel Loss that a two-sided test at {SIGNIFICANT:.0%} finds in "
        f"{POWER:.0%} of cases. It assumes that scores have a standard deviation over queries of "
        f"{ASSUMED_DEVIATION:g} x Avg In and that Avg In and Out correlate at "
        f"{ASSUMED_CORRELATION:g}, and counts no other seeds"
    ]
    needed = queries_to_detect(PUBLISHED_LOSS)
    small = {
        shift: [group for group, counts in facts["rows"].items() if counts["test"] < needed]
        for shift, facts in shifts.items()
    }
    named = [f"{shift} {', '.join(groups)}" for shift, groups in small.items() if groups]
    if named:
        lines.append(
            f"too small to detect {PUBLISHED_LOSS:.1%}, the median of MS-Shift's published losses "
            f"(that takes {needed} test queries): {'; '.join(named)}"
        )
    return lines
