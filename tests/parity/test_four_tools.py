"""docs/same-run-four-tools.md holds the files, tables and sentences that four tools and msshift
bear out today; a table that is another is shown, to be put on the page.

Every tool is called as its own documentation shows, on paths; what it raises is its answer.
"""

from __future__ import annotations

import contextlib
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.errors import RunError
from msshift_bench.evaluation import Result, Settings, score_runs
from msshift_bench.runs import Judgements, read_qrels, validate_run
from tests.conftest import REPOSITORY

MEASURES = ("RR", "RR@10", "nDCG@10", "AP", "R@1000")
NO_MESSAGE = "(without a message)"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool says of a run.

    Attributes:
        means: measure -> mean over the queries that the tool counts; only what it offers.
        per_query: measure -> query id -> score.
        queries: how many queries the means are over.
        refusal: the exception or the code instead of figures; ``""`` if there are figures.
        words: the first line of the refusal, or what was printed beside the figures.
    """

    means: Mapping[str, float] = field(default_factory=dict)
    per_query: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    queries: int = 0
    refusal: str = ""
    words: str = ""

    def show(self, measure: str) -> str:
        """The mean as the page's tables show it."""
        if self.refusal:
            return f"`{self.refusal}`"
        return f"{self.means[measure]:.4f}" if measure in self.means else "-"

    def place(self, query: str, measure: str = "RR@10") -> float:
        """The place at which the tool saw the query's first relevant document; infinite if none."""
        score = self.per_query[measure][query]
        return round(1 / score, 6) if score else math.inf


Tool = Callable[[str, str], Answer]


def ask_ir_measures(qrels: str, run: str) -> Answer:
    """Ask ir_measures, as its documentation shows."""
    import ir_measures

    judged, ranked = ir_measures.read_trec_qrels(qrels), ir_measures.read_trec_run(run)
    measures = [ir_measures.parse_measure(name) for name in MEASURES]
    results = ir_measures.calc(measures, list(judged), list(ranked))
    per_query: dict[str, dict[str, float]] = {name: {} for name in MEASURES}
    for metric in results.per_query:
        per_query[str(metric.measure)][metric.query_id] = metric.value
    means = {str(measure): mean for measure, mean in results.aggregated.items()}
    return Answer(means, per_query, len(per_query["RR"]))


def ask_pytrec_eval(qrels: str, run: str) -> Answer:
    """Ask pytrec_eval, and average over the queries it returns, as its examples do."""
    import pytrec_eval

    names = {"RR": "recip_rank", "nDCG@10": "ndcg_cut_10", "AP": "map", "R@1000": "recall_1000"}
    with Path(qrels).open() as qrels_file, Path(run).open() as run_file:
        judged, ranked = pytrec_eval.parse_qrel(qrels_file), pytrec_eval.parse_run(run_file)
    results = pytrec_eval.RelevanceEvaluator(judged, set(names.values())).evaluate(ranked)
    per_query = {
        name: {query: scores[theirs] for query, scores in results.items()}
        for name, theirs in names.items()
    }
    means = {
        name: pytrec_eval.compute_aggregated_measure(names[name], list(scores.values()))
        for name, scores in per_query.items()
    }
    return Answer(means, per_query, len(results))


def ask_ranx(qrels: str, run: str, *, make_comparable: bool = False) -> Answer:
    """Ask ranx, with or without its own cure for query ids that do not match."""
    from ranx import Qrels, Run, evaluate

    names = dict(zip(MEASURES, ("mrr", "mrr@10", "ndcg@10", "map", "recall@1000"), strict=True))
    judged, ranked = Qrels.from_file(qrels, kind="trec"), Run.from_file(run, kind="trec")
    evaluate(judged, ranked, list(names.values()), make_comparable=make_comparable)
    means = {name: float(ranked.mean_scores[theirs]) for name, theirs in names.items()}
    per_query = {name: dict(ranked.scores[theirs]) for name, theirs in names.items()}
    return Answer(means, per_query, len(per_query["RR"]))


