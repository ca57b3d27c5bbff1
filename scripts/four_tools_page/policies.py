"""Where tools differ because they choose differently: ties, and missing queries."""

from __future__ import annotations

import math

from .files import RUN
from .tools import (
    COMPARABLE,
    EXPECTED,
    MEASURES,
    PEERS,
    RANK,
    RISING,
    RULE,
    SKIP,
    STOP,
    Answers,
    ask_all,
    score,
)
from .writing import block, issue, observed, paragraph, table, words_of, write

CLOSE_RUN = "201 Q0 7001 1 17.0000002 demo\n201 Q0 7002 2 17.0000001 demo\n"


def overview(demo: Answers) -> list[str]:
    """All tools on all measures."""
    means = {name: {one.show("RR"), one.show("RR@10")} - {"-"} for name, one in demo.items()}
    four = set.union(*(means[name] for name in ("ir_measures", "pytrec_eval", COMPARABLE, RULE)))
    return [
        "## Five measures",
        table(
            ["tool", *MEASURES],
            [[name, *map(one.show, MEASURES)] for name, one in demo.items()],
        ),
        "A dash is a measure that the tool does not offer. In the words of those that refuse:",
        words_of(demo),
        paragraph(
            "No ranking here is longer than ten, so RR and RR@10 ought to be the same.",
            observed(
                f"The four tools give {len(four)} different means, from {min(four)} to "
                f"{max(four)}; ir_measures alone gives two.",
                len(four) == 5,
                len(means["ir_measures"]) == 2,
                all(len(means[name]) == 1 for name in means if name != "ir_measures"),
            ),
        ),
    ]


def ties(demo: Answers) -> list[str]:
    """Who orders equal scores how."""
    tied = [
        line.split()[2] for line in RUN.splitlines() if line.startswith("101") and "12.25" in line
    ]
    falling, rising, as_read = (
        2 + order.index("2002") for order in (sorted(tied, reverse=True), sorted(tied), tied)
    )
    orders = [
        ("ir_measures", "RR", "doc_id descending", falling),
        ("ir_measures", "RR@10", "doc_id ascending", rising),
        ("pytrec_eval", "RR", "doc_id descending", falling),
        (COMPARABLE, "RR@10", "order of the lines", as_read),
        (RULE, "RR@10", "rank column", as_read),
        ("msshift", "RR@10", "`trec`: doc_id descending", falling),
        (RISING, "RR@10", "doc_id ascending", rising),
        (RANK, "RR@10", "rank column", as_read),
    ]
    rows = [[f"{tool}, {m}", how, f"{place}", f"{1 / place:.4f}"] for tool, m, how, place in orders]
    mean = demo[EXPECTED].per_query["RR@10"]["101"]
    one = score("demo.qrels", "demo.run").cells[MEASURES.index("RR@10")]
    return [
        "## Ties",
        "Four documents of query 101 have the score 12.25; 2002 is the relevant one:",
        table(
            ["tool, measure", "order of equal scores", "place of 2002", "score"],
            [*rows, [f"{EXPECTED}, RR@10", "mean over all orders", "2 to 5", f"{mean:.4f}"]],
        ),
        paragraph(
            observed(
                "ir_measures hands RR to pytrec_eval, which is trec_eval, and RR@10 to a copy of "
                "MS MARCO's script, which it gives the documents by score and ascending doc_id: "
                "one tool, two orders.",
                all(demo[tool].place("101", m) == place for tool, m, _, place in orders),
                math.isclose(mean, sum(1 / place for place in range(2, 6)) / 4),
            ),
            "Users have met this again and again:",
            f"{issue('usnistgov/trec_eval', 22)} and {issue('cvangysel/pytrec_eval', 56)} are",
            f"about doc_id deciding ties, {issue('terrierteam/ir_measures', 18)} about providers",
            f"that differ, {issue('beir-cellar/beir', 105)} about an MRR that is not MAP although",
            "each query has one relevant document.",
        ),
        *other_ties(),
        paragraph(
            "**msshift** has one policy for all measures, prints it with the result, and compares",
            "scores as 32-bit floats. `--ties` chooses it: `trec` (the default), `rank`,",
            "`doc-id-ascending`, or `expected`, the exact mean over all orders. It also says how",
            f"much hangs on the choice: in demo.run, ties touch a relevant document in {one.tied}",
            f"query, and the mean RR@10 lies between {one.worst:.4f} and {one.best:.4f} whatever",
            "their order.",
        ),
    ]


