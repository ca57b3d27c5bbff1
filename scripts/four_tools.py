"""Run four evaluation tools and msshift on the same files, and write the page that compares them.

Every figure of the page is computed here, and every sentence on what a tool does is guarded by an
observation of it: a version that behaves differently makes this script fail, not the page lie. Run
it from the repository's root, in the environment of `scripts/environment.sh dev` (ten seconds, and
half a minute the first time, while ranx compiles its functions)::

    python scripts/four_tools.py > docs/same-run-four-tools.md
    python scripts/four_tools.py --check
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from four_tools_page import defects, files, policies
from four_tools_page.tools import ask_all
from four_tools_page.writing import write

PAGE = Path(__file__).resolve().parent.parent / "docs" / "same-run-four-tools.md"


def page() -> str:
    """Run everything and return the page. Files are written into the current folder."""
    write("demo.qrels", files.QRELS)
    write("demo.run", files.RUN)
    write("one.qrels", files.ONE_QRELS)
    demo = ask_all("demo.qrels", "demo.run")
    parts = [
        *files.show_files(),
        *policies.overview(demo),
        *policies.ties(demo),
        *policies.missing_queries(demo),
        *defects.duplicates(),
        *defects.nan_scores(),
        *defects.ranks(demo),
        *defects.zero_labels(demo),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Print the page, or with ``--check`` say whether the one in docs is what it would be."""
    parser = argparse.ArgumentParser(description="Write docs/same-run-four-tools.md.")
    parser.add_argument("--check", action="store_true", help="compare with the page in docs")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        text = page()
    if not check:
        sys.stdout.write(text)
    elif text != PAGE.read_text():
        sys.exit(f"docs/{PAGE.name} is stale: python scripts/four_tools.py > docs/{PAGE.name}")


if __name__ == "__main__":
    main()
