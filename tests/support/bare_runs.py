"""Runs that stand in no plan, for what is done with one alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msshift_bench.baselines import Run, open_system
from msshift_bench.data import Collection
from msshift_bench.records import Row
from msshift_bench.shifts import get_shift

__all__ = ["bare_run"]


def bare_run(
    collection: Collection,
    work: Path,
    *,
    train: Sequence[Row] = (),
    validation: Sequence[Row] = (),
    **values: Any,
) -> Run:
    """Return a run of BM25 for the shift ``length``, unless other values say otherwise."""
    rows = {"train": tuple(train), "validation": tuple(validation)}
    chosen = {"name": "a model", "system": open_system("bm25"), "shift": get_shift("length")}
    return Run(collection=collection, work=work, rows=rows.__getitem__, **{**chosen, **values})
