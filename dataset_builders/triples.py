"""Training triples: a query, a relevant passage, and a passage from BM25 not judged relevant.

Source: MS-Shift (ECIR 2023), section 3.1: "for each query we sample 100 negatives with BM25".

Every query has `count` negatives and `count` triples, so that all have the same weight in
training. A query's triples take its relevant passages in turn, sorted by doc_id. If a query has
more relevant passages than negatives, some are in no triple, unless `every_pair` is set.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from msshift_bench.data import (
    Collection,
    ContentDigest,
    Dataset,
    FileEntry,
    Manifest,
    SplitEntry,
    Triple,
    TripleStream,
    open_collection,
    open_dataset,
    sha256_of,
)
from msshift_bench.dataset_builders.cut import check_seed
from msshift_bench.dataset_builders.negatives import BLOCK_QUERIES, mine_negatives
from msshift_bench.dataset_builders.write import amend_dataset
from msshift_bench.engine import KeptArray
from msshift_bench.errors import DataError, UsageError
from msshift_bench.plumbing import (
    batches,
    counted,
    link_file,
    lock_unfinished,
    report_progress,
    write_parquet,
)
from msshift_bench.records import Row
from msshift_bench.search import Bm25Parameters
from msshift_bench.shifts import (
    TRIPLES,
    ShiftNames,
    get_shift,
    has_triples,
    parse_config,
    shift_names,
)

_SHARD_ROWS = 1_000_000
"""Approximate number of triples per file; a query's triples are in one file."""

_ROW_GROUP = 100_000
"""Triples per row group; a streaming reader has one row group in memory."""


def add_triples(
    data: Dataset | str | Path,
    collection: Collection | str | Path,
    *,
    shifts: ShiftNames = (),
    count: int = 100,
    depth: int = 1000,
    seed: int = 0,
    every_pair: bool = False,
) -> Manifest:
    """Add training triples to a built data set: the config ``<config>-triples`` for every group.

    A config has `count` triples for each training query, sorted by query_id. A query has no triples
    if none of its relevant passages is in the collection. Negatives are never passages that the
    build excluded. The manifest contains, for each config, the number of all pairs of query and
    relevant passage, and of pairs in no triple. The data set changes only when all triples are
    written. A killed process leaves finished work in the folder ``.<data set>.triples`` next to the
    data set; the next process continues with it.

    Args:
        data: the built data set; see `open_dataset`.
        collection: the collection from which it was built, or an argument of `open_collection`.
        shifts: the shifts that get triples; if empty, all shifts with training queries. Their
            existing triples are replaced.
        count: negatives per query, at least 1.
        depth: number of first passages of BM25's ranking that are candidates, at least 1.
        seed: the seed of the random choice.
        every_pair: write every pair. A query with more relevant passages than negatives then gets
            one triple per relevant passage, with its negatives in turn.

    Returns:
        The new manifest.

    Raises:
        NotFoundError: if there is no built data set.
        UnknownNameError: for a shift that is not in the data set.
        UsageError: if `count` or `depth` is below 1, or the seed is beyond 64 bits. Also if the
            data set was built from another collection or has no training queries, or another
            process is writing it or has rebuilt it.
        DataError: if the collection has too few passages for `count` negatives, or none that is
            relevant to a config's training queries.
        MissingExtraError: if the extra bm25 is not installed.

    Examples:
        >>> manifest = add_triples("msshift", "mini:300", shifts=["length"], count=2)
        >>> [config for config in manifest.configs if config.endswith("triples")]
        ['length-short-triples', 'length-long-triples']
    """
    if count < 1:
        raise UsageError(f"negatives per query must be at least 1, got {count}")
    check_seed(seed)
    dataset = open_dataset(data)
    parameters = Bm25Parameters(depth=depth, words=dataset.words)
    dataset = replace(dataset, folder=dataset.folder.absolute())
    collection = open_collection(collection)
    dataset.check_built_from(collection)
    training = {config: dataset.rows(config, "train") for config in _configs(dataset, shifts)}
    work = dataset.folder.with_name(f".{dataset.folder.name}.triples")
    with lock_unfinished(work, dataset.folder):
        queries = {row.query_id: row for rows in training.values() for row in rows}
        if not dataset.manifest.texts:
            texts = collection.queries
            queries = {i: row._replace(text=texts[i]) for i, row in queries.items()}
        passages, rows = _trainable(collection, queries)
        negatives = mine_negatives(
            collection,
            dataset.exclusions.barring(rows),
            work / "negatives",
            passages=passages.hexdigest(),
            count=count,
            depth=depth,
            seed=seed,
            block_queries=BLOCK_QUERIES,
            words=dataset.words,
        )
        places = {row.query_id: place for place, row in enumerate(rows)}
        shards: dict[str, list[Path]] = {}
        pairs: dict[str, dict[str, int]] = {}
        for config, trained in training.items():
            chosen = sorted(places[row.query_id] for row in trained if row.query_id in places)
            if not chosen:
                raise DataError(
                    f"{collection.name} holds no passage relevant to a training query of {config}; "
                    "give the complete collection"
                )
            shards[config] = _write_shards(
                work / config, rows, chosen, negatives, count, every_pair=every_pair
            )
            relevant = [len(rows[place].relevant_doc_ids) for place in chosen]
            left_out = 0 if every_pair else sum(max(0, size - count) for size in relevant)
            pairs[config] = {"all": sum(relevant), "left_out": left_out}
        facts = {
            "negatives": count,
            "seed": seed,
            "bm25": parameters.parameters(),
            "passages": {"rows": passages.rows, "sha256": passages.hexdigest()},
            "text": collection.text_variant,
        }
        return _add(dataset, shards, facts, pairs)


