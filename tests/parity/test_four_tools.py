"""The tables of docs/same-run-four-tools.md are what four tools and msshift give for its files.

Every tool is called on paths, as its documentation shows. An exception is an answer, too.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from msshift_bench.errors import RunError
from msshift_bench.evaluation import Settings, score_runs
from tests.conftest import REPOSITORY

MEASURES = ("RR", "RR@10", "nDCG@10", "AP", "R@1000")

PAGE = (REPOSITORY / "docs" / "same-run-four-tools.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
DEMO_QRELS, DEMO_RUN, COMMAND, CLOSE, DUPLICATE, _, NAN, *_ = re.findall(
    r"```text\n(.*?)```", PAGE, re.DOTALL
)


class Answer(NamedTuple):
    """What a tool gives for a run.

    Attributes:
        scores: measure -> query id -> score; only the measures that the tool offers.
        means: measure -> mean over the queries that the tool counts.
        queries: the number of these queries.
        refusal: the exception or the finding code instead of figures.
    """

    scores: Mapping[str, Mapping[str, float]] = {}
    means: Mapping[str, float] = {}
    queries: int = 0
    refusal: str = ""

    def cell(self, measure: str) -> str:
        """Return the mean, or the number of queries, as the page's tables show it."""
        if measure == "queries":
            return f"{self.queries or '-'}"
        if self.refusal:
            return f"`{self.refusal}`"
        return f"{self.means[measure]:.4f}" if measure in self.means else "-"


def ask_ir_measures(qrels: str, run: str) -> Answer:
    import ir_measures

    judged, ranked = ir_measures.read_trec_qrels(qrels), ir_measures.read_trec_run(run)
    measures = [ir_measures.parse_measure(name) for name in MEASURES]
    results = ir_measures.calc(measures, list(judged), list(ranked))
    scores: dict[str, dict[str, float]] = {name: {} for name in MEASURES}
    for metric in results.per_query:
        scores[str(metric.measure)][metric.query_id] = metric.value
    means = {str(measure): mean for measure, mean in results.aggregated.items()}
    return Answer(scores, means, len(scores["RR"]))


def ask_pytrec_eval(qrels: str, run: str) -> Answer:
    """Ask pytrec_eval, and average over the queries that it returns, as its examples do."""
    import pytrec_eval

    names = {"RR": "recip_rank", "nDCG@10": "ndcg_cut_10", "AP": "map", "R@1000": "recall_1000"}
    with Path(qrels).open() as qrels_file, Path(run).open() as run_file:
        judged, ranked = pytrec_eval.parse_qrel(qrels_file), pytrec_eval.parse_run(run_file)
    results = pytrec_eval.RelevanceEvaluator(judged, set(names.values())).evaluate(ranked)
    scores = {
        ours: {query: found[theirs] for query, found in results.items()}
        for ours, theirs in names.items()
    }
    means = {
        ours: pytrec_eval.compute_aggregated_measure(theirs, list(scores[ours].values()))
        for ours, theirs in names.items()
    }
    return Answer(scores, means, len(results))


def ask_ranx(qrels: str, run: str, *, make_comparable: bool = False) -> Answer:
    from ranx import Qrels, Run, evaluate

    names = dict(zip(MEASURES, ("mrr", "mrr@10", "ndcg@10", "map", "recall@1000"), strict=True))
    judged, ranked = Qrels.from_file(qrels, kind="trec"), Run.from_file(run, kind="trec")
    evaluate(judged, ranked, list(names.values()), make_comparable=make_comparable)
    scores = {ours: dict(ranked.scores[theirs]) for ours, theirs in names.items()}
    means = {ours: float(ranked.mean_scores[theirs]) for ours, theirs in names.items()}
    return Answer(scores, means, len(scores["RR"]))


def ask_ms_marco(qrels: str, run: str) -> Answer:
    """Apply MS MARCO's script, of which ir_measures has a copy, to query, document and rank."""
    from ir_measures.bin import msmarco_eval as script

    judged, ranked = (
        [line.split() for line in Path(path).read_text().splitlines()] for path in (qrels, run)
    )
    relevant = script.load_reference_from_stream(map("\t".join, judged))
    rankings = script.load_candidate_from_stream(f"{r[0]}\t{r[2]}\t{r[3]}" for r in ranked)
    found = script.compute_metrics(relevant, rankings, 10)["MRR @10 by query"]
    scores = {str(query): found.get(query, 0.0) for query in relevant}
    means = {"RR@10": sum(scores.values()) / len(relevant)}
    return Answer({"RR@10": scores}, means, len(relevant))


def ask_msshift(qrels: str, run: str, **options: Any) -> Answer:
    try:
        result = score_runs([run], Path(qrels), Settings(MEASURES, **options))
    except RunError as error:
        return Answer(refusal=error.findings[0].code)
    (scores,) = result.scores
    (scored,) = scores.runs.values()
    means = result.figures.where(figure="score")
    of_queries = {
        name: dict(zip(scores.query_ids, values.tolist(), strict=True))
        for name, values in scored.scores.items()
    }
    return Answer(of_queries, {row.measure: row.number for row in means}, means[0].queries or 0)


TOOLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ir_measures": (ask_ir_measures, {}),
    "pytrec_eval": (ask_pytrec_eval, {}),
    "ranx": (ask_ranx, {}),
    "ranx, `make_comparable=True`": (ask_ranx, {"make_comparable": True}),
    "MS MARCO's rule": (ask_ms_marco, {}),
    "msshift": (ask_msshift, {}),
    "msshift `--ties doc-id-ascending`": (ask_msshift, {"ties": "doc-id-ascending"}),
    "msshift `--ties rank`": (ask_msshift, {"ties": "rank"}),
    "msshift `--ties expected`": (ask_msshift, {"ties": "expected"}),
    "msshift `--missing skip`": (ask_msshift, {"missing": "skip"}),
    "msshift `--missing error`": (ask_msshift, {"missing": "error"}),
}


