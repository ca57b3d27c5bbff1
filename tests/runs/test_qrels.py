from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.errors import CollectionError, NotFoundError, UsageError
from msshift_bench.plumbing import textfiles
from msshift_bench.records import Qrel
from msshift_bench.runs import Judgements, read_qrels, validate_run
from tests.support.compressing import COMPRESSORS


def codes(error: CollectionError) -> list[tuple[str, int]]:
    return [(finding.code, finding.line) for finding in error.findings]


def relevant(judgements: Judgements) -> list[tuple[int, bytes, int]]:
    """Return the position of the query, the id and the gain of each relevant document."""
    columns = judgements.relevant
    docs = columns.doc.to_pylist()
    return list(zip(columns.query.tolist(), docs, columns.gain.tolist(), strict=True))


QRELS = b"1 0 d1 1\n1\t0\td2\t0\n2 0 d3 2\n"


def test_reads_four_and_three_columns_with_tabs_or_spaces(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    for text in (QRELS, b"1 d1 1\n1\td2\t0\n2 d3 2\n"):
        path.write_bytes(text)
        assert read_qrels(path) == [Qrel("1", "d1", 1), Qrel("1", "d2", 0), Qrel("2", "d3", 2)]


def test_a_line_of_four_columns_that_was_cut_off_is_none_of_three(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("1 0 7067032 1\n# a comment\n2 0 7067033 1\n3 0 7067034")
    with pytest.raises(CollectionError, match=r"qrels\.txt:4: found 3 fields where .* have 4"):
        read_qrels(path)
    path.write_text("query-id\tcorpus-id\tscore\n1\t7\t1\n1 0 8 1\n")
    with pytest.raises(CollectionError, match=r"qrels\.txt:3: found 4 fields where .* have 3"):
        read_qrels(path)


@pytest.mark.parametrize("compress", COMPRESSORS.values(), ids=COMPRESSORS)
def test_reads_compressed_qrels_whatever_their_name(tmp_path: Path, compress: Any) -> None:
    path = tmp_path / "qrels"
    path.write_bytes(compress(QRELS))
    assert len(read_qrels(str(path))) == 3


def test_skips_the_beir_header_a_byte_order_mark_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_bytes(b"\xef\xbb\xbfquery-id\tcorpus-id\tscore\r\nq\td\t1\r\n\r\n")
    assert read_qrels(path) == [Qrel("q", "d", 1)]


def test_lines_that_repeat_a_judgement_count_once_and_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("1 0 d1 1\n1 0 d2 1\n1 0 d1 1\n1 0 d1 1\n")
    assert read_qrels(path) == [Qrel("1", "d1", 1), Qrel("1", "d2", 1)]
    assert f"{path}: 2 lines repeat a judgement; each counts once" in caplog.text


def test_reports_every_malformed_line_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_bytes(b"1 0 d1 1\n1 0 d1 2\n1 0\n1 0 d2 one\n1 0 \xff 1\n")
    with pytest.raises(CollectionError) as caught:
        read_qrels(path)
    assert [(finding.code, finding.line) for finding in caught.value.findings] == [
        ("duplicate-judgement", 2),
        ("field-count", 3),
        ("relevance-not-integer", 4),
        ("not-utf8", 5),
    ]


def test_spells_out_three_findings_of_a_code_and_counts_all(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("bad\n" * 30)
    with pytest.raises(CollectionError, match="and 27 more") as caught:
        read_qrels(path)
    assert len(caught.value.findings) == 20


def test_an_empty_a_truncated_and_a_missing_file_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "qrels.gz"
    path.write_bytes(b"")
    with pytest.raises(CollectionError, match="empty-file"):
        read_qrels(path)
    path.write_bytes(gzip.compress(QRELS)[:-12])
    with pytest.raises(CollectionError, match="truncated-input"):
        read_qrels(path)
    with pytest.raises(NotFoundError, match="no file"):
        read_qrels(tmp_path / "other")


def test_judgements_count_the_queries_given_and_remember_the_others() -> None:
    qrels = [Qrel("1", "d1", 1), Qrel("2", "d1", 3), Qrel("2", "d2", 1), Qrel("54", "d", 1)]
    judgements = Judgements.from_qrels(qrels, queries=["2", "1", "9"])
    assert judgements.query_ids == ("2", "1", "9")
    assert judgements.relevant_counts.tolist() == [2, 1, 0]
    assert judgements.uncounted == {"54"}
    queries, ranks, gains = judgements.ideal
    assert (queries.tolist(), ranks.tolist(), gains.tolist()) == ([0, 0, 1], [1, 2, 1], [3, 1, 1])


def test_judgements_from_a_mapping_equal_those_from_records() -> None:
    from_records = Judgements.from_qrels([Qrel("1", "d1", 1), Qrel("1", "d2", 0)])
    from_mapping = Judgements.from_qrels({"1": {"d1": np.int64(1), "d2": 0}})
    assert relevant(from_records) == relevant(from_mapping) == [(0, b"d1", 1)]


def test_judgements_refuse_what_is_no_judgement() -> None:
    with pytest.raises(CollectionError) as caught:
        Judgements.from_qrels({"1": {"d": 1.5, "e": True, 3: 1}})
    codes = [finding.code for finding in caught.value.findings]
    assert codes == ["relevance-not-integer", "relevance-not-integer", "id-invalid"]
    with pytest.raises(UsageError, match=r"doc id -> relevance, and query '1' has \['d', 'e'\]"):
        Judgements.from_qrels({"1": ["d", "e"]})  # type: ignore[dict-item]
    with pytest.raises(CollectionError, match="judged twice"):
        Judgements.from_qrels([Qrel("1", "d", 1), Qrel("1", "d", 2)])


@pytest.mark.parametrize(
    "relevance", ["1_0", "\u0661", "1.0", "+-1", "0x1", "9" * 20, "-" + "9" * 20, "9" * 5000, "1e1"]
)
def test_a_relevance_is_a_whole_number_as_a_rank_is_one(tmp_path: Path, relevance: Any) -> None:
    path = tmp_path / "qrels"
    path.write_text(f"q 0 d 1\nq 0 e {relevance}\n", encoding="utf-8")
    with pytest.raises(CollectionError) as caught:
        read_qrels(path)
    assert codes(caught.value) == [("relevance-not-integer", 2)]
    assert len(str(caught.value)) < 400
    run = tmp_path / "run"
    run.write_text(f"q Q0 d 1 2 t\nq Q0 e {relevance} 1 t\n", encoding="utf-8")
    found = validate_run(run)
    assert [(finding.code, finding.line) for finding in found.errors] == [("rank-not-integer", 2)]


def test_judgements_refuse_a_relevance_that_overflows() -> None:
    for grade in (10**20, -(10**20), np.int64(2**40)):
        with pytest.raises(CollectionError, match="relevance-not-integer"):
            Judgements.from_qrels({"1": {"d": grade}})
    sound = Judgements.from_qrels({"1": {"d": -2, "e": 2**31 - 1}})
    assert relevant(sound) == [(0, b"e", 2**31 - 1)]


def test_lines_that_begin_with_a_hash_are_comments(tmp_path: Path) -> None:
    path = tmp_path / "qrels"
    path.write_text("# made by us\n#q0 0 d 1\nquery-id\tcorpus-id\tscore\nq 0 #d 1\n#\nr 0 d 2\n#")
    assert read_qrels(path) == [Qrel("q", "#d", 1), Qrel("r", "d", 2)]
    path.write_text("q 0 d 1\n # made by us\n")
    with pytest.raises(CollectionError) as caught:
        read_qrels(path)
    assert [(finding.code, finding.line) for finding in caught.value.findings] == [
        ("relevance-not-integer", 2)
    ]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PAR1" + bytes(40), "Parquet"),
        (b'{"q1": {"d1": 1}}', "JSON"),
        (b'{\n  "q1": {\n    "d1": 1\n  }\n}\n', "JSON"),
        (b'[{"query_id": "q1", "doc_id": "d1", "relevance": 1}]', "JSON"),
        (b'{"query_id": "q1", "doc_id": "d1", "relevance": 1}\n' * 30, "JSON"),
        (b"q1 0 d\0 1\n", "not text"),
        (b"q1 0 d1 1\n".decode().encode("utf-16-le"), "not text"),
        (b"q1 0 " + b"d" * (3 << 20) + b" 1\n", "mebibyte"),
    ],
    ids=["parquet", "json", "indented", "array", "json lines", "nul", "utf-16", "one long id"],
)
def test_what_is_no_text_is_one_finding(tmp_path: Path, content: Any, what: Any) -> None:
    path = tmp_path / "qrels"
    path.write_bytes(content)
    with pytest.raises(CollectionError, match=what) as caught:
        read_qrels(path)
    assert codes(caught.value) == [("binary-input", 1)]


@pytest.mark.parametrize("query", ["{q", "{q}", "[q1]", "[", "PAR"])
def test_an_id_may_look_like_the_beginning_of_something_else(tmp_path: Path, query: Any) -> None:
    path = tmp_path / "qrels"
    path.write_text(f"{query} 0 d1 1\n")
    assert read_qrels(path) == [Qrel(query, "d1", 1)]


def test_qrels_that_are_written_to_while_they_are_read_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "qrels"
    path.write_bytes(QRELS)

    def numbered_lines(*arguments: Any, **options: Any) -> Any:
        for number, line in whole(*arguments, **options):
            if number == 1:
                with path.open("ab") as file:
                    file.write(b"9 0 d9 1\n")
            yield number, line

    whole = textfiles.numbered_lines
    monkeypatch.setattr(textfiles, "numbered_lines", numbered_lines)
    with pytest.raises(CollectionError, match="changed-while-read"):
        read_qrels(path)
