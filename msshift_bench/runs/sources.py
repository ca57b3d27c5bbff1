"""Sources of runs: files, Parquet tables and values in memory, read as `Lines`."""

from __future__ import annotations

import hashlib
import io
import math
import numbers
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import chain, compress, count, repeat, zip_longest
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from msshift_bench.errors import NotFoundError, UsageError, quoted
from msshift_bench.libraries import compute as pc
from msshift_bench.plumbing import (
    MAX_LINE_BYTES,
    MAX_RANK,
    MAX_UNPACKED,
    DamagedInputError,
    TooLargeError,
    batches,
    file_state,
    open_stream,
    unpacked_batches,
)
from msshift_bench.runs.lines import (
    Findings,
    Lines,
    NotTextError,
    checked_lines,
    id_column,
    place_of,
    read_ahead,
)

PARQUET = b"PAR1"
"""The first bytes of a Parquet file."""

_COLUMNS = (("query_id", "qid", "q_id"), ("doc_id", "docno"), ("score",), ("rank",))
"""The names of each column, here, in PyTerrier and in ranx; ranks are optional."""

NO_RANKS = "has no ranks: choose a tie policy that goes by score"
"""End of the message for a run without ranks, if the tie policy needs them."""

_BATCH_ROWS = 100_000
_PIECE_BYTES = 1 << 20

Record = tuple[Any, ...]
"""Query id, document id, score and perhaps rank: values that are not checked yet."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of a run.

    Attributes:
        name: the name in messages.
        path: a path that can be read more than once.
        state: its `file_state` when it was first opened.
    """

    name: str
    path: Path
    state: tuple[int, int, int] | None


@contextmanager
def open_run_files(sources: Sequence[str | PathLike[str]]) -> Iterator[list[InputFile]]:
    """Return a context manager of files that can be read more than once.

    Standard input, ``"-"``, and other pipes are copied to a temporary folder, because a run with
    interleaved queries is read twice.

    Raises:
        NotFoundError: if a file does not exist, or standard input is closed.
        UsageError: if a path is a folder.
    """
    with ExitStack() as stack:
        files = []
        for number, source in enumerate(sources):
            path, name = Path(source), str(source)
            if name == "-":
                if sys.stdin is None:
                    raise NotFoundError(
                        "a run was to be read from stdin, which is closed; give a file"
                    )
                name, stream = "<stdin>", sys.stdin.buffer
            elif path.is_dir():
                raise UsageError(f"{source} is a folder; a run is a file")
            elif not path.exists():
                raise NotFoundError(f"there is no file {source}")
            elif path.is_file():
                files.append(InputFile(name, path, file_state(path)))
                continue
            else:
                stream = stack.enter_context(path.open("rb"))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="msshift-"))
            copy = Path(folder) / str(number)
            with copy.open("wb") as file:
                shutil.copyfileobj(stream, file)
            files.append(InputFile(name, copy, file_state(copy)))
        yield files


