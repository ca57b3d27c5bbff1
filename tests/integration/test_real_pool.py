"""BM25 on the real slice of MS MARCO, over the official test queries of the length shift."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.baselines.bm25 import Bm25, Bm25Parameters
from msshift_bench.collection import open_collection
from msshift_bench.errors import Findings
from msshift_bench.qrels import Judgements
from msshift_bench.scoring import Settings, score_run
from msshift_bench.textfiles import tsv_rows


@pytest.mark.realdata
@pytest.mark.slow
def test_bm25_on_the_official_short_and_long_queries(real_data: Path) -> None:
    collection = open_collection(real_data / "msmarco-pool")
    parameters = Bm25Parameters(k1=0.82, b=0.68, stemmer="english", stop_words="english", depth=10)
    index = Bm25(collection.passages(), parameters)
    relevant = collection.qrels.relevant()
    means = {}
    for group in ("short", "long"):
        path = real_data / "ms-marco-shift" / "EVAL" / "queries" / f"queries_{group}.tsv"
        queries = dict(row for _, row in tsv_rows(path, ("query_id", "text"), Findings()))
        run = dict(zip(queries, map(dict, index.search(queries.values())), strict=True))
        judgements = Judgements({q: dict.fromkeys(relevant[q], 1) for q in queries})
        means[group] = float(score_run(run, judgements, Settings()).scores["RR@10"].mean())
    assert means["short"] == pytest.approx(0.734, abs=0.005)
    assert means["long"] == pytest.approx(0.708, abs=0.005)
