"""Write the page on the official release, from a checkout of it.

The script computes every figure of the page from the files; the page holds no query text.
Run it from the repository's root, in the environment of `scripts/environment.sh` (a second)::

    python scripts/audit_page.py ms-marco-shift > docs/official-release.md
    python scripts/audit_page.py ms-marco-shift --check
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from msshift_bench.dataset_builders.audit import audit_release
from msshift_bench.dataset_builders.release import RELEASE_URL
from msshift_bench.output.rendering import render_notes, to_markdown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "official-release.md"

_MARKED = re.compile(
    r"<!-- scripts/leakage_tables\.py: test-sets -->\n.*?<!-- end -->\n", re.DOTALL
)

_HEAD = f"""\
# What the official release holds

`scripts/audit_page.py` writes this page: it counts what is odd in the files of [the release of
2022]({RELEASE_URL}). `msshift import DIR --check` prints the same tables for any
checkout. `msshift import DIR` imports the ten test sets as they are, without the ids that
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

_RESAMPLED = """\
## What the release of Zhan et al. holds

[extrapolate-eval](https://github.com/jingtaozhan/extrapolate-eval) holds the qrels files of
ReSTrain and ReSTTest (CIKM 2022), and neither texts, encoder, parameters nor resampling code. A
command counts ReSTrain's training sets and the relevant passages that they share with TREC DL:

```sh
msshift similarity --indicator overlap \\
    --test dl19=qrels.dl19.txt --test dl20=qrels.dl20.txt \\
    --train I=14k/interpolate.train-qrel.txt --train E=14k/extrapolate.train-qrel.txt
```

| training set | queries | pairs | passages |
| --- | ---: | ---: | ---: |
| 14k interpolation | 13175 | 14295 | 13989 |
| 14k extrapolation | 13763 | 14363 | 14312 |
| 45k interpolation | 42725 | 46291 | 45124 |
| 45k extrapolation | 44747 | 46691 | 46461 |
| 200k interpolation | 194113 | 208012 | 201373 |
| 200k extrapolation | 200137 | 209678 | 207191 |

So the two sets of a size differ in size. No query stands in both; they share 0 relevant passages
at 14k, 9 at 45k and 1,541 at 200k. Each 14k set is part of the 45k set. The lists of 200k repeat 5
and 3 identical lines, which count once; a warning says so. The sets that `msshift build restrain`
makes have the size that is asked for, exactly.

Our ReSTTest is an edition of its own, since the training queries of the released buckets (981,
2206, 1824, 1491 and 478 test queries) were never published.

**Table 3 of the paper was made by an off-by-one script.** It says which share of TREC DL's queries
"share at least one" relevant passage with a training query; the script counts from two on. These
are the shares at relevance 1, 2 and 3 or more, for all 407,630 training queries that are known
from the released files (14k, 45k, 200k) and a sample of MS MARCO:

| | TREC DL 2019 | TREC DL 2020 |
| --- | --- | --- |
| printed in Table 3 | 79, 60, 26% | 76, 46, 31% |
| two or more shared | 79, 60, 23% | 72, 46, 31% |
| one or more shared, as the text says | 91, 77, 56% | 85, 65, 46% |

More training queries can only raise a share, so that the last row is a lower bound for all of MS
MARCO. The overlap is larger than the paper says. The command prints both columns for any qrels
files; files that are given the same name (`--train known=A --train known=B`) count as one training
set.
"""

_LEAKAGE = """\
## Leakage

How many queries of each test set have another query, of another id, that asks the same? In each
cell the first number counts those with another one of the same words (spelling and order aside),
the second those with a near-duplicate, too: `terms` at a cosine of 0.9 ([what that
means](leakage.md#find)). `training` holds the training queries of MS MARCO that are known here,
11,992 of 808,731. `scripts/leakage_tables.py` writes the table.

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
    parts += [_FILES + files, _RESAMPLED, _LEAKAGE + _leakage_table()]
    return "\n".join(parts)


def _leakage_table() -> str:
    """Return the table that the page has: it needs more than a checkout of the release."""
    found = _MARKED.search(PAGE.read_text(encoding="utf-8"))
    return found[0] if found else "<!-- scripts/leakage_tables.py: test-sets -->\n<!-- end -->\n"


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
