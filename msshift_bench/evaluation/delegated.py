"""Measures that ir_measures computes, on rankings in the order of the tie policy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from msshift_bench.errors import UsageError, require
from msshift_bench.runs import JudgedRun, Judgements

__all__ = ["DelegatedMeasure", "delegate"]

_PARTIAL = frozenset({"Accuracy"})
"""Measures for which ir_measures leaves queries out, instead of giving them a default."""

_READ_NONRELEVANT = frozenset({"Bpref", "infAP", "Judged"})
"""Measures that treat a document judged not relevant unlike an unjudged one; so do all measures
with ``judged_only`` set."""

_NOT_RETRIEVED = "\n"
"""An id that no document has."""


@dataclass(frozen=True, slots=True)
class DelegatedMeasure:
    """One measure of ir_measures; see `evaluation.measures.Measure`.

    ir_measures gets the documents with scores that fall from place to place, so that the tie
    policy decides, not the library that computes the measure.

    Attributes:
        name: the name as ir_measures prints it.
    """

    name: str
    higher_is_better: bool = True
    computed_by: str = "ir_measures"
    aggregate: Literal["mean", "sum"] = "mean"
    partial: bool = False
    reads_nonrelevant: bool = False

    @property
    def mean_name(self) -> str:
        """The name of its mean over queries: the same."""
        return self.name

    @property
    def percent(self) -> bool:
        """Whether tables print its mean times 100: counts are printed as they are."""
        return self.aggregate == "mean"

    def per_query(self, run: JudgedRun) -> NDArray[np.float64]:
        """Return the measure of every query of the run's test set, shape ``[queries]``.

        Where the measure is `partial`, a query without a value gets NaN.

        Raises:
            UsageError: if the tie policy orders nothing, the run cannot be read again, or
                ir_measures cannot compute the measure as it is installed.
        """
        ir_measures = require("ir_measures", "measures", f"the measure {self.name}")
        measure = ir_measures.parse_measure(self.name)
        judgements = run.judgements
        values = np.full(len(judgements), np.nan if self.partial else float(measure.DEFAULT))
        ranked = {
            query: {doc: float(len(docs) - place) for place, doc in enumerate(docs)}
            for query, docs in run.rankings()
        }
        try:
            for metric in ir_measures.iter_calc([measure], _readable(judgements), ranked):
                # trec_eval divides 0 by 0 where judged_only leaves no document.
                if metric.query_id in judgements.index and not math.isnan(metric.value):
                    values[judgements.index[metric.query_id]] = metric.value
        except Exception as error:  # its providers raise what their tools happen to raise
            why = f"{type(error).__name__}: {error}"
            raise UsageError(f"ir_measures cannot compute {self.name}: {why}") from error
        return values


def _readable(judgements: Judgements) -> dict[str, dict[str, int]]:
    """Return the judgements so that trec_eval can read them.

    It reads and writes outside its memory if no document of a query has a relevance of at least 0.
    Such a query gets one that no run retrieves; as nothing is relevant, no measure changes.
    """
    return {
        query: docs if any(level >= 0 for level in docs.values()) else {**docs, _NOT_RETRIEVED: 0}
        for query, docs in judgements.judged.items()
    }


def delegate(name: str) -> DelegatedMeasure | None:
    """Return the measure that ir_measures calls `name`; `None` if it knows none, or is absent.

    Raises:
        UsageError: if ir_measures knows the measure, but not with these parameters.
    """
    try:
        import ir_measures
    except ModuleNotFoundError:
        return None
    try:
        measure = ir_measures.parse_measure(name)
    except (NameError, ValueError, SyntaxError, TypeError):
        return None
    if problem := next(_problems(measure), None):
        raise UsageError(f"ir_measures cannot compute {name}: {problem}; {_usage(measure)}")
    return DelegatedMeasure(
        str(measure),
        aggregate="sum" if isinstance(measure.aggregator(), ir_measures.SumAgg) else "mean",
        partial=measure.NAME in _PARTIAL,
        reads_nonrelevant=_reads_nonrelevant(measure),
    )


def _reads_nonrelevant(measure: Any) -> bool:
    gains = measure.params.get("gains", {})
    return (
        measure.NAME in _READ_NONRELEVANT
        or measure.params.get("judged_only", False)
        or any(level < 1 and gain > 0 for level, gain in gains.items())
    )


def _problems(measure: Any) -> Iterator[str]:
    """Yield the errors in the parameters of a measure of ir_measures."""
    known = measure.SUPPORTED_PARAMS
    for parameter in measure.params:
        if parameter not in known:
            yield f"there is no parameter {parameter!r}"
    for parameter, described in known.items():
        if parameter not in measure.params:
            if described.required:
                yield f"it needs {_spelled(measure, parameter)}"
        elif not described.validate(measure.params[parameter]):
            yield f"{parameter} cannot be {measure.params[parameter]!r}"
    gains = measure.params.get("gains", {})
    if not all(isinstance(number, int) for number in (*gains, *gains.values())):
        yield "gains are whole numbers: {relevance: gain}"
    # trec_eval ends the whole process at a cutoff of 0.
    if measure.params.get("cutoff", 1) < 1:
        yield "a cutoff is at least 1"


def _usage(measure: Any) -> str:
    spelled = [_spelled(measure, parameter) for parameter in measure.SUPPORTED_PARAMS]
    return f"{measure.NAME} takes {', '.join(spelled) or 'no parameters'}"


def _spelled(measure: Any, parameter: str) -> str:
    if parameter == measure.AT_PARAM:
        return f"{parameter} ({measure.NAME}@{parameter})"
    return parameter
