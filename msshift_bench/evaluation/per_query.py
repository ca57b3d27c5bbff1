"""Tables of per-query scores: writing and reading.

A system's rows are sorted by run, within a run by group, within a group by measure, and within a
measure by query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Never

import numpy as np
import pyarrow as pa

from msshift_bench.errors import DataError, Finding, NotFoundError
from msshift_bench.evaluation.scores import ScoredRun, Scores
from msshift_bench.libraries import compute as pc
from msshift_bench.runs import FOR_ALL, RunReport
from msshift_bench.shifts import SHIFTS, Shift, get_shift

MAX_ROWS = 8_000_000
"""Largest number of rows to read; all shifts of MS MARCO with five seeds have five sixths of it."""

MAX_SEEDS = 100
"""Largest number of seeds of a system."""

MAX_UNPACKED = 200_000_000
"""Largest size of the file, and of its uncompressed columns, in bytes; ours have 4 per row."""

MAX_TEXT = 100
"""Largest number of characters of an id or a name."""

_TEXTS = ("system", "shift", "held_out", "group", "query_id", "measure")
_COLUMNS = {
    **dict.fromkeys(_TEXTS, "string"),
    "seed": "int64",
    "score": "double",
    "missing": "bool",
}


def scores_table(scores: Scores) -> pa.Table:
    """Return the scores of a system on a test set, one row per run, group, measure and query.

    Columns: system and shift, or for a single run only run; seed (null without seed), held_out
        (null for one ranking for all groups), group, query_id, measure, score (null if undefined),
        missing (whether the query is missing from the run).
    """
    of_shift = {"system": scores.system, "shift": scores.shift_name}
    names = {"run": scores.system} if scores.shift is None else of_shift
    ids = pa.array(scores.query_ids, pa.string())
    parts = []
    for (model, seed), run in scores.runs.items():
        held_out = None if model == FOR_ALL else model
        for group, queries in scores.groups.items():
            constants = {
                **{name: pa.scalar(value) for name, value in names.items()},
                "seed": pa.scalar(seed, pa.int64()),
                "held_out": pa.scalar(held_out, pa.string()),
                "group": pa.scalar(group),
            }
            repeated = {name: pa.repeat(value, len(queries)) for name, value in constants.items()}
            repeated["query_id"] = ids.take(pa.array(queries))
            missing = pa.array(run.missing[queries])
            for measure, values in run.scores.items():
                columns = {
                    **repeated,
                    "measure": pa.repeat(pa.scalar(measure), len(queries)),
                    "score": pa.array(values[queries], from_pandas=True),  # NaN is null
                    "missing": missing,
                }
                parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def read_per_query(
    path: Path, measures: Sequence[str], known: Mapping[str, Shift] = SHIFTS
) -> dict[str, Scores]:
    """Return the scores of one system, read from a file that is not trusted.

    Sizes are checked in the metadata before anything is decoded, and lengths of texts before
    dictionaries are expanded: a few bytes cannot become gigabytes. The file has no run names and no
    ties: no query counts as tied.

    Args:
        path: a Parquet file of the columns of `scores_table`.
        measures: its measures, in the order of the rows.
        known: the shifts that it may contain.

    Returns:
        Name of a shift -> scores, with query ids sorted, also within groups.

    Raises:
        NotFoundError: if the file does not exist.
        DataError: if it is too large or not a Parquet file, a text is too long, or columns, runs or
            rows are missing, too many, or in the wrong place.
        UnknownNameError: for an unknown shift.
        UsageError: for a shift without its size, e.g. ``restrain``.
    """
    if not path.is_file():
        raise NotFoundError(f"no file {path}")
    if path.stat().st_size > MAX_UNPACKED:
        _refuse("too-large", f"{path}: more than {MAX_UNPACKED:,} bytes")
    try:
        table = _read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        first = str(error).partition("\n")[0]
        _refuse("not-parquet", f"{path} is not a complete Parquet file: {first[:200]}")
    parts = {
        str(shift): table.filter(pc.equal(table["shift"], shift))
        for shift in table["shift"].unique().to_pylist()
    }
    if not parts:
        _refuse("scores-layout", f"{path} has no rows")
    shifts = {name: get_shift(name, known) for name in parts}
    return {
        shift.name: _read_system(parts[name], shift, measures) for name, shift in shifts.items()
    }


def _read_table(path: Path) -> pa.Table:
    """Return the table of a file, with dictionary-encoded texts; `DataError` beyond a limit."""
    import pyarrow.parquet as pq  # a slow import that most evaluations do not need

    texts = [name for name in _TEXTS if name in pq.read_schema(path.absolute()).names]
    with pq.ParquetFile(path.absolute(), read_dictionary=texts) as file:
        unpacked = sum(
            file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups)
        )
        if file.metadata.num_rows > MAX_ROWS or unpacked > MAX_UNPACKED:
            size = f"{file.metadata.num_rows:,} rows, {unpacked:,} bytes uncompressed"
            _refuse("too-large", f"{path}: {size}; at most {MAX_ROWS:,} and {MAX_UNPACKED:,}")
        kinds = [(field.name, str(field.type)) for field in file.schema_arrow]
        plain = {name: "string" if "values=string" in kind else kind for name, kind in kinds}
        if plain != _COLUMNS or len(kinds) > len(plain):
            shown = ", ".join(f"{name[:50]} {kind}" for name, kind in kinds[:20])
            expected = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
            _refuse("wrong-columns", f"{path} has the columns {shown}; expected {expected}")
        table = file.read()
    table.validate(full=True)
    table = table.unify_dictionaries()
    for name in _TEXTS:
        distinct = table[name].unique().cast("string")
        if (pc.max(pc.utf8_length(distinct)).as_py() or 0) > MAX_TEXT:
            _refuse("out-of-range", f"{path}: a {name} has more than {MAX_TEXT} characters")
    return table


def _read_system(part: pa.Table, shift: Shift, measures: Sequence[str]) -> Scores:
    """Return the scores in one shift's rows; `DataError` if not ordered as in `scores_table`."""
    runs = part.group_by(["seed", "held_out"], use_threads=False).aggregate([]).to_pylist()
    models = [(run["seed"], run["held_out"]) for run in runs]
    is_complete = set(models) in (
        {(seed, group) for seed, _ in models for group in shift.groups},
        {(seed, None) for seed, _ in models},
    )
    if not is_complete or len(models) > MAX_SEEDS * len(shift.groups):
        _refuse("wrong-runs", f"{shift.name} needs a run for every seed and group, or one in all")
    members = {
        group: part.filter(pc.equal(part["group"], group))["query_id"].unique().to_pylist()
        for group in shift.tested
    }
    ids = {query_id for queries in members.values() for query_id in queries}
    if not all(members.values()) or None in ids:
        _refuse("scores-layout", f"{shift.name}: a group has no queries, or a query has no id")
    rows = len(models) * len(measures) * sum(map(len, members.values()))
    if len(part) != rows:
        _refuse("scores-layout", f"{shift.name}: {len(part)} rows where {rows} are due")
    query_ids = tuple(sorted(ids))
    index = {query_id: position for position, query_id in enumerate(query_ids)}
    groups = {group: np.array([index[member] for member in ids]) for group, ids in members.items()}
    score_column, missing_column = part["score"].to_numpy(), part["missing"].to_numpy()
    start, runs = 0, {}
    for seed, held_out in models:
        values = {measure: np.zeros(len(query_ids)) for measure in measures}
        missing, tied = np.zeros(len(query_ids), np.bool_), np.zeros(len(query_ids), np.bool_)
        run = ScoredRun(RunReport(""), missing, tied, values, values, values)
        for positions in groups.values():
            for measure in measures:
                block = slice(start, start + len(positions))
                values[measure][positions] = score_column[block]
                missing[positions] = missing_column[block]
                start = block.stop
        runs[FOR_ALL if held_out is None else held_out, seed] = run
    scores = Scores(part["system"][0].as_py(), shift, query_ids, groups, runs)
    # Each query once for every model and measure, so no larger than the checked file.
    written = scores_table(scores)
    part = part.select(written.column_names).cast(written.schema)
    misplaced = [name for name in written.column_names if not written[name].equals(part[name])]
    if misplaced == ["missing"]:
        _refuse("scores-layout", f"{shift.name}: 'missing' depends on the measure")
    if misplaced:
        _refuse("scores-layout", f"{shift.name}: not where they belong: {', '.join(misplaced)}")
    return replace(scores, groups={group: np.sort(where) for group, where in groups.items()})


def _refuse(code: str, message: str) -> Never:
    raise DataError("these are no per-query scores:", [Finding(code, message)])
