"""What a run may come from: text files, Parquet files, and values in memory; each gives `Lines`."""

from __future__ import annotations

import hashlib
import math
import numbers
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, count, islice, repeat
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from msshift_bench.errors import NotFoundError, UsageError, quoted
from msshift_bench.plumbing import (
    MAX_LINE_BYTES,
    MAX_RANK,
    DamagedInputError,
    TooLargeError,
    file_state,
    is_json,
    map_in_threads,
    open_stream,
    unpacked_batches,
)
from msshift_bench.runs.findings import RunFindings, place_of
from msshift_bench.runs.lines import (
    FORMATS,
    Lines,
    NotTextError,
    id_column,
    parse_each,
    parse_fast,
    sound_lines,
    text_blocks,
)

MOST_THREADS = 4

_COLUMNS = (("query_id", "qid", "q_id"), ("doc_id", "docno"), ("score",), ("rank",))
"""The names of each column, here, in PyTerrier and in ranx; ranks may be lacking."""

_BATCH_ROWS = 100_000

Record = tuple[Any, ...]
"""Query id, document id, score and perhaps rank: values as they were given."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of a run.

    Attributes:
        name: the name by which the user gave it.
        path: a path that can be read more than once.
        lasting: whether that path is still there after the run was read.
        state: the file's state when it was first opened.
    """

    name: str
    path: Path
    lasting: bool
    state: tuple[int, int, int] | None


@contextmanager
def open_run_files(sources: Sequence[str | PathLike[str]]) -> Iterator[list[InputFile]]:
    """Make every source readable more than once; ``"-"`` is standard input.

    Standard input and other pipes are copied to a temporary folder for as long as the context
    lasts, because a run whose queries turn out to be interleaved is read twice.

    Raises:
        NotFoundError: if there is no such file, or standard input is closed.
        UsageError: if a path is a folder.
    """
    with ExitStack() as stack:
        files = []
        for number, source in enumerate(sources):
            path, name = Path(source), str(source)
            if name == "-":
                if sys.stdin is None:
                    raise NotFoundError("stdin is closed, and a run was to be read from it")
                name, stream = "<stdin>", sys.stdin.buffer
            elif path.is_dir():
                raise UsageError(f"{source} is a folder; a run is a file")
            elif not path.exists():
                raise NotFoundError(f"there is no file {source}")
            elif path.is_file():
                files.append(InputFile(name, path, True, file_state(path)))
                continue
            else:
                stream = stack.enter_context(path.open("rb"))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="msshift-"))
            copy = Path(folder) / str(number)
            with copy.open("wb") as file:
                shutil.copyfileobj(stream, file)
            files.append(InputFile(name, copy, False, file_state(copy)))
        yield files


def sha256_of_files(files: Sequence[InputFile]) -> str:
    """Return the SHA-256 of the files' bytes as they are stored, one file after the other.

    For a single file this is what ``sha256sum`` prints.
    """
    digest = hashlib.sha256()
    for run_file in files:
        with _named(run_file.path), run_file.path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def is_parquet(path: Path) -> bool:
    """Whether the file begins as Parquet files do."""
    with _named(path), path.open("rb") as file:
        return file.read(4) == b"PAR1"


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the path to errors of reading, as errors of opening have it."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


