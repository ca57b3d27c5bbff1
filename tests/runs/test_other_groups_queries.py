"""A run ranks for the queries of all groups; on one group's test set the others are no fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.data import TestSet
from msshift_bench.errors import RunError
from msshift_bench.evaluation import open_test_set, score_runs
from msshift_bench.runs import Judgements, validate_run
from tests.conftest import Build, Command

JUDGEMENTS = Judgements({"q1": {"a": 1}}, elsewhere=["q2", "07", "ünïcode"])
KNOWN = "q1 Q0 a 1 3 t\nq2 Q0 a 1 3 t\nünïcode Q0 a 1 3 t\n07 Q0 a 1 3 t\n"


@pytest.mark.parametrize("more", ["", "q1 Q0 b 2 2 t\n"], ids=["in columns", "interleaved"])
def test_only_queries_of_no_test_set_are_unknown(tmp_path: Path, more: str) -> None:
    path = tmp_path / "my.run"
    path.write_text(KNOWN + "q3 Q0 a 1 3 t\n" + more, "utf-8")
    found = validate_run(path, JUDGEMENTS)
    assert [(f.code, f.line) for f in found.warnings] == [
        ("id-leading-zeros", 4),
        ("unknown-query", 5),
    ]
    assert found.report.extra_queries == 4
    memory = {"q1": {"a": 1.0}, "q2": {"a": 1.0}, "q3": {"a": 1.0}}
    assert validate_run(memory, JUDGEMENTS).counts == {"unknown-query": 1}


def test_a_run_of_the_other_groups_alone_is_refused_and_known(tmp_path: Path) -> None:
    test_set = TestSet("config", {"q1": {"a": 1}}, {"config": ["q1"]}, elsewhere=["q2"])
    for others, said in (
        ("q2", "look like the test queries of"),
        ("q3", "q3"),
    ):
        run = {others: {"a": 1.0}}
        with pytest.raises(RunError, match=f"answers none of the 1 queries .*1 others .*{said}"):
            score_runs([run], test_set)


def test_what_a_check_and_scores_print(msshift: Command, build_once: Build, tmp_path: Path) -> None:
    data = build_once("mini:500", "length")
    short, long = (open_test_set(f"length-{g}", data) for g in ("short", "long"))
    run = tmp_path / "my.run"
    # Ten passages a query, one of them relevant: nothing is odd about the run.
    docs = {query: [*list(judged)[:1], *(f"x{n}" for n in range(9))] for query, judged in
            {**short.judged, **long.judged}.items()}  # fmt: skip
    rows = [
        f"{query} Q0 {d} {n + 1} {-n} t\n" for query, of in docs.items() for n, d in enumerate(of)
    ]
    run.write_text("".join(rows))
    arguments = ("score", "my.run", "--test", "length-short", "--data", data)
    for strict in ((), ("--strict",)):
        assert "0 warnings; it can be scored" in msshift(*arguments, "--check", *strict).stderr
        done = msshift(*arguments, *strict)
        assert (done.returncode, done.stderr) == (0, "")
    others = len(long.judged)
    assert f"; {others} other queries, which do not count here" in done.stdout
    assert score_runs([run], short).scores[0].run_facts()[0]["extra_queries"] == others

    run.write_text(run.read_text() + "".join(f"none-{n} Q0 d1 1 1.5 t\n" for n in range(411)))
    said = msshift(*arguments, "--check").stderr.splitlines()
    where = f"  my.run:{len(rows) + 1}: query 'none-0' is not in the test set [unknown-query]"
    assert said[:2] == ["warning: my.run: 411 warnings", where]
    assert said[4:6] == [
        "  ... and 408 more [unknown-query]",
        "    fix: check that the run and the test set belong together",
    ]
    assert len(said) == 7
    assert "411 warnings (unknown-query 411)" in msshift(*arguments).stdout
    refused = msshift(*arguments, "--check", "--strict")
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[4:] == said[4:6]