def ask_msmarco(qrels: str, run: str) -> Answer:
    """Apply MS MARCO's script, of which ir_measures holds a copy, to query, document and rank.

    Every line of the qrels names a relevant passage, whatever its label; a passage goes into a list
    of 1,000 at index rank - 1; the sum is divided by the number of queries in the qrels. That a
    passage stands twice is printed, and evaluation goes on.
    """
    from ir_measures.bin import msmarco_eval as script

    judged, ranked = (
        [line.split() for line in Path(path).read_text().splitlines()] for path in (qrels, run)
    )
    relevant = script.load_reference_from_stream(map("\t".join, judged))
    rankings = script.load_candidate_from_stream(f"{r[0]}\t{r[2]}\t{r[3]}" for r in ranked)
    _, message = script.quality_checks_qids(relevant, rankings)
    found = script.compute_metrics(relevant, rankings, 10)["MRR @10 by query"]
    scores = {str(query): found.get(query, 0.0) for query in relevant}
    mean = sum(scores.values()) / len(relevant)
    words = message.partition(" QID=")[0]
    return Answer({"RR@10": mean}, {"RR@10": scores}, len(relevant), words=words)


def score(qrels: str, run: str, **options: Any) -> Result:
    """Score a run as ``msshift score RUN --qrels QRELS`` does."""
    return score_runs([run], Path(qrels), Settings(MEASURES, **options))


def ask_msshift(qrels: str, run: str, **options: Any) -> Answer:
    """Ask msshift; a run that it refuses is told by the first finding."""
    try:
        result = score(qrels, run, **options)
    except RunError as error:
        first = error.findings[0]
        where = f"{first.source}:{first.line}: " if first.line else ""
        return Answer(refusal=first.code, words=where + first.message)
    means = result.figures.where(figure="score")
    (scores,) = result.scores
    (scored,) = scores.runs.values()
    return Answer(
        {row.measure: row.number for row in means},
        {
            name: dict(zip(scores.query_ids, values.tolist(), strict=True))
            for name, values in scored.scores.items()
        },
        means[0].queries or 0,
    )


COMPARABLE, RULE = "ranx, `make_comparable=True`", "MS MARCO's rule"
PEERS: dict[str, Tool] = {
    "ir_measures": ask_ir_measures,
    "pytrec_eval": ask_pytrec_eval,
    "ranx": ask_ranx,
    COMPARABLE: partial(ask_ranx, make_comparable=True),
    RULE: ask_msmarco,
}
RISING, RANK = "msshift `--ties doc-id-ascending`", "msshift `--ties rank`"
EXPECTED = "msshift `--ties expected`"
SKIP, STOP = "msshift `--missing skip`", "msshift `--missing error`"
OURS: dict[str, Tool] = {
    "msshift": ask_msshift,
    RISING: partial(ask_msshift, ties="doc-id-ascending"),
    RANK: partial(ask_msshift, ties="rank"),
    EXPECTED: partial(ask_msshift, ties="expected"),
    SKIP: partial(ask_msshift, missing="skip"),
    STOP: partial(ask_msshift, missing="error"),
}
Answers = Mapping[str, Answer]


def ask(tool: Tool, qrels: str, run: str) -> Answer:
    """Ask a tool; what it raises is its answer, and what it warns of is in its words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = tool(qrels, run)
        except Exception as error:
            first_line = str(error).partition("\n")[0] or NO_MESSAGE
            return Answer(refusal=type(error).__name__, words=first_line)
    # Python's own remarks on unclosed files and numba's, made only when it compiles, say nothing
    # about the run.
    told = [str(one.message) for one in caught if one.category in (UserWarning, RuntimeWarning)]
    return replace(answer, words="; ".join(told)) if told else answer


def ask_all(qrels: str, run: str, names: Iterable[str] = ()) -> Answers:
    """Ask tools about one run: those named, or all."""
    tools = PEERS | OURS
    return {name: ask(tools[name], qrels, run) for name in names or tools}


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


@pytest.mark.extended
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
