"""``msshift similarity``: how near do test queries lie to training queries?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note
from msshift_bench.cli.formats import ResultFormat, print_result
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.shifts import DATASET_NAME, SHIFTS

if TYPE_CHECKING:
    from msshift_bench.output import Table
    from msshift_bench.records import Qrel
    from msshift_bench.similarity import GroupSimilarity, Indicator, LabelOverlap

__all__ = ["register"]

_ENDINGS = (".parquet", ".json")


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
        str,
        typer.Option(
            metavar="OF[:AGAINST]",
            help="The queries that count, of the group and after the colon of the other groups: "
            "test, train, or all. By default, the indicator's definition says which of the others.",
        ),
    ] = "test",
    train: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="Compare two files of queries (query_id, tab, text) instead of the groups of a "
            "data set; this one holds the training queries. For overlap, `NAME=QRELS` (TREC's four "
            "columns, or three): repeat it for several; files of one name are one set.",
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH", help="The file of the test queries, likewise; qrels may be graded."
        ),
    ] = None,
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
            help="The bi-encoders: a folder of run sets made with `msshift run "
            "--keep-model`; with --train and --test, the folder of one model."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="The seed whose models count. Default: the smallest of the run set."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Also write to this file: `.parquet`, every query's value, or `.json`, what "
            "--format json prints."
        ),
    ] = None,
    table_format: ResultFormat = "text",
) -> None:
    """Say how near test queries lie to training queries, before any run is judged.

    Each group of a shift is compared with the other groups together, or one file of queries with
    another. `docs/analysis.md` says what the indicators mean. Of qrels files, overlap counts the
    test queries that share a relevant passage with a training query, at every relevance that the
    test set grades, from one and from two shared passages on.

    Example: `msshift similarity --shift length`

    Example: `msshift similarity --indicator nearest-query --output nearest.parquet`

    Example: `msshift similarity --train train.tsv --test test.tsv --format json`

    Example: `msshift similarity --indicator overlap --train ours=qrels.txt --test
    dl19=qrels.dl19.txt`
    """
    from msshift_bench.data import locate
    from msshift_bench.plumbing import progress_bars
    from msshift_bench.similarity import count_overlap, find_indicator

    chosen = find_indicator(indicator)
    if (train is None) != (test is None):
        raise UsageError("--train and --test name the two files to compare; give both")
    if train is not None and (shift or split != "test"):
        raise UsageError(
            "--shift and --split are for the groups of a data set; leave them out, or leave out "
            "--train and --test"
        )
    if output is not None and output.suffix.lower() not in _ENDINGS:
        raise UnknownNameError("ending of an output", output.suffix, _ENDINGS)
    by_judgements = chosen.needs == "labels" and train is not None
    no_values = by_judgements or not chosen.per_query
    if no_values and output is not None and output.suffix.lower() == ".parquet":
        raise UsageError(f"{chosen.name} has no values per query that {output} could hold")
    paths = [*(train or ()), *(test or ())]
    files = [Path(text.partition("=")[2] if by_judgements else text) for text in paths]
    read = [*(files or [locate(data)]), *([models] if models else [])]
    check_outputs(output, inputs=read)
    typed = {"encoder": encoder, "pooling": pooling, "models": models, "seed": seed}
    settings: dict[str, Any] = {name: value for name, value in typed.items() if value is not None}
    result: _Compared | LabelOverlap
    if by_judgements:
        result = count_overlap(_judged("--train", train), _judged("--test", test))
    else:
        with progress_bars():
            if train is None or test is None:
                result = _compare_groups(chosen, data, shift, split, settings)
            else:
                result = _compare_files(chosen, _only(train), _only(test), settings)
    # The file comes first: whoever reads the tables may stop before their end.
    if output is not None:
        _write(result, output)
    print_result(result, table_format)


def _only(paths: Sequence[str]) -> Path:
    if len(paths) > 1:
        raise UsageError("give one file of training queries and one of test queries")
    return Path(paths[0])


def _judged(option: str, texts: Sequence[str] | None) -> dict[str, list[Qrel]]:
    from msshift_bench.runs import read_qrels

    judged: dict[str, list[Qrel]] = {}
    for text in texts or ():
        name, _, path = text.partition("=")
        if not (name and path):
            raise UsageError(
                f"{option} takes NAME=QRELS for overlap, e.g. dl19=qrels.dl19.txt, not {text!r}"
            )
        judged.setdefault(name, []).extend(read_qrels(path))
    return judged


def _write(result: _Compared | LabelOverlap, output: Path) -> None:
    from msshift_bench.plumbing import write_json, write_parquet

    if output.suffix.lower() == ".json":
        write_json(output, result.to_json())
    elif isinstance(result, _Compared):
        write_parquet(output, result.per_query())
    note(f"wrote {output}")


class _Compared:
    """The values of groups by shift, or the one value of two files.

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

    def tables(self) -> list[Table]:
        """Return a table per shift."""
        from msshift_bench.output import Table

        tables = []
        for shift, groups in self.values.items():
            rest = "other queries" if shift else "training queries"
            header = ["group" if shift else "test", self.indicator.name, "queries", rest]
            if self.indicator.per_query:
                header += ["5%", "median", "95%"]
            tables.append(Table.plain(self.titles[shift], header, map(_cells, groups)))
        return tables

    def notes(self) -> list[str]:
        """Return what a value says, and what it was computed with beyond the queries."""
        about = f"higher is {self.indicator.higher}; source: {self.indicator.source}"
        values = [of_group.per_query for groups in self.values.values() for of_group in groups]
        names = [
            str(of_group.facts["encoder"])
            for of_group in values
            if of_group is not None and of_group.facts
        ]
        encoders = ", ".join(dict.fromkeys(names))
        return [about, *([f"{self.indicator.needs}: {encoders}"] if encoders else [])]

    def to_json(self) -> dict[str, Any]:
        """Return all values as plain JSON values."""
        row = self.indicator
        about = {name: getattr(row, name) for name in ("title", "higher", "source")}
        head = {**self._named(), **about, **self.head}
        if "" in self.values:
            return head | _facts(self.values[""][0])
        shifts = {
            shift: [{"group": of_group.group, **_facts(of_group)} for of_group in groups]
            for shift, groups in self.values.items()
        }
        return head | {"shifts": shifts}

    def per_query(self) -> Any:
        """Return every query's value as an Arrow table."""
        import pyarrow as pa

        from msshift_bench.output import with_head

        rows = [
            row for groups in self.values.values() for of_group in groups for row in _rows(of_group)
        ]
        names = ["shift", "group", "query_id", "value", "rank"]
        if rows and len(rows[0]) > len(names):
            names += ["nearest_query_id", "nearest_text"]
        columns = zip(*rows, strict=True)
        table = pa.table({name: list(column) for name, column in zip(names, columns, strict=True)})
        return with_head(table, {**self._named(), **self.head})

    def _named(self) -> dict[str, Any]:
        from msshift_bench.output import report_head

        return {**report_head(), "indicator": self.indicator.name}