@cache
def ask(tool: str, qrels: str, run: str) -> Answer:
    act, options = TOOLS[tool]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return act(f"{qrels}.qrels", f"{run}.run", **options)  # type: ignore[no-any-return]
        except Exception as error:
            return Answer(refusal=type(error).__name__)


@pytest.fixture(autouse=True, scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Write the page's files into the working directory."""
    equal = [f"201 Q0 {7001 + row} {row + 1} 1.0 demo\n" for row in range(16)]
    files = {
        "demo.qrels": DEMO_QRELS,
        "positive.qrels": DEMO_QRELS.replace("102 0 3001 0\n", ""),
        "one.qrels": "201 0 7001 1\n",
        "demo.run": DEMO_RUN,
        "zero.run": re.sub(r" (\d) (\S+ demo)", lambda m: f" {int(m[1]) - 1} {m[2]}", DEMO_RUN),
        "close.run": CLOSE,
        "duplicate.run": DUPLICATE,
        "nan.run": NAN,
        "swapped.run": "".join(reversed(NAN.splitlines(keepends=True))),
        "equal15.run": "".join(equal[:15]),
        "equal16.run": "".join(equal),
    }
    with contextlib.chdir(tmp_path_factory.mktemp("four-tools")):
        for name, text in files.items():
            Path(name).write_text(text)
        yield


def rows_of(section: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the table in a section of the page."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line[:2] == "| "]
    return lines[0], lines[2:]


Columns = Sequence[tuple[str, str, str]]
"""Of each column: the name of the qrels, of the run, and the measure; "" if the rows name it."""

TABLES: dict[str, Columns] = {
    "Five measures": [("demo", "demo", cell) for cell in (*MEASURES, "queries")],
    "Duplicate documents": [("one", "duplicate", "RR"), ("one", "duplicate", "RR@10")],
    "NaN scores": [("one", "nan", ""), ("one", "swapped", "")],
    "Ranks and labels": [
        (qrels, run, "RR@10")
        for qrels, run in (("demo", "demo"), ("demo", "zero"), ("positive", "demo"))
    ],
}

WITH_RANX = pytest.mark.parametrize(
    # Its first call compiles for half a minute.
    "with_ranx",
    [False, pytest.param(True, marks=pytest.mark.extended)],
)


@WITH_RANX
@pytest.mark.parametrize("section", TABLES)
def test_a_table_is_what_the_tools_give(section: str, with_ranx: bool) -> None:
    header, rows = rows_of(section)
    assert len(header) == 1 + len(TABLES[section])
    if section == "Five measures":
        assert [row[0] for row in rows] == list(TOOLS)
        assert header[1:] == [*MEASURES, "queries"]
    for name, *cells in rows:
        tool, _, measure = name.rpartition(", ") if name not in TOOLS else (name, "", "")
        if tool.startswith("ranx") == with_ranx:
            found = [
                ask(tool, qrels, run).cell(chosen or measure)
                for qrels, run, chosen in TABLES[section]
            ]
            assert found == cells, name


@WITH_RANX
def test_ties(with_ranx: bool) -> None:
    for name, _, place, score in rows_of("Ties")[1]:
        tool, _, measure = name.rpartition(", ")
        if tool.startswith("ranx") == with_ranx:
            found = ask(tool, "demo", "demo").scores[measure]["101"]
            assert f"{found:.4f}" == score, name
            places = [int(one) for one in place.split(" to ")]
            places = list(range(places[0], places[-1] + 1))
            assert found == pytest.approx(sum(1 / one for one in places) / len(places)), name
    close = {
        (tool, measure): 1 / ask(tool, "one", "close").scores[measure]["201"]
        for tool in (["ranx"] if with_ranx else ["ir_measures", "pytrec_eval", "msshift"])
        for measure in ("RR", "RR@10")
        if (tool, measure) != ("pytrec_eval", "RR@10")
    }
    ones = {pair for pair, place in close.items() if place == 1}
    assert ones == {pair for pair in close if pair[0] == "ranx" or pair == ("ir_measures", "RR@10")}
    if with_ranx:
        places = [ask("ranx", "one", f"equal{n}").scores["RR"]["201"] for n in (15, 16)]
        assert places == pytest.approx([1, 1 / 15])


def test_the_bounds_of_ties() -> None:
    figures = score_runs(["demo.run"], Path("demo.qrels"), Settings(MEASURES)).figures
    assert [row.value for row in figures.where(figure="tied")] == [1]
    bounds = figures.where(measure="RR@10")
    worst, best = (bounds.where(figure=name)[0].value for name in ("tie_worst", "tie_best"))
    assert (round(worst, 4), round(best, 4)) == (0.4067, 0.4667)
    assert f"lies between {worst:.4f} and {best:.4f}" in WORDS


def test_the_page_names_its_command_and_versions() -> None:
    measures = " ".join(MEASURES)
    assert f'msshift score demo.run --qrels demo.qrels --measures "{measures}"\n' == COMMAND
    for package in ("ir_measures", "pytrec-eval-terrier", "ranx"):
        assert f"{package} {version(package)}" in WORDS
    rows = [row for row in rows_of("Five measures")[1] if not row[0].startswith("msshift")]
    means = {cell for row in rows for cell in row[1:3] if cell[0].isdigit()}
    assert f"give {len(means)} different means, from {min(means)} to {max(means)};" in WORDS
