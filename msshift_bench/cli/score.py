"""``msshift score``: score run files on one test set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json
from msshift_bench.cli.layout import Command
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import RunError, UsageError, spell_out
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.data import TestSet
    from msshift_bench.runs import RunValidation

__all__ = ["register"]


@options.with_values
def score(
    runs: Annotated[list[str], typer.Argument(help="Run files, or - for standard input.")],
    scoring: options.Scoring,
    checking: options.Checking,
    printing: options.Printing,
    test: options.TestConfig = None,
    qrels: options.TestQrels = None,
    data: options.Data = DATASET_NAME,
    reference: Annotated[
        str | None, typer.Option(help="Compare the other runs with this run file.")
    ] = None,
    without_leaked: options.WithoutLeaked = None,
    per_query: options.PerQuery = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Only check the runs: every finding has a code, a line and a fix."
        ),
    ] = False,
) -> None:
    """Score run files on one test set, or on any qrels.

    It prints the mean of every measure with its interval, which counts other queries, of this very
    run. With --reference it also prints how far the runs are from that one, with an interval and a
    corrected p-value; a † marks what is significant of these very runs, and says nothing of another
    training.

    With --check it only says whether the runs can be scored, with or without a test set; it exits
    with 1 if one cannot.

    Example: `msshift score my.run.gz --test length-short`

    Example: `msshift score my.run.gz --qrels qrels.txt --measures "RR@10 R@1000"`

    Example: `msshift score my.run.gz bm25.run.gz --test length-short --reference bm25.run.gz`

    Example: `msshift score my.run.gz --check`
    """
    from msshift_bench.data import locate
    from msshift_bench.evaluation import score_runs
    from msshift_bench.plumbing import keep_freed_memory, write_parquet

    keep_freed_memory()
    printing.check()
    of_scores = {
        "--reference": reference,
        "--without-leaked": without_leaked,
        "--per-query": per_query,
        "--output": printing.output,
    }
    for option in (name for name, value in of_scores.items() if check and value is not None):
        raise UsageError(f"{option} and --check do not go together; leave one of them out")
    settings = scoring.settings()
    if scoring.average is not None:
        raise UsageError("--average averages a shift's groups, and a run has none; leave it out")
    if scoring.correction != "holm" and reference is None and without_leaked is None:
        raise UsageError("--correction corrects p-values, which --reference gives; add it")
    sources = [*runs, *([] if reference is None or reference in runs else [reference])]
    read = [qrels or locate(data), *([] if without_leaked is None else [without_leaked])]
    check_outputs(printing.output, per_query, runs=sources, inputs=read)
    test_set = choose_test_set(test, qrels, data, runs)
    if check:
        _check(runs, test_set, scoring, as_json=printing.format == "json")
        return
    if test_set is None:
        raise UsageError(
            "say what to score the runs on: --test CONFIG, e.g. length-short, or --qrels FILE; "
            "folders of run sets are for 'msshift evaluate'"
        )
    without = None
    if without_leaked is not None:
        from msshift_bench.leakage import read_left_out

        known = test_set if qrels is not None else data
        without = read_left_out(without_leaked, known)
    result = score_runs(
        runs,
        test_set,
        settings,
        data=data,
        reference=reference,
        without=without,
        allow=checking.allow or (),
    )
    if per_query is not None:
        write_parquet(per_query, result.per_query())
        note(f"wrote {per_query}")
    printing.show(result)


def choose_test_set(
    test: str | None, qrels: Path | None, data: str, runs: Sequence[str] = ()
) -> TestSet | None:
    """Return the test set that ``--test`` or ``--qrels`` names, if one does.

    Raises:
        UsageError: if both are given, or a folder to score.
    """
    for folder in (run for run in runs if Path(run).is_dir()):
        raise UsageError(
            f"{folder} is a folder, and run files are scored here; name files, or evaluate the "
            f"folder's run sets: msshift evaluate {folder}"
        )
    if test is not None and qrels is not None:
        raise UsageError("--test and --qrels both say what to score on; give one of them")
    from msshift_bench.evaluation import open_test_set

    if test is not None:
        return open_test_set(test, data)
    return None if qrels is None else open_test_set(qrels, data)


def _check(
    runs: Sequence[str], test_set: TestSet | None, scoring: options.Scoring, *, as_json: bool
) -> None:
    """Say what is wrong with runs.

    Raises:
        RunError: if a run cannot be scored.
    """
    from msshift_bench.evaluation import judgements_of
    from msshift_bench.runs import validate_run

    judgements = None if test_set is None else judgements_of(test_set)
    checked = {}
    for run in runs:
        known = validate_run(
            run,
            judgements,
            tie_policy=scoring.ties,
            format=scoring.run_format,
            strict=scoring.strict,
        )
        checked[run] = known if test_set is None else _with_misfits(known, run, test_set)
    if as_json:
        print_json(
            {
                run: {
                    "ok": known.ok,
                    "lines": known.report.lines,
                    "queries": known.report.queries,
                    "counts": dict(known.counts),
                    "errors": [asdict(finding) for finding in known.errors],
                    "warnings": [asdict(finding) for finding in known.warnings],
                }
                for run, known in checked.items()
            }
        )
    for run, known in checked.items():
        counts = known.report.warning_counts
        total = sum(counts.values())
        warned = f"{total} warning{'s' * (total != 1)}"
        if known.warnings:
            note("\n".join([f"warning: {run}: {warned}", *spell_out(known.warnings, counts)]))
        if known.ok:
            note(
                f"{run}: {known.report.lines} lines, {known.report.queries} queries, {warned}; "
                "it can be scored"
            )
    errors = [finding for known in checked.values() for finding in known.errors]
    if errors:
        raise RunError("what cannot be scored:", errors, _count_errors(checked.values()))


def _with_misfits(known: RunValidation, run: str, test_set: TestSet) -> RunValidation:
    """Add what keeps a run from being scored on a test set though nothing is wrong with it."""
    from msshift_bench.evaluation import Checks

    if not known.ok:
        return known
    errors = Checks(test_set.data).misfits(run, known.report, list(test_set.judged))
    counts = {**known.counts, **Counter(error.code for error in errors)}
    return replace(known, errors=tuple(errors), counts=counts, error_count=len(errors))


def _count_errors(checked: Iterable[RunValidation]) -> Counter[str]:
    """Return code -> how many errors there were, in all runs."""
    total: Counter[str] = Counter()
    for known in checked:
        for code, count in known.counts.items():
            if code not in known.report.warning_counts:
                total[code] += count
    return total


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("score", cls=Command)(score)
