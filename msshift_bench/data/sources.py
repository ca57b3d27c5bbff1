"""Where the collection is that a data set was built from."""

from __future__ import annotations

import os
from pathlib import Path

from msshift_bench.data.collection import Collection, open_collection
from msshift_bench.data.dataset import Dataset
from msshift_bench.errors import UsageError

__all__ = ["COLLECTION_VARIABLE", "open_source"]

COLLECTION_VARIABLE = "MSSHIFT_COLLECTION"
"""The environment variable that names the collection that data sets were built from."""


def open_source(
    dataset: Dataset,
    collection: Collection | str | Path | None,
    qrels: str | Path | None = None,
) -> Collection:
    """Open the collection that a data set was built from.

    Args:
        dataset: the built data set.
        collection: what `open_collection` takes; by default what ``MSSHIFT_COLLECTION`` names. Not
            needed if the collection is generated: it is made again, whatever the variable names.
        qrels: for a folder, the qrels file to read instead.

    Raises:
        NotFoundError: if there is no such collection.
        UsageError: if the collection must be named.
    """
    built_from = dataset.manifest.collection
    if collection is None:
        generated = built_from.get("layout") == "generated"
        collection = str(built_from["name"]) if generated else os.environ.get(COLLECTION_VARIABLE)
    if not collection:
        raise UsageError(
            f"{dataset.folder} was built from {built_from['name']!r}; say where that is with "
            f"--collection (in Python, collection) or {COLLECTION_VARIABLE}"
        )
    return open_collection(collection, qrels=qrels)
