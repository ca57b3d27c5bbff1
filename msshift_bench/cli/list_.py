"""``msshift list``: list the shifts, those of the built data set in particular, and the systems."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import print_json, print_notes, print_table, warn
from msshift_bench.errors import MsShiftError, UnknownNameError
from msshift_bench.shifts import DATASET_NAME, SHIFTS, SIZED, TEST_ONLY, Shift, in_order

if TYPE_CHECKING:
    from msshift_bench.data import Dataset

__all__ = ["register"]


def list_(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A system, `pretrain`, or a recipe such as bi-encoder-mini. Default: everything.",
            autocompletion=options.completing(_names),
        ),
    ] = None,
    data: options.Data = DATASET_NAME,
    as_json: options.AsJson = False,
) -> None:
    """List shifts with their groups, systems, and indicators of similarity; or show one of them.

    Of a system it shows the fields, which `msshift run --set` replaces, and the recipes that come
    along; a recipe it prints as it is, with its comments, so that it can be changed in a file of
    your own. Where there is a built data set, the list says what its groups hold: the topics of
    another collection are others than those of the release.

    Example: `msshift list bi-encoder-mini > mine.toml`
    """
    if name is None:
        _list_all(data, as_json)
    else:
        _show(name, as_json)


def _names() -> list[str]:
    from msshift_bench.baselines import find_systems, recipe_files

    return [*find_systems(), "pretrain", *recipe_files()]


def _show(name: str, as_json: bool) -> None:
    """Print a recipe, or the fields and recipes of a system.

    Raises:
        UnknownNameError: if there is neither of that name.
    """
    from msshift_bench.baselines import find_systems, recipe_files
    from msshift_bench.output import Table

    recipes, systems = recipe_files(), find_systems()
    if name in recipes:
        sys.stdout.write(recipes[name].text)
        return
    if name not in (*systems, "pretrain"):
        raise UnknownNameError("system or recipe", name, _names())
    own = {key: recipe for key, recipe in recipes.items() if key.startswith(f"{name}-")}
    fields = {
        field: None if default is ... else default
        for field, default in (systems[name].defaults() if name in systems else ())
    }
    if as_json:
        facts = {key: {"about": one.about, "sha256": one.sha256} for key, one in own.items()}
        print_json({"fields": fields, "recipes": facts})
        return
    if fields:
        title = f"{name}: {systems[name].about()}"
        shown = [(field, "-" if value is None else value) for field, value in fields.items()]
        print_table(Table.plain(title, ("field", "default"), shown, names=2))
    rows = [(key, one.sha256[:12], one.about) for key, one in own.items()]
    if rows:
        print_table(Table.plain("recipes", ("recipe", "sha256", "what"), rows, names=3))


def _list_all(data: str, as_json: bool) -> None:
    from msshift_bench.baselines import find_systems
    from msshift_bench.output import Table, plain
    from msshift_bench.similarity import INDICATORS

    systems = {name: system.about() for name, system in find_systems().items()}
    dataset = _find(data)
    if as_json:
        print_json(
            {
                "data": None if dataset is None else _facts(dataset),
                "shifts": {
                    shift.name: {
                        "title": shift.title,
                        "groups": dict(shift.groups),
                        "configs": [shift.name, *shift.configs],
                        "rules": list(shift.rules),
                        "builder": bool(shift.builder),
                        "built": _built(dataset, shift),
                    }
                    for shift in _shifts(dataset)
                },
                "test_only": {name: shift.description for name, shift in TEST_ONLY.items()},
                "systems": systems,
                "indicators": {
                    name: {key: value for key, value in plain(row).items() if key != "function"}
                    for name, row in INDICATORS.items()
                },
            }
        )
        return
    for shift in _shifts(dataset):
        _print_shift(shift, dataset)
    if dataset is None:
        print_notes(["no built data set here; 'msshift build' makes one"])
    else:
        facts = _facts(dataset)
        print_notes(["{folder}: {edition}, from {collection}, content {content}".format(**facts)])
    changes = [(name, shift.description) for name, shift in TEST_ONLY.items()]
    print_table(Table.plain("test-only shifts", ("shift", "what"), changes, names=2))
    print_table(Table.plain("systems", ("system", "what"), systems.items(), names=2))
    rows = [
        (name, row.title, "query" if row.per_query else "set of queries", row.needs or "-")
        for name, row in INDICATORS.items()
    ]
    header = ("indicator", "what", "defined per", "needs")
    print_table(Table.plain("indicators of similarity", header, rows, names=4))


def _shifts(dataset: Dataset | None) -> list[Shift]:
    """Return the shifts, then those that come in sizes, each with the sizes of the data set."""
    held = [] if dataset is None else in_order(dataset.manifest.shifts)
    sizes = [SHIFTS[name] for name in held if name not in list(SHIFTS)]
    return [*SHIFTS.values(), *SIZED.values(), *sizes]


def _find(data: str) -> Dataset | None:
    """Open the data set; where none was named there need be none."""
    from msshift_bench.data import HOME_VARIABLE, open_dataset
    from msshift_bench.errors import NotFoundError

    try:
        return open_dataset(data)
    except MsShiftError as error:
        if data != DATASET_NAME or os.environ.get(HOME_VARIABLE):
            raise
        if not isinstance(error, NotFoundError):
            warn([str(error)])
        return None


def _facts(dataset: Dataset) -> Mapping[str, str]:
    info = dataset.info
    return {
        "folder": str(dataset.folder),
        "collection": info.collection,
        "edition": info.edition,
        "content": info.content_digest[:12],
    }


def _built(dataset: Dataset | None, shift: Shift) -> Mapping[str, Any] | None:
    """Return the rule of a shift in a data set, and each group's contents; `None` if it is not."""
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


def _print_shift(shift: Shift, dataset: Dataset | None) -> None:
    from msshift_bench.output import Table

    rules = f"rules: {', '.join(shift.rules)}" if shift.builder else "run sets only"
    built = _built(dataset, shift)
    if built is None:
        where = "" if dataset is None else f"; not in {dataset.folder}"
        title = f"{shift.name}: {shift.description} ({rules}{where})"
        print_table(Table.plain(title, ("group", "queries"), shift.groups.items(), names=2))
        return
    title = f"{shift.name}: {shift.description} ({rules}; built by {built['rule']})"
    groups = built["groups"]
    here: dict[str, tuple[str, ...]] = {
        group: (facts["queries"],) for group, facts in groups.items()
    }
    header: tuple[str, ...] = ("queries",)
    if any(here[group] != (about,) for group, about in shift.groups.items()):
        here = {group: (*here[group], about) for group, about in shift.groups.items()}
        header = ("queries here (top terms)", "queries of the release")
    rows = [
        (group, *here[group], groups[group]["train"], groups[group]["test"])
        for group in shift.groups
    ]
    header = ("group", *header, "train", "test")
    print_table(Table.plain(title, header, rows, names=len(header) - 2))


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("list")(list_)