def other_ties() -> list[str]:
    """Ties in long rankings, and ties that only some tools see."""
    lines = [f"201 Q0 {7001 + row} {row + 1} 1.0 demo\n" for row in range(16)]
    short, long = (
        ask_all("one.qrels", write("tie.run", "".join(lines[:size])), ["ranx"])["ranx"].place(
            "201", "RR"
        )
        for size in (15, 16)
    )
    close = ask_all("one.qrels", write("close.run", CLOSE_RUN), [*PEERS, "msshift"])
    theirs = close["ir_measures"]
    return [
        observed(
            paragraph(
                "ranx keeps the order of the lines in short rankings only: its sort is not stable.",
                "If all scores are equal, the document of the first line is at place",
                f"{short:g} of 15, but at place {long:g} of 16.",
            ),
            short == 1 < long,
        ),
        paragraph(
            "Even what a tie is differs. trec_eval keeps scores as 32-bit floats, in which these",
            "two are equal:",
        ),
        block(CLOSE_RUN),
        observed(
            paragraph(
                f"RR is {close['pytrec_eval'].show('RR')} in pytrec_eval and",
                f"{theirs.show('RR')} in ir_measures, RR@10 {theirs.show('RR@10')} in ir_measures,",
                f"and both are {close['ranx'].show('RR')} in ranx.",
            ),
            close["pytrec_eval"].place("201", "RR") == theirs.place("201", "RR") == 2,
            theirs.place("201") == close["ranx"].place("201") == 1,
            close["ranx"].place("201", "RR") == 1,
            close["msshift"].place("201") == 2,
        ),
    ]


def missing_queries(demo: Answers) -> list[str]:
    """Who averages over what."""
    return [
        "## Missing queries",
        "Query 104 has a relevant document, and demo.run has no line for it.",
        table(
            ["tool", "RR", "RR@10", "queries in the mean"],
            [
                [name, one.show("RR"), one.show("RR@10"), str(one.queries or "-")]
                for name, one in demo.items()
                if name in (*PEERS, "msshift", SKIP, STOP)
            ],
        ),
        paragraph(
            observed(
                "pytrec_eval gives scores for the queries of the run only, so that a system gains "
                "by leaving out what it cannot answer. ir_measures and MS MARCO's rule count the "
                "query as 0. ranx refuses, unless it is told to add an empty ranking.",
                demo["pytrec_eval"].queries == 4,
                all(demo[name].queries == 5 for name in ("ir_measures", COMPARABLE, RULE)),
                demo["ranx"].refusal == "AssertionError",
            ),
            f"See {issue('cvangysel/pytrec_eval', 30)}, which asks for trec_eval's `-c`, and",
            f"{issue('AmenRa/ranx', 27)}.",
        ),
        paragraph(
            observed(
                "**msshift** counts missing queries in every result.",
                score("demo.qrels", "demo.run").cells[0].missing == 1,
            ),
            "`--missing zero` (the default) scores them 0,",
            observed(
                "`--missing skip` averages over the others and says over how many, and `--missing "
                "error` stops with the code `missing-query`.",
                demo["msshift"].queries == 5,
                demo[SKIP].queries == 4,
                math.isclose(demo[SKIP].means["RR"], demo["pytrec_eval"].means["RR"]),
                demo[STOP].refusal == "missing-query",
            ),
        ),
    ]
