"""The papers' own figures as numbers, and the analyses of them.

The figures in ``published/`` are results that papers report; each file names its source. Golden
tests compare with them; they are never mixed with figures measured here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from msshift_bench.analysis.alignment import align_scores
from msshift_bench.analysis.analysing import link_losses
from msshift_bench.errors import UnknownNameError
from msshift_bench.evaluation import Result
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import RANK_CORRELATIONS, Figure

__all__ = ["align_published", "analyse_published", "load_published"]

_FOLDER = files(__package__) / "published"


def load_published(name: str) -> dict[str, Any]:
    """Return a paper's tables as numbers, e.g. ``ms_shift_v2``.

    Raises:
        UnknownNameError: if there are no such tables.
    """
    known = {entry.name.removesuffix(".json"): entry for entry in _FOLDER.iterdir()}
    if name not in known:
        raise UnknownNameError("published tables", name, sorted(known))
    tables: dict[str, Any] = json.loads(known[name].read_text("utf-8"))
    return tables


_MEASURE = "RR@10"

_SCOPES = (("all", "topics"), ("test", "topics"), ("test", "wh-words"))
"""Which queries the similarities compare, and the shifts whose groups are the points; Figure 3 of
the paper has those of both shifts. Short and long queries are compared with each other, so that
both groups of `length` have one similarity."""


def analyse_published(
    shifts: Sequence[str] = (), indicators: Sequence[str] = (), measures: Sequence[str] = ()
) -> Result:
    """Link the Rel Losses in Tables 2 and 3 of MS-Shift (ECIR 2023) to weighted Jaccard.

    The paper draws these points (Figure 3), and gives neither a line nor a correlation. The losses
    have no intervals, because the paper names neither seeds nor the scores of queries.

    Args:
        shifts: only these; all that the paper prints, if empty, like the others.
        indicators: the indicators.
        measures: the measures.

    Raises:
        UnknownNameError: for a name of which the paper prints nothing.
    """
    losses, similarities = load_published("ms_shift_v2"), load_published("ms_shift_similarity")
    of_groups = {group: shift for _, shift in _SCOPES for group in SHIFTS[shift].groups}
    printed = list(dict.fromkeys(of_groups.values()))
    _check_printed("shift", shifts, printed)
    _check_printed("indicator", indicators, [similarities["indicator"]])
    _check_printed("measure", measures, [_MEASURE])
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
        "published losses carry no intervals: they rest on one training each, and count as they "
        "are printed",
        "all queries: training and test queries, as the authors counted them; test queries: the "
        "released test sets, where C0 and C3 change places",
    )
    return link_losses(
        figures,
        "published figures of MS-Shift (ECIR 2023), Tables 2 and 3",
        remarks=remarks if "topics" in shifts else remarks[:1],
    )


def _check_printed(kind: str, names: Iterable[str], printed: Sequence[str]) -> None:
    for name in names:
        if name not in printed:
            raise UnknownNameError(f"{kind} of the published losses", name, printed)


_OUTSIDE = "MS MARCO dev, buckets held out"

_MODELS = 24
"""Models in each of the paper's correlations (section 4.2.1): 8 methods at 3 sizes."""

_SKIPPED = ("columns", "BERT", "BERT + RandNeg", "coCon-marco + RandNeg")
"""The header of Tables 8 and 9, and their rows that are rows of Tables 6 and 9, too."""


def align_published() -> Result:
    """Align the scores in Tables 6 to 9, as far as they go, and show the correlations of Table 5.

    The paper prints no model's score on BEIR. So the extrapolation of ReSTTest, on other queries
    and by another way of holding them out, stands for a test set elsewhere.
    """
    tables = load_published("interpolation_extrapolation")
    return align_scores(
        _recall_at_100(tables),
        "R@100 on TREC DL 2019 and 2020, ReSTrain of 45k (CIKM 2022, Tables 6 to 9)",
        printed=_table_5(tables["table_5_alignment"]),
        remarks=(
            "the paper prints no model's score on BEIR: ReSTTest's extrapolation stands for a test "
            "set elsewhere, and its queries are MS MARCO's, too",
            "published scores rest on one training each, and count as they are printed",
        ),
    )


def _table_5(table: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield each correlation, by interpolation and by extrapolation, and the difference."""
    for outside, values in table.items():
        if outside == "columns":
            continue
        for place, kind in enumerate(RANK_CORRELATIONS):
            row = Figure(f"printed_{kind}", test=outside, slice=f"{_MODELS} models")
            inter, extra = values[2 * place : 2 * place + 2]
            yield row._replace(group="interpolation", value=inter)
            yield row._replace(group="extrapolation", value=extra)
            yield row._replace(group="extrapolation", against="interpolation", value=extra - inter)


def _recall_at_100(tables: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return each model's R@100 by ReSTrain, and its extrapolation by ReSTTest."""
    restrain, resttest = tables["restrain_trec_dl_19_20"]["45k"], tables["resttest_msmarco_dev"]
    methods, pretrained = tables["table_8_training_methods"], tables["table_9_pretraining"]
    rows = [(model, *row[2:4], resttest[model][3]) for model, row in restrain.items()]
    rows += [
        (model, *row["restrain_45k"]["R@100"][:2], row["resttest"]["R@100"][1])
        for model, row in methods.items()
        if model not in _SKIPPED
    ]
    rows += [
        (model, *row["restrain_45k_R@100"][:2], row["resttest_R@100"][1])
        for model, row in pretrained.items()
        if model not in _SKIPPED
    ]
    names = ("interpolation", "extrapolation", _OUTSIDE)
    return {model: dict(zip(names, scores, strict=True)) for model, *scores in rows}
