"""Entries in ir_datasets: every experiment of a built data set has an id there.

    import ir_datasets
    import msshift_bench.irds

    msshift_bench.irds.register()
    dataset = ir_datasets.load("msshift/length/short/test")

``msshift/<shift>/<group>/train`` holds the training queries of all groups but `group`, ``test``
the test queries of `group`, ``validation`` queries that no shift trains or tests on;
``msshift/<shift>`` holds all queries of a shift. Tools that take ids of ir_datasets, e.g.
PyTerrier, then take these. It may use `data`, `plumbing`, `shifts`, `records`, `errors` and
`_version`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msshift_bench.data import COLLECTION_VARIABLE, Dataset, open_collection, open_dataset
from msshift_bench.errors import require
from msshift_bench.shifts import DATASET_NAME, holds_triples, parse_config

if TYPE_CHECKING:
    from msshift_bench.irds.catalogue import Split
    from msshift_bench.irds.docs import DelegatedDocs, LocalDocs

__all__ = ["register"]


def register(
    data: Dataset | str | Path = DATASET_NAME, collection: str | Path | None = None
) -> tuple[str, ...]:
    """Register a built data set in ir_datasets, in place of any other.

    It reads only the manifest; rows and passages are read when they are requested.

    Args:
        data: the built data set; see `open_dataset`.
        collection: the collection of the passages: a folder, an ir_datasets id or ``mini``. A data
            set built from ``mini`` or an ir_datasets id finds them itself, any other one by the
            environment variable ``MSSHIFT_COLLECTION``. Without passages everything but
            ``docs_*`` works.

    Returns:
        The ids, in the order of the manifest.

    Raises:
        MissingExtraError: if ir_datasets is not installed.
        NotFoundError: if there is no built data set, or no such collection.
        IntegrityError: if the manifest cannot be read.
    """
    ir_datasets = require("ir_datasets", "irds", "a data set in ir_datasets")
    dataset = open_dataset(data)
    docs = _find_docs(dataset, collection)
    entries = {split.dataset_id: _entry(split, docs) for split in _splits(dataset)}
    registry = ir_datasets.registry
    for name in [name for name in registry if name.startswith(f"{DATASET_NAME}/")]:
        # The registry has no method to remove an entry.
        del registry._registered[name]
    for name, entry in entries.items():
        registry.register(name, entry)
    return tuple(entries)


def _splits(dataset: Dataset) -> Iterator[Split]:
    from msshift_bench.irds.catalogue import Split

    for config, splits in dataset.manifest.configs.items():
        if not holds_triples(config):
            shift, group = parse_config(config)
            for name in splits:
                yield Split(dataset, shift, group, config, name)


def _entry(split: Split, docs: LocalDocs | DelegatedDocs) -> Any:
    import ir_datasets
    from ir_datasets.util import MetadataComponent

    from msshift_bench.irds.catalogue import SplitMetadata, SplitQrels, SplitQueries, SplitTriples
    from msshift_bench.irds.pages import Documentation

    parts = (
        docs,
        SplitQueries(split),
        SplitQrels(split),
        SplitTriples(split) if split.triples else None,
    )
    entry = ir_datasets.Dataset(*parts, Documentation(split))
    metadata = MetadataComponent(split.dataset_id, entry, SplitMetadata(*parts))
    return ir_datasets.Dataset(metadata, entry)


def _find_docs(dataset: Dataset, collection: str | Path | None) -> LocalDocs | DelegatedDocs:
    from msshift_bench.irds.docs import DelegatedDocs, LocalDocs

    built_from = dataset.manifest.collection
    if collection is None and built_from["layout"] in ("generated", "ir_datasets"):
        collection = built_from["name"]
    source = collection or os.environ.get(COLLECTION_VARIABLE)
    if not source:
        return LocalDocs(dataset, None)
    opened = open_collection(source)
    if opened.layout == "ir_datasets":
        return DelegatedDocs(dataset, opened)
    return LocalDocs(dataset, opened)
