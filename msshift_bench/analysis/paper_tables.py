"""Tables of papers as numbers, and an analysis of the losses in MS-Shift (ECIR 2023).

The files in ``published/`` hold results that papers report; each file names its source. Golden
tests compare with them. Published figures are never mixed with figures of this package.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from msshift_bench.analysis.analysing import link_losses
from msshift_bench.errors import check_name
from msshift_bench.evaluation import Result
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import Figure

_FOLDER = files(__package__) / "published"


def load_published(name: str) -> dict[str, Any]:
    """Return a paper's tables as numbers, e.g. ``ms_shift_v2``.

    Raises:
        UnknownNameError: for an unknown name.
    """
    known = {entry.name.removesuffix(".json"): entry for entry in _FOLDER.iterdir()}
    check_name("published tables", name, sorted(known))
    return dict(json.loads(known[name].read_text("utf-8")))


_MEASURE = "RR@10"

_SCOPES = (("all", "topics"), ("test", "topics"), ("test", "wh-words"))
"""The queries that the similarities compare, and the shift of the groups.

Figure 3 of the paper has the groups of both shifts. The two groups of `length` are left out: they
have the same similarity, because they are compared with each other.
"""


def analyse_published(shifts: Sequence[str] = ()) -> Result:
    """Link the Rel Losses in Tables 2 and 3 of MS-Shift (ECIR 2023) to weighted Jaccard.

    The paper draws these points (Figure 3) without a line or a correlation. The losses have no
    intervals, because the paper reports neither seeds nor scores of single queries.

    Args:
        shifts: only these, "topics" or "wh-words"; both if empty.

    Returns:
        The links; see `link_losses`.

    Raises:
        UnknownNameError: for another shift.
    """
    losses, similarities = load_published("ms_shift_v2"), load_published("ms_shift_similarity")
    of_groups = {group: shift for _, shift in _SCOPES for group in SHIFTS[shift].groups}
    printed = list(dict.fromkeys(of_groups.values()))
    for name in shifts:
        check_name("shift of the published losses", name, printed)
    shifts = shifts or printed
    figures = [
        Figure(
            "rel_loss",
            shift=of_groups[row["group"]],
            system=row["system"],
            measure=_MEASURE,
            group=row["group"],
            value=row["rel_loss_pct"] / 100,
        )
        for row in (*losses["topics"], *losses["wh_and_length"])
        if of_groups.get(row["group"]) in shifts
    ]
    figures += [
        Figure(
            "similarity",
            shift=shift,
            against=similarities["indicator"],
            group=group,
            slice=split,
            value=similarities[split][group],
        )
        for split, shift in _SCOPES
        if shift in shifts
        for group in SHIFTS[shift].groups
    ]
    remarks = (
        "published losses have no intervals: each is the printed loss of one training",
        "all queries: training and test queries, as in the authors' notebook; test queries: the "
        "released test sets, where C0 and C3 change ranks",
    )
    return link_losses(
        figures,
        "published figures of MS-Shift (ECIR 2023), Tables 2 and 3",
        remarks=remarks if "topics" in shifts else remarks[:1],
    )
