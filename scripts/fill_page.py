"""Fill a page of the docs with what commands print of the run sets in a folder.

Usage: python scripts/fill_page.py WORK [PAGE]; PAGE is docs/experiments.md unless it is given. A
mark of the page is a line with a command, and the text from it to the next end is what the command
prints in Markdown:

    <!-- $ msshift evaluate WORK/runs --data WORK/msshift -->
    <!-- end -->

A command whose folders are not all in WORK is left out, and its text stays as it is: the page's
tables come from several experiments, each with a WORK of its own.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from msshift_bench.plumbing.files import write_atomically

PAGE = Path(__file__).resolve().parent.parent / "docs" / "experiments.md"
BLOCK = re.compile(r"(<!-- \$ ([^\n]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)


def printed(command: str, work: Path) -> str | None:
    """Return what a command prints in Markdown; `None` if a folder that it names is not there.

    Raises:
        SystemExit: if the command fails.
    """
    words = shlex.split(command)
    paths = [work / word.removeprefix("WORK/") for word in words if word.startswith("WORK/")]
    if not all(path.exists() for path in paths):
        return None
    places = iter(paths)
    there = [str(next(places)) if word.startswith("WORK/") else word for word in words]
    print("$", shlex.join(there), file=sys.stderr, flush=True)
    done = subprocess.run([*there, "--format", "markdown"], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout.replace(f"{work}/", "WORK/").strip()


def filled(page: str, work: Path) -> tuple[str, int]:
    """Return the page with the output of its commands, and how many there were."""
    count = 0

    def fill(block: re.Match[str]) -> str:
        nonlocal count
        content = printed(block[2], work)
        if content is None:
            return block[0]
        count += 1
        return f"{block[1]}\n{content}\n\n{block[4]}"

    return BLOCK.sub(fill, page), count


def main(work: Path, page: Path = PAGE) -> None:
    """Write the page.

    Raises:
        SystemExit: if the folder has nothing for the page.
    """
    text, count = filled(page.read_text("utf-8"), work)
    if not count:
        sys.exit(f"{page} has no command whose folders are in {work}")
    with write_atomically(page) as file:
        file.write(text.encode())
    print(f"{page}: {count} commands")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
