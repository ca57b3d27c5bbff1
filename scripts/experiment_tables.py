"""Write the tables of docs/experiments.md on `mini`.

Usage: python scripts/experiment_tables.py WORK [PAGE]. WORK is the folder that `scripts/own_entries
mini WORK` wrote. The script replaces the text between two marks of the page by the output of
`msshift evaluate --format markdown` for its run sets, with all digests.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

from msshift_bench import evaluate_run_sets
from msshift_bench.cli.evaluate import print_report

PAGE = Path(__file__).resolve().parent.parent / "docs" / "experiments.md"
NAMES = ("runs", "no-prior")


def marks(name: str) -> tuple[str, str]:
    """Return the lines of the page between which the tables of one folder of run sets stand."""
    return f"<!-- tables of WORK/{name}: scripts/experiment_tables.py -->\n", "<!-- end -->\n"


def tables(runs: Path, data: Path) -> str:
    """Return what `msshift evaluate` prints of run sets in Markdown."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_report(evaluate_run_sets([runs], data), "markdown")
    return printed.getvalue().strip()


def put(page: str, name: str, content: str) -> str:
    """Return the page with other tables between its marks."""
    begin, end = marks(name)
    before, found, rest = page.partition(begin)
    if not found:
        sys.exit(f"the page has no line {begin!r}")
    after = rest[rest.index(end) :]
    return f"{before}{begin}\n{content}\n\n{after}"


def main(work: Path, page: Path = PAGE) -> None:
    """Write the page."""
    text = page.read_text("utf-8")
    for name in NAMES:
        text = put(text, name, tables(work / name, work / "msshift"))
    page.write_text(text, "utf-8")
    print(page)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
