"""Made-up queries to cut, and the rows of a split of a shift that has been cut."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from msshift_bench.data import load_dataset, open_dataset, rows_of
from msshift_bench.dataset_builders.cut import ShiftSplits, cut_table
from msshift_bench.records import Row

__all__ = ["cut_rows", "ids_of", "placed", "table_of_queries"]


def cut_rows(cut: ShiftSplits, split: str) -> list[Row]:
    """Return the rows of a split, sorted by query_id."""
    return list(rows_of(cut.table.filter(pc.field("split") == split)))


def table_of_queries(texts: Mapping[str, str]) -> pa.Table:
    """Return what `queries_table` returns, of query_id -> text; passage "d1" is relevant to all."""
    rows = [Row(query_id, text, "", ("d1",), (1,)) for query_id, text in texts.items()]
    return cut_table({"": rows}).drop_columns(["group", "split"])


def ids_of(folder: Path, config: str, split: str) -> set[str]:
    """Return the queries of a split of a built data set."""
    return {row.query_id for row in load_dataset(folder, config, split=split)}


def placed(folder: Path, shift: str) -> dict[str, set[str]]:
    """Return split -> ids, as the config of a whole shift has them."""
    table = open_dataset(folder).table(shift, "queries")
    found: dict[str, set[str]] = {}
    for query_id, split in zip(*(table[c].to_pylist() for c in ("query_id", "split")), strict=True):
        found.setdefault(split, set()).add(query_id)
    return found
