"""Running what a page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Container, Mapping
from pathlib import Path

from tests.support.command_line import run_msshift, run_script, run_source

__all__ = ["run_blocks"]


def run_blocks(
    page: str,
    folder: Path,
    *,
    skipping: Container[str] = (),
    environment: Mapping[str, str] | None = None,
) -> list[list[str]]:
    """Run every console and Python block of a page, in its order, and expect each to succeed.

    A block of text right behind one of Python is what it prints. Right behind one of commands, it
    has lines that they print; a line of three dots stands for others.

    Args:
        page: the page's text.
        folder: where to run them; caches are kept there too.
        skipping: commands that are not run.
        environment: variables to set, such as a folder of small recipes.

    Returns:
        The commands that were run.
    """
    scripts = Path(sys.executable).parent
    values = {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "MSSHIFT_CACHE": str(folder / "cache"),
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
        **(environment or {}),
    }
    ran = []
    blocks = re.findall(r"```(console|python)\n(.*?)```(?:\n\n```text\n(.*?)```)?", page, re.DOTALL)
    for kind, block, printed in blocks:
        commands = [[sys.executable, "-c", block]]
        lines: list[str] = []
        if kind == "console":
            typed = [line.removeprefix("$ ") for line in block.splitlines()]
            commands = [shlex.split(line, comments=True) for line in typed]
        for command in commands:
            if command[0] in skipping:
                continue
            command, target = _redirected(command)
            if kind == "python":
                done = run_source(block, folder, values)
            elif command[:2] == ["msshift", "irds"]:
                # ir_datasets forks processes, which must not be copies of the tests' process.
                done = run_script(command[1:], folder, values)
            elif command[0] == "msshift":
                done = run_msshift(command[1:], folder, values)
            else:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env={**os.environ, **values},
                    capture_output=True,
                    text=True,
                )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr
            if kind == "python" and printed:
                assert done.stdout == printed
            if target is not None:
                (folder / target).write_text(done.stdout)
            ran.append(command)
            lines += [line.rstrip() for line in done.stdout.splitlines()]
        if kind == "console":
            absent = [line for line in printed.splitlines() if line not in (*lines, "...")]
            assert absent == [], "\n".join(lines)
    return ran


def _redirected(command: list[str]) -> tuple[list[str], str | None]:
    """Return a command without its ``> FILE``, and the file."""
    return (command[:-2], command[-1]) if command[-2:-1] == [">"] else (command, None)
