"""The files that all tools are given, and the section that shows them."""

from __future__ import annotations

from importlib.metadata import version

from .tools import MEASURES, MSMARCO_SCRIPT
from .writing import block, paragraph

PACKAGES = ("ir_measures", "pytrec-eval-terrier", "ranx")
QRELS = """\
101 0 2002 1
102 0 3001 0
102 0 3002 2
102 0 3004 1
103 0 4003 1
104 0 5001 1
105 0 6001 1
"""
RUN = """\
101 Q0 2001 1 14.5 demo
101 Q0 2004 2 12.25 demo
101 Q0 2002 3 12.25 demo
101 Q0 2003 4 12.25 demo
101 Q0 2005 5 12.25 demo
101 Q0 2006 6 9.75 demo
102 Q0 3001 1 21.0 demo
102 Q0 3002 2 19.5 demo
102 Q0 3003 3 18.0 demo
102 Q0 3004 4 17.5 demo
102 Q0 3005 5 11.0 demo
102 Q0 3006 6 10.5 demo
103 Q0 4003 1 11.0 demo
103 Q0 4001 2 13.5 demo
103 Q0 4002 3 12.0 demo
103 Q0 4004 4 10.5 demo
103 Q0 4005 5 10.0 demo
105 Q0 6001 1 16.0 demo
105 Q0 6002 2 15.5 demo
105 Q0 6003 3 15.0 demo
105 Q0 6004 4 14.5 demo
105 Q0 6005 5 14.0 demo
"""
ONE_QRELS = "201 0 7001 1\n"


def show_files() -> list[str]:
    """What the page is about, and the files that all tools are given."""
    versions = [f"{package} {version(package)}" for package in PACKAGES]
    return [
        "# The same run in four tools",
        paragraph(
            "This page is written by `python scripts/four_tools.py`, which runs",
            f"{', '.join(versions)} and msshift on the files shown here, and fails if one of them",
            "no longer does what the text says. MS MARCO's script is not a package: its rule is",
            f"applied as [ms_marco_eval.py]({MSMARCO_SCRIPT}) has it, to the columns query,",
            "document and rank.",
        ),
        "## The files",
        "demo.qrels (query_id, iteration, doc_id, relevance):",
        block(QRELS),
        "demo.run (query_id, Q0, doc_id, rank, score, tag):",
        block(RUN),
        paragraph(
            "Query 101 has a tie that touches its relevant document, query 102 graded judgements",
            "and a document judged not relevant. In query 103 ranks and scores disagree. Query 104",
            "is missing. Query 105 is as it should be. The other sections use runs of one query,",
            "201, whose only relevant document is 7001.",
        ),
        "msshift reads it by",
        block(f'msshift evaluate demo.run --qrels demo.qrels --measures "{" ".join(MEASURES)}"'),
    ]