def sha256_of_files(files: Sequence[InputFile]) -> str:
    """Return the SHA-256 of the files' bytes as they are stored, one file after the other.

    For a single file it equals the output of ``sha256sum``.
    """
    digest = hashlib.sha256()
    for run_file in files:
        with _name_errors(run_file.path), run_file.path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _name_errors(path: Path) -> Iterator[None]:
    """Return a context manager that adds the path to errors of reading, as `open` does."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


@dataclass(frozen=True, slots=True)
class RunFormat:
    """A format of run files.

    Attributes:
        name: its name for ``--run-format``.
        shape: the fields of a line, separated by blanks, or the nesting of values.
        about: the tools that write it.
        endings: the endings of its files in run sets, without the ending of a compression.
        recognise: takes the first block of a file, decompressed. It returns whether the file has
            this format, or `None` if ambiguous, so that the user must name it.
        read: yields the lines of a file.
        contradicts: takes `formats.QueryNumbers`, and returns the mask of queries whose numbers do
            not fit the format. It is used for text formats that were recognised, not named.
        split: returns the named runs of a file; `None` for formats of one run.
    """

    name: str
    shape: str
    about: str
    endings: tuple[str, ...]
    recognise: Callable[[bytes], bool | None]
    read: Callable[[FileRun, Findings], Iterator[Lines]]
    contradicts: Callable[[Any], NDArray[np.bool_]] | None = None
    split: Callable[[FileRun, Findings], list[NamedRun]] | None = None


@dataclass(slots=True, eq=False)
class FileRun:
    """One file of a run.

    Attributes:
        file: the file.
        formats: name -> possible format; one if the user named it.
        first: the run's first file, whose format all files must have, as ranks and scores do not
            compare; `None` for the first file.
        needs_ranks: whether ranks are needed.
        format: the format; `None` until it is known.
        tag: the run tag, known after reading; "" if the format has none.
        number: index of the file among the run's files.
        stream: the decompressed content, while it is read.
        head: the first block of `stream`, which `stream` still yields.
    """

    file: InputFile
    formats: Mapping[str, RunFormat]
    first: FileRun | None = None
    needs_ranks: bool = False
    format: RunFormat | None = None
    tag: str = ""
    number: int = 0
    stream: BinaryIO = field(default_factory=io.BytesIO)
    head: bytes = b""

    @property
    def name(self) -> str:
        """The name in messages."""
        return self.file.name

    def place(self, line: int) -> int:
        """Return the place of a line, see `lines.place_of`; line 0 is the complete file."""
        return place_of(self.number, line)

    def content(self) -> bytearray:
        """Return the complete decompressed content.

        Raises:
            TooLargeError: if it has more than `MAX_UNPACKED` bytes.
        """
        content = bytearray()
        for piece in iter(partial(self.stream.read, _PIECE_BYTES), b""):
            content += piece
            if len(content) > MAX_UNPACKED:
                raise TooLargeError(f"it unpacks to more than {MAX_UNPACKED:,} bytes")
        return content

    def lines(self, number: int, findings: Findings) -> Iterator[Lines]:
        """Yield the well-formed lines, with a finding for each other line, or for an empty file.

        Args:
            number: index of the file among the run's files.
            findings: the log of findings.

        Raises:
            UsageError: if ranks are needed, and the file has none.
        """
        self.number = number
        errors, is_empty = sum(findings.counts.values()), True
        try:
            with _name_errors(self.file.path), open_stream(self.file.path) as content:
                self.stream, self.head = read_ahead(content)
                self.format = self.format or self._find_format(findings)
                if self.format is None:  # the first file has the finding
                    return
                for lines in self.format.read(self, findings):
                    if self.needs_ranks and lines.ranks is None:
                        raise UsageError(f"{self.name} {NO_RANKS}")
                    is_empty = False
                    yield lines
        except NotTextError:
            return
        except DamagedInputError as error:
            findings.add("truncated-input", self.place(0), str(error))
        if is_empty and sum(findings.counts.values()) == errors:
            findings.add("empty-file", self.place(0), "the file holds no line")

    def _find_format(self, findings: Findings) -> RunFormat | None:
        """Return the format; `None`, with a finding, if the user must name it.

        Unknown content gets the first format, whose reader adds the finding.
        """
        if self.first is not None or len(self.formats) == 1:
            return self.first.format if self.first else next(iter(self.formats.values()))
        possible = []
        for row in self.formats.values():
            is_format = row.recognise(self.head)
            if is_format:
                return row
            possible += [row] * (is_format is None)
        if not possible:
            return next(iter(self.formats.values()))  # its reader adds the finding
        shapes = " and of ".join(f"{row.name} ({row.shape})" for row in possible)
        names = " or ".join(row.name for row in possible)
        message = f"the format can be {shapes}: give --run-format {names}"
        findings.add("format-ambiguous", self.place(1), message)
        return None

    def named_runs(self, findings: Findings) -> list[NamedRun]:
        """Return the named runs of a file; ``[]`` for formats of one run.

        If the user named no format, only files with an ending of such a format are opened. A
        damaged file raises `DamagedInputError`.
        """
        is_named = len(self.formats) == 1
        for row in self.formats.values():
            if row.split and (is_named or any(end in self.name for end in row.endings)):
                with _name_errors(self.file.path), open_stream(self.file.path) as content:
                    self.stream, self.head = read_ahead(content)
                    return row.split(self, findings) if is_named or row.recognise(self.head) else []
        return []


@dataclass(frozen=True, slots=True, eq=False)
class NamedRun:
    """One of several runs in a file.

    Attributes:
        name: its name, e.g. ``<subset>/<split>``.
        tag: the run tag; "" if unknown.
        facts: facts about the run that the file contains.
        lines: yields the well-formed lines, see `FileRun.lines`.
    """

    name: str
    tag: str
    facts: Mapping[str, Any]
    lines: Callable[[int, Findings], Iterator[Lines]]


def read_parquet(file: FileRun, findings: Findings) -> Iterator[Lines]:
    """Yield the well-formed rows of a Parquet file, batch by batch; findings for other rows.

    Columns are query_id, doc_id, score and, optionally, rank; PyTerrier's names ``qid`` and
    ``docno``, and ranx's ``q_id``, are accepted. Other columns are ignored. Ids are strings, UTF-8
    bytes, or integers, which are read as decimal digits.
    """
    import pyarrow.parquet as pq  # a slow import that other formats do not need

    try:
        with file.file.path.open("rb") as stored:
            is_packed = file.head.startswith(PARQUET) and stored.read(len(PARQUET)) != PARQUET
        source = pa.BufferReader(file.content()) if is_packed else file.file.path.absolute()
        names = _choose_columns(pq.read_schema(source).names, file, findings)
        place = file.place(1)
        for batch in unpacked_batches(source, names, _BATCH_ROWS) if names else ():
            columns = [batch.column(name) for name in names]
            lines = _lines_of_columns(columns, place)
            if lines is None:
                values = (column.to_pylist() for column in columns)
                yield from lines_of_records(
                    zip(range(place, place + len(batch)), *values, strict=True),
                    findings,
                    with_ranks=len(names) == len(_COLUMNS),
                )
            else:
                yield lines
            place += len(batch)
    except TooLargeError as error:
        findings.add("parquet-too-large", file.place(0), str(error))
    except (pa.ArrowException, OSError) as error:
        findings.add("truncated-input", file.place(0), f"the file is damaged: {error}")


def _choose_columns(present: Sequence[str], file: FileRun, findings: Findings) -> list[str]:
    """Return columns in the order of `_COLUMNS`; ``[]``, with a finding, if they cannot be read."""
    *required, rank = (next((n for n in names if n in present), "") for names in _COLUMNS)
    names = [*required, *filter(None, [rank])]
    if all(present.count(name) == 1 for name in names):
        return names
    findings.add(
        "unreadable-parquet", file.place(0), f"the columns are {', '.join(present) or 'none'}"
    )
    return []


def _lines_of_columns(columns: Sequence[pa.Array], place: int) -> Lines | None:
    """Return columns of a Parquet file as lines; `None` if values must be checked one by one."""
    query, doc, score, *rank = columns
    numeric = pa.types.is_floating(score.type) or pa.types.is_integer(score.type)
    if not (
        len(score) and numeric and all(pa.types.is_integer(column.type) for column in rank)
    ) or any(column.null_count for column in columns):
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
    """Return strings or integers as UTF-8; `None` for other types, or an empty or too long id."""
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
        source: a mapping or a table as in `reader.read_run`, or an iterable of records: tuples
            (query_id, doc_id, score[, rank]), mappings with these keys, or objects with these
            attributes. Ids are strings, or integers, which are read as decimal digits. An iterator
            is kept in memory.
        with_ranks: whether to read ranks, which the source must then have.

    Attributes:
        held: the source; for an iterator, a list of its values.

    Raises:
        UsageError: for another type of source.
    """

    tag = ""

    def __init__(self, source: object, *, with_ranks: bool) -> None:
        self.held: Any = source
        self._with_ranks = with_ranks
        if isinstance(source, Mapping):
            self.name, self._records = "<mapping>", self._of_mapping
        elif is_table(source):
            self.name, self._records = "<table>", self._of_table
        elif isinstance(source, Iterable):
            self.name, self._records = "<records>", self._of_records
            self.held = list(source)
        else:
            raise UsageError(
                f"a run is a path, a mapping, a table or records, not {quoted(source)}; "
                "of a Run of ranx pass to_dict()"
            )

    def lines(self, file: int, findings: Findings) -> Iterator[Lines]:
        """Yield the well-formed records as lines, numbered from 1; all lines of a mapping are 0.

        Raises:
            UsageError: if the source lacks a column, or ranks that are needed, or has values that
                are not mappings or records.
        """
        numbered = repeat(0) if isinstance(self.held, Mapping) else count(1)
        yield from lines_of_records(
            (
                (place_of(file, number), *record)
                for number, record in zip(numbered, self._records(), strict=False)
            ),
            findings,
            with_ranks=self._with_ranks,
        )

    def _of_mapping(self) -> Iterator[Record]:
        if self._with_ranks:
            raise UsageError(f"a mapping {NO_RANKS}")
        for query, docs in self.held.items():
            pairs = _scored_documents(docs)
            if pairs is None:
                raise UsageError(
                    "a run as a mapping is query id -> doc id -> score, and query "
                    f"{quoted(query)} has {quoted(docs)}"
                )
            yield from ((query, doc, score) for doc, score in pairs)

    def _of_table(self) -> Iterator[Record]:
        return table_rows(self.held, _COLUMNS if self._with_ranks else _COLUMNS[:-1])

    def _of_records(self) -> Iterator[Record]:
        for number, record in enumerate(self.held, start=1):
            fields = record
            if isinstance(record, list):
                raise UsageError(
                    f"record {number} is a list, and has no query id; "
                    "pass dict(zip(query_ids, rankings))"
                )
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
    """Yield the rows of some columns of a data frame or an Arrow table.

    Args:
        table: the table.
        wanted: the names that each column may have; the first one in the table counts.

    Raises:
        UsageError: if the table lacks a column.
    """
    # `columns` of an Arrow table are values, of a data frame names.
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
    """Return the first value in a record under `names` that is not `None`; else `None`."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def _scored_documents(ranking: Any) -> Sequence[tuple[Any, Any]] | None:
    """Return a query's pairs of doc id and score; `None` for other rankings.

    Args:
        ranking: doc id -> score, a list of tuples of both, or a list of mappings with the keys
            ``id`` and ``score``, as PyLate's retrievers return it.
    """
    if hasattr(ranking, "items"):
        pairs = list(ranking.items())
        return pairs if not any(isinstance(score, Mapping) for _, score in pairs[:1]) else None
    if not isinstance(ranking, list | tuple):
        return None
    pairs = [
        (one.get("id"), one.get("score")) if isinstance(one, Mapping) else one for one in ranking
    ]
    return pairs if all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs) else None


def lines_of_records(
    records: Iterable[Record], findings: Findings, *, with_ranks: bool = False
) -> Iterator[Lines]:
    """Yield records as lines, with a finding for each malformed one.

    Args:
        records: place, encoded by `lines.place_of`, query id, doc id, score, and perhaps rank.
        findings: the log of findings.
        with_ranks: whether every record has a rank.
    """
    for batch in batches(records, _BATCH_ROWS):
        columns = [list(column) for column in zip_longest(*batch)]
        columns += [[None] * len(batch)] * (5 - len(columns))
        places, queries, docs, *_ = columns
        columns[1:3] = ids = [list(map(_identifier, queries)), list(map(_identifier, docs))]
        wrong = {row for column in ids for row, one in enumerate(column) if not one}
        for row in sorted(wrong):
            pair = f"query {quoted(queries[row])}, document {quoted(docs[row])}"
            findings.add("id-invalid", places[row], f"{pair}: not both are ids")
        if wrong:
            kept = [row not in wrong for row in range(len(batch))]
            columns = [list(compress(column, kept)) for column in columns]
        places, queries, docs, scores, ranks = columns
        yield checked_lines(
            places,
            (id_column(queries), id_column(docs)),
            ([score if type(score) is float else _number(score) for score in scores], scores),
            ([_whole_number(rank) for rank in ranks], ranks) if with_ranks else None,
            findings,
        )


def _identifier(value: Any) -> bytes:
    """Return the UTF-8 bytes of an id: a string, bytes or an integer; b"" for other values.

    b"" is also returned for an id that is not UTF-8 or is longer than `MAX_LINE_BYTES`.
    """
    if type(value) is str and value.isascii() and len(value) <= MAX_LINE_BYTES:
        return value.encode()  # almost always
    if not isinstance(value, bool) and isinstance(value, numbers.Integral):
        value = str(value)
    try:
        if isinstance(value, bytes):
            value = value.decode()
        return value.encode() if isinstance(value, str) and len(value) <= MAX_LINE_BYTES else b""
    except UnicodeError:
        return b""


def _number(value: Any) -> float:
    """Return a score as a float; NaN if it is no real number, infinite if too large."""
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
