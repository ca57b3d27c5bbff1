"""Writing a data set: shifts that have been cut become Parquet files, a card and a manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from msshift_bench.data import (
    DATA_VERSION,
    FileEntry,
    Manifest,
    SplitEntry,
    SplitRows,
    canonical_rows,
    check_collection_name,
    holds_manifest,
    is_balanced,
    read_manifest,
    sha256_of,
)
from msshift_bench.dataset_builders.cut import WHOLE_SPLIT, Cut
from msshift_bench.dataset_builders.sealing import seal
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import replace_folder, write_parquet
from msshift_bench.shifts import holds_triples

__all__ = ["check_dataset_target", "write_dataset"]

_LINE, _LINE_WITHOUT_TEXT = "line", "line without text"


def write_dataset(
    folder: Path,
    shifts: Sequence[Cut],
    *,
    edition: str,
    collection: Mapping[str, object],
    parameters: Mapping[str, object],
    texts: bool = True,
    overwrite: bool = False,
    workers: int = 1,
) -> Manifest:
    """Write shifts as the data set ``msshift``: Parquet files, card, metadata and manifest.

    The folder appears, or replaces an earlier build, only when all of it is written.

    Args:
        folder: the folder to write; its parents are created.
        shifts: the shifts, cut; their configs are written in this order.
        edition: ``rebuilt`` or ``official-2022``.
        collection: the manifest's facts on the collection; see `Collection.provenance`.
        parameters: the parameters of the whole build, e.g. the seed.
        texts: whether rows hold the queries' texts.
        overwrite: replace an earlier build even if that loses something; see
            `check_dataset_target`.
        workers: threads that write files; the bytes do not depend on their number.

    Returns:
        The manifest that was written.

    Raises:
        UsageError: if the folder holds something that is not an earlier build, or something that
            would be lost.
    """
    with replace_folder(folder) as unfinished, ThreadPoolExecutor(workers) as pool:
        check_dataset_target(
            folder,
            [cut.shift.name for cut in shifts],
            collection=str(collection["name"]),
            overwrite=overwrite,
        )
        configs: dict[str, dict[str, SplitEntry]] = {}
        for cut in shifts:
            places = list(cut.configs())
            write = partial(_write_split, unfinished, _with_lines(cut.table), texts=texts)
            for (config, split, _), entry in zip(places, pool.map(write, places), strict=True):
                configs.setdefault(config, {})[split] = entry
        for cut in shifts:
            for name, table in cut.grouping.tables.items():
                write_parquet(unfinished / name, table)
        return seal(
            unfinished,
            Manifest(
                data_version=DATA_VERSION,
                edition=edition,
                content_digest="",
                texts=texts,
                collection=collection,
                parameters=parameters,
                shifts={cut.shift.name: _facts(cut) for cut in shifts},
                configs=configs,
                written_with={name: version(name) for name in ("msshift-bench", "pyarrow")},
                files={},
            ),
        )


def check_dataset_target(
    folder: Path, shifts: Sequence[str], *, collection: str, overwrite: bool
) -> None:
    """Check that a data set can be written, before it is computed.

    Args:
        folder: the folder to write.
        shifts: the names of its shifts.
        collection: the name of the collection that they are cut from.
        overwrite: replace an earlier build even if that loses shifts, triples, files that are no
            part of it, or the data set of another collection.

    Raises:
        UsageError: if the folder holds something that is not an earlier build, or something that
            would be lost, or no manifest can hold the collection's name.
    """
    check_collection_name(collection)
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not holds_manifest(folder)):
        raise UsageError(
            f"{folder} exists and is not a data set built by msshift; "
            "choose another --out, or move it away"
        )
    if any(folder.iterdir()) and not overwrite:
        earlier = read_manifest(folder)
        if earlier.collection["name"] != collection:
            raise UsageError(
                f"{folder} is built from {earlier.collection['name']!r}, and this build is from "
                f"{collection!r}; choose another --out, or pass --overwrite to replace it"
            )
        lost = [name for name in earlier.shifts if name not in shifts]
        if lost:
            raise UsageError(
                f"{folder} also holds {', '.join(lost)}, which this build would remove; "
                f"build {' '.join([*lost, *shifts])} together, or pass --overwrite"
            )
        if triples := [name for name in earlier.configs if holds_triples(name)]:
            raise UsageError(
                f"{folder} also holds training triples ({', '.join(triples)}), which this build "
                "would remove; choose another --out, or pass --overwrite and make them again with "
                "'msshift triples build'"
            )
        if others := _other_files(folder, earlier):
            raise UsageError(
                f"{folder} also holds {others[0]}"
                f"{f' and {len(others) - 1:,} more' if len(others) > 1 else ''}, which no "
                "build wrote and this one would remove; move them away, or pass --overwrite"
            )


def _other_files(folder: Path, manifest: Manifest) -> list[str]:
    """Return the files in a data set's folder that are no part of it, without hidden ones."""
    own = manifest.paths()
    names = (
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() or path.is_symlink()  # to a folder
    )
    return sorted(
        name.as_posix()
        for name in names
        if name.as_posix() not in own and not any(part.startswith(".") for part in name.parts)
    )


