"""Built data sets: opening, reading of rows, test sets and triples, and verification."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, overload

from msshift_bench.data.collection import Collection, open_collection
from msshift_bench.data.digests import (
    count_rows,
    joined,
    read_batches,
    read_split,
    rows_digest,
    rows_of,
    sha256_of,
)
from msshift_bench.data.manifest import (
    CARD_NAME,
    MANIFEST_NAME,
    DataInfo,
    Manifest,
    SplitEntry,
    content_digest,
    read_manifest,
)
from msshift_bench.errors import (
    Finding,
    IntegrityError,
    NotFoundError,
    UnknownNameError,
    UsageError,
    check_name,
)
from msshift_bench.exclusions import Exclusions
from msshift_bench.libraries import compute as pc, parquet as pq, pyarrow as pa
from msshift_bench.plumbing import cache_root, clean_up, sha256_of_parts, write_bytes
from msshift_bench.records import Row
from msshift_bench.shifts import (
    DATASET_NAME,
    Shift,
    get_shift,
    has_triples,
    known_shifts,
    shift_names,
)
from msshift_bench.words import words_of

COLLECTION_VARIABLE = "MSSHIFT_COLLECTION"
"""The environment variable with the source collection of data sets."""

HOME_VARIABLE = "MSSHIFT_HOME"
"""The environment variable with the folder of the built data set."""

_TRIPLES_BATCH = 65_536


class Triple(NamedTuple):
    """A query, a relevant passage, and a passage that is not judged relevant."""

    query_id: str
    positive_id: str
    negative_id: str


@dataclass(frozen=True, slots=True)
class TripleStream:
    """The triples of one config; every iteration streams them from its files.

    Attributes:
        files: Parquet files with the columns of `Triple`, in the order of their rows.
        rows: number of triples in the manifest.
    """

    files: tuple[Path, ...]
    rows: int

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[Triple]:
        for batch in self.batches():
            yield from map(Triple._make, zip(*(c.to_pylist() for c in batch), strict=True))

    def batches(self, size: int = _TRIPLES_BATCH) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `size` triples, as columns; errors as in `read_batches`."""
        for path in self.files:
            yield from read_batches(path, Triple._fields, size=size)

    def digest(self) -> str:
        """Return the SHA-256 of the `canonical_lines`: 64 hexadecimal digits."""
        return sha256_of_parts(map(canonical_lines, self.batches()))


def canonical_lines(batch: pa.RecordBatch) -> pa.Buffer:
    r"""Return ``query_id \t positive_id \t negative_id \n`` for every triple, in UTF-8."""
    return joined(pc.binary_join_element_wise(*batch.columns, "\t"), "\n")


