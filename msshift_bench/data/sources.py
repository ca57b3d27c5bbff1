"""Where the collection is that a data set was built from."""

from __future__ import annotations

from pathlib import Path

from msshift_bench.data.collection import Collection, open_collection
from msshift_bench.data.dataset import Dataset
from msshift_bench.errors import UsageError

__all__ = ["open_source"]


def open_source(
    dataset: Dataset,
    collection: Collection | str | Path | None,
    qrels: str | Path | None = None,
) -> Collection:
    """Open the collection that a data set was built from.

    Args:
        dataset: the built data set.
        collection: what `open_collection` takes; not needed if the collection is generated.
        qrels: for a folder, the qrels file to read instead.

    Raises:
        NotFoundError: if there is no such collection.
        UsageError: if the collection must be named.
    """
    built_from = dataset.manifest.collection
    if collection is None:
        if built_from.get("layout") != "generated":
            raise UsageError(
                f"{dataset.folder} was built from {built_from['name']!r}; "
                "say where that is with --collection (in Python, collection)"
            )
        collection = str(built_from["name"])
    return open_collection(collection, qrels=qrels)
