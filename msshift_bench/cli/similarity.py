"""``msshift similarity``: how near do test queries lie to training queries?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import print_json, print_notes, print_table
from msshift_bench.errors import UsageError
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.similarity import GroupSimilarity, Indicator

__all__ = ["register"]


def _indicators() -> list[str]:
    from msshift_bench.similarity import INDICATORS

    return list(INDICATORS)


def similarity(
    indicator: Annotated[
        str,
        typer.Option(
            help="What to compute; `msshift list` lists the indicators.",
            autocompletion=options.completing(_indicators),
        ),
    ] = "weighted-jaccard",
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    split: Annotated[
        str, typer.Option(help="The group's queries that count: test, train, or all.")
    ] = "test",
    against: Annotated[
        str | None,
        typer.Option(
            help="The other groups' queries that count: test, train, or all. Default: as the "
            "indicator is defined."
        ),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            help="Compare two files of queries (query_id, tab, text) instead of the groups of a "
            "data set; this one holds the training queries."
        ),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="The file of the test queries.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Say how near test queries lie to training queries, before any model is trained.

    Each group of a shift is compared with the other groups together, or one file of queries with
    another. `docs/analysis.md` says what the indicators mean.

    Example: `msshift similarity --shift length`

    Example: `msshift similarity --train train.tsv --test test.tsv --json`
    """
    from msshift_bench.similarity import find_indicator

    chosen = find_indicator(indicator)
    if (train is None) != (test is None):
        raise UsageError("--train and --test name the two files to compare; give both")
    if train is not None and test is not None:
        _compare_files(chosen, train, test, as_json=as_json)
    else:
        _compare_groups(chosen, data, shift, split, against, as_json=as_json)


def _compare_files(indicator: Indicator, train: Path, test: Path, *, as_json: bool) -> None:
    from msshift_bench.output import Table, report_head
    from msshift_bench.similarity import read_query_set, set_similarity

    training, tested = read_query_set(train), read_query_set(test)
    value = set_similarity(training, tested, indicator.name)
    if as_json:
        print_json(
            {
                **report_head(),
                **_facts(indicator),
                "train": str(train),
                "test": str(test),
                "value": value,
                "queries": len(tested),
                "other_queries": len(training),
            }
        )
        return
    row = (str(test), _shown(value), len(tested), len(training))
    header = ("test", indicator.name, "queries", "training queries")
    print_table(Table.plain(f"{indicator.title}, to {train}", header, [row]))
    print_notes(_notes(indicator))


def _compare_groups(
    indicator: Indicator,
    data: str,
    shifts: list[str] | None,
    split: str,
    against: str | None,
    *,
    as_json: bool,
) -> None:
    from msshift_bench.data import open_dataset
    from msshift_bench.output import Table, plain, report_head
    from msshift_bench.similarity import group_similarity

    dataset = open_dataset(data)
    found = {
        name: group_similarity(dataset, name, indicator.name, split=split, against=against)
        for name in shifts or dataset.manifest.shifts
    }
    other = against or (split if indicator.against == "same" else indicator.against)
    if as_json:
        print_json(
            {
                **report_head(),
                **_facts(indicator),
                "data": plain(dataset.info),
                "split": split,
                "against": other,
                "shifts": {
                    name: [_group_facts(one) for one in groups] for name, groups in found.items()
                },
            }
        )
        return
    for name, groups in found.items():
        rows = [(one.group, _shown(one.value), one.queries, one.other_queries) for one in groups]
        header = ("group", indicator.name, "queries", "others' queries")
        title = f"{name}: {indicator.title}, {split} queries of a group and {other} of the others"
        print_table(Table.plain(title, header, rows))
    print_notes(_notes(indicator))


def _facts(indicator: Indicator) -> dict[str, object]:
    return {
        "indicator": indicator.name,
        "title": indicator.title,
        "higher": indicator.higher,
        "source": indicator.source,
    }


def _group_facts(one: GroupSimilarity) -> dict[str, object]:
    return {
        "group": one.group,
        "value": one.value,
        "queries": one.queries,
        "other_queries": one.other_queries,
    }


def _notes(indicator: Indicator) -> list[str]:
    return [f"higher is {indicator.higher}; {indicator.source}"]


def _shown(value: float) -> str:
    return f"{value:.6f}"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("similarity")(similarity)
