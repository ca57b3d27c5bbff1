"""Made-up queries to cut, and the rows of a split of a shift that has been cut."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from msshift_bench.data import SplitRows
from msshift_bench.dataset_builders.cut import Cut, cut_table
from msshift_bench.records import Row

__all__ = ["cut_rows", "table_of_queries"]


def cut_rows(cut: Cut, split: str) -> list[Row]:
    """Return the rows of a split, sorted by query_id."""
    return list(SplitRows(cut.table.filter(pc.field("split") == split)))


def table_of_queries(texts: Mapping[str, str]) -> pa.Table:
    """Return what `queries_table` returns, of query_id -> text; passage "d1" is relevant to all."""
    rows = [Row(query_id, text, "", ("d1",), (1,)) for query_id, text in texts.items()]
    return cut_table({"": rows}).drop_columns(["group", "split"])
