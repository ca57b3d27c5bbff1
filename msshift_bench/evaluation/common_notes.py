"""The notes that stand below every table and picture: the data, and how runs were scored."""

from __future__ import annotations

from collections.abc import Container, Iterable

from msshift_bench._version import __version__
from msshift_bench.data import DataInfo
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.settings import MISSING_POLICIES, Settings
from msshift_bench.runs import TIE_POLICIES
from msshift_bench.stats import QUERIES_AND_SEEDS, QUERIES_ONLY

__all__ = ["data_notes", "policy_notes", "what_counts"]


def data_notes(data: DataInfo, shifts: Container[str] = ()) -> list[str]:
    """Return the notes on the version, and on the data if they are known.

    Args:
        data: the data of the figures.
        shifts: the shifts in the tables; a note says if their training sets differ in size.
    """
    lines = [f"msshift-bench {__version__}"]
    if data.edition:
        lines.append(
            f"data: {data.collection}, edition {data.edition}, version {data.data_version}, "
            f"content {data.content_digest[:12]}"
        )
    lines += [
        f"unbalanced: the groups of {shift} give different numbers of training queries ("
        + ", ".join(f"{group} {count:,}" for group, count in training.queries.items())
        + "), so that a loss is also one of training size"
        for shift, training in data.training.items()
        if shift in shifts and not training.balanced
    ]
    return lines


def what_counts(seeds: Iterable[int]) -> str:
    """Return what the intervals of figures with these numbers of seeds count, in words."""
    if any(number > 1 for number in seeds):
        return f"{QUERIES_AND_SEEDS} where a system has several seeds, else {QUERIES_ONLY}"
    return QUERIES_ONLY


def policy_notes(settings: Settings) -> list[str]:
    """Return the notes on ties, missing queries, and measures of other libraries."""
    lines = [
        f"ties ({settings.ties}): {TIE_POLICIES[settings.ties]}",
        f"missing queries ({settings.missing}): {MISSING_POLICIES[settings.missing]}",
    ]
    lines += [
        f"{measure.name}: computed by {measure.computed_by}{_summed(measure)}"
        for measure in settings.measures
        if measure.computed_by != "msshift-bench"
    ]
    return lines


def _summed(measure: Measure) -> str:
    return ", a sum over the queries" if measure.aggregate == "sum" else ""
