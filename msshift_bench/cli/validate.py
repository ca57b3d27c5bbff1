"""``msshift validate``: check whether run files can be evaluated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json
from msshift_bench.errors import RunError, spell_out
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.evaluation import JudgedQueries
    from msshift_bench.runs import RunValidation

__all__ = ["register"]


def validate(
    runs: Annotated[list[str], typer.Argument(help="Run files, or - for standard input.")],
    test: options.TestConfig = None,
    qrels: options.TestQrels = None,
    data: options.Data = DATASET_NAME,
    run_format: options.RunFormat = "auto",
    ties: options.Ties = "trec",
    strict: options.Strict = False,
    as_json: options.AsJson = False,
) -> None:
    """Check whether run files can be evaluated; every finding has a code, a line and a fix.

    The command exits with 1 if a run cannot be evaluated.

    Example: `msshift validate my.run.gz --test length-short`
    """
    from msshift_bench.cli.evaluate import choose_test_set
    from msshift_bench.runs import validate_run

    test_set = choose_test_set(test, qrels, data)
    judgements = None if test_set is None else test_set.judgements
    checked = {}
    for run in runs:
        found = validate_run(run, judgements, tie_policy=ties, format=run_format, strict=strict)
        checked[run] = found if test_set is None else _with_misfits(found, run, test_set)
    if as_json:
        print_json(
            {
                run: {
                    "ok": found.ok,
                    "lines": found.report.lines,
                    "queries": found.report.queries,
                    "counts": dict(found.counts),
                    "errors": [asdict(finding) for finding in found.errors],
                    "warnings": [asdict(finding) for finding in found.warnings],
                }
                for run, found in checked.items()
            }
        )
    for run, found in checked.items():
        counts = found.report.warning_counts
        total = sum(counts.values())
        warned = f"{total} warning{'s' * (total != 1)}"
        if found.warnings:
            note("\n".join([f"warning: {run}: {warned}", *spell_out(found.warnings, counts)]))
        if found.ok:
            note(
                f"{run}: {found.report.lines} lines, {found.report.queries} queries, {warned}; "
                "it can be evaluated"
            )
    errors = [finding for found in checked.values() for finding in found.errors]
    if errors:
        raise RunError("what cannot be evaluated:", errors, _count_errors(checked.values()))


def _with_misfits(found: RunValidation, run: str, test_set: JudgedQueries) -> RunValidation:
    """Add what keeps a run from being evaluated on a test set though nothing is wrong with it."""
    from msshift_bench.evaluation import misfits

    if not found.ok:
        return found
    errors = misfits(run, found.report, test_set.judgements, test_set.data)
    counts = {**found.counts, **Counter(error.code for error in errors)}
    return replace(found, errors=tuple(errors), counts=counts, error_count=len(errors))


def _count_errors(checked: Iterable[RunValidation]) -> Counter[str]:
    """Return code -> how many errors there were, in all runs."""
    total: Counter[str] = Counter()
    for found in checked:
        total.update(
            {
                code: count
                for code, count in found.counts.items()
                if code not in found.report.warning_counts
            }
        )
    return total


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("validate")(validate)
