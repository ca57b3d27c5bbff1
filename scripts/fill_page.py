"""Fill a page of the docs with what commands print about the files in a folder.

Usage: python scripts/fill_page.py WORK PAGE [--check]. With --check nothing is written: the script
prints what differs, and exits with 1 if anything does. A mark of the page is a line with a command;
the text from the mark to the next end is what the command prints in Markdown:

    <!-- $ msshift import WORK/data/ms-marco-shift --check -->
    <!-- end -->

A command that names a file which is not in WORK is not run, and the page keeps its text.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path

from msshift_bench.plumbing.files import write_atomically

BLOCK = re.compile(r"(<!-- \$ ([^\n]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
PLACE = re.compile(r"(?<![^=])WORK/(\S+)")


def printed(command: str, work: Path) -> str | None:
    """Return what a command prints in Markdown; `None` if a file that it names does not exist.

    Raises:
        SystemExit: if the command fails.
    """
    words = shlex.split(command)
    if not all((work / path).exists() for word in words for path in PLACE.findall(word)):
        return None
    there = [PLACE.sub(lambda place: str(work / place[1]), word) for word in words]
    print("$", shlex.join(there), file=sys.stderr, flush=True)
    in_markdown = ["--format", "markdown"] if there[0] == "msshift" else []
    done = subprocess.run([*there, *in_markdown], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout.replace(f"{work}/", "WORK/").strip()


def filled(page: str, work: Path) -> tuple[str, int]:
    """Return the page with the output of its commands, and the number of commands that ran."""
    count = 0

    def fill(block: re.Match[str]) -> str:
        nonlocal count
        content = printed(block[2], work)
        if content is None:
            return block[0]
        count += 1
        return f"{block[1]}\n{content}\n\n{block[4]}"

    return BLOCK.sub(fill, page), count


def main(work: Path, page: Path, *, check: bool = False) -> None:
    """Write the page, or compare it.

    Raises:
        SystemExit: if the folder has nothing for the page, or if `check` finds a difference.
    """
    before = page.read_text("utf-8")
    text, commands = filled(before, work)
    if not commands:
        sys.exit(f"{page} names nothing that is in {work}")
    if check:
        lines = before.splitlines(), text.splitlines()
        if differences := list(unified_diff(lines[0], lines[1], "printed", "found", lineterm="")):
            print("\n".join(differences))
            sys.exit(f"{commands} commands; their output is not the text of {page}")
        print(f"{commands} commands print what {page} shows")
        return
    with write_atomically(page) as file:
        file.write(text.encode())
    print(f"{page}: {commands} commands")


if __name__ == "__main__":
    given = [Path(one) for one in sys.argv[1:] if one != "--check"]
    if len(given) != 2:
        sys.exit("usage: python scripts/fill_page.py WORK PAGE [--check]")
    main(*given, check="--check" in sys.argv)
