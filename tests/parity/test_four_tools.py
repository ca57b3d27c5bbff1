"""The page that compares four tools is what the tools say today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures.bin import msmarco_eval

from scripts.four_tools_page.tools import NO_MESSAGE, Answer, ask, ask_msmarco
from scripts.four_tools_page.writing import ObservationError, observed

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "scripts" / "four_tools.py"
PAGE = REPOSITORY / "docs" / "same-run-four-tools.md"

QUERIES = st.integers(1, 5)
PASSAGES = st.integers(1, 12)
QRELS = st.sets(st.tuples(QUERIES, PASSAGES), min_size=1)
# Ranks from 0, repeated ranks, gaps and duplicate passages: the script takes them all.
RUN = st.lists(st.tuples(QUERIES, PASSAGES, st.integers(0, 14)), min_size=1)


@pytest.mark.slow
def test_the_page_is_what_the_script_writes() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == PAGE.read_bytes()


def test_a_sentence_that_is_not_true_is_not_written() -> None:
    assert observed("Water is wet.", True, True) == "Water is wet."
    with pytest.raises(ObservationError, match="Water is dry"):
        observed("Water is dry.", True, False)


@settings(max_examples=100)
@given(qrels=QRELS, run=RUN)
def test_the_rule_of_ms_marco_is_that_of_its_script(
    tmp_path_factory: pytest.TempPathFactory,
    qrels: set[tuple[int, int]],
    run: list[tuple[int, int, int]],
) -> None:
    folder = tmp_path_factory.getbasetemp()
    reference, candidate = folder / "reference.tsv", folder / "candidate.tsv"
    reference.write_text("".join(f"{query}\t0\t{doc}\t1\n" for query, doc in sorted(qrels)))
    candidate.write_text("".join(f"{query}\t{doc}\t{rank}\n" for query, doc, rank in run))
    relevant = msmarco_eval.load_reference(str(reference))
    rankings = msmarco_eval.load_candidate(str(candidate))
    _, message = msmarco_eval.quality_checks_qids(relevant, rankings)
    theirs = msmarco_eval.compute_metrics(relevant, rankings, 10)["MRR @10 by query"]

    trec = folder / "candidate.run"
    trec.write_text("".join(f"{query} Q0 {doc} {rank} 0 tag\n" for query, doc, rank in run))
    ours = ask_msmarco(str(reference), str(trec))
    assert ours.per_query["RR@10"] == {str(query): theirs.get(query, 0.0) for query in relevant}
    assert ours.means["RR@10"] == pytest.approx(sum(theirs.values()) / len(relevant), abs=1e-15)
    assert message.startswith(ours.words)
    assert bool(message) == bool(ours.words)


def test_what_a_tool_raises_is_its_answer() -> None:
    def refuse(qrels: str, run: str) -> Answer:
        raise AssertionError

    def explain(qrels: str, run: str) -> Answer:
        raise ValueError("no such query\nand more")

    assert ask(refuse, "", "") == Answer(refusal="AssertionError", words=NO_MESSAGE)
    assert ask(explain, "", "") == Answer(refusal="ValueError", words="no such query")
    assert ask(refuse, "", "").show("RR") == "`AssertionError`"
