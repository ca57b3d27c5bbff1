"""docs/same-run-four-tools.md holds the files, tables and sentences that four tools and msshift
bear out today; a table that is another is shown, to be put on the page.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

from msshift_bench.runs import Judgements, read_qrels, validate_run
from tests.conftest import REPOSITORY
from tests.support.four_tools import (
    COMPARABLE,
    EXPECTED,
    MEASURES,
    NO_MESSAGE,
    PEERS,
    RANK,
    RISING,
    RULE,
    SKIP,
    STOP,
    Answer,
    Answers,
    ask,
    ask_all,
    score,
)

PAGE = (REPOSITORY / "docs" / "same-run-four-tools.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```text\n(.*?)```", PAGE, re.S)
DEMO_QRELS, DEMO_RUN, COMMAND, CLOSE, DUPLICATE, _, NAN, *_ = BLOCKS
ONE_QRELS = "201 0 7001 1\n"
WELL_BEHAVED = ("ir_measures", COMPARABLE, RULE, "msshift", RANK)
SINGLE = ("ir_measures", "pytrec_eval", "ranx", RULE, "msshift")
BY_SCORE = ("ir_measures", COMPARABLE, "msshift")

Seen = Mapping[str, Answers]
"""Case -> tool -> what it says."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Have every run of the page scored, in a folder that holds them by their names there."""
    swapped = "".join(reversed(NAN.splitlines(keepends=True)))
    from_zero = re.sub(r" (\d) (\S+ demo)", lambda m: f" {int(m[1]) - 1} {m[2]}", DEMO_RUN)
    equal = [f"201 Q0 {7001 + row} {row + 1} 1.0 demo\n" for row in range(16)]
    runs = {
        "close": (CLOSE, (*PEERS, "msshift")),
        "duplicate": (DUPLICATE, SINGLE),
        "nan": (NAN, SINGLE),
        "swapped": (swapped, SINGLE),
        "15 equal": ("".join(equal[:15]), ("ranx",)),
        "16 equal": ("".join(equal), ("ranx",)),
    }
    with contextlib.chdir(tmp_path_factory.mktemp("four-tools")):
        Path("demo.qrels").write_text(DEMO_QRELS)
        Path("demo.run").write_text(DEMO_RUN)
        Path("one.qrels").write_text(ONE_QRELS)
        Path("zero.run").write_text(from_zero)
        Path("positive.qrels").write_text(DEMO_QRELS.replace("102 0 3001 0\n", ""))
        for name, (text, _) in runs.items():
            Path(f"{name}.run").write_text(text)
        yield {
            "demo": ask_all("demo.qrels", "demo.run"),
            "zero": ask_all("demo.qrels", "zero.run", WELL_BEHAVED),
            "positive": ask_all("positive.qrels", "demo.run", WELL_BEHAVED),
            **{
                name: ask_all("one.qrels", f"{name}.run", tools)
                for name, (_, tools) in runs.items()
            },
        }


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def words_of(answers: Answers) -> str:
    """List what tools say beside figures, or instead of them; a message may hold a backtick."""
    words = {name: (one.refusal, one.words) for name, one in answers.items() if one.words}
    return "\n".join(
        f"- {name}: ``{': '.join(filter(None, said))}``" for name, said in words.items()
    )


def findings(qrels: str, run: str) -> str:
    """Return what ``msshift score RUN --check --qrels QRELS`` finds."""
    found = validate_run(run, Judgements.from_qrels(read_qrels(qrels)))
    return "\n".join(f"{one.severity}: {one}" for one in (*found.errors, *found.warnings))


def orders() -> list[tuple[str, str, str, int]]:
    """Tool, measure, how it orders equal scores, and where that puts 2002 among those of 101."""
    lines = [line.split() for line in DEMO_RUN.splitlines()]
    tied = [fields[2] for fields in lines if fields[0] == "101" and fields[4] == "12.25"]
    falling, rising, as_read = (
        2 + order.index("2002") for order in (sorted(tied, reverse=True), sorted(tied), tied)
    )
    return [
        ("ir_measures", "RR", "doc_id descending", falling),
        ("ir_measures", "RR@10", "doc_id ascending", rising),
        ("pytrec_eval", "RR", "doc_id descending", falling),
        (COMPARABLE, "RR@10", "order of the lines", as_read),
        (RULE, "RR@10", "rank column", as_read),
        ("msshift", "RR@10", "`trec`: doc_id descending", falling),
        (RISING, "RR@10", "doc_id ascending", rising),
        (RANK, "RR@10", "rank column", as_read),
    ]


def beside(header: Sequence[str], first: Answers, second: Answers) -> str:
    """A table of the tools that were asked about two runs."""
    both = {name: (first[name], second[name]) for name in second}
    return table(header, [[name, *(a.show("RR@10") for a in pair)] for name, pair in both.items()])


@pytest.mark.slow
def test_every_table_is_what_the_tools_give(seen: Seen) -> None:
    demo, duplicate = seen["demo"], seen["duplicate"]
    ties = [[f"{tool}, {m}", how, f"{at}", f"{1 / at:.4f}"] for tool, m, how, at in orders()]
    mean = demo[EXPECTED].per_query["RR@10"]["101"]
    ties.append([f"{EXPECTED}, RR@10", "mean over all orders", "2 to 5", f"{mean:.4f}"])
    pieces = [
        table(["tool", *MEASURES], [[n, *map(a.show, MEASURES)] for n, a in demo.items()]),
        words_of(demo),
        table(["tool, measure", "order of equal scores", "place of 2002", "score"], ties),
        table(
            ["tool", "RR", "RR@10", "queries in the mean"],
            [
                [
                    name,
                    demo[name].show("RR"),
                    demo[name].show("RR@10"),
                    f"{demo[name].queries or '-'}",
                ]
                for name in (*PEERS, "msshift", SKIP, STOP)
            ],
        ),
        table(
            ["tool", "RR", "RR@10"],
            [[n, a.show("RR"), a.show("RR@10")] for n, a in duplicate.items()],
        ),
        words_of(duplicate),
        findings("one.qrels", "duplicate.run"),
        table(
            ["tool, measure", "NaN in line 2", "NaN in line 1"],
            [
                [f"{name}, {m}", seen["nan"][name].show(m), seen["swapped"][name].show(m)]
                for name in SINGLE
                for m in ("RR", "RR@10")
                if seen["nan"][name].show(m) != "-"
            ],
        ),
        findings("one.qrels", "nan.run"),
        beside(["tool", "ranks from 1", "ranks from 0"], demo, seen["zero"]),
        findings("demo.qrels", "demo.run"),
        beside(["tool", "with", "without"], demo, seen["positive"]),
    ]
    for piece in pieces:
        assert piece in PAGE
    assert [line for line in PAGE.splitlines() if line.startswith("| ")] == [
        line for piece in pieces for line in piece.splitlines() if line.startswith("| ")
    ]
    assert (
        f'msshift score demo.run --qrels demo.qrels --measures "{" ".join(MEASURES)}"\n'
    ) == COMMAND
    for package in ("ir_measures", "pytrec-eval-terrier", "ranx"):
        assert f"{package} {version(package)}" in " ".join(PAGE.split())


def test_five_means_of_one_run(seen: Seen) -> None:
    demo = seen["demo"]
    means = {name: {a.show("RR"), a.show("RR@10")} - {"-"} for name, a in demo.items()}
    four = set.union(*(means[name] for name in ("ir_measures", "pytrec_eval", COMPARABLE, RULE)))
    assert len(four) == 5
    assert f"give 5\ndifferent means, from {min(four)} to {max(four)};" in PAGE
    assert [name for name in means if len(means[name]) != 1] == ["ir_measures"]


def test_ties(seen: Seen) -> None:
    demo, close = seen["demo"], seen["close"]
    assert all(demo[tool].place("101", m) == place for tool, m, _, place in orders())
    mean = demo[EXPECTED].per_query["RR@10"]["101"]
    assert math.isclose(mean, sum(1 / place for place in range(2, 6)) / 4)
    assert [seen[f"{n} equal"]["ranx"].place("201", "RR") for n in (15, 16)] == [1, 15]
    assert "place 1 of 15, but at place 15 of 16" in PAGE
    assert close["pytrec_eval"].place("201", "RR") == close["ir_measures"].place("201", "RR") == 2
    assert close["ir_measures"].place("201") == close["ranx"].place("201") == 1
    assert close["ranx"].place("201", "RR") == 1
    assert close["msshift"].place("201") == 2
    figures = score("demo.qrels", "demo.run").figures
    assert [row.value for row in figures.where(figure="tied")] == [1]
    bounds = figures.where(measure="RR@10")
    worst, best = (bounds.where(figure=name)[0].value for name in ("tie_worst", "tie_best"))
    assert f"lies between {worst:.4f} and {best:.4f}" in " ".join(PAGE.split())


def test_what_a_tool_raises_is_its_answer() -> None:
    def refuse(qrels: str, run: str) -> Answer:
        raise AssertionError

    def explain(qrels: str, run: str) -> Answer:
        raise ValueError("no such query\nand more")

    assert ask(refuse, "", "") == Answer(refusal="AssertionError", words=NO_MESSAGE)
    assert ask(explain, "", "") == Answer(refusal="ValueError", words="no such query")
    assert ask(refuse, "", "").show("RR") == "`AssertionError`"
