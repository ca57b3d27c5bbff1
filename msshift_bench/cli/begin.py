"""The panel "Begin": a demo, lists of shifts, systems and indicators, and checks of a machine."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.building import show_built
from msshift_bench.cli.output import note, print_answers, print_json, print_tables, show_facts, warn
from msshift_bench.errors import MissingExtraError, MsShiftError, NotFoundError, UnknownNameError
from msshift_bench.plumbing import progress_bars, progress_line, shown_log, write_json
from msshift_bench.shifts import DATASET_NAME, SHIFTS, SIZED, TEST_ONLY, Shift, in_order

if TYPE_CHECKING:
    from msshift_bench.baselines import System
    from msshift_bench.data import Dataset
    from msshift_bench.doctor import Diagnosis
    from msshift_bench.evaluation import Result
    from msshift_bench.output import Table

SHIFT_NAMES = ("topics", "wh-words", "length")
SYSTEMS = ("bm25", "bi-encoder")
OTHER_SYSTEMS = ("splade", "colbert", "monobert")

_LEGEND = (
    "Avg In: models trained on the group; Out: the model that was not;",
    "Rel Loss = (Avg In - Out) / Avg In",
)


def demo(
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("msshift-demo"),
    collection: Annotated[
        str, typer.Option(help="The collection. `mini` is generated here; nothing is downloaded.")
    ] = "mini",
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Also train SPLADE, ColBERT and monoBERT; takes under 12 minutes."
        ),
    ] = False,
) -> None:
    """Build, train, search and evaluate on the generated collection, in under two minutes.

    The demo cuts the queries into groups and trains a tiny bi-encoder once without each group.
    BM25 and the bi-encoder rank the passages. One table per shift shows each system's loss on
    groups that it was not trained on. A report has charts of the losses (it needs the extra
    `plots`). A second run reuses the results of the first.

    Example: `msshift demo --out msshift-demo`
    """
    from msshift_bench.baselines import Plan, make_runs, open_system
    from msshift_bench.data import open_collection
    from msshift_bench.dataset_builders.build import build_dataset
    from msshift_bench.evaluation import evaluate_run_sets
    from msshift_bench.report import check_report_folder, write_report

    began = time.monotonic()
    with suppress(MissingExtraError):
        check_report_folder(out / "report")
    names = (*SYSTEMS, *OTHER_SYSTEMS) if everything else SYSTEMS
    systems = {name: open_system(name) for name in names}
    _check_installed(systems.values())
    data, runs, figures = out / "msshift", out / "runs", out / "figures.json"
    opened = open_collection(collection)
    note(f"1/3 cutting the queries of {opened.name} into groups")
    with progress_bars():
        manifest = build_dataset(opened, SHIFT_NAMES, data)
    show_built(manifest)
    note("2/3 ranking the passages; every model but BM25 is trained without each group in turn")
    for name, system in systems.items():
        started = time.monotonic()
        plan = Plan(system=system, shifts=SHIFT_NAMES, collection=opened, data=data, out=runs)
        with progress_bars(), shown_log("baselines.systems"):
            made = make_runs(plan)
        note(f"    {name}: {len(made)} runs in {time.monotonic() - started:.0f} s")
    note("3/3 evaluating")
    with progress_bars(), progress_line("evaluating"):
        result = evaluate_run_sets([runs], data)
    write_json(figures, result.to_json())
    _show_losses(result)
    print()
    print(f'{data}  the data set: datasets.load_dataset("msshift", "topics-C2") in {out}')
    print(
        f"{runs}  the run sets: msshift evaluate {quote(str(runs))} --data {quote(str(data))} "
        "shows intervals"
    )
    print(f"{figures}  all figures, as JSON")
    try:
        with progress_bars():
            reference = "bm25" if len(systems) > 1 and "bm25" in systems else None
            drawn = write_report([runs], out / "report", data, reference=reference, links=False)
        print(f"{drawn.page}  the report: open it in a browser ({len(drawn.figures)} charts)")
    except MissingExtraError as error:
        note(str(error))
    note(f"done in {time.monotonic() - began:.0f} s")


def _check_installed(systems: Iterable[System]) -> None:
    """Check that every system's libraries are installed.

    Raises:
        MissingExtraError: with all missing extras.
    """
    extras = []
    for system in systems:
        try:
            system.check_installed()
        except MissingExtraError as error:
            extras.append(error.extra)
    if extras:
        raise MissingExtraError(",".join(dict.fromkeys(extras)), "the demo")


def _show_losses(result: Result) -> None:
    """Print the answers, one table per shift, and the notes common to all shifts."""
    from msshift_bench.evaluation import Settings, loss_table

    settings, tables, lines = Settings(), [], []
    for (shift,), figures in result.figures.each("shift"):
        tables.append(loss_table(figures, settings.measures[0], settings, brief=True))
        lines.append([n.text for n in result.notes if n.about.get("shift") in (None, shift)])
    shared = [line for line in lines[0] if all(line in others for others in lines)]
    print_answers(result.answers, "text")
    print_tables(tables, [*_LEGEND, *dict.fromkeys(shared)])


def names_to_list() -> list[str]:
    """Return the names that `msshift list NAME` accepts: systems, `pretrain` and recipes."""
    from msshift_bench.baselines import find_systems, recipe_files

    return [*find_systems(), "pretrain", *recipe_files()]


def list_(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A system, `pretrain`, or a recipe such as bi-encoder-mini. Default: everything.",
            autocompletion=options.completing("cli.begin:names_to_list"),
        ),
    ] = None,
    data: options.Data = DATASET_NAME,
    table_format: options.TextOrJson = "text",
) -> None:
    """List shifts, systems and similarity indicators; or show one system or recipe.

    For a system, the command lists its fields (`msshift run --set` replaces them) and recipes. A
    recipe is printed with its comments, so that you can edit a copy. If there is a built data set,
    the list has the contents of its groups. Topics differ between collections.

    Example: `msshift list bi-encoder-mini > mine.toml`
    """
    if name is None:
        _list_all(data, table_format)
    else:
        _show_system(name, table_format)


def _show_system(name: str, chosen: str) -> None:
    """Print a recipe, or the fields and recipes of a system.

    Raises:
        UnknownNameError: if no recipe or system has this name.
    """
    from msshift_bench.baselines import find_systems, recipe_files
    from msshift_bench.output import Table

    recipes, systems = recipe_files(), find_systems()
    if name in recipes:
        sys.stdout.write(recipes[name].text)
        return
    if name not in (*systems, "pretrain"):
        raise UnknownNameError("system or recipe", name, names_to_list())
    defaults = systems[name].defaults() if name in systems else ()
    fields = {field: None if default is ... else default for field, default in defaults}
    system_recipes = {key: recipe for key, recipe in recipes.items() if key.startswith(f"{name}-")}
    tables = []
    if fields:
        shown = [(field, "-" if value is None else value) for field, value in fields.items()]
        tables.append(
            Table.plain(f"{name}: {systems[name].about()}", ("field", "default"), shown, names=2)
        )
    if system_recipes:
        rows = [(key, recipe.sha256[:12], recipe.about) for key, recipe in system_recipes.items()]
        tables.append(Table.plain("recipes", ("recipe", "sha256", "description"), rows, names=3))
    facts = {
        key: {"about": recipe.about, "sha256": recipe.sha256}
        for key, recipe in system_recipes.items()
    }
    show_facts({"fields": fields, "recipes": facts}, chosen, tables)


def _list_all(data: str, chosen: str) -> None:
    """Print the shifts with their contents in the data set, the systems, and the indicators."""
    from msshift_bench.baselines import find_systems
    from msshift_bench.output import Table, plain
    from msshift_bench.similarity import INDICATORS

    systems = {name: system.about() for name, system in find_systems().items()}
    changes = {name: shift.description for name, shift in TEST_ONLY.items()}
    dataset, shifts, facts = _find(data), [*SHIFTS.values(), *SIZED.values()], None
    where = "no built data set; 'msshift build' makes one"
    if dataset is not None:
        info, digest = dataset.info, dataset.info.content_digest[:12]
        facts = {
            "folder": str(dataset.folder),
            "collection": info.collection,
            "edition": info.edition,
            "content": digest,
        }
        where = f"{dataset.folder}: {info.edition}, from {info.collection}, content {digest}"
        # Then come shifts with sizes, e.g. restrain-14k, as built in the data set.
        shifts += [SHIFTS[n] for n in in_order(dataset.manifest.shifts) if n not in list(SHIFTS)]
    if chosen == "json":
        indicators = {name: plain(row) for name, row in INDICATORS.items()}
        for row in indicators.values():
            del row["function"], row["cut"]
        head = {
            "data": facts,
            "shifts": {
                shift.name: {
                    "title": shift.title,
                    "groups": dict(shift.groups),
                    "configs": [shift.name, *shift.configs],
                    "rules": list(shift.rules),
                    "builder": bool(shift.builder),
                    "built": _built(dataset, shift),
                }
                for shift in shifts
            },
            "test_only": changes,
        }
        print_json({**head, "systems": systems, "indicators": indicators})
        return

    print_tables([_shift_table(shift, dataset) for shift in shifts], [where])
    rows = [
        (name, row.title, "query" if row.per_query else "set of queries", row.needs or "-")
        for name, row in INDICATORS.items()
    ]
    header = ("indicator", "description", "defined per", "needs")
    print_tables(
        [
            Table.plain("test-only shifts", ("shift", "description"), changes.items(), names=2),
            Table.plain("systems", ("system", "description"), systems.items(), names=2),
            Table.plain("similarity indicators", header, rows, names=4),
        ]
    )


def _find(data: str) -> Dataset | None:
    """Return the opened data set; `None` if the default is missing or unreadable.

    A data set that is named, also by ``MSSHIFT_HOME``, raises its error.
    """
    from msshift_bench.data import HOME_VARIABLE, open_dataset

    try:
        return open_dataset(data)
    except MsShiftError as error:
        if data != DATASET_NAME or os.environ.get(HOME_VARIABLE):
            raise
        if not isinstance(error, NotFoundError):
            warn([str(error)])
        return None


def _built(dataset: Dataset | None, shift: Shift) -> Mapping[str, Any] | None:
    """Return a shift's rule and groups in a data set; `None` if the data set lacks the shift."""
    if dataset is None or shift.name not in dataset.manifest.shifts:
        return None
    facts = dataset.manifest.shifts[shift.name]
    about = dataset.manifest.describe_groups(shift.name)
    return {
        "rule": facts["rule"],
        "groups": {
            group: {"queries": about[group], "train": rows["train"], "test": rows["test"]}
            for group, rows in facts["rows"].items()
        },
    }


