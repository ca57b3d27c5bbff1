"""Write the page on what the official release holds, from a checkout of it.

Every figure of the page is computed here from the files; no query text of the release is in it.
Run it from the repository's root, in the environment of `scripts/environment.sh` (a second)::

    python scripts/audit_page.py ms-marco-shift > docs/official-release.md
    python scripts/audit_page.py ms-marco-shift --check
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from msshift_bench.dataset_builders.audit import audit_release
from msshift_bench.dataset_builders.official_release import UPSTREAM
from msshift_bench.output.rendering import render_notes, to_markdown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "official-release.md"

_HEAD = f"""\
# What the official release holds

This page is written by `scripts/audit_page.py`, which counts in the files of [the release of
2022]({UPSTREAM}); `msshift audit DIR` prints the same tables for
any checkout. `msshift build --official DIR` imports the ten test sets as they are, without the ids
that have no text.

What to know before comparing numbers:

- The denominator of a mean is the test set's queries with text. Some ids have qrels and no text;
  whoever counts the qrels gets another number.
- A query may stand in the test sets of two groups of question words, and test sets of different
  shifts overlap, so that results on two shifts are not independent.
- The groups of question words were made by substrings: "show" makes a `how` query. The builders
  offer this rule as `substring`, and the one of the paper's text as `word`, which is the default of
  the edition `rebuilt`. There a query belongs to the question word that comes first.
- Words are counted by `text.split(" ")`; `text.split()` moves queries that hold needless spaces.
"""

_FILES = """\
## Audited files

| file | SHA-256 |
| --- | --- |
"""


def page(folder: Path) -> str:
    """Return the page on the checkout in `folder`."""
    audit = audit_release(folder)
    parts = [_HEAD, "## Tables\n", *map(to_markdown, audit.tables())]
    parts.append(render_notes(audit.notes(), "markdown"))
    files = "".join(f"| `{name}` | `{digest}` |\n" for name, digest in audit.files.items())
    parts.append(_FILES + files)
    return "\n".join(parts)


def main() -> None:
    """Print the page, or with ``--check`` say whether the one in docs is what it would be."""
    parser = argparse.ArgumentParser(description="Write docs/official-release.md.")
    parser.add_argument("folder", type=Path, help="a checkout of the official release")
    parser.add_argument("--check", action="store_true", help="compare with the page in docs")
    arguments = parser.parse_args()
    text = page(arguments.folder)
    if not arguments.check:
        sys.stdout.write(text)
    elif text != PAGE.read_text(encoding="utf-8"):
        sys.exit(f"docs/{PAGE.name} is stale: python {sys.argv[0]} FOLDER > docs/{PAGE.name}")


if __name__ == "__main__":
    main()
