"""Excluded documents of a run: every form of run scores as the run without them does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from msshift_bench.evaluation import Settings, score_runs
from msshift_bench.runs import TIE_POLICIES, Judgements, judge_run
from tests.support.run_formats import WRITERS, Rankings, rows_of

RUN: Rankings = {
    "q1": {"q1": 9.0, "d2": 8.0, "d1": 7.0, "d4": 6.0},
    "q2": {"d7": 5.0, "q2": 4.0, "d1": 4.0, "d5": 4.0},
    "q3": {"d5": 3.0, "d6": 2.0},
    "q4": {"q4": 1.0},
    "x9": {"x9": 2.0, "d1": 1.0},
}
"""A run in which own ids are first, in a tie, absent, alone, and of a query of another test set."""

WITHOUT = {
    query: {doc: score for doc, score in docs.items() if doc != query or query == "x9"}
    for query, docs in RUN.items()
}
QRELS = {
    "q1": {"d1": 2, "d2": 1},
    "q2": {"d1": 1, "d5": 1, "q2": 1},
    "q3": {"d6": 1},
    "q4": {"d1": 1},
    "q5": {"q5": 1},
}
LEFT = {
    query: {doc: grade for doc, grade in docs.items() if doc != query}
    for query, docs in QRELS.items()
    if query != "q5"
}
MEASURES = "RR@10 nDCG@10 R@2 AP P@1 ERR@20"
EXCLUDED = {query: (query,) for query in QRELS}
NATIVE = "RR@10 nDCG@10 R@2"


def scores(run: object, qrels: Mapping[str, Mapping[str, int]], **options: Any) -> dict[str, Any]:
    """Return measure -> the scores of the queries, of the run, with every order of ties."""
    measures = NATIVE if options.get("ties") == "expected" else MEASURES
    (part,) = score_runs([run], qrels, Settings(measures, **options)).scores
    (scored,) = part.runs.values()
    assert part.query_ids == tuple(LEFT)
    by_order = (scored.scores, scored.best, scored.worst)
    return {
        measure: np.concatenate([order[measure] for order in by_order]).tolist()
        for measure in measures.split()
    }


FORMS = {
    "mapping": lambda _: RUN,
    "pandas": lambda _: pd.DataFrame(
        [(q, d, s) for q, docs in RUN.items() for d, s in docs.items()],
        columns=["query_id", "doc_id", "score"],
    ),
    "arrow": lambda _: pa.table(
        dict(
            zip(
                ("query_id", "doc_id", "score"),
                zip(*((q, d, s) for q, docs in RUN.items() for d, s in docs.items()), strict=True),
                strict=True,
            )
        )
    ),
    "interleaved": lambda folder: _written(
        folder,
        "\n".join(
            f"{query} Q0 {doc} {rank} {score} t"
            for rank in range(1, 5)
            for query, docs in RUN.items()
            for doc, score in list(docs.items())[rank - 1 : rank]
        ).encode(),
    ),
    **{
        name: lambda folder, write=write: _written(folder, write(rows_of(RUN)))
        for name, write in WRITERS.items()
    },
}
"""Form of a run -> a function that returns it, given a folder to write to."""


def _written(folder: Path, content: bytes) -> Path:
    path = folder / "a.run"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_run_loses_the_documents(form: str, tmp_path: Path) -> None:
    without = WITHOUT
    if form == "msmarco":  # its ranks have no ties
        without = {q: dict(zip(docs, range(9, 0, -1), strict=False)) for q, docs in WITHOUT.items()}
    found = scores(FORMS[form](tmp_path), QRELS, exclude="own-id")
    assert found == scores({q: docs for q, docs in without.items() if docs}, LEFT)


@pytest.mark.parametrize("ties", TIE_POLICIES)
def test_documents_are_removed_before_ties(ties: str, tmp_path: Path) -> None:
    run = _written(tmp_path, WRITERS["trec"](rows_of(RUN)))
    found = scores(run, QRELS, exclude="own-id", ties=ties)
    left = {query: docs for query, docs in WITHOUT.items() if docs}
    without = _written(tmp_path, WRITERS["trec"](rows_of(left)))
    assert found == scores(without, LEFT, ties=ties)


def test_a_file_excludes_pairs_of_other_documents(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("q1 d2\nq1 d4\nq3 d5\n")
    found = score_runs([RUN], LEFT, Settings("RR@10", exclude=pairs))
    (scored,) = found.scores[0].runs.values()
    assert scored.scores["RR@10"].tolist() == [1 / 2, 1 / 3, 1.0, 0.0]


def test_a_query_whose_documents_are_all_excluded_is_no_missing_query() -> None:
    judged = judge_run(RUN, Judgements(LEFT, excluded=EXCLUDED), depth=10)
    assert judged.retrieved.tolist() == [3, 3, 2, 0]
    assert not judged.missing.any()
    assert (judged.report.queries, judged.report.extra_queries) == (5, 1)
    only = judge_run({"q4": {"q4": 1.0}}, Judgements({"q4": {"d1": 1}}, excluded=EXCLUDED))
    assert not only.missing.any()
    assert score_runs([RUN], LEFT, Settings(exclude="own-id", missing="error")).figures


def test_own_ids_are_counted_where_they_are_first_and_not_relevant() -> None:
    assert judge_run(RUN, Judgements(LEFT)).own_first == 2
    assert judge_run(RUN, Judgements({**LEFT, "q1": {"q1": 1}})).own_first == 1
    assert judge_run(RUN, Judgements(LEFT, excluded=EXCLUDED)).own_first == 0