def _shift_table(shift: Shift, dataset: Dataset | None) -> Table:
    """Return a table with a row per group: its queries in words; if built, numbers of queries."""
    from msshift_bench.output import Table

    rules = f"rules: {', '.join(shift.rules)}" if shift.builder else "run sets only"
    title = f"{shift.name}: {shift.description} ({rules}"
    built = _built(dataset, shift)
    if built is None:
        title += ")" if dataset is None else f"; not in {dataset.folder})"
        return Table.plain(title, ("group", "queries"), shift.groups.items(), names=2)
    groups, header = built["groups"], ["group", "queries", "train", "test"]
    rows = [[group, *groups[group].values()] for group in shift.groups]
    if any(groups[group]["queries"] != about for group, about in shift.groups.items()):
        header[1:2] = ["queries in the data set (top terms)", "queries in the release"]
        for row in rows:
            row.insert(2, shift.groups[row[0]])
    title = f"{title}; built by {built['rule']})"
    return Table.plain(title, header, rows, names=len(header) - 2)


def doctor(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Data sets to verify. Default: ./msshift, MSSHIFT_HOME, the installed data set.",
            show_default=False,
        ),
    ] = None,
    prune: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="DAYS",
            help="First remove embeddings, indexes and passages from the cache that did not change "
            "in the last DAYS days. Keep the installed data set and folders being written.",
        ),
    ] = None,
    table_format: options.TextOrJson = "text",
) -> None:
    """Check this installation: versions, extras, GPU, cache, data.

    Each line that is not "ok" has a fix. Exit codes: 1 if data are damaged, 3 if something required
    is missing.

    Example: `msshift doctor`

    Example: `msshift doctor --prune 30`
    """
    from msshift_bench.doctor import diagnose, prune_cache

    diagnoses: list[Diagnosis] = []
    for diagnosis in chain(() if prune is None else prune_cache(prune), diagnose(data or ())):
        diagnoses.append(diagnosis)
        if table_format == "text":
            _print_diagnosis(diagnosis)
    if table_format == "json":
        print_json({"diagnoses": [asdict(diagnosis) for diagnosis in diagnoses]})
    states = Counter(diagnosis.state for diagnosis in diagnoses)
    problems = [f"{count} {state}" for state, count in states.items() if state != "ok"]
    note(
        f"{states['ok']} of {len(diagnoses)} ok" + ("; " if problems else "") + ", ".join(problems)
    )
    if states["damaged"] or states["missing"]:
        raise typer.Exit(1 if states["damaged"] else 3)


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    colour = {"ok": "green", "note": "blue", "warning": "yellow"}.get(diagnosis.state, "red")
    typer.secho(f"{diagnosis.state:<8}", fg=colour, nl=False)
    print(f" {diagnosis.code}: {diagnosis.text}")
    if diagnosis.cure and diagnosis.state != "ok":
        print(f"         fix: {diagnosis.cure}")
