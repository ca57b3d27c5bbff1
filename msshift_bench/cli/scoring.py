"""The panel "Evaluation": score runs, evaluate run sets, compare systems, and draw reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.command import refuse
from msshift_bench.cli.output import check_outputs, note, print_json, warn
from msshift_bench.errors import Finding, RunError, UsageError, format_findings
from msshift_bench.plumbing import (
    check_folder,
    keep_freed_memory,
    progress_bars,
    progress_line,
    write_parquet,
)
from msshift_bench.shifts import DATASET_NAME, SHIFTS, get_shift

if TYPE_CHECKING:
    from msshift_bench.data import Dataset, TestSet
    from msshift_bench.evaluation import LeakedQueries, Result
    from msshift_bench.runs import RunValidation


def score(
    context: typer.Context,
    runs: Annotated[list[str], typer.Argument(help="Run files, or - for standard input.")],
    *,
    scoring: options.Scoring,
    allow: options.Allow = None,
    printing: options.Printing,
    test: Annotated[
        str | None,
        typer.Option(
            help="Score run files on this config's test set, e.g. length-short.",
            autocompletion=options.completing(
                [name for s in SHIFTS.values() for name in s.configs]
            ),
        ),
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="Score run files on this TREC qrels file.")
    ] = None,
    # Not `shift`: the shifts in `msshift.toml` must not choose the test set of single runs.
    tested_shift: Annotated[
        str | None,
        typer.Option(
            "--shift",
            help="Score run files on the test queries of this shift: on all, and per group.",
            autocompletion=options.completing(SHIFTS),
        ),
    ] = None,
    by: options.By = None,
    data: options.Data = DATASET_NAME,
    reference: Annotated[
        str | None, typer.Option(help="Compare the other runs with this run file.")
    ] = None,
    without_leaked: options.WithoutLeaked = None,
    per_query: options.PerQuery = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only check the runs: print findings and fixes.")
    ] = False,
) -> None:
    """Score run files on one test set, on the groups of a shift, or on a qrels file.

    The command prints the mean of every measure. Its interval accounts for the choice of queries,
    not of trainings. With --reference, it also prints differences from the reference, with interval
    and corrected p-value. A † marks a difference that is significant for these runs only.

    With --shift or --by, it also prints the mean on each group of queries, and the difference from
    the mean on the other groups. With --reference, it also prints them for the lead.

    With --check it only checks the runs; exit code 1 if a run cannot be scored.

    Example: `msshift score my.run.gz --test length-short`

    Example: `msshift score my.run.gz --qrels qrels.txt --measures "RR@10 R@1000"`

    Example: `msshift score my.run.gz bm25.run.gz --test length-short --reference bm25.run.gz`

    Example: `msshift score my.run.gz bm25.run.gz --shift length --reference bm25.run.gz`

    Example: `msshift score my.run.gz --qrels qrels.txt --by labels.tsv`

    Example: `msshift score my.run.gz --check`
    """
    from msshift_bench.data import open_dataset
    from msshift_bench.evaluation import open_test_set, score_runs, test_set_of_shift

    keep_freed_memory()
    if check:
        refuse(context, ("reference", "by", "without_leaked", "per_query", "output"), "--check")
    settings = scoring.settings()
    if scoring.average is not None:
        raise UsageError(
            "--average is for groups of run sets, and a run has none; remove --average"
        )
    if scoring.correction != "holm" and not (reference or tested_shift or by or without_leaked):
        raise UsageError("--correction is for p-values; add --reference, --shift or --by")
    sources = [*runs, *([] if reference is None or reference in runs else [reference])]
    read = data if qrels is None else None
    inputs = [qrels, by, without_leaked, scoring.exclude]
    check_outputs(printing.output, per_query, data=read, runs=sources, inputs=inputs)
    for folder in (run for run in runs if Path(run).is_dir()):
        raise UsageError(
            f"{folder} is a folder, expected run files; give files, or evaluate the folder's run "
            f"sets: msshift evaluate {quote(str(folder))}"
        )
    test_sets = [given for given in (test, qrels, tested_shift) if given is not None]
    if len(test_sets) > 1:
        raise UsageError(
            "--test, --qrels and --shift each choose a test set; give only one of them"
        )
    dataset: Dataset | str = data
    test_set = None
    if tested_shift is not None:
        dataset = open_dataset(data)
        test_set = test_set_of_shift(get_shift(tested_shift, dataset.shifts), dataset)
    elif test_sets:
        test_set = open_test_set(test_sets[0], data)
    if check:
        remaining = None if test_set is None else test_set.excluding(settings.exclude)
        _check(runs, remaining, scoring, printing.format)
        return
    if test_set is None:
        raise UsageError(
            "no test set for the runs; add --test CONFIG, e.g. length-short, --shift SHIFT, or "
            "--qrels FILE, or use 'msshift evaluate' for folders of run sets"
        )
    result = score_runs(
        runs,
        test_set,
        settings,
        by=by,
        data=dataset,
        reference=reference,
        without=_leaked_queries(without_leaked, data if qrels is None else test_set),
        allow=allow or (),
    )
    _write_per_query(result, per_query)
    printing.show(result)


def _leaked_queries(
    without_leaked: Path | None, data: Dataset | TestSet | str
) -> LeakedQueries | None:
    """Return the leaked test queries in the folder of `leakage find`; `None` without a folder."""
    if without_leaked is None:
        return None
    from msshift_bench.leakage import read_leaked_queries

    return read_leaked_queries(without_leaked, data)


def _write_per_query(result: Result, path: Path | None) -> None:
    if path is not None:
        write_parquet(path, result.per_query())
        note(f"wrote {path}")


def _check(
    runs: Sequence[str], test_set: TestSet | None, scoring: options.Scoring, chosen: str
) -> None:
    """Print the warnings of runs on stderr; as JSON, also all findings on stdout.

    Raises:
        RunError: if runs cannot be scored; with all errors.
    """
    from msshift_bench.evaluation import judgements_of
    from msshift_bench.runs import run_sources, validate_run

    judgements = None if test_set is None else judgements_of(test_set)
    checked = {}
    for source in (source for run in runs for source in run_sources(run, scoring.run_format)):
        run = source.name
        checked[run] = validate_run(
            source, judgements, tie_policy=scoring.ties, strict=scoring.strict
        )
        if test_set is not None and checked[run].ok:
            checked[run] = _with_mismatches(checked[run], run, test_set)
    if chosen == "json":
        print_json(
            {
                run: {
                    "ok": validation.ok,
                    "lines": validation.report.lines,
                    "queries": validation.report.queries,
                    "counts": dict(validation.counts),
                    "errors": list(map(asdict, validation.errors)),
                    "warnings": list(map(asdict, validation.warnings)),
                }
                for run, validation in checked.items()
            }
        )
    errors: list[Finding] = []
    counts: Counter[str] = Counter()
    for run, validation in checked.items():
        report, warning_counts = validation.report, validation.report.warning_counts
        total = sum(warning_counts.values())
        warned = f"{total} warning{'s' * (total != 1)}"
        if validation.warnings:
            note(
                "\n".join(
                    [
                        f"warning: {run}: {warned}",
                        *format_findings(validation.warnings, warning_counts),
                    ]
                )
            )
        if validation.ok:
            note(
                f"{run}: {report.lines} lines, {report.queries} queries, {warned}; it can be scored"
            )
        errors += validation.errors
        counts.update(
            {code: n for code, n in validation.counts.items() if code not in warning_counts}
        )
    if errors:
        raise RunError("runs cannot be scored:", errors, counts)


def _with_mismatches(validation: RunValidation, run: str, test_set: TestSet) -> RunValidation:
    """Return the validation, with the mismatches of a run and a test set as its errors."""
    from msshift_bench.evaluation import mismatches

    errors = tuple(mismatches(run, test_set, validation.report))
    counts = {**validation.counts, **Counter(error.code for error in errors)}
    return replace(validation, errors=errors, counts=counts, error_count=len(errors))


def evaluate(
    context: typer.Context,
    runs: options.RunSets,
    *,
    scoring: options.Scoring,
    allow: options.Allow = None,
    printing: options.Printing,
    where: options.Questions,
    extra_test: options.ExtraTest = None,
    by: options.By = None,
    without_leaked: options.WithoutLeaked = None,
    delta: Annotated[
        bool,
        typer.Option(
            "--delta",
            help="Print Inter., Extra. and Delta (Extra. / Inter. - 1 = -Rel Loss) per system.",
        ),
    ] = False,
    intervals: options.Intervals = False,
    per_query: options.PerQuery = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw the losses and each system's matrix in this file (.svg, .png, .pdf)."
        ),
    ] = None,
) -> None:
    """Evaluate run sets: Avg In, Out and Rel Loss for every shift and system.

    Avg In of a group is the mean score of the models that were trained on the group. Out is the
    score of the model that was not. Rel Loss = (Avg In - Out) / Avg In. Intervals and p-values
    account for the choice of queries and seeds (`seed-<n>` folders). For single run files, use
    `msshift score`.

    With --extra-test, runs of `msshift run --extra-test` are scored on extra test sets instead:
    each model, and the mean. For variants of queries, each model's loss is printed.

    Example: `msshift evaluate runs/ --measures "RR@10 nDCG@10" --output figures.json`

    Example: `msshift evaluate runs/ --delta --plot losses.svg`

    Example: `msshift evaluate runs/ --without-leaked found/`

    Example: `msshift evaluate runs/ --extra-test dl19=./dl19 --measures "nDCG@10 R@1000"`
    """
    from msshift_bench.data import read_labels
    from msshift_bench.evaluation import (
        evaluate_extra_tests,
        evaluate_run_sets,
        open_extra_tests,
        open_run_sets,
    )
    from msshift_bench.output import check_plot

    keep_freed_memory()
    if plot is not None:
        check_plot(plot)
    folders = options.extra_folders(extra_test)
    if folders:
        refuse(
            context,
            ("by", "per_query", "plot", "delta", "without_leaked", "intervals"),
            "--extra-test",
        )
    if delta and by is not None:
        raise UsageError("--delta cannot be used with --by; remove one of them")
    printing.check_intervals(intervals=intervals, delta=delta)
    inputs = [*folders.values(), by, without_leaked, scoring.exclude]
    settings, shifts = scoring.settings(), where.shift or ()
    check = partial(check_outputs, printing.output, per_query, plot, data=where.data, inputs=inputs)
    source = where.data, shifts, settings.run_format
    if folders:
        opened = open_extra_tests(runs, folders, *source, on_found=lambda files: check(runs=files))
        printing.show(evaluate_extra_tests(opened, folders, settings=settings, allow=allow or ()))
        return
    opened = open_run_sets(runs, *source, on_found=lambda files: check(runs=files))
    dataset = opened.dataset or where.data
    labels = None if by is None else read_labels(by, dataset)
    without = _leaked_queries(without_leaked, dataset)
    with progress_bars(), progress_line("evaluating"):
        result = evaluate_run_sets(
            opened, settings=settings, labels=labels, without=without, allow=allow or ()
        )
    # Write files first: a closed pipe on stdout ends the command.
    if plot is not None:
        from msshift_bench.report import draw_result

        draw_result(result, plot)
        note(f"wrote {plot}")
    _write_per_query(result, per_query)
    printing.show(result, delta=delta, matrices=printing.format == "text", intervals=intervals)


def compare(
    runs: Annotated[
        list[str], typer.Argument(help="Folders of systems, or a folder of several systems.")
    ],
    *,
    scoring: options.Scoring,
    allow: options.Allow = None,
    printing: options.Printing,
    where: options.Questions,
    reference: Annotated[
        str | None,
        typer.Option(
            help="Compare the other systems only with this system (its name or folder). Default: "
            "compare every pair."
        ),
    ] = None,
    entry: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="BOARD/SYSTEM",
            help="Also compare a leaderboard entry by its stored scores, e.g. mini/bm25, or an "
            "earlier version, e.g. mini/bm25/v1 (repeatable).",
        ),
    ] = None,
    entries: Annotated[
        Path | None,
        typer.Option(help="A folder of entries to use in addition to the package's entries."),
    ] = None,
    intervals: options.Intervals = False,
) -> None:
    """Compare systems by their scores and their losses.

    Each pair of systems is compared by Avg In, Out and Rel Loss, on each group and over all groups
    of a shift. Each difference has an interval and a corrected p-value, which account for the
    choice of queries and seeds. A system that was not trained per group, such as BM25, has no Rel
    Loss. Systems are ranked by average Rel Loss, as far as pairs differ significantly. A system
    with one seed has no star and no rank. To compare run files, use `msshift score --reference`.

    With --reference, a system's lead on a group is its score minus the reference's score on the
    same queries. The lead is compared with the leads on the other groups.

    With --with, entries of a leaderboard are compared on the shifts of the runs. --reference may
    name one of them.

    Example: `msshift compare runs/bi-encoder runs/splade-max`

    Example: `msshift compare runs/ --reference bm25 --format markdown`

    Example: `msshift compare runs/bi-encoder --with mini/bm25 --reference mini/bm25`
    """
    from msshift_bench.evaluation import compare_run_sets, open_run_sets

    keep_freed_memory()
    printing.check_intervals(intervals=intervals)
    settings = scoring.settings()
    if entries is not None and not entry:
        raise UsageError("--entries works only with --with; add an entry, e.g. --with mini/bm25")
    stored = {}
    if entry:
        from msshift_bench.leaderboard import stored_scores

        stored = {name: stored_scores(name, *filter(None, [entries])) for name in entry}
    if reference in stored:
        reference = stored[reference][0].system
    opened = open_run_sets(
        runs,
        where.data,
        where.shift or (),
        settings.run_format,
        reference=reference,
        on_found=lambda files: check_outputs(printing.output, runs=files, data=where.data),
    )
    with progress_bars(), progress_line("evaluating"):
        result = compare_run_sets(
            opened,
            settings=settings,
            others=[part for parts in stored.values() for part in parts],
            allow=allow or (),
        )
    printing.show(result, intervals=intervals)


def report(
    runs: options.RunSets,
    *,
    scoring: options.Scoring,
    allow: options.Allow = None,
    out: Annotated[
        Path, typer.Option(help="The folder to write; an earlier report is replaced.")
    ] = Path("report"),
    where: options.Questions,
    reference: Annotated[
        str | None, typer.Option(help="Draw the leads over this system (its name or folder).")
    ] = None,
    no_links: Annotated[
        bool,
        typer.Option(
            "--no-links",
            help="Omit the charts of losses by similarity to the training queries, which take "
            "longest.",
        ),
    ] = False,
    table_format: options.TextOrJson = "text",
) -> None:
    """Write a report on the losses of run sets: one HTML page, and every chart as a file.

    `report.html` begins with one sentence for each system and shift, and has a chart for each
    question. It needs no other file and no server. `figures/` has each chart as SVG, PNG and PDF,
    with its numbers as CSV. `tables/` has the tables in the paper's layout as LaTeX and CSV. A
    chart without data is omitted; the command and the page report how to get the data.

    Example: `msshift report runs/ --out report`
    """
    from msshift_bench.output import plain
    from msshift_bench.report import write_report

    check_folder(out)
    with progress_bars():
        written = write_report(
            runs,
            out,
            where.data,
            where.shift or (),
            scoring.settings(),
            reference=reference,
            allow=allow or (),
            links=not no_links,
        )
    if table_format == "json":
        print_json(plain({**plain(written), "page": str(written.page)}))
    else:
        charts, tables, folder = len(written.figures), len(written.tables), written.page.parent
        print(f"open {written.page}")
        print(f"  {charts} charts in {folder / 'figures'}: .svg, .png, .pdf, .csv")
        print(f"  {tables} table{'s' * (tables > 1)} in {folder / 'tables'}: .tex, .csv")
        for title, why, remedy in written.left_out:
            note(f"left out: {title}: {why}; to get it: {remedy}")
    warn(written.warnings)
