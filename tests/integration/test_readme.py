"""Everything the README shows works, in the order in which it shows it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 5
    for link in links:
        assert link.startswith("https://") or (REPOSITORY / link).exists(), link


def test_the_set_up_scripts_are_those_it_names() -> None:
    assert "exec msshift demo" in (REPOSITORY / "scripts" / "demo").read_text()
    for script in ("demo", "test", "check", "bench"):
        assert os.access(REPOSITORY / "scripts" / script, os.X_OK)
    assert "scripts/test" in (REPOSITORY / ".ci" / "run").read_text()


def readme_blocks() -> list[tuple[str, str]]:
    return re.findall(r"```(console|python)\n(.*?)```", README, re.DOTALL)


@pytest.mark.neural
@pytest.mark.slow
def test_every_command_and_every_snippet_runs(msshift_script: Path, tmp_path: Path) -> None:
    blocks = readme_blocks()
    assert sum(kind == "console" for kind, _ in blocks) >= 5
    assert sum(kind == "python" for kind, _ in blocks) >= 3
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    environment = {
        **os.environ,
        "PATH": f"{msshift_script.parent}{os.pathsep}{os.environ['PATH']}",
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "1",
    }
    for kind, block in blocks:
        if kind == "python":
            commands = [[sys.executable, "-c", block]]
        else:
            lines = [line.removeprefix("$ ") for line in block.splitlines()]
            commands = [shlex.split(line, comments=True) for line in lines]
        for command in commands:
            if command[0] in ("scripts/demo", "scripts/test", "pip"):
                continue  # the demo has a test of its own; the others brought us here
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr
