"""The one writer: shifts that have been cut become Parquet files, a card and a manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from msshift_bench.dataset_builders.card import render_card
from msshift_bench.dataset_builders.splits import SCALE_RULE, ShiftSplits
from msshift_bench.digests import rows_digest, sha256_of
from msshift_bench.errors import UsageError
from msshift_bench.files import replace_folder, write_parquet
from msshift_bench.manifest import (
    CARD_NAME,
    DATA_VERSION,
    MANIFEST_NAME,
    Manifest,
    SplitEntry,
    content_digest,
    read_manifest,
    write_manifest,
)
from msshift_bench.records import SPLITS, Row

__all__ = ["WHOLE_SPLIT", "write_dataset"]

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
    overwrite: bool = False,
    workers: int = 1,
) -> Manifest:
    """Write shifts as the data set ``msshift``: Parquet files, ``README.md``, ``manifest.json``.

    The folder appears, or takes the place of an earlier build, only when all of it is written.

    Args:
        folder: where to; its parents are created.
        shifts: the shifts, cut; their configs are written in this order.
        edition: ``rebuilt`` or ``official-2022``.
        collection: what the manifest says of the collection; see `Collection.provenance`.
        parameters: what the whole build was asked for, e.g. the seed.
        overwrite: replace an earlier build even if it holds shifts that this one does not.
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
        entries = pool.map(lambda task: _write_split(partial, *task), tasks)
        configs: dict[str, dict[str, SplitEntry]] = {}
        for (config, split, _, _), entry in zip(tasks, entries, strict=True):
            configs.setdefault(config, {})[split] = entry
        digest = content_digest(configs)
        facts = {cut.shift.name: _facts(cut) for cut in shifts}
        card = render_card(
            data_version=DATA_VERSION,
            edition=edition,
            digest=digest,
            collection=collection,
            parameters=parameters,
            shifts=facts,
            configs=configs,
        )
        (partial / CARD_NAME).write_text(card, encoding="utf-8")
        manifest = Manifest(
            data_version=DATA_VERSION,
            edition=edition,
            content_digest=digest,
            collection=collection,
            parameters=parameters,
            shifts=facts,
            configs=configs,
            card_sha256=sha256_of(partial / CARD_NAME),
            written_with={name: version(name) for name in ("msshift-bench", "pyarrow")},
        )
        write_manifest(partial, manifest)
    return manifest


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
        "parameters": {**cut.grouping.parameters, "test_size": cut.test_size, "scale": SCALE_RULE},
        "rows": cut.counts(),
    }


def _splits_to_write(
    shifts: Sequence[ShiftSplits],
) -> Iterator[tuple[str, str, list[Row], list[str] | None]]:
    """Yield ``(config, split, rows, the split column or None)`` for every file of the data set."""
    for cut in shifts:
        placed = sorted((row, split) for split in SPLITS for row in cut.rows[split])
        yield cut.shift.name, WHOLE_SPLIT, [row for row, _ in placed], [s for _, s in placed]
        for config, held_out in cut.shift.configs.items():
            for split in SPLITS:
                rows = cut.rows[split]
                if split == "train":
                    rows = tuple(row for row in rows if row.group != held_out)
                elif split == "test":
                    rows = tuple(row for row in rows if row.group == held_out)
                yield config, split, list(rows), None


def _write_split(
    folder: Path, config: str, split: str, rows: Sequence[Row], split_column: list[str] | None
) -> SplitEntry:
    columns: list[Sequence[object]] = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], _SCHEMA)
    if split_column is not None:
        table = table.add_column(3, "split", pa.array(split_column, pa.string()))
    name = f"{config}/{split}.parquet"
    path = folder / name
    write_parquet(path, table)
    return SplitEntry(
        file=name,
        rows=len(rows),
        digest=rows_digest(rows, split_column),
        arrow_bytes=table.nbytes,
        bytes=path.stat().st_size,
        sha256=sha256_of(path),
    )