def _facts(of_group: GroupSimilarity) -> dict[str, object]:
    facts = of_group.per_query.facts if of_group.per_query else {}
    return {
        "value": of_group.value,
        "queries": of_group.queries,
        "other_queries": of_group.other_queries,
        **({"computed_with": dict(facts)} if facts else {}),
    }


def _cells(of_group: GroupSimilarity) -> tuple[object, ...]:
    import numpy as np

    cells = (of_group.group, f"{of_group.value:.6f}", of_group.queries, of_group.other_queries)
    if of_group.per_query is None:
        return cells
    quantiles = np.quantile(of_group.per_query.values, (0.05, 0.5, 0.95)).tolist()
    return (*cells, *(f"{quantile:.6f}" for quantile in quantiles))


def _rows(of_group: GroupSimilarity) -> Iterator[tuple[object, ...]]:
    queries = of_group.per_query
    assert queries is not None
    values = (queries.query_ids, queries.values.tolist(), queries.ranks.tolist())
    nearest = (queries.nearest.ids, queries.nearest.texts) if queries.nearest.ids else ()
    for row in zip(*values, *nearest, strict=True):
        yield (of_group.shift, of_group.group, *row)


def _compare_files(indicator: Indicator, train: Path, test: Path, settings: Any) -> _Compared:
    from msshift_bench.similarity import (
        GroupSimilarity,
        query_similarity,
        read_query_set,
        set_similarity,
    )

    training, tested = read_query_set(train), read_query_set(test)
    per_query = None
    if indicator.per_query:
        per_query = query_similarity(training, tested, indicator.name, **settings)
        value = per_query.mean
    else:
        value = set_similarity(training, tested, indicator.name, **settings)
    sizes = (len(tested), len(training))
    of_files = GroupSimilarity(indicator.name, "", str(test), value, *sizes, per_query)
    title = f"{indicator.title}, to {train}"
    return _Compared(
        indicator, {"train": str(train), "test": str(test)}, {"": title}, {"": [of_files]}
    )


def _compare_groups(
    indicator: Indicator, data: str, shifts: list[str] | None, splits: str, settings: Any
) -> _Compared:
    from msshift_bench.data import open_dataset
    from msshift_bench.output import plain
    from msshift_bench.similarity import group_similarity

    split, _, against = splits.partition(":")
    against = against or (split if indicator.against == "same" else indicator.against)
    dataset = open_dataset(data)
    names = shifts or [name for name in dataset.manifest.shifts if not SHIFTS[name].by_size]
    values = {
        name: group_similarity(
            dataset, name, indicator.name, split=split, against=against, **settings
        )
        for name in names
    }
    what = f"{split} queries of a group and {against} queries of the others"
    head = {"data": plain(dataset.info), "split": split, "against": against}
    titles = {name: f"{name}: {indicator.title}, {what}" for name in names}
    return _Compared(indicator, head, titles, values)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {
        "Groups of a data set": ("data", "shift", "split"),
        "Files of queries": ("train", "test"),
        "What the indicator computes with": ("encoder", "pooling", "models", "seed"),
        "Output": ("output", "table_format"),
    }
    app.command("similarity", cls=in_panels(panels))(similarity)
