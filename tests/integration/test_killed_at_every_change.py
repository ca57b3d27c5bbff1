"""Commands that are killed where they change what others see: the next one needs no help.

`scripts/bench faults --every-call` does it at every change of the file system, for every command.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.killed.fault_table import kill_at_call
from tests.killed.laboratory import Laboratory, is_outside
from tests.killed.scenarios import SCENARIOS

pytestmark = pytest.mark.slow

HERE = (
    "build over a build",
    "triples",
    "import of texts",
    "evaluate",
    "submit over a submission",
    "leaderboard check",
)
"""Those that replace what was there, and those that bricked it."""


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    return Laboratory(tmp_path_factory.mktemp("killed"))


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


def test_every_scenario_writes(laboratory: Laboratory) -> None:
    assert set(HERE) <= SCENARIOS.keys()


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
