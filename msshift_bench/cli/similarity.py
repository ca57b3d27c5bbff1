"""``msshift similarity``: how near do test queries lie to training queries?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_notes, print_table
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.targets import check_outputs, files_of_collection
from msshift_bench.errors import UsageError
from msshift_bench.shifts import DATASET_NAME, SHIFTS

if TYPE_CHECKING:
    from msshift_bench.similarity import (
        GroupSimilarity,
        Indicator,
        IndicatorOptions,
        QuerySimilarity,
    )

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
    encoder: Annotated[
        str | None,
        typer.Option(
            help="The encoder that embeds the queries: an id of the Hugging Face Hub, a folder, or "
            "`terms` (no neural network). Default: distilbert-base-uncased, or `terms` for data of "
            "`mini`."
        ),
    ] = None,
    pooling: Annotated[
        str | None,
        typer.Option(
            help="How the encoder pools tokens: cls (the default), mean, or own, for a model that "
            "sentence-transformers saved."
        ),
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            help="The bi-encoders: a folder of run sets made with `msshift baseline run "
            "--keep-model`; with --train and --test, the folder of one model."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="The seed whose models count. Default: the smallest of the run set."),
    ] = None,
    collection: options.Source = None,
    depth: Annotated[
        int | None, typer.Option(help="BM25's first passages that count. Default: 500.")
    ] = None,
    per_query: Annotated[
        Path | None, typer.Option(help="Also write every query's value to this Parquet file.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Say how near test queries lie to training queries, before any run is judged.

    Each group of a shift is compared with the other groups together, or one file of queries with
    another. `docs/analysis.md` says what the indicators mean.

    Example: `msshift similarity --shift length`

    Example: `msshift similarity --indicator nearest-query --per-query nearest.parquet`

    Example: `msshift similarity --train train.tsv --test test.tsv --json`
    """
    from msshift_bench.data import COLLECTION_VARIABLE, locate
    from msshift_bench.plumbing import progress_bars, write_parquet
    from msshift_bench.similarity import find_indicator

    chosen = find_indicator(indicator)
    if (train is None) != (test is None):
        raise UsageError("--train and --test name the two files to compare; give both")
    if per_query is not None and not chosen.per_query:
        raise UsageError(f"{chosen.name} has no values per query that --per-query could write")
    read = [path for path in (train, test, models) if path is not None]
    if chosen.needs == "collection":
        read += files_of_collection(collection)
    check_outputs(per_query, inputs=[*read, *([] if train else [locate(data)])])
    with progress_bars() as progress:
        given = {
            "encoder": encoder,
            "pooling": pooling,
            "models": models,
            "seed": seed,
            "collection": collection,
            "depth": depth,
        }
        said: Any = {name: value for name, value in given.items() if value is not None}
        said["progress"] = progress
        if train is not None and test is not None:
            if chosen.needs == "collection":
                said.setdefault("collection", os.environ.get(COLLECTION_VARIABLE))
            if shift or against is not None or split != "test":
                raise UsageError(
                    "--shift, --split and --against are for the groups of a data set; leave them "
                    "out, or leave out --train and --test"
                )
            found = _compare_files(chosen, train, test, said)
        else:
            found = _compare_groups(chosen, data, shift, split, against, said)
    # The file comes first: whoever reads the tables may stop before their end.
    if per_query is not None:
        write_parquet(per_query, found.table())
        note(f"wrote {per_query}")
    found.print(as_json=as_json)


