"""The data set in PyTerrier: ``pt.get_dataset("msshift:length/short/test")``.

PyTerrier finds `MsShiftProvider` by the entry point ``pyterrier.dataset_provider``. It provides the
entries that `register` adds to ir_datasets. This module does not need Java.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyterrier as pt

from msshift_bench.errors import MissingError
from msshift_bench.irds import register
from msshift_bench.shifts import DATASET_NAME


class MsShiftProvider(pt.datasets.DatasetProvider):  # type: ignore[misc]
    """The splits of the built data set: ``<shift>``, ``<shift>/<group>/train``, ``test`` and so on.

    The data set is the default of `open_dataset`: ``MSSHIFT_HOME``, ``./msshift``, or the installed
    data set.
    """

    def get_dataset(self, name: str) -> Any:
        """Return a split as a PyTerrier dataset of ir_datasets.

        Args:
            name: the id in ir_datasets without ``msshift/``.

        Raises:
            KeyError: if the data set has no such split.
            NotFoundError: if there is no built data set.
            MissingExtraError: if ir_datasets is not installed.
        """
        names = list(_names())
        if name not in names:
            raise KeyError(f"unknown split {name!r}; give one of {', '.join(names)}")
        return pt.get_dataset(f"irds:{DATASET_NAME}/{name}")

    def list_dataset_names(self) -> Iterable[str]:
        """Return the names of all splits, for `get_dataset`.

        Without a data set or ir_datasets, the list is empty.
        """
        try:
            return list(_names())
        except MissingError:
            return []


def _names() -> Iterator[str]:
    return (registered.removeprefix(f"{DATASET_NAME}/") for registered in register())
