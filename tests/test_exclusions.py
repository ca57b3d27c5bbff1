"""Exclusions: what a file or a rule excludes, and what is refused."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from msshift_bench.errors import UsageError
from msshift_bench.exclusions import EXCLUDED_NAME, OWN_ID, Exclusions
from msshift_bench.records import Passage, Row
from tests.support.refusals import check_refusals

RANKING = {"q1": 3.0, "d1": 2.0, "d2": 1.0}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.txt"
    path.write_text("q2 d9\nq1\td2\nq1 d1\nq1 d1\n")
    return path


def test_a_file_and_the_rule_exclude_passages_of_each_query(file: Path) -> None:
    own, pairs, nothing = map(Exclusions.of, (OWN_ID, file, None))
    assert own.left("q1", RANKING) == {"d1": 2.0, "d2": 1.0}
    assert pairs.left("q1", RANKING) == {"q1": 3.0}
    assert nothing.left("q1", RANKING, 2) == {"q1": 3.0, "d1": 2.0}
    assert (bool(own), bool(pairs), bool(nothing)) == (True, True, False)
    rows = [Row.judged(name, "", "", {"d7": 1}) for name in ("q1", "q2")]
    assert [one.most(rows) for one in (own, pairs, nothing)] == [1, 2, 0]
    assert [row.relevant_doc_ids for row in pairs.barring(rows)] == [
        ("d1", "d2", "d7"),
        ("d7", "d9"),
    ]
    assert nothing.barring(rows) == rows
    assert Exclusions.of(pairs) is pairs


def test_order_and_white_space_of_a_file_change_no_digest(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tsv"
    other.write_text("q1\td1\nq1\td2\nq2\td9\n")
    first, second = Exclusions.of(file), Exclusions.of(str(other))
    assert first == second
    assert first.lines == other.read_text()
    assert first.facts == {"pairs": 3, "sha256": first.sha256}


def test_a_data_set_records_its_exclusions(file: Path, tmp_path: Path) -> None:
    pairs, own = Exclusions.of(file), Exclusions.of(OWN_ID)
    (tmp_path / EXCLUDED_NAME).write_text(pairs.lines)
    for one in (pairs, own, Exclusions()):
        assert Exclusions.recorded(one.facts, tmp_path) == one
        assert one.joined(Exclusions(), "here") == one == one.joined(one, "here")
    (tmp_path / EXCLUDED_NAME).write_text("q1\td1\n")
    check_refusals(
        {
            f"changed file: IntegrityError {EXCLUDED_NAME}": partial(
                Exclusions.recorded, pairs.facts, tmp_path
            ),
            "another option: UsageError --exclude own-id 3": partial(pairs.joined, own, "here"),
        }
    )


def test_malformed_files_are_refused_with_their_lines(tmp_path: Path) -> None:
    contents = {"bad.txt": b"q1 d1\nq2\n\xff d\nq3 d 1\n", "empty.txt": b""}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    check_refusals(
        {
            "lines: CollectionError [field-count] [not-utf8] bad.txt:2 bad.txt:3 bad.txt:4 fix": (
                partial(Exclusions.of, tmp_path / "bad.txt")
            ),
            "no line: CollectionError [empty-file] empty.txt": partial(
                Exclusions.of, tmp_path / "empty.txt"
            ),
            "no file: NotFoundError own_id own-id query_id": partial(Exclusions.of, "own_id"),
            "a folder: UsageError folder": partial(Exclusions.of, tmp_path),
        }
    )


def test_own_ids_must_be_those_of_the_same_texts(file: Path) -> None:
    queries = {"1": "Cheap  flights", "2": "who is pope", "3": "rome"}
    own = Exclusions.of(OWN_ID)
    titled = [Passage("1", "Travel cheap flights to Rome"), Passage("9", "a")]
    own.check(queries, titled, "here")
    own.check(queries, [*titled, Passage("2", "Frogs live in ponds")], "here")
    numbered = [Passage("1", "Frogs"), Passage("3", "aromes"), Passage("2", "who is pope")]
    check_refusals(
        {
            "numbers: UsageError 2 3 1 own-id": partial(own.check, queries, numbered, "here"),
            "no such passage: UsageError own-id": partial(own.check, queries, titled[1:], "here"),
            "other queries: UsageError pairs.txt 2 q1": partial(
                Exclusions.of(file).check, queries, [], "here"
            ),
        }
    )
    with pytest.raises(UsageError, match="no passage has the id of a query"):
        own.check(queries, [], "here")
