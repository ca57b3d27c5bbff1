"""The one writer: shifts that have been cut become Parquet files, a card and a manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from msshift_bench.dataset_builders.sealing import seal
from msshift_bench.dataset_builders.splits import ShiftSplits
from msshift_bench.digests import rows_digest, sha256_of
from msshift_bench.errors import UsageError
from msshift_bench.files import replace_folder, write_parquet
from msshift_bench.manifest import (
    DATA_VERSION,
    MANIFEST_NAME,
    FileEntry,
    Manifest,
    SplitEntry,
    read_manifest,
)
from msshift_bench.records import SPLITS, Row

__all__ = ["WHOLE_SPLIT", "write_dataset", "write_rows"]

WHOLE_SPLIT = "queries"
"""The one split of a config that holds a whole shift ("all" is a reserved word of datasets)."""

_SCHEMA = pa.schema(
    [
        ("query_id", pa.string()),
        ("text", pa.string()),
        ("group", pa.string()),
        ("relevant_doc_ids", pa.list_(pa.string())),
    ]
)


def write_dataset(
    folder: Path,
    shifts: Sequence[ShiftSplits],
    *,
    edition: str,
    collection: Mapping[str, object],
    parameters: Mapping[str, object],
    texts: bool = True,
    overwrite: bool = False,
    workers: int = 1,
) -> Manifest:
    """Write shifts as the data set ``msshift``: Parquet files, card, metadata and manifest.

    The folder appears, or takes the place of an earlier build, only when all of it is written.

    Args:
        folder: where to; its parents are created.
        shifts: the shifts, cut; their configs are written in this order.
        edition: ``rebuilt`` or ``official-2022``.
        collection: what the manifest says of the collection; see `Collection.provenance`.
        parameters: what the whole build was asked for, e.g. the seed.
        texts: whether rows hold the queries' texts.
        overwrite: replace an earlier build even if it holds what this one does not.
        workers: threads that write files; the bytes do not depend on their number.

    Returns:
        The manifest that was written.

    Raises:
        UsageError: if the folder holds something that is not an earlier build, or holds shifts
            that would be lost.
    """
    _check_target(folder, [cut.shift.name for cut in shifts], overwrite=overwrite)
    with replace_folder(folder) as partial, ThreadPoolExecutor(workers) as pool:
        tasks = list(_splits_to_write(shifts))
        entries = pool.map(
            lambda task: write_rows(partial, *task, texts=texts),
            tasks,
        )
        configs: dict[str, dict[str, SplitEntry]] = {}
        for (config, split, _, _), entry in zip(tasks, entries, strict=True):
            configs.setdefault(config, {})[split] = entry
        for cut in shifts:
            for name, table in cut.grouping.tables.items():
                write_parquet(partial / name, table)
        return seal(
            partial,
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
            ),
        )


def _check_target(folder: Path, shifts: Sequence[str], *, overwrite: bool) -> None:
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / MANIFEST_NAME).exists()):
        raise UsageError(
            f"{folder} exists and is not a data set built by msshift; "
            "choose another --out, or move it away"
        )
    if any(folder.iterdir()) and not overwrite:
        lost = [name for name in read_manifest(folder).shifts if name not in shifts]
        if lost:
            raise UsageError(
                f"{folder} also holds {', '.join(lost)}, which this build would remove; "
                f"build {' '.join([*lost, *shifts])} together, or pass --overwrite"
            )


def _facts(cut: ShiftSplits) -> dict[str, object]:
    return {
        "rule": cut.grouping.rule,
        "parameters": {**cut.grouping.parameters, **cut.sizes},
        "rows": cut.counts(),
        **({"found": cut.grouping.found} if cut.grouping.found else {}),
    }


def _splits_to_write(
    shifts: Sequence[ShiftSplits],
) -> Iterator[tuple[str, str, list[Row], list[str] | None]]:
    """Yield ``(config, split, rows, the split column or None)`` for every file of the data set."""
    for cut in shifts:
        placed = sorted((row, split) for split, rows in cut.rows.items() for row in rows)
        yield cut.shift.name, WHOLE_SPLIT, [row for row, _ in placed], [s for _, s in placed]
        for config, held_out in cut.shift.configs.items():
            for split in (name for name in SPLITS if name in cut.rows):
                rows = cut.rows[split]
                if split == "train":
                    rows = tuple(row for row in rows if row.group != held_out)
                elif split == "test":
                    rows = tuple(row for row in rows if row.group == held_out)
                yield config, split, list(rows), None


def write_rows(
    folder: Path,
    config: str,
    split: str,
    rows: Sequence[Row],
    split_column: Sequence[str] | None = None,
    *,
    texts: bool = True,
) -> SplitEntry:
    """Write one split of one config as ``<config>/<split>.parquet``.

    Args:
        folder: of the data set.
        config: the config.
        split: the split.
        rows: the rows, with their texts, sorted by query_id.
        split_column: in the config of a whole shift, the split of each row.
        texts: whether the file holds the texts.
    """
    columns: list[Sequence[object]] = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], _SCHEMA)
    if split_column is not None:
        table = table.add_column(3, "split", pa.array(split_column, pa.string()))
    if not texts:
        table = table.drop_columns(["text"])
    path = folder / config / f"{split}.parquet"
    write_parquet(path, table)
    name = path.relative_to(folder).as_posix()
    return SplitEntry(
        files=(FileEntry(name, len(rows), path.stat().st_size, sha256_of(path)),),
        rows=len(rows),
        digest=rows_digest(rows, split_column),
        ids_digest=rows_digest([row._replace(text="") for row in rows], split_column),
        arrow_bytes=table.nbytes,
    )