@dataclass(frozen=True, slots=True, repr=False)
class Dataset:
    """A built data set, see `open_dataset`.

    Rows and triples are read on request, and checked against the manifest.

    Attributes:
        folder: the folder of its files.
        manifest: its manifest.

    Examples:
        >>> dataset = open_dataset("msshift")
        >>> dataset
        <Dataset msshift: length, wh-words of mini:300, rebuilt 2.0.0>
        >>> rows = dataset.rows("length-short", "train")
        >>> len(rows), rows[0].group
        (135, 'long')
    """

    folder: Path
    manifest: Manifest

    def __repr__(self) -> str:
        info = self.info
        return (
            f"<Dataset {self.folder}: {', '.join(self.manifest.shifts)} of {info.collection}, "
            f"{info.edition} {info.data_version}>"
        )

    @property
    def shifts(self) -> Mapping[str, Shift]:
        """Name -> shift: all of `SHIFTS`, built or not, and the data set's shifts of labels."""
        return known_shifts(self.manifest.shifts)

    @property
    def info(self) -> DataInfo:
        """The data set's facts for reports; errors as in `exclusions`."""
        manifest = self.manifest
        return DataInfo(
            manifest.data_version,
            manifest.edition,
            manifest.content_digest,
            str(manifest.collection["name"]),
            {
                shift: {
                    "balanced": facts["balanced"],
                    "queries": {group: counts["train"] for group, counts in facts["rows"].items()},
                }
                for shift, facts in manifest.shifts.items()
                if facts["balanced"] is not None
            },
            self.exclusions.described,
            {shift: manifest.describe_groups(shift) for shift in manifest.shifts},
            self.words,
        )

    @property
    def words(self) -> str:
        """The rule that divides texts into words: a name in `msshift_bench.words.WORDS`."""
        return words_of(self.manifest.parameters)

    @property
    def exclusions(self) -> Exclusions:
        """The passages that the build excluded, if any; they are removed from runs and judgements.

        Raises:
            NotFoundError: if the file of excluded pairs is missing.
            CollectionError: if the file is malformed.
            IntegrityError: if the file has changed.
        """
        return Exclusions.recorded(self.manifest.parameters.get("exclude"), self.folder)

    def table(self, config: str, split: str) -> pa.Table:
        """Return the rows of one split as a table.

        Args:
            config: ``length-short`` is the experiment with held-out group ``short``, ``length`` the
                complete shift.
            split: ``train``, ``validation`` or ``test``; for a complete shift ``queries``.

        Returns:
            The columns ``query_id``, ``text``, ``group``, ``relevant_doc_ids`` and ``relevances``;
            for a complete shift also ``split``, one of `PLACES`. A data set of ids has no ``text``.

        Raises:
            UnknownNameError: if the data set has no such config or split.
            UsageError: if the config has triples; use `triples`.
            IntegrityError: if a file is missing, was changed, or is too large for memory.
        """
        entries = self._entries(config)
        check_name(f"split of {config}", split, entries)
        return read_split(self._files(entries[split]))

    def rows(self, config: str, split: str) -> list[Row]:
        """Return the rows of one split; without texts, every text is "".

        Args:
            config: see `table`.
            split: see `table`.

        Raises:
            UnknownNameError, UsageError, IntegrityError: see `table`.
        """
        return list(rows_of(self.table(config, split)))

    def splits(self, config: str) -> dict[str, list[Row]]:
        """Return split -> rows, of all splits of a config; errors as in `rows`."""
        return {split: self.rows(config, split) for split in self._entries(config)}

    def test_sets(self, shift: str | Shift) -> dict[str, list[Row]]:
        """Return group -> test queries of a shift, groups in the shift's order.

        A shift by size has one test set, ``test``.

        Raises:
            UnknownNameError: if the data set lacks the shift.
            IntegrityError: if a file is missing, was changed, or is too large for memory.
        """
        (name,) = shift_names(shift, self.manifest.shifts, f"shift in {self.folder}")
        shift = get_shift(name)
        configs = {group: f"{shift.name}-{shift.out_model(group)}" for group in shift.tested}
        return {group: self.rows(config, "test") for group, config in configs.items()}

    def triples(self, config: str) -> TripleStream:
        """Return the training triples of a config such as ``length-short-triples``, as a stream.

        Raises:
            UnknownNameError: if the data set lacks the triples; ``msshift triples`` adds triples.
            IntegrityError: if a file is missing or was changed after the build.
        """
        configs = self.manifest.configs
        if not has_triples(config) or config not in configs:
            raise UnknownNameError("config of triples", config, filter(has_triples, configs))
        (entry,) = configs[config].values()
        return TripleStream(tuple(self._files(entry)), entry.rows)

    def check_built_from(self, collection: Collection) -> None:
        """Check that a collection has the queries from which the data set was built.

        A manifest without the queries' digest permits any collection.

        Raises:
            UsageError: if its queries differ.
            CollectionError: if its queries are malformed.
        """
        built_from = self.manifest.collection
        expected = built_from.get("queries", {}).get("sha256")
        if expected is not None and expected != collection.queries_digest:
            raise UsageError(
                f"{self.folder} was built from the collection {built_from['name']!r} with queries "
                f"of digest {expected[:12]}, but the queries of {collection.name!r} have the "
                f"digest {collection.queries_digest[:12]}; give the original collection, or build "
                "the data set again"
            )

    def _entries(self, config: str) -> Mapping[str, SplitEntry]:
        check_name("config", config, self.manifest.configs)
        if has_triples(config):
            raise UsageError(f"{config} has triples; read them with msshift_bench.load_triples")
        return self.manifest.configs[config]

    def _files(self, entry: SplitEntry) -> Iterator[Path]:
        """Yield the files of a split in order; raise `IntegrityError` if one was changed."""
        for file in entry.files:
            path = self.folder / file.path
            if not path.is_file() or sha256_of(path) != file.sha256:
                problem = "was changed after the build" if path.exists() else "is missing"
                raise IntegrityError(
                    f"{path} {problem}; 'msshift verify {self.folder}' lists all differences"
                )
            yield path


