"""Write a data set: Parquet files of its shifts, a card, metadata and a manifest.

`seal` is the last step of every build: it writes the files that describe the data set.
`amend_dataset` changes a built data set and seals it again. `hydrate_dataset` adds the queries'
texts to a data set of ids only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection as Sized, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from msshift_bench.data import (
    CARD_NAME,
    CROISSANT_NAME,
    DATA_VERSION,
    Collection,
    Dataset,
    FileEntry,
    Manifest,
    SplitEntry,
    check_collection_name,
    content_digest,
    count_rows,
    digest_of_lines,
    has_manifest,
    is_balanced,
    open_collection,
    open_dataset,
    read_manifest,
    record_source,
    row_lines,
    sha256_of,
    write_manifest,
)
from msshift_bench.dataset_builders.cut import WHOLE_SPLIT, ShiftSplits
from msshift_bench.dataset_builders.describe import render_card, render_croissant
from msshift_bench.errors import DataError, FindingLog, UsageError, first_few
from msshift_bench.exclusions import EXCLUDED_NAME, Exclusions
from msshift_bench.plumbing import (
    link_file,
    replace_folder,
    report_progress,
    write_bytes,
    write_json,
    write_parquet,
)
from msshift_bench.shifts import LabelledShift, has_triples
from msshift_bench.words import words_of

_LINE, _LINE_WITHOUT_TEXT = "line", "line without text"


def write_dataset(
    folder: Path,
    shifts: Sequence[ShiftSplits],
    *,
    edition: str,
    collection: Mapping[str, object],
    parameters: Mapping[str, object],
    texts: bool = True,
    overwrite: bool = False,
    exclusions: Exclusions | None = None,
) -> Manifest:
    """Write shifts as the data set ``msshift``: Parquet files, card, metadata and manifest.

    The folder appears, or replaces an earlier build, only when all files are written. A split
    without rows has no file and no entry.

    Args:
        folder: the folder to write; its parents are created.
        shifts: the splits of each shift, at least one; their configs are written in this order.
        edition: ``rebuilt`` or ``official-2022``.
        collection: the manifest's facts on the collection; see `Collection.provenance`.
        parameters: the parameters that all shifts share, e.g. the seed.
        texts: whether rows contain the queries' texts.
        overwrite: replace an earlier build even if that loses files; see `check_dataset_target`.
        exclusions: the passages that the build excluded.

    Returns:
        The manifest of the written data set.

    Raises:
        UsageError: if the folder has other contents than an earlier build, replacing it would lose
            files, or another process is writing it.
    """
    with replace_folder(folder) as unfinished:
        check_dataset_target(
            folder,
            [cut.shift.name for cut in shifts],
            collection=str(collection["name"]),
            overwrite=overwrite,
        )
        configs: dict[str, dict[str, SplitEntry]] = {}
        for cut in shifts:
            table = _with_lines(cut.table)
            for config, split, wanted in cut.configs():
                splits, rows = configs.setdefault(config, {}), table.filter(wanted)
                if len(rows):  # Libraries cannot open a file without rows.
                    splits[split] = _write_split(unfinished, config, split, rows, texts=texts)
        for cut in shifts:
            for name, table in cut.grouping.tables.items():
                write_parquet(unfinished / name, table)
        if exclusions:
            parameters = {**parameters, "exclude": exclusions.facts}
            if exclusions.pairs:
                write_bytes(unfinished / EXCLUDED_NAME, exclusions.lines.encode())
        return seal(
            unfinished,
            Manifest(
                data_version=DATA_VERSION,
                edition=edition,
                content_digest="",
                texts=texts,
                collection=collection,
                parameters=parameters,
                shifts={cut.shift.name: _facts(cut, words_of(parameters)) for cut in shifts},
                configs=configs,
                files={},
                written_with=_versions(),
            ),
        )


def check_dataset_target(
    folder: Path, shifts: Sequence[str], *, collection: str, overwrite: bool
) -> None:
    """Check that a data set can be written to a folder, before the data set is computed.

    Args:
        folder: the folder to write.
        shifts: the names of the data set's shifts.
        collection: the name of the data set's collection.
        overwrite: replace an earlier build even if that loses data; see `build_dataset`.

    Raises:
        UsageError: if the folder is not empty and not an earlier build, or if the collection's name
            cannot be written into a manifest. Without `overwrite`, also if the earlier build is
            from another collection, or has shifts, triples or files that would be lost.
        IntegrityError: without `overwrite`, if the earlier build's manifest cannot be read.
    """
    check_collection_name(collection)
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not has_manifest(folder)):
        raise UsageError(
            f"{folder} exists and is not a data set built by msshift; "
            "choose another --out, or move it away"
        )
    if any(folder.iterdir()) and not overwrite:
        earlier = read_manifest(folder)
        if earlier.collection["name"] != collection:
            raise UsageError(
                f"{folder} is built from {earlier.collection['name']!r}, but this build is from "
                f"{collection!r}; choose another --out, or pass --overwrite to replace it"
            )
        lost = [name for name in earlier.shifts if name not in shifts]
        if lost:
            raise UsageError(
                f"{folder} also holds {', '.join(lost)}, which this build would remove; "
                f"build {' '.join([*lost, *shifts])} together, or pass --overwrite"
            )
        if triples := [name for name in earlier.configs if has_triples(name)]:
            raise UsageError(
                f"{folder} also holds training triples ({', '.join(triples)}), which this build "
                "would remove; choose another --out, or pass --overwrite and make them again with "
                "'msshift triples'"
            )
        if others := _other_files(folder, earlier):
            raise UsageError(
                f"{folder} also holds other files ({others[0]}"
                f"{f' and {len(others) - 1:,} more' if len(others) > 1 else ''}), which this "
                "build would remove; move them away, or pass --overwrite"
            )


def _other_files(folder: Path, manifest: Manifest) -> list[str]:
    """Return the sorted paths of files in a data set's folder that are not in its manifest.

    Files that are hidden or in hidden folders are omitted.
    """
    return sorted(name for name in _files_in(folder) - manifest.paths() if "/." not in f"/{name}")


def _files_in(folder: Path) -> set[str]:
    """Return the paths, relative to a folder, of the files and links in it and its subfolders."""
    paths = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return {path.relative_to(folder).as_posix() for path in paths}


def _facts(cut: ShiftSplits, words: str) -> dict[str, object]:
    name, counts = cut.shift.name, count_rows(cut.shift, cut.table)
    sizes = {group: placed["train"] for group, placed in counts.items()}
    return {
        "rule": cut.grouping.rule,
        "parameters": {**cut.grouping.parameters, **cut.sizes},
        "rows": counts,
        "balanced": is_balanced(sizes) if any(sizes.values()) else None,
        **({"same_words": cut.same_words(words)} if any(sizes.values()) else {}),
        **({"found": cut.grouping.found} if cut.grouping.found else {}),
        **({"groups": dict(name.groups)} if isinstance(name, LabelledShift) else {}),
    }


def _with_lines(table: pa.Table) -> pa.Table:
    """Return rows with two columns of their canonical forms, with and without text.

    They are computed once, as a row is in several configs.
    """
    table = table.append_column(_LINE, row_lines(table))
    return table.append_column(_LINE_WITHOUT_TEXT, row_lines(table, texts=False))


def _write_split(
    folder: Path, config: str, split: str, table: pa.Table, *, texts: bool
) -> SplitEntry:
    """Write a split as ``<config>/<split>.parquet``, and return its entry.

    `table` has the columns of `_with_lines`, which are not written.
    """
    left_out = [_LINE, _LINE_WITHOUT_TEXT]
    left_out += [] if split == WHOLE_SPLIT else ["split"]
    left_out += [] if texts else ["text"]
    name = f"{config}/{split}.parquet"
    path = folder / name
    write_parquet(path, table.select([c for c in table.column_names if c not in left_out]))
    splits = table["split"] if split == WHOLE_SPLIT else None
    return SplitEntry(
        files=(FileEntry(name, len(table), path.stat().st_size, sha256_of(path)),),
        rows=len(table),
        digest=digest_of_lines(table[_LINE], splits),
        ids_digest=digest_of_lines(table[_LINE_WITHOUT_TEXT], splits),
        arrow_bytes=pq.read_table(path.absolute()).nbytes,
    )


def seal(folder: Path, manifest: Manifest, *, beside: Sized[str] = ()) -> Manifest:
    """Write the card, the metadata and the manifest of a data set whose other files are written.

    Args:
        folder: the folder of the data set.
        manifest: the manifest, without the digests that `seal` computes: of the content and of
            files that are not splits.
        beside: the paths of files in the folder that are not part of the data set.

    Returns:
        The complete manifest.
    """
    manifest = replace(manifest, content_digest=content_digest(manifest.configs), files={})
    write_bytes(folder / CARD_NAME, render_card(manifest, folder).encode())
    write_json(folder / CROISSANT_NAME, render_croissant(manifest))
    known = {*manifest.paths(), *beside}
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*"))}
    others = {n: sha256_of(p) for n, p in paths.items() if p.is_file() and n not in known}
    manifest = replace(manifest, files=others)
    write_manifest(folder, manifest)
    return manifest


def amend_dataset(
    dataset: Dataset, change: Callable[[Path, Manifest], Manifest], *, work: str = ""
) -> Manifest:
    """Change a built data set, and return its new manifest; after an error it is unchanged.

    Unchanged files are linked, not copied. Files that are not part of the data set are kept.

    Args:
        dataset: the data set.
        change: a function of a folder with all files of the data set, and of its manifest. It
            returns the new manifest. It may add files, but must not write into existing files.
        work: the work with its queries since it was opened, e.g. ``its triples were made``. If
            another process has rebuilt the data set, the error names this work. "" if such a
            rebuild is not an error.

    Raises:
        NotFoundError: if the data set does not exist any more.
        UsageError: if another process is writing it, or has rebuilt it during `work`.
    """
    folder = dataset.folder
    with replace_folder(folder) as partial:
        # Another process may have changed the data set before this one locked the folder.
        manifest = read_manifest(folder)
        if work and manifest.content_digest != dataset.manifest.content_digest:
            raise UsageError(f"{folder} was rebuilt while {work}; run the command again")
        names = _files_in(folder)
        for name in names:
            file, target = folder / name, partial / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.is_file():
                link_file(file, target)
            else:  # A link to a folder, such as runs on another disk, or a broken link.
                target.symlink_to(file.readlink())
        return seal(partial, change(partial, manifest), beside=names - manifest.paths())


def hydrate_dataset(data: Dataset | str | Path, collection: Collection | str | Path) -> Manifest:
    """Restore the queries' texts in a built data set, which then equals a build with texts.

    The digest of every split with texts must equal its digest in the manifest; otherwise the data
    set is not changed. A data set with texts is not changed either.

    Args:
        data: the built data set; see `open_dataset`.
        collection: the collection of the queries, or an argument of `open_collection`; its passages
            and qrels are not read.

    Returns:
        The manifest of the data set with its texts.

    Raises:
        NotFoundError: if there is no built data set.
        IntegrityError: if one of its files is missing or was changed.
        CollectionError: if the collection's queries are malformed.
        DataError: if queries are not in the collection, their texts differ from the texts of the
            build, or the data set was imported without texts.
        UsageError: if another process is writing the data set.

    Examples:
        >>> _ = build_dataset("mini:300", ["length"], "ids", texts=False)
        >>> hydrate_dataset("ids", "mini:300").texts
        True
    """
    dataset = open_dataset(data)
    if dataset.manifest.texts:
        return dataset.manifest
    if unknown := dataset.manifest.without_texts():
        raise DataError(
            f"{dataset.folder} was imported without the texts of {unknown[0]}, so they cannot be "
            "checked; import it again with the collection of its queries "
            "('msshift import DIR --collection C')"
        )
    collection = open_collection(collection)
    texts = collection.queries

    def with_texts(folder: Path, manifest: Manifest) -> Manifest:
        if manifest.texts:  # Another process has restored them since the data set was opened.
            return manifest
        unfinished = Dataset(folder, manifest)
        tables = {
            (config, split): unfinished.table(config, split)
            for config, splits in manifest.configs.items()
            if not has_triples(config)
            for split in splits
        }
        query_ids = {i for table in tables.values() for i in table["query_id"].to_pylist()}
        if missing := query_ids - texts.keys():
            raise DataError(
                f"{len(missing)} of the {len(query_ids)} queries of {dataset.folder} are not in "
                f"{collection.name}: {first_few(missing)}; give the collection of its queries"
            )
        configs = {config: dict(splits) for config, splits in manifest.configs.items()}
        findings = FindingLog()
        for number, ((config, split), table) in enumerate(tables.items(), 1):
            table = _with_lines(_with_texts(table, texts))
            entry = _write_split(folder, config, split, table, texts=True)
            if entry.digest != configs[config][split].digest:
                message = "the texts differ from the texts of the build"
                findings.add("changed-texts", message, f"{config}/{split}")
            configs[config][split] = entry
            report_progress("splits", number, len(tables))
        findings.stop_if_any(DataError, _explain(dataset.folder, manifest, collection))
        return replace(
            manifest,
            texts=True,
            configs=configs,
            written_with={**manifest.written_with, **_versions()},
        )

    return record_source(amend_dataset(dataset, with_texts), collection)


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("msshift-bench", "pyarrow")}


def _with_texts(table: pa.Table, texts: Mapping[str, str]) -> pa.Table:
    column = pa.array(map(texts.__getitem__, table["query_id"].to_pylist()), pa.string())
    table = table.add_column(1, "text", column)
    # Parquet and Arrow name the items of a list differently, and the name is part of the bytes.
    fields = [
        field.with_type(pa.list_(field.type.value_type)) if pa.types.is_list(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, table.schema.metadata)).combine_chunks()


def _explain(folder: Path, manifest: Manifest, collection: Collection) -> str:
    built, given = manifest.collection["text"], collection.text_variant
    return (
        f"{collection.name} has other texts for the queries of {folder}, which was built from "
        f"{built} texts of {manifest.collection['name']}"
        f"{f' (the given texts are {given})' if built != given else ''}; the data set is unchanged:"
    )