class TextRun:
    """A text file in one of `FORMATS`.

    Args:
        file: the file.
        run_format: a key of `FORMATS`, or ``"auto"`` to take it from the first line's fields.
        first: the run's first text file, whose format the others must have, because ranks and
            scores do not compare; `None` for the first one itself.
    """

    def __init__(self, file: InputFile, run_format: str, first: TextRun | None = None) -> None:
        self.name = file.name
        self.tag = ""
        self._path = file.path
        self._format = run_format
        self._first = first

    def lines(self, file: int, findings: RunFindings) -> Iterator[Lines]:
        """Yield the sound lines, a block of text after the other."""
        place = place_of(file, 1)
        try:
            with open_stream(self._path) as stream:
                blocks = self._blocks(stream, place, findings)
                for parsed in map_in_threads(self._parse, blocks, MOST_THREADS):
                    if isinstance(parsed, bytes):
                        yield parse_each(parsed, place, self._format, findings)
                        place += parsed.count(b"\n")
                    else:
                        yield parsed._replace(places=parsed.places + place)
                        place += len(parsed.scores)
        except NotTextError:
            return
        except DamagedInputError as error:
            findings.add("truncated-input", place_of(file, 0), str(error))
        else:
            if place == place_of(file, 1):
                findings.add("empty-file", place_of(file, 0), "the file holds no line")

    def _parse(self, text: bytes) -> Lines | bytes:
        """Return a text's lines, numbered from 0, or the text, to be read line by line."""
        return parse_fast(text, self._format) or text

    def _blocks(self, stream: Any, place: int, findings: RunFindings) -> Iterator[bytes]:
        """Yield the text in blocks; the first gives the format and the run tag.

        Raises:
            NotTextError: if the file is JSON.
        """
        blocks = text_blocks(stream)
        for text in islice(blocks, 1):
            first = text.lstrip().partition(b"\n")[0]
            if is_json(first):
                findings.add("binary-input", place, "this is JSON, not a run in lines of text")
                raise NotTextError
            fields = first.split()
            if self._format == "auto" and self._first is not None:
                self._format = self._first._format
            if self._format == "auto":
                self._format = "msmarco" if len(fields) == len(FORMATS["msmarco"]) else "trec"
            if len(fields) == len(FORMATS["trec"]):
                self.tag = fields[-1].decode(errors="replace")
            yield text
        yield from blocks


class ParquetRun:
    """A Parquet file with columns query_id, doc_id, score and, optionally, rank.

    PyTerrier's names ``qid`` and ``docno``, and ranx's ``q_id``, are understood. Ids are strings,
    UTF-8 in bytes, or integers that stand for their decimal digits.

    Args:
        file: the file.
        with_ranks: whether ranks are needed.
    """

    tag = ""

    def __init__(self, file: InputFile, *, with_ranks: bool) -> None:
        self.name = file.name
        self._path = file.path
        self._needs_ranks = with_ranks

    def lines(self, file: int, findings: RunFindings) -> Iterator[Lines]:
        """Yield the sound rows, batch by batch.

        Raises:
            UsageError: if ranks are needed and the file has none.
        """
        import pyarrow.parquet as pq  # takes a while, which other formats need not wait for

        try:
            names = self._choose(pq.read_schema(self._path.absolute()).names, file, findings)
            place = place_of(file, 1)
            for batch in unpacked_batches(self._path, names, _BATCH_ROWS) if names else ():
                columns = [batch.column(name) for name in names]
                lines = _lines_of_columns(columns, place)
                if lines is None:
                    records = zip(*(column.to_pylist() for column in columns), strict=True)
                    places = range(place, place + len(batch))
                    with_ranks = len(names) == len(_COLUMNS)
                    lines = _sound_records(records, places, findings, with_ranks=with_ranks)
                yield lines
                place += len(batch)
        except TooLargeError as error:
            findings.add("parquet-too-large", place_of(file, 0), str(error))
        except (pa.ArrowException, OSError) as error:
            findings.add("truncated-input", place_of(file, 0), f"the file is damaged: {error}")

    def _choose(self, present: Sequence[str], file: int, findings: RunFindings) -> list[str]:
        """Return the columns to read, in the order of `_COLUMNS`; none, if they cannot be read."""
        *required, rank = (next((n for n in names if n in present), "") for names in _COLUMNS)
        if self._needs_ranks and not rank:
            raise UsageError(f"{self.name} has no ranks: choose a tie policy that goes by score")
        names = [*required, *filter(None, [rank])]
        if all(present.count(name) == 1 for name in names):
            return names
        message = f"the columns are {', '.join(present) or 'none'}"
        findings.add("unreadable-parquet", place_of(file, 0), message)
        return []


