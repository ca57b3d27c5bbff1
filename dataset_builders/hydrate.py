"""Putting the queries' texts back into a data set that holds ids only.

``msshift build --ids-only`` leaves the texts out, so that a data set can be passed on to people
who have the collection from its own source. `hydrate_dataset` adds the texts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from msshift_bench.data import (
    Collection,
    Dataset,
    Manifest,
    SplitEntry,
    SplitRows,
    open_collection,
    open_dataset,
    rows_digest,
    sha256_of,
)
from msshift_bench.dataset_builders.sealing import amend_dataset
from msshift_bench.errors import DataError, Finding
from msshift_bench.plumbing import Progress, silent, write_parquet
from msshift_bench.shifts import holds_triples

__all__ = ["hydrate_dataset"]

_SHOWN = 5


def hydrate_dataset(
    data: Dataset | str | Path,
    collection: Collection | str | Path,
    *,
    progress: Progress = silent,
) -> Manifest:
    """Put the queries' texts back into a built data set, which then equals a build with texts.

    Every split must have the digest that the manifest states for it with texts. The data set is
    replaced as a whole, or stays as it is. A data set with texts is left alone.

    Args:
        data: the built data set; see `open_dataset`.
        collection: the collection of the queries, or what `open_collection` takes; its passages
            and qrels are not read.
        progress: called with the number of splits done.

    Returns:
        The manifest of the data set with its texts.

    Raises:
        NotFoundError: if there is no built data set.
        IntegrityError: if one of its files is missing or was changed.
        CollectionError: if the collection's queries are malformed.
        DataError: if queries are not in the collection, or their texts are not those that the
            data set was built from, or it was imported without any.
        UsageError: if another process is writing the data set.

    Example:
        >>> _ = build_dataset("mini:300", ["length"], "ids", texts=False)
        >>> hydrate_dataset("ids", "mini:300").texts
        True
    """
    dataset = open_dataset(data)
    if dataset.manifest.texts:
        return dataset.manifest
    if unknown := dataset.manifest.without_texts():
        raise DataError(
            f"{dataset.folder} was imported without the texts of {unknown[0]}, so that nothing "
            "says which belong to it; import it again with the collection of its queries "
            "('msshift build --official DIR --collection C')"
        )
    collection = open_collection(collection)
    texts = dict(zip(collection.queries.ids, collection.queries.texts, strict=True))
    with amend_dataset(dataset) as amendment:
        manifest = amendment.manifest
        if manifest.texts:  # Another process has put them back since the data set was opened.
            return manifest
        unfinished = Dataset(amendment.folder, manifest)
        held = {
            (config, split): rows
            for config in manifest.configs
            if not holds_triples(config)
            for split, rows in unfinished.splits(config).items()
        }
        _check_queries(dataset.folder, held.values(), texts, collection)
        configs = {config: dict(splits) for config, splits in manifest.configs.items()}
        findings = []
        for number, ((config, split), rows) in enumerate(held.items(), 1):
            table = _with_texts(rows, texts)
            if _digest(table) != configs[config][split].digest:
                message = "the texts are not those that it was built from"
                findings.append(Finding("changed-texts", message, f"{config}/{split}"))
            configs[config][split] = _write(amendment.folder, table, configs[config][split])
            progress("splits", number, len(held))
        if findings:
            raise DataError(_explain(dataset.folder, manifest, collection), findings)
        made_by = {name: version(name) for name in ("msshift-bench", "pyarrow")}
        amendment.manifest = replace(
            manifest,
            texts=True,
            configs=configs,
            written_with={**manifest.written_with, **made_by},
        )
    return amendment.manifest


def _check_queries(
    folder: Path, held: Iterable[SplitRows], texts: Mapping[str, str], collection: Collection
) -> None:
    query_ids = {query_id for rows in held for query_id in rows.table["query_id"].to_pylist()}
    if missing := sorted(query_ids - texts.keys()):
        shown = ", ".join([*missing[:_SHOWN], *(["..."] if len(missing) > _SHOWN else [])])
        raise DataError(
            f"{len(missing)} of the {len(query_ids)} queries of {folder} are not in "
            f"{collection.name}: {shown}"
        )


def _with_texts(rows: SplitRows, texts: Mapping[str, str]) -> pa.Table:
    column = pa.array(map(texts.__getitem__, rows.table["query_id"].to_pylist()), pa.string())
    table = rows.table.add_column(1, "text", column)
    # Parquet and Arrow name the items of a list differently, and the name is part of the bytes.
    fields = [
        field.with_type(pa.list_(field.type.value_type)) if pa.types.is_list(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, table.schema.metadata)).combine_chunks()


def _digest(table: pa.Table) -> str:
    splits = table["split"].to_pylist() if "split" in table.column_names else None
    return rows_digest(SplitRows(table), splits)


def _write(folder: Path, table: pa.Table, entry: SplitEntry) -> SplitEntry:
    """Write the rows of a split into the files that held them."""
    files = []
    start = 0
    for file in entry.files:
        path = folder / file.path
        write_parquet(path, table.slice(start, file.rows))
        files.append(replace(file, bytes=path.stat().st_size, sha256=sha256_of(path)))
        start += file.rows
    read = sum(pq.read_table(folder / file.path).nbytes for file in files)
    return replace(entry, files=tuple(files), arrow_bytes=read)


def _explain(folder: Path, manifest: Manifest, collection: Collection) -> str:
    built, here = manifest.collection["text"], collection.text_variant
    cause = f"it was built from {built} texts of {manifest.collection['name']}"
    if built != here:
        cause += f", and these are {here}"
    return (
        f"{collection.name} holds the queries of {folder} with other texts ({cause}); "
        "nothing was changed:"
    )
