"""Write the page on the official release, from a checkout of it.

The script computes every figure of the page from the files; the page holds no query text.
Run it from the repository's root, in the environment of `scripts/environment.sh` (a second)::

    python scripts/audit_page.py ms-marco-shift > docs/official-release.md
    python scripts/audit_page.py ms-marco-shift --check
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from msshift_bench.dataset_builders.audit import audit_release
from msshift_bench.dataset_builders.official_release import RELEASE_URL
from msshift_bench.output.rendering import render_notes, to_markdown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "official-release.md"

_HEAD = f"""\
# What the official release holds

`scripts/audit_page.py` writes this page: it counts what is odd in the files of [the release of
2022]({RELEASE_URL}). `msshift audit DIR` prints the same tables for any
checkout. `msshift build --official DIR` imports the ten test sets as they are, without the ids that
have no text.

Before you compare numbers, know that:

- The denominator of a mean is the test set's queries with text. Some ids have qrels and no text;
  whoever counts the qrels gets another number.
- A query may stand in the test sets of two groups of question words, and test sets of different
  shifts overlap, so that results on two shifts are not independent.
- The release labels question words by substrings: "show" makes a `how` query. The builders offer
  this rule as `substring`, and the rule of the paper's text as `word`, the default of the edition
  `rebuilt`. There a query belongs to the question word that comes first.
- The release counts words by `text.split(" ")`; `text.split()` moves queries with extra spaces.
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
    """Print the page, or with ``--check`` compare it with the one in docs."""
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
