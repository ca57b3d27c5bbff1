"""Measures as trec_eval, MTEB, BEIR and ranx spell them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from msshift_bench.errors import UnknownNameError
from msshift_bench.evaluation import Settings
from tests.support.command_line import run_msshift

NAMES = {
    "ndcg_cut_10": "nDCG@10",
    "ndcg_cut.10": "nDCG@10",
    "ndcg_at_10": "nDCG@10",
    "recall_1000": "R@1000",
    "recip_rank": "RR",
    "mrr_at_10": "RR@10",
    "P_10": "P@10",
    "map_cut_100": "AP@100",
    "success_5": "Success@5",
    "hit_rate@10": "Success@10",
    "bpref": "Bpref",
    "err_20": "ERR@20",
    "ndcg_burges_10": "nDCG(dcg='exp-log2')@10",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_measure_of_another_tool_is_named_as_here(name: str) -> None:
    assert str(Settings(NAMES[name]).measures[0]) == NAMES[name]
    with pytest.raises(UnknownNameError, match=re.escape(f"called {NAMES[name]} here")):
        Settings(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hit_rate", "Success@k"),
        ("top_k_accuracy", "Success@k"),
        ("recall", "R@k"),
        ("P", "P@k"),
        ("err", "ERR@k"),
        ("ndcg_burges", "nDCG(dcg='exp-log2')@k"),
    ],
)
def test_a_measure_that_needs_a_cutoff_is_named_with_one(name: str, expected: str) -> None:
    assert Settings(expected.replace("k", "10")).measures
    with pytest.raises(UnknownNameError, match=re.escape(f"called {expected} here")):
        Settings(name)


@pytest.mark.parametrize("name", ["bpref_10", "set_recall_5", "num_q@10", "map_cut_0", "R@0"])
def test_a_cutoff_that_no_measure_has_is_not_suggested(name: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        Settings(name)
    assert "here" not in str(caught.value)


def test_a_name_of_no_tool_has_no_other_name() -> None:
    with pytest.raises(UnknownNameError) as caught:
        Settings("speed_10")
    assert "here" not in str(caught.value)


def test_the_command_suggests_each_name(tmp_path: Path) -> None:
    done = run_msshift(["evaluate", "runs", "--measures", "ndcg_cut_10 recall_1000"], tmp_path)
    assert done.returncode == 2
    assert "nDCG@10" in done.stderr
    assert "R@1000" in done.stderr