def _facts(cut: Cut) -> dict[str, object]:
    counts = cut.counts()
    sizes = {group: placed["train"] for group, placed in counts.items()}
    return {
        "rule": cut.grouping.rule,
        "parameters": {**cut.grouping.parameters, **cut.sizes},
        "rows": counts,
        "balanced": is_balanced(sizes) if any(sizes.values()) else None,
        **({"same_words": cut.same_words()} if any(sizes.values()) else {}),
        **({"found": cut.grouping.found} if cut.grouping.found else {}),
    }


def _with_lines(table: pa.Table) -> pa.Table:
    """Append the canonical forms of the rows, with texts and without.

    A row is in several configs; this function converts it once.
    """
    rows = SplitRows(table)
    return table.append_column(_LINE, pa.array(canonical_rows(rows), pa.string())).append_column(
        _LINE_WITHOUT_TEXT, pa.array(canonical_rows(rows, texts=False), pa.string())
    )


def _write_split(
    folder: Path, table: pa.Table, place: tuple[str, str, pc.Expression], *, texts: bool
) -> SplitEntry:
    """Write one split of one config as ``<config>/<split>.parquet``.

    Args:
        folder: the data set.
        table: a cut's table, with canonical forms.
        place: what `Cut.configs` yields.
        texts: whether the file holds the queries' texts.
    """
    config, split, wanted = place
    table = table.filter(wanted)
    left_out = {_LINE, _LINE_WITHOUT_TEXT}
    if split != WHOLE_SPLIT:
        left_out.add("split")
    if not texts:
        left_out.add("text")
    path = folder / config / f"{split}.parquet"
    write_parquet(path, table.select([n for n in table.column_names if n not in left_out]))
    splits = table["split"] if split == WHOLE_SPLIT else None
    return SplitEntry(
        files=(
            FileEntry(f"{config}/{path.name}", len(table), path.stat().st_size, sha256_of(path)),
        ),
        rows=len(table),
        digest=_digest(table[_LINE], splits),
        ids_digest=_digest(table[_LINE_WITHOUT_TEXT], splits),
        arrow_bytes=pq.read_table(path).nbytes,
    )


def _digest(lines: pa.ChunkedArray, splits: pa.ChunkedArray | None) -> str:
    """Return `rows_digest` of the rows whose canonical forms are given."""
    if splits is not None:
        lines = pc.binary_join_element_wise(lines, ',"', splits, '"', "")
    ended = pc.binary_join_element_wise(lines, "]\n", "")
    digest = hashlib.sha256()
    for chunk in ended.chunks:
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(chunk)], chunk), "")
        digest.update(joined[0].as_buffer())
    return digest.hexdigest()