def _configs(dataset: Dataset, shifts: ShiftNames) -> list[str]:
    """Return the configs whose training queries get triples; UsageError if there are none."""
    manifest = dataset.manifest
    wanted = shift_names(shifts, manifest.shifts, f"shift in {dataset.folder}")
    configs = [
        config
        for name in manifest.shifts
        if not wanted or name in wanted
        for config in get_shift(name).configs
        if "train" in manifest.configs[config]
    ]
    if not configs:
        raise UsageError(
            f"{dataset.folder} has no training queries for triples; give a data set with the split "
            "'train'"
        )
    return configs


def _trainable(
    collection: Collection, queries: Mapping[str, Row]
) -> tuple[ContentDigest, list[Row]]:
    """Read the passages once, for their digest and to find the relevant passages.

    Returns:
        The digest, and the queries with a relevant passage in the collection, sorted by query_id.
        Their relevant passages are only those in the collection.
    """
    relevant = {doc_id for row in queries.values() for doc_id in row.relevant_doc_ids}
    present = set()
    digest = ContentDigest()
    for passage in counted(collection.passages(), "passages"):
        digest.add(passage)
        if passage.doc_id in relevant:
            present.add(passage.doc_id)
    rows = []
    for query_id, row in sorted(queries.items()):
        grades = {doc_id: grade for doc_id, grade in row.relevant.items() if doc_id in present}
        if grades:
            rows.append(Row.judged(query_id, row.text, row.group, grades))
    return digest, rows


