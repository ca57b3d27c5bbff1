"""Commands that are killed, or meet another fault: the next one needs no help.

A small share of `scripts/bench faults`, and of ``--every-call``, which kills at every change of the
file system; and that it would see what it looks for.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.killed.fault_table import FAULTS, Trial, inflict, kill_at_call, trial
from tests.killed.laboratory import Done, Laboratory, is_outside
from tests.killed.outcomes import judge
from tests.killed.scenarios import SCENARIOS
from tests.support.forking import PRELOADED
from tests.support.warm_forkserver import warm_forkserver

pytestmark = pytest.mark.extended

HERE = ("build over a build", "triples", "evaluate")
"""One that replaces a folder, one that adds to it, and one that writes several files."""


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with warm_forkserver(PRELOADED):
        yield Laboratory(tmp_path_factory.mktemp("killed"))


@pytest.mark.parametrize("scenario", HERE)
def test_a_kill_leaves_nothing_that_the_next_command_does_not_mend(
    laboratory: Laboratory, scenario: str
) -> None:
    calls = laboratory.undisturbed(scenario).done.calls
    seen = {number for number, call in enumerate(calls, 1) if is_outside(call)}
    moments = {*seen, *(number + 1 for number in seen)}.intersection(range(1, len(calls) + 1))
    assert len(moments) >= 2
    for number in sorted(moments):
        outcome = kill_at_call(laboratory, scenario, {"call": number})
        assert (outcome.ended, outcome.wrong) == ("stopped", []), number


def test_a_write_that_the_system_refuses_does_not_brick_the_badges(
    laboratory: Laboratory, msshift_script: Path
) -> None:
    """As a full disk does: no file may hold a byte."""
    folder = laboratory.prepare("leaderboard check")
    check = SCENARIOS["leaderboard check"].command
    refused = subprocess.run(
        ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash", str(msshift_script), *check],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 3, refused.stderr
    assert "File too large; raise the limit" in refused.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        *("msshift", "runs", "submission", "system.toml")
    ]
    assert laboratory.finish("leaderboard check", folder) == []


TEN = (
    ("SIGKILL at a moment", "import of texts"),
    ("SIGINT at a moment", "submit"),
    ("SIGTERM at a moment", "leaderboard check"),
    ("disk full", "evaluate"),
    ("files limited in size", "leakage clean"),
    ("right taken away", "evaluate"),
    ("file cut off", "import of texts"),
    ("bit flipped", "leakage clean"),
    ("two at once", "export"),
    ("umask changed", "submit"),
)


@pytest.mark.parametrize(("fault", "scenario"), TEN)
def test_a_command_that_meets_a_fault_leaves_its_outputs_in_the_end(
    laboratory: Laboratory, fault: str, scenario: str
) -> None:
    if not FAULTS[fault].is_possible():
        pytest.skip("takes root's rights")
    _, outcome = inflict(laboratory, Trial(fault, scenario, "12"))
    assert outcome.wrong == []


def test_what_is_lost_or_silently_wrong_is_seen(laboratory: Laboratory) -> None:
    folder = laboratory.prepare("leakage clean", finished=True)
    (folder / "clean" / "queries.tsv").write_text("half a fi")
    (folder / "clean" / ".queries.tsv.partial").touch()
    outcome = judge(laboratory, "leakage clean", folder, Done(0, ""))
    assert outcome.ended == "wrong"
    assert outcome.wrong == [
        "clean/queries.tsv is neither old nor new",
        "clean/.queries.tsv.partial is left",
        "clean/queries.tsv is different",
    ]
    folder = laboratory.prepare("leakage clean")
    outcome = judge(laboratory, "leakage clean", folder, Done(1, "Traceback\nKeyError: 3"))
    assert outcome.wrong == ["it ends with 1: Traceback\nKeyError: 3"]


def test_a_series_has_every_fault_and_every_command_and_is_the_same_again() -> None:
    series = [trial(0, number) for number in range(100)]
    assert series == [trial(0, number) for number in range(100)]
    assert series != [trial(1, number) for number in range(100)]
    assert {one.fault for one in series} == FAULTS.keys()
    assert {one.scenario for one in series} == SCENARIOS.keys()
