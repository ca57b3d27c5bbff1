"""``msshift`` alone: five commands to start with, which run as they stand, one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.cli.first_commands import FIRST_COMMANDS
from tests.conftest import Command
from tests.support.documents import run_blocks
from tests.support.forking import SMALL


def test_msshift_alone_shows_five_commands_on_80_columns(msshift: Command) -> None:
    done = msshift()
    assert (done.returncode, done.stderr) == (0, "")
    assert len(FIRST_COMMANDS) == 5
    assert [line.split("   ")[0].strip() for line in done.stdout.splitlines()[4:9]] == [
        *FIRST_COMMANDS
    ]
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.slow
def test_the_commands_after_the_demo_run_in_their_order(tmp_path: Path) -> None:
    demo, *others = FIRST_COMMANDS
    assert demo == "msshift demo", "it has tests of its own"
    block = "".join(f"$ {command}\n" for command in others)
    assert len(run_blocks(f"```console\n{block}```", tmp_path, before=SMALL)) == 4
