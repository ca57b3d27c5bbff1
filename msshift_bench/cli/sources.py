"""Where a command finds the collection that a data set was built from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msshift_bench.errors import UsageError

if TYPE_CHECKING:
    from msshift_bench.data import Collection, Dataset

__all__ = ["open_source"]


def open_source(dataset: Dataset, collection: str | None, qrels: str | None = None) -> Collection:
    """Open the collection that a data set was built from.

    Args:
        dataset: the built data set.
        collection: what ``--collection`` says; not needed if the collection is generated.
        qrels: what ``--qrels`` says.

    Raises:
        NotFoundError: if there is no such collection.
        UsageError: if the collection must be named.
    """
    from msshift_bench.data import open_collection

    built_from = dataset.manifest.collection
    if collection is None:
        if built_from.get("layout") != "generated":
            raise UsageError(
                f"{dataset.folder} was built from {built_from['name']!r}; "
                "say where that is with --collection"
            )
        collection = str(built_from["name"])
    return open_collection(collection, qrels=qrels)
