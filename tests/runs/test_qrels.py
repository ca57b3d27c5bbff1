"""Qrels files and judgements in memory: what is read of them, and what is no judgement."""

from __future__ import annotations

import gzip
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import msshift_bench as ms
from msshift_bench.errors import CollectionError, UsageError
from msshift_bench.plumbing import reading
from msshift_bench.records import Qrel
from msshift_bench.runs import Judgements, read_qrels, validate_run
from tests.runs.conftest import Write, codes
from tests.support.compressing import COMPRESSORS
from tests.support.refusals import check_refusals

QRELS = b"1 0 d1 1\n1\t0\td2\t0\n2 0 d3 2\n"
ROWS = [Qrel("1", "d1", 1), Qrel("1", "d2", 0), Qrel("2", "d3", 2)]


def relevant(judgements: Judgements) -> list[tuple[int, bytes, int]]:
    """Return the position of the query, the id and the gain of each relevant document."""
    columns = judgements.relevant
    docs = columns.doc.to_pylist()
    return list(zip(columns.query.tolist(), docs, columns.gain.tolist(), strict=True))


def refused(path: Path) -> CollectionError:
    """The error that reading qrels raises."""
    with pytest.raises(CollectionError) as caught:
        read_qrels(path)
    return caught.value


SOUND: dict[str, tuple[bytes, list[Qrel]]] = {
    "four columns": (QRELS, ROWS),
    "three columns": (b"1 d1 1\n1\td2\t0\n2 d3 2\n", ROWS),
    "a header and blank lines": (
        b"\xef\xbb\xbfquery-id\tcorpus-id\tscore\r\nq\td\t1\r\n\r\n",
        [Qrel("q", "d", 1)],
    ),
    "a judgement again": (QRELS + b"1 0 d1 1\n", ROWS),
    **{name: (compress(QRELS), ROWS) for name, compress in COMPRESSORS.items()},
    # An id may look like the beginning of something else.
    **{
        query: (f"{query} 0 d1 1\n".encode(), [Qrel(query, "d1", 1)])
        for query in ("{q", "{q}", "[q1]", "[", "PAR")
    },
}


@pytest.mark.parametrize(("content", "rows"), SOUND.values(), ids=SOUND)
def test_reads_sound_files_whatever_their_name(
    write: Write, content: bytes, rows: list[Qrel]
) -> None:
    assert read_qrels(write(content, "qrels")) == read_qrels(str(write(content, "q.gz"))) == rows


def test_what_is_no_qrels_file_is_refused_with_its_lines(write: Write) -> None:
    contents = {
        "[field-count] qrels:4 3 fix": "1 0 7067032 1\n# a comment\n2 0 7067033 1\n3 0 7067034",
        "[field-count] qrels:3 4 fix": "query-id\tcorpus-id\tscore\n1\t7\t1\n1 0 8 1\n",
        "[duplicate-judgement] [field-count] [relevance-not-integer] [not-utf8] qrels:2 qrels:3":
            b"1 0 d1 1\n1 0 d1 2\n1 0\n1 0 d2 one\n1 0 \xff 1\n",
        "[field-count] qrels:1 qrels:2 1 fix": "bad\n" * 30,
        "[empty-file] qrels": b"",
        "[relevance-not-integer] qrels:2 'us'": "q 0 d 1\n # made by us\n",
    }  # fmt: skip
    for facts, content in contents.items():
        path = write(content, "qrels")
        check_refusals({f"CollectionError {facts}": partial(read_qrels, path)})
    check_refusals({"NotFoundError other": partial(read_qrels, path.with_name("other"))})
    assert len(refused(write("bad\n" * 30)).findings) == 20
    assert "truncated-input" in str(refused(write(gzip.compress(QRELS)[:-12])))


def test_judgements_are_columns_query_by_query() -> None:
    qrels = [Qrel("2", "d2", 1), Qrel("1", "d1", 1), Qrel("2", "d1", 3), Qrel("9", "d", 0)]
    judgements = Judgements.from_qrels(qrels)
    assert judgements.query_ids == ("2", "1", "9")
    assert judgements.relevant.counts.tolist() == [2, 1, 0]
    queries, ranks, gains = judgements.ideal
    assert (queries.tolist(), ranks.tolist(), gains.tolist()) == ([0, 0, 1], [1, 2, 1], [3, 1, 1])


