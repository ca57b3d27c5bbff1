"""The official files, as they were when these figures were written down, and the builders' rules.

No text of the release stands here: a row is its id, the number of its relevant passages and the
beginning of its text's SHA-256.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.data import count_rows, open_collection
from msshift_bench.dataset_builders.audit import audit_release
from msshift_bench.dataset_builders.cut import ShiftSplits
from msshift_bench.dataset_builders.groups import WH_WORDS, group_by_length, question_matcher
from msshift_bench.dataset_builders.release import OfficialRelease, read_official
from msshift_bench.dataset_builders.zhan import read_resttest
from msshift_bench.errors import FindingLog
from msshift_bench.plumbing.reading import tsv_rows
from msshift_bench.records import Row
from tests.conftest import REPOSITORY, Command
from tests.support.cut_rows import cut_rows
from tests.support.golden import Golden

pytestmark = [pytest.mark.extended, pytest.mark.realdata]

COLUMNS = ("id", "relevant", "text")
"""What is kept of a row: its id, the number of its relevant passages, a digest of its text."""


@pytest.fixture(scope="module")
def release(real_data: Path) -> OfficialRelease:
    return read_official(real_data / "ms-marco-shift")


@pytest.fixture(scope="module")
def resttest(real_data: Path) -> ShiftSplits:
    collection = open_collection(real_data / "msmarco-pool")
    return read_resttest(real_data / "extrapolate-eval", collection)[0]


def shown(row: Row) -> str:
    digest = hashlib.sha256(row.text.encode()).hexdigest()
    return f"{row.query_id},{len(row.relevant_doc_ids)},{digest[:12]}"


@pytest.mark.extended
def test_counts_and_rows_by_position(release: OfficialRelease, golden: Golden) -> None:
    heads = (f"{place}_{name}" for place in ("first", "middle", "last") for name in COLUMNS)
    lines = [",".join(["config", "queries", *heads])]
    for cut in release.shifts:
        for config, group in cut.shift.configs.items():
            rows = [row for row in cut_rows(cut, "test") if row.group == group]
            picked = (rows[0], rows[len(rows) // 2], rows[-1])
            lines.append(",".join([config, str(len(rows)), *map(shown, picked)]))
    golden.check("official-test-sets.csv", "\n".join(lines) + "\n")


def test_the_eight_orphans(release: OfficialRelease) -> None:
    orphans = {
        "C0": ["54", "749567"],
        "C1": ["540270", "55"],
        "C2": ["675535", "794137"],
        "C4": ["1070274", "878557"],
    }
    assert release.report["orphans"] == orphans
    held = {row.query_id for cut in release.shifts for row in cut_rows(cut, "test")}
    assert held.isdisjoint(query_id for ids in orphans.values() for query_id in ids)


def test_the_buckets_of_resttest(release: OfficialRelease, resttest: ShiftSplits) -> None:
    """ReSTTest and the shift ``length`` divide MS MARCO's dev-small with the same judgements."""
    counts = [counts["test"] for counts in count_rows(resttest.shift, resttest.table).values()]
    assert counts == [981, 2206, 1824, 1491, 478]
    buckets, length = cut_rows(resttest, "test"), cut_rows(release.shifts[2], "test")
    assert all(row.text for row in buckets)
    judged = [{(row.query_id, row.relevant_doc_ids) for row in rows} for rows in (buckets, length)]
    assert judged[0] == judged[1]
    assert len(buckets) == len(length) == 6980


@pytest.mark.extended
def test_the_page_shows_the_printed_tables(real_data: Path, msshift: Command) -> None:
    text = (REPOSITORY / "docs" / "official-release.md").read_text(encoding="utf-8")
    release = real_data / "ms-marco-shift"
    printed = msshift("import", release, "--check", "--format", "markdown").stdout
    # tests/docs checks a row of the table of leaks, which takes much longer.
    tables = text.partition("## Tables\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"(?m)^\*\*", tables)) == 2
    assert [line for line in tables.splitlines() if line[:1] in "*|" and line not in printed] == []
    files = audit_release(release).facts["files"]
    assert all(f"{digest}  {name}\n" in text for name, digest in files.items())


Official = Callable[[str], dict[str, str]]


@pytest.fixture
def official(real_data: Path) -> Official:
    def read(group: str) -> dict[str, str]:
        path = real_data / "ms-marco-shift" / "EVAL" / "queries" / f"queries_{group}.tsv"
        findings = FindingLog()
        rows = dict(fields for _, fields in tsv_rows(path, ("query_id", "text"), findings))
        assert len(findings) == 0
        return rows

    return read


def test_the_word_rules(official: Official) -> None:
    """The release's rule is a substring; some queries have no word of their group, or no word."""
    texts = {group: official(group) for group in WH_WORDS}
    assert [len(rows) for rows in texts.values()] == [6496, 6497, 6494]
    disagreements = {}
    for group, rows in texts.items():
        assert all(group in question_matcher("substring")(text) for text in rows.values())
        found = [question_matcher("word")(text) for text in rows.values()]
        disagreements[group] = (sum(group not in g for g in found), sum(not g for g in found))
    assert disagreements == {"wha": (5, 5), "how": (144, 35), "who": (37, 21)}
    wha, how, who = (set(rows) for rows in texts.values())
    assert (len(wha & how), len(wha & who), len(how & who)) == (7, 13, 9)


def test_the_length_rule_agrees_on_every_official_query(official: Official) -> None:
    sets = {group: official(group) for group in ("short", "long")}
    grouping = group_by_length({**sets["short"], **sets["long"]})
    assert grouping.parameters == {"cut": 6}
    assert len(grouping.labels) == 6980
    assert all(grouping.labels[query_id] == group for group in sets for query_id in sets[group])
