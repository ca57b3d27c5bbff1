"""``msshift validate``: can this run file be evaluated?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli.console import note, print_json
from msshift_bench.errors import RunError
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def validate(
    runs: Annotated[list[str], typer.Argument(help="Run files; - is standard input.")],
    test: Annotated[
        str | None, typer.Option(help="Check query ids against a test set, e.g. length-short.")
    ] = None,
    qrels: Annotated[Path | None, typer.Option(help="Or against a qrels file.")] = None,
    data: Annotated[
        str, typer.Option(help="The built data set; MSSHIFT_HOME or ./msshift by default.")
    ] = DATASET_NAME,
    run_format: Annotated[
        str, typer.Option("--run-format", help="trec, msmarco or parquet; detected by default.")
    ] = "auto",
    ties: Annotated[
        str, typer.Option(help="Under `rank`, what is odd about ranks is an error.")
    ] = "trec",
    strict: Annotated[bool, typer.Option(help="Make warnings errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check run files and do nothing else; every finding has a code, a line and a fix.

    Exits with 1 if a run cannot be evaluated.

    Example: `msshift validate my.run.gz --test length-short`
    """
    from msshift_bench.cli.evaluate import choose_test_set
    from msshift_bench.runs import validate_run

    test_set = choose_test_set(test, qrels, data)
    judgements = None if test_set is None else test_set.judgements
    checked = {
        run: validate_run(run, judgements, tie_policy=ties, format=run_format, strict=strict)
        for run in runs
    }
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
        for warning in found.warnings:
            note(f"warning: {warning}")
        if found.ok:
            counts = sum(found.counts.values())
            note(
                f"{run}: {found.report.lines} lines, {found.report.queries} queries, "
                f"{counts} warnings; it can be evaluated"
            )
    errors = [finding for found in checked.values() for finding in found.errors]
    if errors:
        total = sum(found.error_count for found in checked.values())
        raise RunError("what cannot be evaluated:", errors, total)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("validate")(validate)
