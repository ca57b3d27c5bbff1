"""Reading a built data set: every experiment of the benchmark with one call."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

from msshift_bench.digests import rows_digest, sha256_of
from msshift_bench.errors import Finding, IntegrityError, UnknownNameError
from msshift_bench.manifest import (
    CARD_NAME,
    MANIFEST_NAME,
    Manifest,
    SplitEntry,
    content_digest,
    read_manifest,
)
from msshift_bench.records import Row
from msshift_bench.shifts import DATASET_NAME, Shift

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["HOME_VARIABLE", "Rows", "load_dataset", "locate", "load_test_sets", "verify_dataset"]

HOME_VARIABLE = "MSSHIFT_HOME"
"""The environment variable that names the folder of the built data set."""


@dataclass(frozen=True, slots=True)
class Rows(Sequence[Row]):
    """The rows of one split: a sequence of `Row`, backed by an Arrow table.

    Attributes:
        table: columns ``query_id``, ``text``, ``group``, ``relevant_doc_ids``; in a config that
            holds a whole shift also ``split``.
    """

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Row | Rows:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return Rows(self.table.take(list(range(start, stop, step))))
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return next(iter(Rows(self.table.slice(index % len(self), 1))))

    def __iter__(self) -> Iterator[Row]:
        columns = (self.table.column(name).to_pylist() for name in Row._fields)
        for query_id, text, group, doc_ids in zip(*columns, strict=True):
            yield Row(query_id, text, group, tuple(doc_ids))


def locate(path: str | Path = DATASET_NAME) -> Path:
    """Return the folder of a built data set.

    The bare name ``msshift`` means the folder named by ``MSSHIFT_HOME``, or else ``./msshift``;
    anything else is a folder itself. The folder need not exist.
    """
    if str(path) == DATASET_NAME and (home := os.environ.get(HOME_VARIABLE)):
        return Path(home).expanduser()
    return Path(path).expanduser()


@overload
def load_dataset(
    path: str | Path = ..., name: str | None = ..., *, split: None = ...
) -> Mapping[str, Rows]: ...
@overload
def load_dataset(path: str | Path = ..., name: str | None = ..., *, split: str) -> Rows: ...
def load_dataset(
    path: str | Path = DATASET_NAME, name: str | None = None, *, split: str | None = None
) -> Mapping[str, Rows] | Rows:
    """Load one experiment, checked against the manifest of the build.

    Args:
        path: ``msshift`` (see `locate`) or the folder of a built data set.
        name: the config: ``length-short`` is the experiment that holds ``short`` out, ``length``
            is the whole shift.
        split: ``train``, ``validation`` or ``test``; for a whole shift ``queries``. All of them,
            if left out.

    Returns:
        The rows of one split, or a mapping from split to rows.

    Raises:
        NotFoundError: if there is no built data set.
        UnknownNameError: if it has no such config or split.
        IntegrityError: if a file is missing or is not the one that was built.
    """
    folder = locate(path)
    manifest = read_manifest(folder)
    if name is None or name not in manifest.configs:
        raise UnknownNameError("config", name or "", manifest.configs)
    entries = manifest.configs[name]
    if split is not None:
        if split not in entries:
            raise UnknownNameError(f"split of {name}", split, entries)
        return _load_split(folder, entries[split])
    return {split: _load_split(folder, entry) for split, entry in entries.items()}


def load_test_sets(
    shift: Shift, path: str | Path = DATASET_NAME
) -> tuple[Manifest, dict[str, Rows]]:
    """Load the test queries of every group of a shift.

    Returns:
        The manifest of the data set, and group -> test rows in the order of the shift's groups.

    Raises:
        NotFoundError: if there is no built data set.
        UnknownNameError: if it does not hold the shift.
        IntegrityError: if a file is missing or is not the one that was built.
    """
    folder = locate(path)
    manifest = read_manifest(folder)
    if shift.name not in manifest.shifts:
        raise UnknownNameError(f"shift in {folder}", shift.name, manifest.shifts)
    return manifest, {
        group: _load_split(folder, manifest.configs[config]["test"])
        for config, group in shift.configs.items()
    }


def _load_split(folder: Path, entry: SplitEntry) -> Rows:
    import pyarrow.parquet as pq

    path = folder / entry.file
    if not path.is_file() or sha256_of(path) != entry.sha256:
        what = "has changed since it was built" if path.exists() else "is missing"
        raise IntegrityError(f"{path} {what}; 'msshift verify {folder}' says more, build it again")
    return Rows(pq.read_table(path))


def verify_dataset(path: str | Path = DATASET_NAME) -> tuple[Manifest, list[Finding]]:
    """Recompute every digest and count of a built data set, and look for extra files.

    Returns:
        The manifest, and what differs from it; nothing, if the data set is what was built.

    Raises:
        NotFoundError: if there is no built data set.
        IntegrityError: if the manifest itself cannot be read.
    """
    folder = locate(path)
    manifest = read_manifest(folder)
    findings: list[Finding] = []
    expected = {MANIFEST_NAME, CARD_NAME}
    card = folder / CARD_NAME
    if not card.is_file():
        findings.append(Finding("missing-file", "the card is missing", str(card)))
    elif sha256_of(card) != manifest.card_sha256:
        findings.append(Finding("changed-card", "the card is not the one written", str(card)))
    if content_digest(manifest.configs) != manifest.content_digest:
        source = str(folder / MANIFEST_NAME)
        findings.append(Finding("changed-manifest", "its digests contradict each other", source))
    for splits in manifest.configs.values():
        for entry in splits.values():
            expected.add(entry.file)
            findings.extend(_verify_split(folder, entry))
    findings.extend(
        Finding("extra-file", "not part of the build", str(found))
        for found in sorted(folder.rglob("*"))
        if found.is_file() and found.relative_to(folder).as_posix() not in expected
    )
    return manifest, findings


def _verify_split(folder: Path, entry: SplitEntry) -> Iterator[Finding]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / entry.file
    if not path.is_file():
        yield Finding("missing-file", "the file is missing", str(path))
        return
    if sha256_of(path) != entry.sha256:
        yield Finding("changed-bytes", "the bytes are not those that were written", str(path))
    try:
        rows = Rows(pq.read_table(path))
        splits = rows.table["split"].to_pylist() if "split" in rows.table.column_names else None
        digest = rows_digest(rows, splits)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError, OSError) as error:
        yield Finding("unreadable", f"not a Parquet file of this data set: {error}", str(path))
        return
    if len(rows) != entry.rows:
        yield Finding("changed-count", f"{len(rows)} rows instead of {entry.rows}", str(path))
    if digest != entry.digest:
        yield Finding("changed-rows", "the rows are not those that were built", str(path))
