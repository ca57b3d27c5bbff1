"""Reading a built data set: every experiment of the benchmark with one call."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

from msshift_bench.data.digests import sha256_of
from msshift_bench.data.manifest import Manifest, SplitEntry, read_manifest
from msshift_bench.errors import IntegrityError, UnknownNameError, UsageError
from msshift_bench.plumbing import cache_folder, settle
from msshift_bench.records import Row
from msshift_bench.shifts import DATASET_NAME, Shift, holds_triples

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "HOME_VARIABLE",
    "Rows",
    "checked_files",
    "installed_folder",
    "load_dataset",
    "load_test_sets",
    "locate",
]

HOME_VARIABLE = "MSSHIFT_HOME"
"""The environment variable that names the folder of the built data set."""


@dataclass(frozen=True, slots=True)
class Rows(Sequence[Row]):
    """The rows of one split: a sequence of `Row`, backed by an Arrow table.

    Attributes:
        table: columns ``query_id``, ``text``, ``group``, ``relevant_doc_ids``, ``relevances``; in
            a config that holds a whole shift also ``split``. Without ``text``, where a data set
            holds ids only, every row's text is "".
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
        no_texts = "text" not in self.table.column_names
        columns = (
            [""] * len(self) if name == "text" and no_texts else self.table.column(name).to_pylist()
            for name in Row._fields
        )
        for query_id, text, group, doc_ids, relevances in zip(*columns, strict=True):
            yield Row(query_id, text, group, tuple(doc_ids), tuple(relevances))


def installed_folder() -> Path:
    """Return where ``msshift install`` keeps the data set, whether or not it is there."""
    return cache_folder("data") / DATASET_NAME


def locate(path: str | Path = DATASET_NAME) -> Path:
    """Return the folder of a built data set.

    The bare name ``msshift`` means the folder named by ``MSSHIFT_HOME``, or else ``./msshift``, or
    else the one that was installed; anything else is a folder itself. The folder need not exist; if
    a process that was to replace it was killed on the way, it is put back first.
    """
    if str(path) != DATASET_NAME:
        return _settled(Path(path).expanduser())
    if home := os.environ.get(HOME_VARIABLE):
        return _settled(Path(home).expanduser())
    here, installed = _settled(Path(DATASET_NAME)), _settled(installed_folder())
    return here if here.exists() or not installed.exists() else installed


def _settled(folder: Path) -> Path:
    settle(folder)
    return folder


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
        UsageError: if the config holds triples; `Triples` streams them.
        IntegrityError: if a file is missing or is not the one that was built.
    """
    folder = locate(path)
    manifest = read_manifest(folder)
    if name is None or name not in manifest.configs:
        raise UnknownNameError("config", name or "", manifest.configs)
    if holds_triples(name):
        raise UsageError(f"{name} holds triples; msshift_bench.load_triples streams them")
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
    import pyarrow as pa
    import pyarrow.parquet as pq

    # pq.read_table imports pandas, which takes 0.3 s.
    files = checked_files(folder, entry)
    return Rows(pa.concat_tables([pq.ParquetFile(path).read() for path in files]))


def checked_files(folder: Path, entry: SplitEntry) -> list[Path]:
    """Return the files of a split, in the order of their rows.

    Raises:
        IntegrityError: if one is missing or is not the one that was built.
    """
    paths = [folder / file.path for file in entry.files]
    for path, file in zip(paths, entry.files, strict=True):
        if not path.is_file() or sha256_of(path) != file.sha256:
            what = "has changed since it was built" if path.exists() else "is missing"
            raise IntegrityError(
                f"{path} {what}; 'msshift verify {folder}' says more, build it again"
            )
    return paths