def test_judgements_in_memory_are_judgements_or_refused() -> None:
    from_records = Judgements.from_qrels([Qrel("1", "d1", 1), Qrel("1", "d2", 0)])
    from_mapping = Judgements.from_qrels({"1": {"d1": np.int64(1), "d2": 0}})
    assert relevant(from_records) == relevant(from_mapping) == [(0, b"d1", 1)]
    sound = Judgements.from_qrels({"1": {"d": -2, "e": 2**31 - 1}})
    assert relevant(sound) == [(0, b"e", 2**31 - 1)]
    with pytest.raises(CollectionError) as caught:
        Judgements.from_qrels({"1": {"d": 1.5, "e": True, 3: 1}})
    found = [finding.code for finding in caught.value.findings]
    assert found == ["relevance-not-integer", "relevance-not-integer", "id-invalid"]
    with pytest.raises(UsageError, match=r"'1'.*\['d', 'e'\]"):
        Judgements.from_qrels({"1": ["d", "e"]})  # type: ignore[dict-item]
    with pytest.raises(CollectionError, match="duplicate-judgement"):
        Judgements.from_qrels([Qrel("1", "d", 1), Qrel("1", "d", 2)])
    for overflows in (10**20, -(10**20), np.int64(2**40)):
        with pytest.raises(CollectionError, match="relevance-not-integer"):
            Judgements.from_qrels({"1": {"d": overflows}})


def test_records_of_qrels_with_too_few_fields_are_refused() -> None:
    for record in (("2", "d7"), (), 5, None):
        qrels: Any = [("1", "d1", 1), record]
        with pytest.raises(UsageError, match=rf"record 2 .*{re.escape(str(record))}.*query_id"):
            Judgements.from_qrels(qrels)
    with pytest.raises(UsageError, match=r"record 1 .*\('1', 'd1'\).*relevance"):
        ms.score_runs([{"1": {"d1": 1.0}}], [("1", "d1")])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "relevance", ["1_0", "\u0661", "1.5", "+-1", "0x1", "9" * 20, "-" + "9" * 20, "9" * 5000, "1e1"]
)
def test_a_relevance_is_a_whole_number_as_a_rank_is_one(write: Write, relevance: str) -> None:
    error = refused(write(f"q 0 d 1\nq 0 e {relevance}\n"))
    assert codes(error) == [("relevance-not-integer", 2)]
    assert len(str(error)) < 400
    run = write(f"q Q0 d 1 2 t\nq Q0 e {relevance} 1 t\n")
    assert codes(validate_run(run).errors) == [("rank-not-integer", 2)]


def test_what_is_no_text_is_one_finding(write: Write) -> None:
    contents = (
        b"PAR1" + bytes(40),
        b'{"q1": {"d1": 1}}',
        b'{\n  "q1": {\n    "d1": 1\n  }\n}\n',
        b'[{"query_id": "q1", "doc_id": "d1", "relevance": 1}]',
        b'{"query_id": "q1", "doc_id": "d1", "relevance": 1}\n' * 30,
        b"q1 0 d\0 1\n",
        "q1 0 d1 1\n".encode("utf-16-le"),
        b"q1 0 " + b"d" * (3 << 20) + b" 1\n",
    )
    for content in contents:
        assert codes(refused(write(content))) == [("binary-input", 1)]


def test_qrels_that_are_written_to_while_they_are_read_are_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(QRELS)

    def numbered_lines(*arguments: Any, **options: Any) -> Any:
        for number, line in whole(*arguments, **options):
            if number == 1:
                with path.open("ab") as file:
                    file.write(b"9 0 d9 1\n")
            yield number, line

    whole = reading.numbered_lines
    monkeypatch.setattr(reading, "numbered_lines", numbered_lines)
    assert "changed-while-read" in str(refused(path))
