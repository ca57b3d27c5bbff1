"""Checking a built data set: compute every digest and count of its manifest again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msshift_bench.data.dataset import Dataset, TripleStream, open_dataset
from msshift_bench.data.digests import count_rows, read_split, rows_digest, sha256_of
from msshift_bench.data.manifest import (
    CARD_NAME,
    MANIFEST_NAME,
    Manifest,
    SplitEntry,
    content_digest,
)
from msshift_bench.errors import Finding, IntegrityError
from msshift_bench.shifts import DATASET_NAME, SHIFTS, holds_triples

__all__ = ["verify_dataset"]


def verify_dataset(
    data: Dataset | str | Path = DATASET_NAME,
) -> tuple[Manifest, list[Finding]]:
    """Recompute every digest and count of a built data set, and look for extra files.

    Args:
        data: the built data set; see `open_dataset`.

    Returns:
        The manifest, and what differs from it; no findings if the data set is what was built.

    Raises:
        NotFoundError: if there is no built data set.
        IntegrityError: if the manifest itself cannot be read.

    Examples:
        >>> manifest, findings = verify_dataset("msshift")
        >>> manifest.data_version, findings
        ('2.0.0', [])
    """
    dataset = open_dataset(data)
    folder, manifest = dataset.folder, dataset.manifest
    findings: list[Finding] = []
    if content_digest(manifest.configs) != manifest.content_digest:
        source = str(folder / MANIFEST_NAME)
        findings.append(Finding("changed-manifest", "its digests contradict each other", source))
    expected = manifest.paths()
    for name, digest in manifest.files.items():
        code = "changed-card" if name == CARD_NAME else "changed-bytes"
        findings.extend(_verify_bytes(folder / name, digest, code))
    for config, splits in manifest.configs.items():
        for entry in splits.values():
            findings.extend(_verify_split(dataset, config, entry))
    findings.extend(
        Finding("extra-file", "not part of the build", str(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).as_posix() not in expected
    )
    return manifest, findings


def _verify_bytes(path: Path, digest: str, code: str) -> Iterator[Finding]:
    if not path.is_file():
        yield Finding("missing-file", "the file is missing", str(path))
    elif sha256_of(path) != digest:
        yield Finding(code, "the bytes are not those that were written", str(path))


def _verify_split(dataset: Dataset, config: str, entry: SplitEntry) -> Iterator[Finding]:
    import pyarrow as pa

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
        TypeError,  # a column of other values than the build's: ids that another tool made numbers
    ) as error:
        source = str(folder / entry.files[0].path)
        yield Finding("unreadable", f"not a Parquet file of this data set: {error}", source)


def _verify_rows(dataset: Dataset, config: str, entry: SplitEntry) -> Iterator[Finding]:
    import pyarrow.parquet as pq

    folder, manifest = dataset.folder, dataset.manifest
    paths = [folder / file.path for file in entry.files]
    for path, file in zip(paths, entry.files, strict=True):
        count = pq.read_metadata(path).num_rows
        if count != file.rows:
            yield Finding("changed-count", f"{count} rows instead of {file.rows}", str(path))
    place = f"{config}/{paths[0].stem}"
    total = sum(file.rows for file in entry.files)
    yield from _compare(folder, f"rows of {place}", entry.rows, total)
    if holds_triples(config):
        digest, expected = TripleStream(tuple(paths), entry.rows).digest(), entry.digest
        without_texts = digest
    else:
        table = read_split(paths)
        expected = entry.digest if manifest.texts else entry.ids_digest
        digest, without_texts = rows_digest(table), rows_digest(table, texts=False)
        if config in manifest.shifts and digest == expected:
            stated = manifest.shifts[config]["rows"]
            yield from _compare(
                folder, f"rows of {config}", stated, count_rows(SHIFTS[config], table)
            )
    if digest != expected:
        yield Finding("changed-rows", "the rows are not those that were built", str(paths[0]))
    else:
        what = f"digest without texts of {place}"
        yield from _compare(folder, what, entry.ids_digest, without_texts)


def _compare(folder: Path, what: str, stated: object, found: object) -> Iterator[Finding]:
    if stated != found:
        message = f"{what}: it says {stated}, found {found}"
        yield Finding("changed-manifest", message, str(folder / MANIFEST_NAME))
