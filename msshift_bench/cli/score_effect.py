"""What ``msshift evaluate --leakage`` adds: scores without the test queries that leaked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msshift_bench.cli.formats import print_tables

if TYPE_CHECKING:
    from msshift_bench.evaluation import EvaluatedRuns, Report
    from msshift_bench.leakage import LeakageEffect

__all__ = ["leakage_of", "print_effect"]


def leakage_of(
    found: Report | EvaluatedRuns, candidates: Path | None, data: str | None
) -> LeakageEffect | None:
    """Return what the evaluated scores are without leaked test queries; `None` if not asked for.

    Args:
        found: the evaluation.
        candidates: what ``--leakage`` names.
        data: the data set; `None` where runs are scored on qrels.
    """
    if candidates is None:
        return None
    from msshift_bench.leakage import leakage_effect

    return leakage_effect(found, candidates, data)


def print_effect(effect: LeakageEffect | None, chosen: str) -> None:
    """Print the tables of an effect, if there is one."""
    if effect is not None:
        print_tables(effect.tables(), effect.notes(), chosen)