def _lines_of_columns(columns: Sequence[pa.Array], place: int) -> Lines | None:
    """Return columns of a Parquet file as lines; `None` if a value needs a closer look."""
    query, doc, score, *rank = columns
    numeric = pa.types.is_floating(score.type) or pa.types.is_integer(score.type)
    are_integers = all(pa.types.is_integer(column.type) for column in rank)
    if not (len(score) and numeric and are_integers) or any(
        column.null_count for column in columns
    ):
        return None
    queries, docs = _as_ids(query), _as_ids(doc)
    if queries is None or docs is None:
        return None
    with np.errstate(over="ignore"):
        scores = score.to_numpy(zero_copy_only=False).astype(np.float64).astype(np.float32)
    if not np.isfinite(scores).all():
        return None
    ranks = None
    if rank:
        ranks = rank[0].to_numpy(zero_copy_only=False)
        if ranks.min() < 0 or ranks.max() > MAX_RANK:
            return None
        ranks = ranks.astype(np.int64)
    return Lines(queries, docs, scores, ranks, np.arange(place, place + len(scores)))


def _as_ids(column: pa.Array) -> pa.BinaryArray | None:
    """Return strings or integers as UTF-8; `None` for other types, or if an id fits no line."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    lengths = pc.min_max(pc.binary_length(column)).as_py()
    fits = lengths["min"] > 0 and lengths["max"] <= MAX_LINE_BYTES
    return column.cast(pa.binary()) if fits else None


class MemoryRun:
    """A run given as Python values.

    Args:
        source: a mapping of mappings (query id -> doc id -> score), a table with columns
            (``query_id``, ``doc_id``, ``score``; ``qid`` and ``docno`` are understood), or an
            iterable of records: tuples (query_id, doc_id, score[, rank]), mappings with these
            keys, or objects with these attributes. Ids are strings, or integers that stand for
            their decimal digits. An iterator is held in memory.
        with_ranks: whether to take ranks where the source has them.

    Raises:
        UsageError: if the source is none of these.
    """

    tag = ""

    def __init__(self, source: object, *, with_ranks: bool) -> None:
        self._source: Any = source
        self._with_ranks = with_ranks
        if isinstance(source, Mapping):
            self.name, self._records = "<mapping>", self._of_mapping
        elif is_table(source):
            self.name, self._records = "<table>", self._of_table
        elif isinstance(source, Iterable):
            self.name, self._records = "<records>", self._of_records
            self._source = list(source)
        else:
            raise UsageError(
                f"a run is a path, a mapping, a table or records, not {quoted(source)}; "
                "of a Run of ranx pass to_dict()"
            )

    def lines(self, file: int, findings: RunFindings) -> Iterator[Lines]:
        """Yield the sound records, numbered from 1; those of a mapping have no number.

        Raises:
            UsageError: if the source lacks ranks although they are needed, or a column; or if it
                holds something else than mappings or records.
        """
        records = self._records()
        numbered = repeat(0) if isinstance(self._source, Mapping) else count(1)
        while batch := list(islice(records, _BATCH_ROWS)):
            places = [place_of(file, number) for number in islice(numbered, len(batch))]
            yield _sound_records(batch, places, findings, with_ranks=self._with_ranks)

    def _of_mapping(self) -> Iterator[Record]:
        if self._with_ranks:
            raise UsageError("a mapping has no ranks: choose a tie policy that goes by score")
        for query, docs in self._source.items():
            if not hasattr(docs, "items") or any(
                isinstance(score, Mapping) for _, score in islice(docs.items(), 1)
            ):
                raise UsageError(
                    "a run as a mapping is query id -> doc id -> score, and query "
                    f"{quoted(query)} has {quoted(docs)}"
                )
            yield from ((query, doc, score) for doc, score in docs.items())

    def _of_table(self) -> Iterator[Record]:
        return table_rows(self._source, _COLUMNS if self._with_ranks else _COLUMNS[:-1])

    def _of_records(self) -> Iterator[Record]:
        for number, record in enumerate(self._source, start=1):
            fields = record
            if not isinstance(record, tuple) or hasattr(record, "query_id"):
                if not isinstance(record, Mapping):
                    record = {name: getattr(record, name, None) for name in chain(*_COLUMNS)}
                fields = tuple(_first(record, names) for names in _COLUMNS)
            if len(fields) not in (3, 4):
                raise UsageError(f"record {number} is not (query_id, doc_id, score[, rank])")
            yield fields


def is_table(value: Any) -> bool:
    """Return whether a value is a data frame or an Arrow table."""
    return hasattr(value, "columns") and hasattr(value, "__getitem__")


def table_rows(table: Any, wanted: Iterable[tuple[str, ...]]) -> Iterator[Record]:
    """Yield some columns of a data frame or an Arrow table, row by row.

    Args:
        table: the table.
        wanted: the names that each column may have.

    Raises:
        UsageError: if the table lacks a column.
    """
    # The columns of an Arrow table are values, those of data frames their names.
    present = table.column_names if isinstance(table, pa.Table) else table.columns
    columns: list[Iterable[Any]] = []
    for names in wanted:
        name = next((name for name in names if name in present), None)
        if name is None:
            there = ", ".join(map(str, present))
            raise UsageError(f"the table has no column {' or '.join(names)}; rename one of {there}")
        columns.append(table[name].to_numpy().tolist())
    return zip(*columns, strict=True)


def _first(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the value under the first of `names` that the record has, or `None`."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def _sound_records(
    records: Iterable[Record], places: Sequence[int], findings: RunFindings, *, with_ranks: bool
) -> Lines:
    """Return Python values as lines; those that are wrong are left out, with a finding each."""
    rows = []
    for place, (query, doc, score, *rank) in zip(places, records, strict=True):
        ids = _identifier(query), _identifier(doc)
        if all(ids):
            rows.append((place, *ids, score, rank[0] if rank else None))
        else:
            message = f"query {quoted(query)}, document {quoted(doc)}: not both are ids"
            findings.add("id-invalid", place, message)
    sound_places, queries, docs, scores, ranks = zip(*rows, strict=True) if rows else ((),) * 5
    return sound_lines(
        sound_places,
        (id_column(queries), id_column(docs)),
        ([_number(score) for score in scores], scores),
        ([_whole_number(rank) for rank in ranks], ranks) if with_ranks else None,
        findings,
    )


def _identifier(value: Any) -> bytes:
    """Return the UTF-8 bytes of an id; b"" if it is no text or integer that a line can hold."""
    if not isinstance(value, bool) and isinstance(value, numbers.Integral):
        value = str(value)
    try:
        if isinstance(value, bytes):
            value = value.decode()
        fits = isinstance(value, str) and len(value) <= MAX_LINE_BYTES
        return value.encode() if fits else b""
    except UnicodeError:
        return b""


def _number(value: Any) -> float:
    """Return a score as a float; NaN if it is not a real number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        return math.nan
    try:
        return float(value)
    except ValueError:  # Decimal's signalling NaN
        return math.nan
    except OverflowError:  # a whole number of more than 308 digits
        return math.inf


def _whole_number(value: Any) -> int:
    """Return a rank as an integer; -1 if it is not a whole number from 0 to 10**18."""
    number = _number(value)
    return int(number) if number.is_integer() and 0 <= number <= MAX_RANK else -1


Source = TextRun | ParquetRun | MemoryRun
"""One part of a run. Its name is what the user called it by; its tag, once it was read, the run tag
of its first line, "" where there is none."""
