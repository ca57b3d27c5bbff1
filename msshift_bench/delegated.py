"""Measures that ir_measures computes, on the ranking that the tie policy makes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msshift_bench.errors import UsageError, require
from msshift_bench.judged import JudgedRun

__all__ = ["DelegatedMeasure", "delegate"]


@dataclass(frozen=True, slots=True)
class DelegatedMeasure:
    """One measure of ir_measures; see `msshift_bench.measures.Measure` for what all have.

    ir_measures gets the documents with scores that fall from place to place, so that the tie
    policy decides and not the library that computes the measure.

    Attributes:
        name: as ir_measures prints it.
    """

    name: str
    higher_is_better: bool = True
    computed_by: str = "ir_measures"

    @property
    def mean_name(self) -> str:
        """The name of its mean over queries: the same."""
        return self.name

    def per_query(self, run: JudgedRun) -> NDArray[np.float64]:
        """Return the measure of every query of the run's test set, shape ``[queries]``.

        Raises:
            UsageError: if the tie policy orders nothing, the run cannot be read again, or
                ir_measures cannot compute the measure as it is installed.
        """
        ir_measures = require("ir_measures", "measures", f"the measure {self.name}")
        measure = ir_measures.parse_measure(self.name)
        judgements = run.judgements
        values = np.full(len(judgements), float(measure.DEFAULT))
        ranked = {
            query: {doc: float(len(docs) - place) for place, doc in enumerate(docs)}
            for query, docs in run.rankings()
        }
        try:
            for metric in ir_measures.iter_calc([measure], judgements.judged, ranked):
                if metric.query_id in judgements.index:
                    values[judgements.index[metric.query_id]] = metric.value
        except Exception as error:  # its providers raise what their tools happen to raise
            raise UsageError(f"ir_measures cannot compute {self.name}: {error}") from error
        return values


def delegate(name: str) -> DelegatedMeasure | None:
    """Return the measure that ir_measures calls `name`; `None` if it knows none, or is absent."""
    try:
        import ir_measures
    except ModuleNotFoundError:
        return None
    try:
        return DelegatedMeasure(str(ir_measures.parse_measure(name)))
    except (NameError, ValueError, SyntaxError, TypeError, AssertionError):
        return None