def installed_folder() -> Path:
    """Return the folder of ``msshift install``, which may not exist."""
    return cache_root() / "data" / DATASET_NAME


def find_dataset_folder(path: str | Path = DATASET_NAME) -> Path:
    """Return the folder of a built data set.

    The name ``msshift`` is the folder in ``MSSHIFT_HOME``, or else ``./msshift``, or else the
    installed data set; any other path is the folder itself. The folder may not exist. If a process
    was killed while it replaced the folder, the old folder is restored first.

    Raises:
        UsageError: if a running process does not finish replacing it.
    """
    folder = Path(path).expanduser()
    if str(path) == DATASET_NAME and (home := os.environ.get(HOME_VARIABLE)):
        folder = Path(home).expanduser()
    elif str(path) == DATASET_NAME:
        clean_up(folder)
        clean_up(installed_folder())
        if installed_folder().exists() and not folder.exists():
            folder = installed_folder()
    clean_up(folder)
    return folder


def open_dataset(data: Dataset | str | Path = DATASET_NAME, *, installed: bool = True) -> Dataset:
    """Return an opened data set; a `Dataset` is returned unchanged.

    Args:
        data: ``msshift`` (see `find_dataset_folder`), a built data set's folder, or a `Dataset`.
        installed: whether ``msshift`` may be the installed data set.

    Returns:
        The data set, which reads its files on request.

    Raises:
        NotFoundError: if there is no built data set, or only an installed data set and `installed`
            is false.
        IntegrityError: if its manifest was changed, or this version cannot read it.

    Examples:
        >>> tests = open_dataset("msshift").test_sets(SHIFTS["length"])
        >>> {group: len(rows) for group, rows in tests.items()}
        {'short': 44, 'long': 62}
    """
    if isinstance(data, Dataset):
        return data
    folder = find_dataset_folder(data)
    is_default = str(data) == DATASET_NAME and not os.environ.get(HOME_VARIABLE)
    if is_default and not installed and folder == installed_folder():
        raise NotFoundError(
            f"no data set in ./{DATASET_NAME}; give the folder to check, e.g. the installed data "
            f"set, {folder}"
        )
    return Dataset(folder, read_manifest(folder))


@overload
def load_dataset(
    path: Dataset | str | Path = ..., name: str | None = ..., *, split: None = ...
) -> Mapping[str, list[Row]]: ...
@overload
def load_dataset(
    path: Dataset | str | Path = ..., name: str | None = ..., *, split: str
) -> list[Row]: ...
def load_dataset(
    path: Dataset | str | Path = DATASET_NAME, name: str | None = None, *, split: str | None = None
) -> Mapping[str, list[Row]] | list[Row]:
    """Return the rows of one experiment, checked against the manifest.

    Args:
        path: the built data set; see `open_dataset`.
        name: the config, which is required; see `Dataset.table`.
        split: the split; by default all splits.

    Returns:
        The rows of one split, or a mapping from split to rows.

    Raises:
        NotFoundError: if there is no built data set.
        UnknownNameError: if the data set lacks the config or the split.
        UsageError: if the config has triples; use `load_triples`.
        IntegrityError: if a file is missing, was changed, or is too large for memory.

    Examples:
        >>> rows = load_dataset("msshift", "length-short", split="test")
        >>> rows[0].text, rows[0].relevant_doc_ids
        ('what is sanephexmyl tablet', ('53',))
    """
    dataset = open_dataset(path)
    return dataset.splits(name or "") if split is None else dataset.rows(name or "", split)