def _write_shards(
    stem: Path,
    rows: Sequence[Row],
    places: Sequence[int],
    negatives: Sequence[KeptArray],
    count: int,
    *,
    every_pair: bool,
) -> list[Path]:
    """Write the triples of one config; files of an earlier process are kept.

    Args:
        stem: the beginning of the files' paths.
        rows: all training queries, sorted by query_id.
        places: the positions of the config's queries in `rows`, ascending.
        negatives: the negatives of all queries; see `mine_negatives`.
        count: negatives per query.
        every_pair: see `add_triples`.

    Returns:
        The paths of all files, in the order of their triples.
    """
    paths = []
    names = [block.name for block in negatives]
    done = 0
    for number, part in enumerate(batches(places, max(1, _SHARD_ROWS // count))):
        trained = [rows[place] for place in part]
        judged = [(row.query_id, row.relevant_doc_ids) for row in trained]
        digest = hashlib.sha256(json.dumps([names, judged, every_pair]).encode())
        path = stem.with_name(f"{stem.name}-{number:05}-{digest.hexdigest()[:16]}.parquet")
        if not path.exists():
            table = _triples(
                trained, _read_negatives(negatives, part), count, every_pair=every_pair
            )
            write_parquet(path, table, _ROW_GROUP)
        paths.append(path)
        done += len(part) * count
        report_progress(f"{stem.name}{TRIPLES}", done, len(places) * count)
    return paths


def _read_negatives(negatives: Sequence[KeptArray], places: Sequence[int]) -> pa.StringArray:
    """Return the negatives of some queries, one query after the other.

    `places` are the queries' positions among all training queries, ascending.
    """
    blocks, within = np.divmod(np.asarray(places), BLOCK_QUERIES)
    columns = []
    for block in np.unique(blocks).tolist():
        doc_ids = negatives[block].load()[within[blocks == block]]
        columns.append(pa.array(doc_ids.ravel(), pa.binary()).cast(pa.string()))
    return pa.concat_arrays(columns)


def _triples(
    rows: Sequence[Row], negatives: pa.StringArray, count: int, *, every_pair: bool
) -> pa.Table:
    """Return triples that pair the negatives of each query with its relevant passages in turn.

    `negatives` contains `count` doc_ids per row.
    """
    positives = [doc_id for row in rows for doc_id in row.relevant_doc_ids]
    relevant = np.array([len(row.relevant_doc_ids) for row in rows])
    sizes = np.maximum(relevant if every_pair else 0, np.full_like(relevant, count))
    query = np.repeat(np.arange(len(rows)), sizes)
    turn = np.arange(len(query)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    positive = (np.cumsum(relevant) - relevant)[query] + turn % relevant[query]
    columns = (
        pa.array([row.query_id for row in rows], pa.string()).take(pa.array(query)),
        pa.array(positives, pa.string()).take(pa.array(positive)),
        negatives.take(pa.array(query * count + turn % count)),
    )
    return pa.table(dict(zip(Triple._fields, columns, strict=True)))


def _add(
    dataset: Dataset,
    shards: Mapping[str, Sequence[Path]],
    facts: Mapping[str, Any],
    pairs: Mapping[str, Mapping[str, int]],
) -> Manifest:
    """Add the files to the data set, and return its manifest with their entries."""

    def with_triples(folder: Path, manifest: Manifest) -> Manifest:
        configs = dict(manifest.configs)
        shifts = dict(manifest.shifts)
        for config, paths in shards.items():
            name = f"{config}{TRIPLES}"
            if (folder / name).exists():
                shutil.rmtree(folder / name)
            configs[name] = {"train": _link(folder, name, paths)}
            shift = parse_config(config, dataset.shifts)[0]
            shift_pairs = {config: pairs[config] for config in shift.configs if config in pairs}
            shifts[shift.name] = {**shifts[shift.name], "triples": {**facts, "pairs": shift_pairs}}
        # Sorted, so that the order does not depend on the time at which triples were added.
        names = [name for name in configs if not has_triples(name)]
        names += [f"{name}{TRIPLES}" for name in names if f"{name}{TRIPLES}" in configs]
        made_by = {name: version(name) for name in ("bm25s", "numba", "PyStemmer")}
        return replace(
            manifest,
            configs={name: configs[name] for name in names},
            shifts=shifts,
            written_with={**manifest.written_with, **made_by},
        )

    return amend_dataset(dataset, with_triples, work="its triples were made")


def _link(folder: Path, name: str, paths: Sequence[Path]) -> SplitEntry:
    (folder / name).mkdir()
    files = []
    arrow_bytes = 0
    for number, path in enumerate(paths):
        target = folder.absolute() / name / f"train-{number:05}-of-{len(paths):05}.parquet"
        link_file(path, target)
        rows = pq.read_metadata(target).num_rows
        arrow_bytes += sum(batch.nbytes for batch in pq.ParquetFile(target).iter_batches())
        relative = target.relative_to(folder.absolute()).as_posix()
        files.append(FileEntry(relative, rows, target.stat().st_size, sha256_of(target)))
    triples = TripleStream(
        tuple(folder / file.path for file in files), sum(file.rows for file in files)
    )
    digest = triples.digest()
    return SplitEntry(
        files=tuple(files),
        rows=len(triples),
        digest=digest,
        ids_digest=digest,
        arrow_bytes=arrow_bytes,
    )
