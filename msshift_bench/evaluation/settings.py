"""How runs are scored, and how losses are inferred from the scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from msshift_bench.errors import UnknownNameError
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.named_measures import parse_measures
from msshift_bench.runs import check_tie_policy
from msshift_bench.stats import Inference

__all__ = ["MISSING_POLICIES", "Settings"]

MISSING_POLICIES: Mapping[str, str] = MappingProxyType(
    {
        "zero": "a query that is missing from a run scores as if nothing had been retrieved",
        "skip": "a query that is missing from any run of the system is left out for all of them",
        "error": "a missing query is an error",
    }
)
"""How to treat queries of the test set that a run lacks."""


@dataclass(frozen=True, slots=True, init=False, kw_only=True)
class Settings(Inference):
    """How runs are scored, and how losses are inferred from the scores; part of every report.

    Args:
        measures: names as ir_measures spells them, in one text or one by one, or measures. The
            other arguments are the attributes below and those of `Inference`.

    Attributes:
        measures: each once; tables show the first one first.
        ties: a key of `msshift_bench.runs.hits.TIE_POLICIES`.
        missing: a key of `MISSING_POLICIES`.
        strict: treat warnings about a run file as errors.
        run_format: the run files' format, a key of `msshift_bench.runs.reader.RUN_FORMATS`.

    Raises:
        UnknownNameError: for a measure, policy, correction or average that does not exist.
        UsageError: if no measure is named, or the confidence is not strictly between 0 and 1.

    Examples:
        >>> settings = Settings("RR@10 nDCG@10", ties="expected", confidence=0.9)
        >>> [measure.name for measure in settings.measures], settings.missing
        (['RR@10', 'nDCG@10'], 'zero')
    """

    measures: tuple[Measure, ...]
    ties: str
    missing: str
    strict: bool
    run_format: str

    def __init__(
        self,
        measures: str | Iterable[str | Measure] = ("RR@10",),
        *,
        ties: str = "trec",
        missing: str = "zero",
        strict: bool = False,
        run_format: str = "auto",
        confidence: float = 0.95,
        correction: str = "holm",
        average: str | None = None,
    ) -> None:
        Inference.__init__(self, confidence, correction, average)
        if missing not in MISSING_POLICIES:
            raise UnknownNameError("policy for missing queries", missing, MISSING_POLICIES)
        object.__setattr__(self, "measures", parse_measures(measures))
        object.__setattr__(self, "ties", check_tie_policy(ties))
        object.__setattr__(self, "missing", missing)
        object.__setattr__(self, "strict", strict)
        object.__setattr__(self, "run_format", run_format)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "measures": [measure.name for measure in self.measures]}
