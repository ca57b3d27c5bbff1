from __future__ import annotations

import gzip

import numpy as np
import pytest

from msshift_bench.errors import CollectionError, NotFoundError
from msshift_bench.records import Qrel
from msshift_bench.runs import Judgements, read_qrels
from tests.compressing import COMPRESSORS

QRELS = b"1 0 d1 1\n1\t0\td2\t0\n2 d3 2\n"


def test_reads_four_and_three_columns_with_tabs_or_spaces(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_bytes(QRELS)
    assert read_qrels(path) == [Qrel("1", "d1", 1), Qrel("1", "d2", 0), Qrel("2", "d3", 2)]


@pytest.mark.parametrize("compress", COMPRESSORS.values(), ids=COMPRESSORS)
def test_reads_compressed_qrels_whatever_their_name(tmp_path, compress):
    path = tmp_path / "qrels"
    path.write_bytes(compress(QRELS))
    assert len(read_qrels(str(path))) == 3


def test_skips_the_beir_header_a_byte_order_mark_and_blank_lines(tmp_path):
    path = tmp_path / "qrels.tsv"
    path.write_bytes(b"\xef\xbb\xbfquery-id\tcorpus-id\tscore\r\nq\td\t1\r\n\r\n")
    assert read_qrels(path) == [Qrel("q", "d", 1)]


def test_reports_every_malformed_line_with_its_number(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_bytes(b"1 0 d1 1\n1 0 d1 1\n1 0\n1 0 d2 one\n1 0 \xff 1\n")
    with pytest.raises(CollectionError) as caught:
        read_qrels(path)
    assert [(finding.code, finding.line) for finding in caught.value.findings] == [
        ("duplicate-judgement", 2),
        ("field-count", 3),
        ("relevance-not-integer", 4),
        ("not-utf8", 5),
    ]


def test_spells_out_twenty_findings_and_counts_all(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_text("bad\n" * 30)
    with pytest.raises(CollectionError, match="and 10 more") as caught:
        read_qrels(path)
    assert len(caught.value.findings) == 20


def test_an_empty_a_truncated_and_a_missing_file_are_errors(tmp_path):
    path = tmp_path / "qrels.gz"
    path.write_bytes(b"")
    with pytest.raises(CollectionError, match="empty-file"):
        read_qrels(path)
    path.write_bytes(gzip.compress(QRELS)[:-12])
    with pytest.raises(CollectionError, match="truncated-input"):
        read_qrels(path)
    with pytest.raises(NotFoundError, match="no file"):
        read_qrels(tmp_path / "other")


def test_judgements_count_the_queries_given_and_remember_the_others():
    qrels = [Qrel("1", "d1", 1), Qrel("2", "d1", 3), Qrel("2", "d2", 1), Qrel("54", "d", 1)]
    judgements = Judgements.from_qrels(qrels, queries=["2", "1", "9"])
    assert judgements.query_ids == ("2", "1", "9")
    assert judgements.relevant_counts.tolist() == [2, 1, 0]
    assert judgements.uncounted == {"54"}
    queries, ranks, gains = judgements.ideal
    assert (queries.tolist(), ranks.tolist(), gains.tolist()) == ([0, 0, 1], [1, 2, 1], [3, 1, 1])


def test_judgements_from_a_mapping_equal_those_from_records():
    from_records = Judgements.from_qrels([Qrel("1", "d1", 1), Qrel("1", "d2", 0)])
    from_mapping = Judgements.from_qrels({"1": {"d1": np.int64(1), "d2": 0}})
    assert from_records.relevant == from_mapping.relevant == {b"1": (0, {b"d1": 1})}


def test_judgements_refuse_what_is_no_judgement():
    with pytest.raises(CollectionError) as caught:
        Judgements.from_qrels({"1": {"d": 1.5, "e": True, 3: 1}})
    codes = [finding.code for finding in caught.value.findings]
    assert codes == ["relevance-not-integer", "relevance-not-integer", "id-invalid"]
    with pytest.raises(CollectionError, match="judged twice"):
        Judgements.from_qrels([Qrel("1", "d", 1), Qrel("1", "d", 2)])
