"""Runs in Parquet files."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from msshift_bench.errors import UsageError
from msshift_bench.plumbing import MAX_RANK
from msshift_bench.runs.findings import RunFindings, place_of
from msshift_bench.runs.reading.columns import ColumnJudge, Columns, add_block, group_lines
from msshift_bench.runs.reading.judge import RunJudge
from msshift_bench.runs.reading.lines import SoundLines, judge_in_order
from msshift_bench.runs.reading.memory import DOC_COLUMNS, QUERY_COLUMNS, lines_from_records
from msshift_bench.runs.reading.run_files import InputFile

__all__ = ["ParquetRun"]

_BATCH_ROWS = 100_000
_REQUIRED = (QUERY_COLUMNS, DOC_COLUMNS, ("score",))


class ParquetRun:
    """A Parquet file with columns query_id, doc_id, score and, optionally, rank.

    PyTerrier's names ``qid`` and ``docno`` are understood. Ids are strings, or integers that stand
    for their decimal digits.

    Args:
        run_file: the file.
        with_ranks: whether ranks are needed.
    """

    tag = ""

    def __init__(self, run_file: InputFile, *, with_ranks: bool) -> None:
        self.name = run_file.name
        self._path = run_file.path
        self._needs_ranks = with_ranks

    def rows(self, file: int, findings: RunFindings) -> Iterator[SoundLines]:
        """Yield the rows in reading order; malformed ones become findings."""
        for first_row, table in self._tables(file, findings):
            yield from _exact_rows(table, first_row, file, findings)

    def judge(self, file: int, judge: RunJudge) -> None:
        """Judge the rows in reading order.

        Raises:
            QueriesInterleavedError: if a query comes back after another one.
        """
        column_judge = ColumnJudge(judge)
        for first_row, table in self._tables(file, judge.findings):
            columns = _columns(table)
            judged = None if columns is None else column_judge.judge(columns)
            if judged is not None:
                add_block(judged, place_of(file, first_row), judge)
                continue
            for rows in _exact_rows(table, first_row, file, judge.findings):
                judge_in_order(rows, judge)

    def _tables(self, file: int, findings: RunFindings) -> Iterator[tuple[int, pa.Table]]:
        """Yield tables of whole queries with the number of their first row, from 1.

        Raises:
            UsageError: if ranks are needed and the file has none.
        """
        import pyarrow.parquet as pq  # takes a while, which other formats need not wait for

        try:
            with pq.ParquetFile(self._path) as parquet:
                held = parquet.schema_arrow.names
                names = self._choose(held)
                if len(names) < len(_REQUIRED) or any(held.count(name) > 1 for name in names):
                    message = f"the columns are {', '.join(held) or 'none'}"
                    findings.add("unreadable-parquet", place_of(file, 0), message)
                    return
                batches = parquet.iter_batches(_BATCH_ROWS, columns=names)
                tables = (pa.Table.from_batches([batch]).select(names) for batch in batches)
                yield from _whole_queries(tables)
        except (pa.ArrowException, OSError) as error:
            findings.add("truncated-input", place_of(file, 0), f"the file is damaged: {error}")

    def _choose(self, names: Sequence[str]) -> list[str]:
        """Return the columns of query ids, document ids, scores and, if there are any, ranks."""
        chosen = [
            next((name for name in spellings if name in names), None) for spellings in _REQUIRED
        ]
        if self._needs_ranks and "rank" not in names:
            raise UsageError(f"{self.name} has no ranks: choose a tie policy that goes by score")
        if "rank" in names:
            chosen.append("rank")
        return [name for name in chosen if name is not None] if None not in chosen else []


def _whole_queries(tables: Iterable[pa.Table]) -> Iterator[tuple[int, pa.Table]]:
    """Cut a stream of tables so that no query lies in two neighbouring tables.

    Yields:
        The number of a table's first row, from 1, and the table.
    """
    row, carried = 1, None
    for table in tables:
        carried = table if carried is None else pa.concat_tables([carried, table])
        queries = carried.column(0).combine_chunks()
        others = np.flatnonzero(pc.not_equal(queries, queries[-1]).fill_null(True))
        if len(others):
            cut = int(others[-1]) + 1
            yield row, carried.slice(0, cut)
            row, carried = row + cut, carried.slice(cut)
    if carried is not None and len(carried):
        yield row, carried


def _columns(table: pa.Table) -> Columns | None:
    """Return the table's columns, or `None` if a value needs a closer look."""
    query, doc, score, *rank = (column.combine_chunks() for column in table.columns)
    if any(column.null_count for column in (query, doc, score, *rank)):
        return None
    numeric = pa.types.is_floating(score.type) or pa.types.is_integer(score.type)
    if not numeric or not all(pa.types.is_integer(column.type) for column in rank):
        return None
    queries, docs = _as_binary(query), _as_binary(doc)
    if queries is None or docs is None:
        return None
    with np.errstate(over="ignore"):
        scores = score.to_numpy(zero_copy_only=False).astype(np.float64).astype(np.float32)
    if not rank:
        return group_lines(queries, docs, scores, None)
    try:
        ranks = rank[0].cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return group_lines(queries, docs, scores, ranks) if ranks.max() <= MAX_RANK else None


def _as_binary(column: pa.Array) -> pa.BinaryArray | None:
    """Return a column of strings or integers as UTF-8 bytes; `None` for any other type."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.binary())
    return None


def _exact_rows(
    table: pa.Table, first_row: int, file: int, findings: RunFindings
) -> Iterator[SoundLines]:
    columns = [column.to_pylist() for column in table.columns]
    with_ranks = len(columns) > len(_REQUIRED)
    ranks = columns.pop() if with_ranks else itertools.repeat(None)
    records = zip(itertools.count(first_row), *columns, ranks, strict=False)
    return lines_from_records(records, file, findings, with_ranks=with_ranks)
