"""Build the benchmark's data set from a collection: the function behind ``msshift build``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msshift_bench.collection import Collection, Queries
from msshift_bench.dataset_builders.splits import (
    VALIDATION_SIZE,
    ShiftSplits,
    sample_validation,
    split_shift,
)
from msshift_bench.dataset_builders.writer import write_dataset
from msshift_bench.errors import DataError, UsageError
from msshift_bench.manifest import Manifest
from msshift_bench.records import Grouping
from msshift_bench.shifts import SHIFTS, Shift, get_shift

__all__ = ["build_dataset", "buildable_shifts"]


def buildable_shifts() -> tuple[str, ...]:
    """Return the names of the shifts that have a builder, in the order of the table."""
    return tuple(name for name, shift in SHIFTS.items() if shift.builder)


def build_dataset(
    collection: Collection,
    shifts: Sequence[str],
    folder: str | Path,
    *,
    rules: Mapping[str, str] | None = None,
    test_size: int | None = None,
    validation_size: int = VALIDATION_SIZE,
    seed: int = 0,
    overwrite: bool = False,
    workers: int = 1,
) -> Manifest:
    """Cut a collection's queries by each shift and write the data set.

    Queries without a relevant passage take no part: they can be neither trained on nor scored.

    Args:
        collection: where queries and qrels come from; its passages are not read.
        shifts: which shifts, e.g. ``["length", "wh-words"]``.
        folder: where to write.
        rules: shift -> labelling rule, where it is not to be the shift's first.
        test_size: test queries per group; the paper's numbers by default. Scaled down for small
            collections by `splits.SCALE_RULE`.
        validation_size: validation queries, scaled down likewise.
        seed: keys every sample.
        overwrite: replace an earlier build even if it holds other shifts.
        workers: threads that write files.

    Returns:
        The manifest of what was written.

    Raises:
        UnknownNameError: for a shift or rule that does not exist.
        UsageError: for a shift that cannot be built, or a folder that must not be replaced.
        CollectionError: if the queries or qrels are malformed.
        DataError: if a group is too small.
    """
    chosen = [_buildable(name) for name in dict.fromkeys(shifts)]
    if unused := [name for name in rules or {} if get_shift(name) not in chosen]:
        raise UsageError(f"a rule is given for {', '.join(unused)}, which is not being built")
    relevant = collection.qrels.relevant()
    kept = [query for query in collection.queries if query.query_id in relevant]
    if not kept:
        raise DataError(f"no query of {collection.name} has a relevant passage")
    queries = Queries(tuple(q.query_id for q in kept), tuple(q.text for q in kept))
    validation = sample_validation(queries.ids, size=validation_size, seed=seed)

    def cut(shift: Shift) -> ShiftSplits:
        grouping = _builder(shift)(queries, (rules or {}).get(shift.name, shift.rules[0]))
        size = shift.test_size if test_size is None else test_size
        return split_shift(grouping, queries, relevant, validation, test_size=size, seed=seed)

    return write_dataset(
        Path(folder),
        [cut(shift) for shift in chosen],
        edition="rebuilt",
        collection={
            **collection.provenance(),
            "queries_without_relevant_passage": len(collection.queries) - len(queries),
        },
        parameters={"seed": seed, "validation_size": validation_size},
        overwrite=overwrite,
        workers=workers,
    )


def _buildable(name: str) -> Shift:
    shift = get_shift(name)
    if not shift.builder:
        raise UsageError(
            f"{name} cannot be built by this version; it builds {', '.join(buildable_shifts())}"
        )
    return shift


def _builder(shift: Shift) -> Callable[[Queries, str], Grouping]:
    module, function = shift.builder.split(":")
    builder: Callable[[Queries, str], Grouping] = getattr(importlib.import_module(module), function)
    return builder
