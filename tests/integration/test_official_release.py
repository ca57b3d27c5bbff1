"""The builders' rules agree with the official release of 2022 (docs/official-release.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.dataset_builders.groups import WH_WORDS, group_by_length, matching_groups
from msshift_bench.errors import FindingLog
from msshift_bench.plumbing.reading import tsv_rows

pytestmark = pytest.mark.realdata

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


@pytest.mark.parametrize(("group", "queries"), [("wha", 6496), ("how", 6497), ("who", 6494)])
def test_every_official_query_matches_its_group_as_a_substring(
    official: Official, group: str, queries: int
) -> None:
    texts = official(group).values()
    assert len(texts) == queries
    assert all(group in matching_groups(text, "substring") for text in texts)


def test_where_the_word_rule_disagrees(official: Official) -> None:
    """How many official queries hold none of their group's words as a word, or no word at all."""
    disagreements = {}
    for group in WH_WORDS:
        found = [matching_groups(text, "word") for text in official(group).values()]
        disagreements[group] = (sum(group not in g for g in found), sum(not g for g in found))
    assert disagreements == {"wha": (5, 5), "how": (144, 35), "who": (37, 21)}


def test_the_official_sets_share_queries(official: Official) -> None:
    wha, how, who = (set(official(group)) for group in WH_WORDS)
    assert (len(wha & how), len(wha & who), len(how & who)) == (7, 13, 9)


def test_the_length_rule_agrees_on_every_official_query(official: Official) -> None:
    short, long = official("short"), official("long")
    both = {**short, **long}
    grouping = group_by_length(both)
    assert grouping.parameters == {"cut": 6}
    agreeing = sum(grouping.labels[query_id] == "short" for query_id in short)
    agreeing += sum(grouping.labels[query_id] == "long" for query_id in long)
    assert agreeing == len(both) == 6980
