"""Runs in text files: TREC's six columns, or MS MARCO's three."""

from __future__ import annotations

from collections.abc import Iterator

from msshift_bench.plumbing import DamagedInputError, map_in_threads, open_stream
from msshift_bench.runs.findings import RunFindings, place_of
from msshift_bench.runs.reading.columns import ColumnJudge, JudgedBlock, add_block, parse_block
from msshift_bench.runs.reading.judge import RunJudge
from msshift_bench.runs.reading.lines import WIDTHS, SoundLines, judge_in_order, parse_lines
from msshift_bench.runs.reading.query_blocks import (
    NotTextError,
    QueryBlock,
    line_at,
    whole_query_blocks,
)
from msshift_bench.runs.reading.run_files import InputFile

__all__ = ["TextRun"]

_MOST_THREADS = 4


class TextRun:
    """A text file in one of the formats of `WIDTHS`.

    Args:
        run_file: the file.
        run_format: a key of `WIDTHS`, or ``"auto"`` to take it from the first line's fields.
        first: the run's first text file, whose format the others must have, because ranks and
            scores do not compare; `None` for the first one itself.
        keeps: whether the text stays in memory once it was read, until it is read again.

    Attributes:
        tag: the run tag of the first line, once it was read.
    """

    def __init__(
        self,
        run_file: InputFile,
        run_format: str,
        first: TextRun | None = None,
        *,
        keeps: bool = False,
    ) -> None:
        self.name = run_file.name
        self.tag = ""
        self._path = run_file.path
        self._format = run_format
        self._first = first
        self._keeps = keeps
        self._kept: list[QueryBlock] = []

    def rows(self, file: int, findings: RunFindings) -> Iterator[SoundLines]:
        """Yield the rows in reading order; malformed ones become findings."""
        line = 1
        for block in self._blocks(file, findings):
            yield parse_lines(block.text, place_of(file, line), self._format, findings)
            line += block.lines

    def judge(self, file: int, judge: RunJudge) -> None:
        """Judge the rows in reading order.

        Raises:
            QueriesInterleavedError: if a query comes back after another one.
        """
        column_judge = ColumnJudge(judge)

        def work(block: QueryBlock) -> tuple[QueryBlock, JudgedBlock | None]:
            columns = parse_block(block, self._format)
            return block, None if columns is None else column_judge.judge(columns)

        line = 1
        blocks = self._blocks(file, judge.findings)
        for block, judged in map_in_threads(work, blocks, _MOST_THREADS):
            place = place_of(file, line)
            if judged is None:
                judge_in_order(parse_lines(block.text, place, self._format, judge.findings), judge)
                line += block.lines
            else:
                add_block(judged, place, judge)
                line += len(judged.columns.scores)

    def _blocks(self, file: int, findings: RunFindings) -> Iterator[QueryBlock]:
        """Yield the file's blocks; add a finding where it cannot be read on."""
        if self._kept:
            kept, self._kept = self._kept, []
            yield from kept
            return
        found_before, empty = findings.errors, True
        read: list[QueryBlock] = []
        try:
            with open_stream(self._path) as stream:
                for block in whole_query_blocks(stream):
                    if empty:
                        self._look_at(block.text)
                    empty = False
                    if self._keeps:
                        read.append(block)
                    yield block
            self._kept = read
        except NotTextError as error:
            message = "the input is not text: a NUL byte or a line of more than a mebibyte"
            with open_stream(self._path) as stream:
                line = line_at(stream, error.offset)
            findings.add("binary-input", place_of(file, line), message)
        except DamagedInputError as error:
            findings.add("truncated-input", place_of(file, 0), str(error))
        if empty and findings.errors == found_before:
            findings.add("empty-file", place_of(file, 0), "the file holds no line")

    def _look_at(self, text: bytes) -> None:
        """Set the format and the run tag from the first line that is not blank."""
        first_line = text.lstrip().partition(b"\n")[0]
        fields = first_line.split()
        if self._format == "auto" and self._first is not None:
            self._format = self._first._format
        if self._format == "auto":
            self._format = "msmarco" if len(fields) == WIDTHS["msmarco"] else "trec"
        if len(fields) == WIDTHS["trec"]:
            self.tag = fields[-1].decode(errors="replace")