def load_triples(path: Dataset | str | Path = DATASET_NAME, name: str = "") -> TripleStream:
    """Return the training triples of one experiment, checked against the manifest.

    Args:
        path: the built data set; see `open_dataset`.
        name: the config, which is required, e.g. ``length-short-triples`` for the experiment with
            held-out group ``short``.

    Returns:
        The triples of ids, read batch by batch.

    Raises:
        NotFoundError: if there is no built data set.
        UnknownNameError: if the data set lacks the triples; ``msshift triples`` adds triples.
        IntegrityError: if a file is missing or was changed after the build.

    Examples:
        >>> _ = add_triples("msshift", "mini:300", shifts=["length"], count=2)
        >>> triples = load_triples("msshift", "length-short-triples")
        >>> next(iter(triples))._fields
        ('query_id', 'positive_id', 'negative_id')
    """
    return open_dataset(path).triples(name)


def find_source(dataset: Dataset, collection: str | None = None) -> str:
    """Return the name or folder of a data set's source collection.

    Args:
        dataset: the built data set.
        collection: the name or folder, returned unchanged. By default the value of
            ``MSSHIFT_COLLECTION``, or the manifest's id of ir_datasets, or the build's folder on
            this machine (`record_source`); for a generated collection always its name.

    Raises:
        UsageError: if the collection must be given, because it was on another machine or was moved.
    """
    built_from = dataset.manifest.collection
    name, layout = str(built_from["name"]), built_from.get("layout")
    if layout != "generated":
        collection = collection or os.environ.get(COLLECTION_VARIABLE)
    # The manifest of an imported release has no queries: its id has passages only.
    if layout in ("generated", "ir_datasets") and "queries" in built_from:
        collection = collection or name
    note = _note_path(dataset.manifest)
    folder = os.fsdecode(note.read_bytes()) if note.is_file() else ""
    if collection or (folder and Path(folder).is_dir()):
        return collection or folder
    gone = f", but its folder {folder} no longer exists" if folder else ""
    raise UsageError(
        f"{dataset.folder} was built from {name!r}{gone}; give the folder of the collection with "
        f"--collection (in Python, collection) or {COLLECTION_VARIABLE}"
    )


def open_source(
    dataset: Dataset, collection: Collection | str | Path | None, qrels: str | Path | None = None
) -> Collection:
    """Return a data set's source collection, opened.

    Args:
        dataset: the built data set.
        collection: as in `open_collection`; by default the result of `find_source`.
        qrels: for a folder, another qrels file.

    Raises:
        NotFoundError, MissingExtraError, UsageError: see `open_collection` and `find_source`.
    """
    return open_collection(collection or find_source(dataset), qrels=qrels)


def record_source(manifest: Manifest, collection: Collection | None) -> Manifest:
    """Record the folder of a collection in the cache, and return the manifest.

    `find_source` reads the record. Manifests have no path: they are equal on every machine, and
    published. A cache that cannot be written is not an error.

    Args:
        manifest: the manifest of a data set.
        collection: its collection, maybe `None`; only folders are recorded.
    """
    address = collection.address if collection is not None else None
    if address is not None and Path(address).is_absolute():
        with suppress(OSError, UsageError):
            write_bytes(_note_path(manifest), os.fsencode(address))
    return manifest


def _note_path(manifest: Manifest) -> Path:
    facts = json.dumps(manifest.collection, sort_keys=True)
    return cache_root() / "collections" / sha256_of_parts([facts.encode()])


