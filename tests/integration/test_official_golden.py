"""The official files, as they were on the day these figures were written down.

No text of the release stands here: a row is its id, the number of its relevant passages and the
beginning of its text's SHA-256.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from msshift_bench.data import count_rows, open_collection
from msshift_bench.dataset_builders.audit import audit_release
from msshift_bench.dataset_builders.release import OfficialRelease, read_official
from msshift_bench.dataset_builders.zhan import read_resttest
from msshift_bench.records import Row
from scripts.fill_page import main as fill_page
from tests.conftest import REPOSITORY
from tests.support.cut_rows import cut_rows

pytestmark = pytest.mark.realdata

Golden = tuple[int, tuple[str, int, str], tuple[str, int, str], tuple[str, int, str]]

# Config -> number of test queries; first, middle and last row.
TEST_SETS: dict[str, Golden] = {
    "topics-C0": (
        6595,
        ("1000132", 1, "f5cebd7365c5"),
        ("693613", 1, "a0bb3ba95534"),
        ("998755", 1, "c457bf713d8f"),
    ),
    "topics-C1": (
        5960,
        ("1000192", 1, "a780a61dfe11"),
        ("45776", 1, "6bf1d09f83a6"),
        ("99954", 1, "6f06e84b2850"),
    ),
    "topics-C2": (
        6255,
        ("1000007", 1, "4628a70aa278"),
        ("656418", 1, "391234317fd5"),
        ("999979", 1, "923a63c3e4da"),
    ),
    "topics-C3": (
        5868,
        ("1001056", 1, "b7eea03ae146"),
        ("507071", 1, "718249de309f"),
        ("999619", 1, "2c5986c45f7d"),
    ),
    "topics-C4": (
        6566,
        ("1000131", 1, "c30db18a9af9"),
        ("592245", 1, "bf8fcd5678da"),
        ("999036", 1, "ec436b41b5a9"),
    ),
    "wh-words-wha": (
        6496,
        ("100095", 1, "7aeec7bb5677"),
        ("698511", 1, "d968c711d1e4"),
        ("9883", 1, "eae468644c22"),
    ),
    "wh-words-how": (
        6497,
        ("100194", 1, "f6a371ea2ed1"),
        ("286489", 1, "4e7203ef6388"),
        ("99945", 1, "e48e1b3daf38"),
    ),
    "wh-words-who": (
        6494,
        ("1000005", 2, "b263b263e38f"),
        ("561355", 1, "9516a5c9c461"),
        ("999979", 1, "923a63c3e4da"),
    ),
    "length-short": (
        3434,
        ("1000017", 1, "544d0e34d4d7"),
        ("354222", 1, "cd5aed06e939"),
        ("999942", 1, "2a7ec5398292"),
    ),
    "length-long": (
        3546,
        ("1000000", 1, "c3b6e3eaa4a8"),
        ("297019", 1, "bab998504712"),
        ("999836", 1, "dc98248e1e80"),
    ),
}


@pytest.fixture(scope="module")
def release(real_data: Path) -> OfficialRelease:
    return read_official(real_data / "ms-marco-shift")


def shown(row: Row) -> tuple[str, int, str]:
    digest = hashlib.sha256(row.text.encode()).hexdigest()
    return row.query_id, len(row.relevant_doc_ids), digest[:12]


def test_counts_and_rows_by_position(release: OfficialRelease) -> None:
    found = {}
    for cut in release.shifts:
        for config, group in cut.shift.configs.items():
            rows = [row for row in cut_rows(cut, "test") if row.group == group]
            picked = (rows[0], rows[len(rows) // 2], rows[-1])
            found[config] = (len(rows), *map(shown, picked))
    assert found == TEST_SETS


def test_the_eight_orphans(release: OfficialRelease) -> None:
    assert release.report["orphans"] == {
        "C0": ["54", "749567"],
        "C1": ["540270", "55"],
        "C2": ["675535", "794137"],
        "C4": ["1070274", "878557"],
    }
    held = {row.query_id for cut in release.shifts for row in cut_rows(cut, "test")}
    assert held.isdisjoint(
        {"54", "749567", "540270", "55", "675535", "794137", "1070274", "878557"}
    )


def test_the_buckets_of_resttest(real_data: Path) -> None:
    collection = open_collection(real_data / "msmarco-pool")
    cut, _ = read_resttest(real_data / "extrapolate-eval", collection)
    assert [counts["test"] for counts in count_rows(cut.shift, cut.table).values()] == [
        981,
        2206,
        1824,
        1491,
        478,
    ]
    assert all(row.text for row in cut_rows(cut, "test"))


def test_the_buckets_hold_the_queries_of_the_length_shift(
    release: OfficialRelease, real_data: Path
) -> None:
    """Both cut MS MARCO's dev-small: 6,980 queries with the same relevant passages."""
    buckets = cut_rows(read_resttest(real_data / "extrapolate-eval")[0], "test")
    length = cut_rows(release.shifts[2], "test")
    assert {(r.query_id, r.relevant_doc_ids) for r in buckets} == {
        (r.query_id, r.relevant_doc_ids) for r in length
    }
    assert len(buckets) == len(length) == 6980


def test_the_page_is_what_its_commands_print(real_data: Path, tmp_path: Path) -> None:
    page = REPOSITORY / "docs" / "official-release.md"
    (tmp_path / "data").symlink_to(real_data)
    fill_page(tmp_path, page, check=True)
    files = audit_release(real_data / "ms-marco-shift").facts["files"]
    text = page.read_text(encoding="utf-8")
    assert all(f"| `{name}` | `{digest}` |\n" in text for name, digest in files.items())
