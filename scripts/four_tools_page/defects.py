"""Where tools differ because a file is wrong: duplicates, NaN, ranks, and labels of 0."""

from __future__ import annotations

import math

from .files import QRELS, RUN
from .tools import (
    COMPARABLE,
    NO_MESSAGE,
    RANK,
    RULE,
    Answers,
    ask_all,
    ask_msshift,
)
from .writing import block, findings, observed, paragraph, table, words_of, write

TOOLS = ("ir_measures", "pytrec_eval", "ranx", RULE, "msshift")
DUPLICATE_RUN = """\
201 Q0 7002 1 9.0 demo
201 Q0 7001 2 8.0 demo
201 Q0 7003 3 7.0 demo
201 Q0 7004 4 6.0 demo
201 Q0 7001 5 5.0 demo
"""
NAN_RUN = "201 Q0 7001 1 9.5 demo\n201 Q0 7002 2 nan demo\n"
SWAPPED_RUN = "201 Q0 7002 2 nan demo\n201 Q0 7001 1 9.5 demo\n"


def duplicates() -> list[str]:
    """A document that stands twice."""
    answers = ask_all("one.qrels", write("duplicate.run", DUPLICATE_RUN), TOOLS)
    silent = ("ir_measures", "ranx")
    return [
        "## Duplicate documents",
        "The relevant document, 7001, stands in line 2 and again in line 5:",
        block(DUPLICATE_RUN),
        table(
            ["tool", "RR", "RR@10"],
            [[name, one.show("RR"), one.show("RR@10")] for name, one in answers.items()],
        ),
        "Said beside the figures, or instead of them:",
        words_of(answers),
        paragraph(
            observed(
                "ir_measures and ranx read a run into a dictionary, where the last line wins: the "
                "document falls from place 2 to place 4, and nothing is said. pytrec_eval's reader "
                "stops, without a word on where. MS MARCO's rule prints a message and goes on.",
                all(answers[name].place("201") == 4 for name in silent),
                not any(answers[name].words for name in silent),
                answers["pytrec_eval"].refusal == "AssertionError",
                answers["pytrec_eval"].words == NO_MESSAGE,
                answers[RULE].place("201") == 2 and answers[RULE].words != "",
            )
        ),
        observed(
            "**msshift** refuses the run. `msshift validate duplicate.run` finds:",
            answers["msshift"].refusal == "duplicate-document",
        ),
        findings("one.qrels", "duplicate.run"),
    ]


def nan_scores() -> list[str]:
    """A score that is not a number."""
    below = ask_all("one.qrels", write("nan.run", NAN_RUN), TOOLS)
    above = ask_all("one.qrels", write("swapped.run", SWAPPED_RUN), TOOLS)
    both = (below, above)
    return [
        "## NaN scores",
        "The relevant document, 7001, has a sound score; the other has none:",
        block(NAN_RUN),
        "The same two lines in this order, and the other way round:",
        table(
            ["tool, measure", "NaN in line 2", "NaN in line 1"],
            [
                [f"{name}, {measure}", below[name].show(measure), above[name].show(measure)]
                for name in TOOLS
                for measure in ("RR", "RR@10")
                if below[name].show(measure) != "-"
            ],
        ),
        paragraph(
            observed(
                "NaN is neither above nor below any score. trec_eval takes it for a tie and lets "
                "the doc_id decide. Python's sort, by which ir_measures prepares RR@10, leaves the "
                "lines as they stand, so that their order in the file decides. ranx puts NaN last. "
                "None of them warns.",
                all(run["pytrec_eval"].place("201", "RR") == 2 for run in both),
                all(run["ir_measures"].place("201", "RR") == 2 for run in both),
                [run["ir_measures"].place("201") for run in both] == [1, 2],
                all(run["ranx"].place("201") == 1 for run in both),
                not any(run[name].words for run in both for name in TOOLS[:-1]),
            )
        ),
        observed(
            "**msshift** refuses both, as it does infinite scores (`score-infinite`):",
            all(run["msshift"].refusal == "score-nan" for run in both),
        ),
        findings("one.qrels", "nan.run"),
    ]


def ranks(demo: Answers) -> list[str]:
    """Rank columns that disagree with the scores, or begin at 0."""
    lines = [line.split() for line in RUN.splitlines()]
    for fields in lines:
        fields[3] = str(int(fields[3]) - 1)
    run = write("zero.run", "".join(" ".join(fields) + "\n" for fields in lines))
    zero = ask_all("demo.qrels", run, ["ir_measures", COMPARABLE, RULE, "msshift", RANK])
    by_score = ("ir_measures", COMPARABLE, "msshift")
    return [
        "## Ranks",
        paragraph(
            "In query 103 ranks and scores disagree, as where a re-ranker wrote its order beside",
            "the scores of the first stage.",
            observed(
                "By rank the relevant document is at place 1; for ir_measures, pytrec_eval and "
                "ranx, which do not look at ranks, it is at place 3.",
                demo[RULE].place("103") == demo[RANK].place("103") == 1,
                all(demo[name].place("103") == 3 for name in by_score),
                demo["pytrec_eval"].place("103", "RR") == 3,
            ),
            "Mean RR@10 of demo.run, and of the same lines with ranks from 0:",
        ),
        table(
            ["tool", "ranks from 1", "ranks from 0"],
            [[name, demo[name].show("RR@10"), one.show("RR@10")] for name, one in zero.items()],
        ),
        paragraph(
            observed(
                "MS MARCO's script puts a passage into a list at index rank - 1. For rank 0 that "
                "is -1, which in Python is the end of the list: the best passage of every query "
                "goes to place 1,000 and all others move up by one, without a message.",
                zero[RULE].place("105") == math.inf,
                zero[RULE].place("101") == demo[RULE].place("101") - 1,
                not zero[RULE].words,
                all(zero[name].means == demo[name].means for name in by_score),
            )
        ),
        paragraph(
            "**msshift** warns of both.",
            observed(
                "Under `--ties rank` ranks from 0 are an error, and with `--strict` every warning "
                "is.",
                zero[RANK].refusal == "rank-zero-based",
                ask_msshift("demo.qrels", "demo.run", strict=True).refusal == "rank-score-disagree",
            ),
            "`msshift validate demo.run` finds:",
        ),
        findings("demo.qrels", "demo.run"),
    ]


def zero_labels(demo: Answers) -> list[str]:
    """Judgements that say "not relevant"."""
    positive = write("positive.qrels", QRELS.replace("102 0 3001 0\n", ""))
    without = ask_all(positive, "demo.run", ["ir_measures", COMPARABLE, RULE, "msshift", RANK])
    return [
        "## Judged, and not relevant",
        paragraph(
            "demo.qrels says that 3001 is not relevant to query 102: its label is 0. Mean RR@10",
            "with that line, and without it:",
        ),
        table(
            ["tool", "with", "without"],
            [[name, demo[name].show("RR@10"), one.show("RR@10")] for name, one in without.items()],
        ),
        paragraph(
            observed(
                "MS MARCO's script does not look at the label, and its own qrels hold relevant "
                "passages only: with graded judgements it takes every judged passage for relevant.",
                demo[RULE].place("102") == 1,
                without[RULE].place("102") == 2,
                all(demo[name].means == without[name].means for name in without if name != RULE),
            )
        ),
        paragraph(
            "**msshift** takes a document for relevant from label 1 on.",
            observed(
                "Without the line, `--ties rank` gives what MS MARCO's rule gives.",
                math.isclose(without[RULE].means["RR@10"], without[RANK].means["RR@10"]),
            ),
        ),
    ]