def verify_dataset(data: Dataset | str | Path = DATASET_NAME) -> tuple[Manifest, list[Finding]]:
    """Return the manifest of a built data set, and a finding for each difference of its files.

    Every digest and count is recomputed; extra files are findings.

    Args:
        data: the built data set; see `open_dataset`. The installed data set is checked only if its
            folder is given.

    Returns:
        The manifest, and the findings; ``[]`` for an unchanged data set.

    Raises:
        NotFoundError: if there is no built data set.
        IntegrityError: if the manifest itself cannot be read, or its checksum does not match.

    Examples:
        >>> manifest, findings = verify_dataset("msshift")
        >>> manifest.data_version, findings
        ('2.0.0', [])
    """
    dataset = open_dataset(data, installed=False)
    folder, manifest = dataset.folder, dataset.manifest
    findings: list[Finding] = []
    if content_digest(manifest.configs) != manifest.content_digest:
        source = str(folder / MANIFEST_NAME)
        findings.append(
            Finding("changed-manifest", "its content digest does not match its splits", source)
        )
    expected = manifest.paths()
    for name, digest in manifest.files.items():
        code = "changed-card" if name == CARD_NAME else "changed-bytes"
        findings.extend(_verify_bytes(folder / name, digest, code))
    for config, splits in manifest.configs.items():
        for entry in splits.values():
            findings.extend(_verify_split(dataset, config, entry))
    findings.extend(
        Finding("extra-file", "the file is not part of the build", str(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).as_posix() not in expected
    )
    return manifest, findings


def _verify_bytes(path: Path, digest: str, code: str) -> Iterator[Finding]:
    if not path.is_file():
        yield Finding("missing-file", "the file is missing", str(path))
    elif sha256_of(path) != digest:
        yield Finding(code, "the bytes differ from the manifest's SHA-256", str(path))


def _verify_split(dataset: Dataset, config: str, entry: SplitEntry) -> Iterator[Finding]:
    folder = dataset.folder
    for file in entry.files:
        changed = list(_verify_bytes(folder / file.path, file.sha256, "changed-bytes"))
        yield from changed
        if not changed:
            size = (folder / file.path).stat().st_size
            yield from _compare(folder, f"bytes of {file.path}", file.bytes, size)
    if not all((folder / file.path).is_file() for file in entry.files):
        return
    try:
        yield from _verify_rows(dataset, config, entry)
    except IntegrityError as error:
        yield Finding("parquet-too-large", str(error), str(folder / entry.files[0].path))
    except (
        pa.ArrowException,
        KeyError,
        OSError,
        TypeError,  # a column of another type, e.g. ids that another tool changed to numbers
    ) as error:
        source = str(folder / entry.files[0].path)
        # Thrift's messages contain bytes of the file, and end in a line break.
        words = "".join(letter if letter.isprintable() else " " for letter in str(error)).split()
        yield Finding(
            "unreadable", f"not a Parquet file of this data set: {' '.join(words)}", source
        )


def _verify_rows(dataset: Dataset, config: str, entry: SplitEntry) -> Iterator[Finding]:
    folder, manifest = dataset.folder, dataset.manifest
    paths = [folder / file.path for file in entry.files]
    for path, file in zip(paths, entry.files, strict=True):
        count = pq.read_metadata(path.absolute()).num_rows
        if count != file.rows:
            yield Finding("changed-count", f"expected {file.rows} rows, found {count}", str(path))
    place = f"{config}/{paths[0].stem}"
    total = sum(file.rows for file in entry.files)
    yield from _compare(folder, f"rows of {place}", entry.rows, total)
    if has_triples(config):
        digest, expected = TripleStream(tuple(paths), entry.rows).digest(), entry.digest
        without_texts = digest
    else:
        table = read_split(paths)
        expected = entry.digest if manifest.texts else entry.ids_digest
        digest, without_texts = rows_digest(table), rows_digest(table, texts=False)
        if config in manifest.shifts and digest == expected:
            rows = count_rows(dataset.shifts[config], table)
            yield from _compare(folder, f"rows of {config}", manifest.shifts[config]["rows"], rows)
    if digest != expected:
        message, fix = "the rows' digest differs from the manifest", "build or download it again"
        yield Finding("changed-rows", message, str(paths[0]), fix=fix)
    else:
        compared = f"digest without texts of {place}"
        yield from _compare(folder, compared, entry.ids_digest, without_texts)


def _compare(folder: Path, compared: str, stated: object, actual: object) -> Iterator[Finding]:
    if stated != actual:
        message = f"{compared}: expected {stated}, found {actual}"
        yield Finding("changed-manifest", message, str(folder / MANIFEST_NAME))
