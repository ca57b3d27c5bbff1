"""Import released files as a data set: the function behind ``msshift build --official``.

The papers stop training early by 1,600 validation queries that no shift touches (MS-Shift, section
4); the files of 2022 do not say which. We sample ours by keyed hash from the joined training
queries (see `release`) that no test set and no training set of the release holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from msshift_bench.data import Collection, Manifest, open_collection
from msshift_bench.dataset_builders.cut import VALIDATION_SIZE, Cut, cut_table, shrink
from msshift_bench.dataset_builders.keyed_draws import sample
from msshift_bench.dataset_builders.provenance import MS_SHIFT
from msshift_bench.dataset_builders.release import OfficialRelease, read_official
from msshift_bench.dataset_builders.writer import write_dataset
from msshift_bench.dataset_builders.zhan import read_resttest
from msshift_bench.errors import DataError, NotFoundError, UnknownNameError, UsageError
from msshift_bench.records import OTHERS, Row
from msshift_bench.shifts import DATASET_NAME

__all__ = [
    "import_official",
]

_SEED = 0

_EDITION = "official-2022"

_READERS: Mapping[str, Callable[..., OfficialRelease]] = {
    "EVAL": read_official,
    "resttest_files": read_resttest,
}
"""The folder by which a checkout is recognised -> the function that reads it."""

_MS_MARCO = {"name": "msmarco-passage", "layout": "ir_datasets", "text": "raw"}
"""The collection that the released ids refer to, if none is given."""


def import_official(
    sources: Sequence[str | Path],
    folder: str | Path = DATASET_NAME,
    *,
    collection: Collection | str | Path | None = None,
    shifts: Sequence[str] = (),
    nano: bool = False,
    texts: bool = True,
    overwrite: bool = False,
    workers: int = 1,
) -> Manifest:
    """Write the released test sets, and the training sets if they are at hand, as they are.

    The releases name no validation queries. If training queries are imported, some that nothing
    else uses become validation queries; see `_add_validation`. The manifest's parameters say
    how many.

    Args:
        sources: checkouts of the MS-Shift release (with ``EVAL``) and of ReSTTest (with
            ``resttest_files``).
        folder: the folder to write.
        collection: MS MARCO's queries, or what `open_collection` takes: for the texts of ReSTTest,
            whose release has none, and for the training file of MS-Shift, which has no ids.
        shifts: only these; all that the sources hold, if empty.
        nano: write a small part of every split; see `cut.shrink`.
        texts: whether rows hold the queries' texts.
        overwrite: replace an earlier build even if that loses shifts, triples, files that are no
            part of it, or the data set of another collection.
        workers: threads that write files.

    Returns:
        The manifest of what was written.

    Raises:
        NotFoundError: if a source is neither release.
        UnknownNameError: for a shift that no source holds.
        UsageError: if a collection is needed and not given, two sources hold the same shift, or
            the folder must not be replaced.
        DataError: if a file fails a check, or the collection holds no query of the releases.

    Example:
        >>> manifest = import_official(["ms-marco-shift"], "official")
        >>> manifest.edition, list(manifest.shifts)
        ('official-2022', ['topics', 'wh-words', 'length'])
    """
    if collection is not None:
        collection = open_collection(collection)
    releases = [_read(Path(source).expanduser(), collection) for source in sources]
    validated, validation = _add_validation(releases)
    if collection is not None:
        _check_theirs(collection, validated)
    cuts = {}
    for cut in validated:
        if cut.shift.name in cuts:
            raise UsageError(f"two sources hold the shift {cut.shift.name}")
        cuts[cut.shift.name] = cut
    for name in shifts:
        if name not in cuts:
            raise UnknownNameError("shift in these sources", name, cuts)
    chosen = [cut for name, cut in cuts.items() if not shifts or name in shifts]
    chosen_names = {cut.shift.name for cut in chosen}
    if texts and not all(
        release.texts
        for release in releases
        if any(cut.shift.name in chosen_names for cut in release.shifts)
    ):
        raise UsageError(
            "resttest is released without texts; give the collection that holds its queries, "
            "or leave all texts out with --ids-only"
        )
    return write_dataset(
        Path(folder),
        [shrink(cut, seed=0) if nano else cut for cut in chosen],
        edition=_EDITION,
        collection={
            **(_MS_MARCO if collection is None else collection.provenance()),
            "licence": MS_SHIFT,
        },
        parameters={
            "nano": nano,
            "validation": dict(validation),
            "releases": [dict(release.report) for release in releases],
        },
        texts=texts,
        overwrite=overwrite,
        workers=workers,
    )


def _add_validation(
    releases: Sequence[OfficialRelease],
) -> tuple[Sequence[Cut], Mapping[str, object]]:
    """Give all shifts that have training queries the same validation queries.

    A query that has the id or the text of a training or test query of any shift is left out. The
    sample does not depend on which shifts are written.

    Args:
        releases: all releases that are imported together.

    Returns:
        The shifts, in the order in which they were given, and the manifest's facts on the
        validation queries: ``queries``, their number, and, if it is 0, ``why``. If no query is left
        to sample from, no shift has the split ``validation``.
    """
    cuts = [cut for release in releases for cut in release.shifts]
    joined = {id_: query for release in releases for id_, query in release.joined.items()}
    if not joined:
        return cuts, {"queries": 0, "why": "no training queries were joined to a collection"}
    used_ids, used_texts = (
        {value for cut in cuts for value in cut.table[name].to_pylist()}
        for name in ("query_id", "text")
    )
    free = [
        query_id
        for query_id, query in joined.items()
        if query_id not in used_ids and query.text not in used_texts
    ]
    if not free:
        why = "every joined query is trained on or tested with in some shift"
        return cuts, {"queries": 0, "why": why}
    sampled = sample(free, VALIDATION_SIZE, seed=_SEED, purpose="validation")
    chosen = [(query_id, joined[query_id]) for query_id in sorted(sampled)]

    def validated(cut: Cut) -> Cut:
        if "train" not in cut.splits:
            return cut
        name = cut.shift.name
        rows = [
            Row.judged(query_id, query.text, query.groups.get(name, OTHERS), query.relevant)
            for query_id, query in chosen
        ]
        table = pa.concat_tables([cut.table, cut_table({"validation": rows})]).sort_by("query_id")
        return replace(cut, table=table, splits=(*cut.splits, "validation"))

    facts = {"queries": len(chosen), "sampled_from": len(free), "seed": _SEED}
    return [validated(cut) for cut in cuts], facts


def _check_theirs(collection: Collection, cuts: Sequence[Cut]) -> None:
    """Check that a collection holds a query of the releases, since the manifest names it as theirs.

    A release of test queries is read without it, so that nothing else would notice another one.
    """
    texts = dict(collection.queries)
    rows = (row for cut in cuts for row in cut.values("query_id", "text"))
    if not any(texts.get(query_id) == text for query_id, text in rows):
        raise DataError(
            f"{collection.name} holds none of the released queries; give the collection that they "
            "are from, MS MARCO's, or leave --collection and MSSHIFT_COLLECTION out (in Python, "
            "collection)"
        )


def _read(source: Path, collection: Collection | None) -> OfficialRelease:
    for name, reader in _READERS.items():
        if (source / name).is_dir():
            return reader(source, collection=collection)
    raise NotFoundError(
        f"{source} is no release that can be imported: it holds neither "
        f"{' nor '.join(_READERS)}; give a checkout of MS-Shift's or of ReSTTest's files "
        "(typing errors of CharacterBERT-DR: 'msshift variants import')"
    )
