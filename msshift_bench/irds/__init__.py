"""Entries in ir_datasets: every split of a built data set has an id.

    import ir_datasets
    import msshift_bench.irds

    msshift_bench.irds.register()
    dataset = ir_datasets.load("msshift/length/short/test")

``msshift/<shift>/<group>/train`` contains the training queries of all groups but `group`, ``test``
the test queries of `group`, and ``validation`` queries that no shift trains or tests on.
``msshift/<shift>`` contains all queries of a shift. Tools for ids of ir_datasets, e.g. PyTerrier,
accept these ids, too. The room may use `data`, `plumbing`, `shifts`, `records`, `errors` and
`_version`.
"""

from __future__ import annotations

from pathlib import Path

from msshift_bench.data import Dataset, open_dataset
from msshift_bench.errors import require
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def register(
    data: Dataset | str | Path = DATASET_NAME, collection: str | Path | None = None
) -> tuple[str, ...]:
    """Register a built data set in ir_datasets; it replaces an earlier registered one.

    Only the manifest is read. Rows and passages are read when they are requested.

    Args:
        data: the built data set; see `open_dataset`.
        collection: the collection of the passages: a folder, an ir_datasets id or ``mini``. For a
            data set built from ``mini`` or an ir_datasets id, the default is that collection; for
            others, it is the environment variable ``MSSHIFT_COLLECTION``. Without a collection,
            only methods that read passages fail, with NotFoundError.

    Returns:
        The registered ids, in the order of the manifest.

    Raises:
        MissingExtraError: if ir_datasets is not installed.
        NotFoundError: if there is no built data set, or no such collection.
        IntegrityError: if the manifest cannot be read.
    """
    registry = require("ir_datasets", "irds", "a data set in ir_datasets").registry
    from msshift_bench.irds.entries import entries_of

    entries = entries_of(open_dataset(data), collection)
    for name in [name for name in registry if name.startswith(f"{DATASET_NAME}/")]:
        # The registry has no method to remove an entry.
        del registry._registered[name]
    for name, entry in entries.items():
        registry.register(name, entry)
    return tuple(entries)
