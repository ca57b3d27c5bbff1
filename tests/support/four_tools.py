"""ir_measures, pytrec_eval, ranx, MS MARCO's rule and msshift score one run file.

Every tool is called as its own documentation shows, on paths; what it raises is its answer.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from msshift_bench.errors import RunError
from msshift_bench.evaluation import Result, Settings, score_runs

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
