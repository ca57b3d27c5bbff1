"""``msshift demo``: the whole benchmark on the generated collection."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli.build import print_build
from msshift_bench.cli.console import note, print_notes, print_table
from msshift_bench.errors import MissingExtraError
from msshift_bench.plumbing import progress_bars, shown_log

if TYPE_CHECKING:
    from msshift_bench.data import Collection
    from msshift_bench.evaluation import Result

__all__ = ["register"]

SHIFT_NAMES = ("topics", "wh-words", "length")
SYSTEMS = ("bm25", "bi-encoder")
OTHER_SYSTEMS = ("splade", "colbert", "monobert")

LEGEND = (
    "Avg In: models that met the group in training; Out: the one that did not;",
    "Rel Loss = (Avg In - Out) / Avg In",
)


def demo(
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("msshift-demo"),
    collection: Annotated[
        str,
        typer.Option(help="The collection. `mini` is generated here; nothing is downloaded."),
    ] = "mini",
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Train SPLADE, ColBERT and monoBERT too; takes under 12 minutes."
        ),
    ] = False,
) -> None:
    """Build, train, search and evaluate on the generated collection, in under two minutes.

    The demo cuts the queries into groups and trains a tiny bi-encoder once without each group.
    BM25 and the bi-encoder rank the passages. One table per shift shows what each loses on the
    groups that it was not trained on, and a report draws it (it needs the extra `plots`). A second
    run reuses what the first one made.

    Example: `msshift demo --out msshift-demo`
    """
    from msshift_bench.data import open_collection
    from msshift_bench.dataset_builders.build import build_dataset
    from msshift_bench.evaluation import evaluate_run_sets
    from msshift_bench.plumbing import in_line, write_json
    from msshift_bench.report import write_report

    began = time.monotonic()
    no_report = _why_no_report(out / "report")
    systems = (*SYSTEMS, *OTHER_SYSTEMS) if everything else SYSTEMS
    _check_installed(systems)
    data, runs, figures = out / "msshift", out / "runs", out / "figures.json"
    opened = open_collection(collection)
    note(f"1/3 cutting the queries of {opened.name} into groups")
    with progress_bars():
        manifest = build_dataset(opened, SHIFT_NAMES, data)
    print_build(manifest.shifts)
    note("2/3 ranking the passages; every model but BM25 is trained without each group in turn")
    for system in systems:
        _run(system, opened, data, runs)
    note("3/3 evaluating")
    with progress_bars(), in_line("evaluating"):
        result = evaluate_run_sets([runs], data)
    write_json(figures, result.to_json())
    _show(result)
    if no_report is None:
        with progress_bars():
            drawn = write_report([runs], out / "report", data, links=False)
    print()
    for path, what in (
        (data, f'the data set: datasets.load_dataset("msshift", "topics-C2") in {out}'),
        (runs, f"the run sets: msshift evaluate {runs} --data {data} shows intervals"),
        (figures, "every figure, as JSON"),
    ):
        print(f"{path}  {what}")
    if no_report is None:
        print(f"{drawn.page}  the report: open it in a browser ({len(drawn.figures)} figures)")
    else:
        note(no_report)
    note(f"done in {time.monotonic() - began:.0f} s")


def _why_no_report(out: Path) -> str | None:
    """Return what the report lacks, in one sentence; `None` if it can be drawn."""
    from msshift_bench.report import check_report_folder

    try:
        check_report_folder(out)
    except MissingExtraError as error:
        return str(error)
    return None


def _check_installed(systems: Sequence[str]) -> None:
    """Check, before anything is made, that every system's libraries are installed.

    Raises:
        MissingExtraError: naming all extras that are missing.
    """
    from msshift_bench.baselines import open_system

    extras = []
    for system in systems:
        try:
            open_system(system).check_installed()
        except MissingExtraError as error:
            extras.append(error.extra)
    if extras:
        raise MissingExtraError(",".join(dict.fromkeys(extras)), "the demo")


def _run(system: str, collection: Collection, data: Path, out: Path) -> None:
    """Make the run files of a system that are missing, and print how long that took."""
    from msshift_bench.baselines import Plan, make, open_system

    began = time.monotonic()
    plan = Plan(
        system=open_system(system), shifts=SHIFT_NAMES, collection=collection, data=data, out=out
    )
    with progress_bars(), shown_log("baselines.systems"):
        runs = make(plan)
    note(f"    {system}: {len(runs)} runs in {time.monotonic() - began:.0f} s")


def _show(result: Result) -> None:
    """Print one table per shift, then the notes that all of them share."""
    from msshift_bench.evaluation import Settings, loss_table

    settings = Settings()
    shifts = [name for (name,), _ in result.figures.each("shift")]
    for _, of_shift in result.figures.each("shift"):
        print_table(loss_table(of_shift, settings.measures[0], settings, brief=True))
    of_shifts = [
        [note.text for note in result.notes if note.about.get("shift") in (None, name)]
        for name in shifts
    ]
    first, *rest = of_shifts
    shared = [line for line in first if all(line in lines for lines in rest)]
    print_notes([*LEGEND, *dict.fromkeys(shared)])


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("demo")(demo)
