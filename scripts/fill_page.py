"""Fill a page of the docs with what commands print and draw of the run sets in a folder.

Usage: python scripts/fill_page.py WORK [PAGE] [--check]; PAGE is docs/experiments.md unless it is
given. With --check nothing is written: it prints what differs, and exits with 1 if anything does. A
mark of the page is a line with a command of msshift or of these scripts, and the text from it to
the next end is what the command prints in Markdown:

    <!-- $ msshift evaluate WORK/runs --data WORK/msshift -->
    <!-- end -->

The digests of run files are left out: those of trained models repeat on no other machine.

A picture of the page that is followed by the name of a file in WORK becomes a copy of that file:

    ![alternative text](picture.svg) <!-- WORK/results/topics/report/figures/rel-loss.svg -->

What is not in WORK is left out, and the page keeps what it has: its tables come from several
experiments, each with a WORK of its own.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path

from msshift_bench.plumbing.files import write_atomically

PAGE = Path(__file__).resolve().parent.parent / "docs" / "experiments.md"
BLOCK = re.compile(r"(<!-- \$ ([^\n]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
PLACE = re.compile(r"(?<![^=])WORK/(\S+)")
DIGESTS = re.compile(r" sha256(?: [0-9a-f]{8})+;")
"""The digests of run files in a note; they differ from one processor to another."""
PICTURE = re.compile(r"\]\(([^)\s]+)\) <!-- WORK/(\S+) -->")


def printed(command: str, work: Path) -> str | None:
    """Return what a command prints in Markdown; `None` if a folder that it names is not there.

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
    return DIGESTS.sub("", done.stdout.replace(f"{work}/", "WORK/")).strip()


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


def main(work: Path, page: Path = PAGE, *, check: bool = False) -> None:
    """Write the page, or compare it.

    Raises:
        SystemExit: if the folder has nothing for the page, or if what it has is not what the page
            shows, and that is to be checked.
    """
    before = page.read_text("utf-8")
    text, commands = filled(before, work)
    pictures = [
        (page.parent / name, work / source)
        for name, source in PICTURE.findall(text)
        if (work / source).exists()
    ]
    if not commands and not pictures:
        sys.exit(f"{page} names nothing that is in {work}")
    if check:
        shown = (one.splitlines() for one in (before, text))
        if differences := list(unified_diff(*shown, "printed", "found", lineterm="")):
            print("\n".join(differences))
            sys.exit(f"{commands} commands; what they print is not what {page} shows")
        print(f"{commands} commands print what {page} shows")
        return
    for picture, source in pictures:
        with write_atomically(picture) as file:
            file.write(source.read_bytes())
    with write_atomically(page) as file:
        file.write(text.encode())
    print(f"{page}: {commands} commands, {len(pictures)} pictures")


if __name__ == "__main__":
    folders = [Path(one) for one in sys.argv[1:] if one != "--check"]
    main(*folders, check="--check" in sys.argv)
