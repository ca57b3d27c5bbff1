"""A run ranks for the queries of all groups; on one group's test set the others are no fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.data import TestSet
from msshift_bench.errors import RunError
from msshift_bench.evaluation import open_test_set, score_runs
from msshift_bench.runs import Judgements, validate_run
from tests.conftest import Build, Command
from tests.runs.conftest import codes
from tests.support.golden import Golden

JUDGEMENTS = Judgements({"q1": {"a": 1}}, elsewhere=["q2", "07", "ünïcode"])
KNOWN = "q1 Q0 a 1 3 t\nq2 Q0 a 1 3 t\nünïcode Q0 a 1 3 t\n07 Q0 a 1 3 t\n"


@pytest.mark.parametrize("more", ["", "q1 Q0 b 2 2 t\n"], ids=["in columns", "interleaved"])
def test_only_queries_of_no_test_set_are_unknown(tmp_path: Path, more: str) -> None:
    path = tmp_path / "my.run"
    path.write_text(KNOWN + "q3 Q0 a 1 3 t\n" + more, "utf-8")
    found = validate_run(path, JUDGEMENTS)
    assert codes(found.warnings) == [("id-leading-zeros", 4), ("unknown-query", 5)]
    assert found.report.extra_queries == 4
    memory = {"q1": {"a": 1.0}, "q2": {"a": 1.0}, "q3": {"a": 1.0}}
    assert validate_run(memory, JUDGEMENTS).counts == {"unknown-query": 1}


def test_a_run_of_the_other_groups_alone_is_refused_and_known() -> None:
    test_set = TestSet("config", {"q1": {"a": 1}}, {"config": ["q1"]}, elsewhere=["q2"])
    for others, words in (("q2", "look like the test queries of"), ("q3", "q3")):
        with pytest.raises(RunError, match=f"answers none of the 1 queries .*1 others .*{words}"):
            score_runs([{others: {"a": 1.0}}], test_set)


def test_what_a_check_and_scores_print(
    msshift: Command, build_once: Build, tmp_path: Path, golden: Golden
) -> None:
    data = build_once("mini:500", "length")
    short, long = (open_test_set(f"length-{g}", data).judged for g in ("short", "long"))
    run = tmp_path / "my.run"
    # Ten passages a query, one of them relevant: nothing is odd about the run.
    rows = [
        f"{query} Q0 {doc} {rank} {-rank} t\n"
        for query, judged in {**short, **long}.items()
        for rank, doc in enumerate([*list(judged)[:1], *(f"x{n}" for n in range(9))], 1)
    ]
    run.write_text("".join(rows))
    arguments = ("score", "my.run", "--test", "length-short", "--data", data)
    for strict in ((), ("--strict",)):
        assert "0 warnings; it can be scored" in msshift(*arguments, "--check", *strict).stderr
        done = msshift(*arguments, *strict)
        assert (done.returncode, done.stderr) == (0, "")
    assert f"; {len(long)} other queries, which do not count here" in done.stdout
    (facts,) = score_runs([run], open_test_set("length-short", data)).scores[0].run_facts()
    assert facts["extra_queries"] == len(long)

    run.write_text(run.read_text() + "".join(f"none-{n} Q0 d1 1 1.5 t\n" for n in range(411)))
    assert "411 warnings (unknown-query 411)" in msshift(*arguments).stdout
    checked, refused = (msshift(*arguments, "--check", *s) for s in ((), ("--strict",)))
    assert (checked.returncode, refused.returncode) == (0, 1)
    golden.check("unknown-queries.txt", f"{checked.stderr}--strict:\n{refused.stderr}")