class _Found:
    """What the command found: values of groups by shift, or the one value of two files.

    Attributes:
        indicator: the indicator.
        head: what JSON says of the comparison.
        titles: the title of each table.
        values: shift -> its groups' values; for two files there is one, under ``""``.
    """

    def __init__(
        self,
        indicator: Indicator,
        head: Mapping[str, object],
        titles: Mapping[str, str],
        values: Mapping[str, Sequence[GroupSimilarity]],
    ) -> None:
        self.indicator, self.head, self.titles, self.values = indicator, head, titles, values

    def print(self, *, as_json: bool) -> None:
        """Print it on stdout."""
        from msshift_bench.output import Table, report_head

        row = self.indicator
        if as_json:
            about = {name: getattr(row, name) for name in ("title", "higher", "source")}
            found: dict[str, Any] = {**report_head(), "indicator": row.name, **about, **self.head}
            if "" in self.values:
                found |= _facts(self.values[""][0])
            else:
                found["shifts"] = {
                    shift: [{"group": one.group, **_facts(one)} for one in groups]
                    for shift, groups in self.values.items()
                }
            print_json(found)
            return
        for shift, groups in self.values.items():
            rows = [_cells(one) for one in groups]
            others = "other queries" if shift else "training queries"
            header: tuple[str, ...] = ("group" if shift else "test", row.name, "queries", others)
            if rows[0][4:]:
                header = (*header, "5%", "median", "95%")
            print_table(Table.plain(self.titles[shift], header, rows))
        print_notes([f"higher is {row.higher}; source: {row.source}", *self._computed_with()])

    def _computed_with(self) -> list[str]:
        """Return a note on what the values were computed with, if that is not the queries alone."""
        every = [one.per_query for groups in self.values.values() for one in groups]
        facts = [one.facts for one in every if one is not None and one.facts]
        if not facts:
            return []
        if self.indicator.needs == "collection":
            return [f"BM25's first {facts[0]['depth']} passages of {facts[0]['collection']}"]
        names = dict.fromkeys(str(of_group["encoder"]) for of_group in facts)
        return [f"{self.indicator.needs}: {', '.join(names)}"]

    def table(self) -> Any:
        """Return every query's value as an Arrow table."""
        import pyarrow as pa

        from msshift_bench.output import report_head, with_head

        rows = [row for groups in self.values.values() for one in groups for row in _rows(one)]
        names = ["shift", "group", "query_id", "value", "rank"]
        if rows and len(rows[0]) > len(names):
            names += ["nearest_query_id", "nearest_text"]
        columns = zip(*rows, strict=True)
        table = pa.table({name: list(column) for name, column in zip(names, columns, strict=True)})
        return with_head(table, {**report_head(), "indicator": self.indicator.name, **self.head})


def _facts(one: GroupSimilarity) -> dict[str, object]:
    facts = one.per_query.facts if one.per_query else {}
    return {
        "value": one.value,
        "queries": one.queries,
        "other_queries": one.other_queries,
        **({"computed_with": dict(facts)} if facts else {}),
    }


def _cells(one: GroupSimilarity) -> tuple[object, ...]:
    import numpy as np

    cells = (one.group, _shown(one.value), one.queries, one.other_queries or "-")
    if one.per_query is None:
        return cells
    return (*cells, *map(_shown, np.quantile(one.per_query.values, (0.05, 0.5, 0.95)).tolist()))


def _rows(one: GroupSimilarity) -> Iterable[tuple[object, ...]]:
    found = one.per_query
    assert found is not None
    values = (found.query_ids, found.values.tolist(), found.ranks.tolist())
    nearest = (found.nearest.ids, found.nearest.texts) if found.nearest.ids else ()
    for row in zip(*values, *nearest, strict=True):
        yield (one.shift, one.group, *row)


def _compare_files(indicator: Indicator, train: Path, test: Path, said: IndicatorOptions) -> _Found:
    from msshift_bench.similarity import (
        GroupSimilarity,
        query_similarity,
        read_query_set,
        set_similarity,
    )

    training, tested = read_query_set(train), read_query_set(test)
    found: QuerySimilarity | None = None
    if indicator.per_query:
        found = query_similarity(training, tested, indicator.name, **said)
        value = found.mean
    else:
        value = set_similarity(training, tested, indicator.name, **said)
    sizes = (len(tested), len(training))
    one = GroupSimilarity(indicator.name, "", str(test), value, *sizes, found)
    title = f"{indicator.title}, to {train}"
    return _Found(indicator, {"train": str(train), "test": str(test)}, {"": title}, {"": [one]})


def _compare_groups(
    indicator: Indicator,
    data: str,
    shifts: list[str] | None,
    split: str,
    against: str | None,
    said: IndicatorOptions,
) -> _Found:
    from msshift_bench.data import open_dataset
    from msshift_bench.output import plain
    from msshift_bench.similarity import group_similarity

    dataset = open_dataset(data)
    names = shifts or [name for name in dataset.manifest.shifts if not SHIFTS[name].by_size]
    found = {
        name: group_similarity(dataset, name, indicator.name, split=split, against=against, **said)
        for name in names
    }
    other = against or (split if indicator.against == "same" else indicator.against)
    what = f"{split} queries of a group" + (f" and {other} queries of the others" if other else "")
    head = {"data": plain(dataset.info), "split": split, "against": other or None}
    titles = {name: f"{name}: {indicator.title}, {what}" for name in names}
    return _Found(indicator, head, titles, found)


def _shown(value: float) -> str:
    return f"{value:.6f}"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {
        "Groups of a data set": ("data", "shift", "split", "against"),
        "Files of queries": ("train", "test"),
        "What the indicator computes with": (
            "encoder",
            "pooling",
            "models",
            "seed",
            "collection",
            "depth",
        ),
        "Output": ("per_query", "as_json"),
    }
    app.command("similarity", cls=in_panels(panels))(similarity)
