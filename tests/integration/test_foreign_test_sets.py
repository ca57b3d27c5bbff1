"""Extra test sets with passages of their own: searched with kept models, and evaluated."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines.retrievers.biencoder import BiEncoder
from msshift_bench.data import open_collection
from msshift_bench.errors import DataError, UsageError
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters
from tests.conftest import Command
from tests.support.figures import read_figures
from tests.support.making import make_runs
from tests.support.run_files import sidecar
from tests.support.trained import DEPTH, Trained

QUERIES = {
    "1": "parish records of the old northern registers",
    "2": "weather of the coast in autumn gales",
    "3": "a third thing that nobody searches",
}
JUDGED = {"1": {"7": 2, "8": 1, "3": 0}, "2": {"40": 1}}

Scored = Mapping[str, float]
"""doc_id -> score."""


@pytest.fixture
def nfcorpus(tmp_path: Path) -> Path:
    """A folder in BEIR's layout: 60 passages whose ids are also those of ``mini``'s."""
    folder = tmp_path / "nfcorpus"
    (folder / "qrels").mkdir(parents=True)
    texts = [passage.text for passage in open_collection("mini:400").passages()][300:360]
    texts[7], texts[40] = "records of old parish registers", "gales at the coast in autumn"
    records = [
        {"_id": str(place), "title": f"Title {place}" if place % 2 else "", "text": text}
        for place, text in enumerate(texts)
    ]
    (folder / "corpus.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in records))
    rows = [{"_id": query_id, "text": text} for query_id, text in QUERIES.items()]
    (folder / "queries.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    lines = [f"{query}\t{doc}\t{g}\n" for query, of in JUDGED.items() for doc, g in of.items()]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    # Training queries are judged in another file, which does not count.
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n3\t5\t1\n")
    return folder


def passages_of(folder: Path) -> list[Passage]:
    records = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    return [Passage(row["_id"], f"{row['title']} {row['text']}".strip()) for row in records]


def by_hand(rankings: Sequence[Scored]) -> float:
    """Return the mean RR@10 of rankings for the judged queries."""
    reciprocal = []
    for scores, judged in zip(rankings, JUDGED.values(), strict=True):
        order = sorted(scores, key=lambda doc_id: (scores[doc_id], doc_id), reverse=True)[:10]
        found = (n for n, doc_id in enumerate(order, 1) if judged.get(doc_id, 0) >= 1)
        reciprocal.append(1 / next(found, np.inf))
    return float(np.mean(reciprocal))


def bm25_of(folder: Path, depth: int) -> list[Scored]:
    index = Bm25(passages_of(folder), Bm25Parameters(depth=depth))
    return list(index.search(QUERIES[query_id] for query_id in JUDGED))


def evaluated(msshift: Command, *options: object) -> dict[str, float | None]:
    done = msshift(
        *("evaluate", "runs", "--extra-test", "nf=nfcorpus", "--measures", "RR@10"),
        *("--format", "json", *options),
    )
    assert done.returncode == 0, done.stderr
    return {row.model: row.value for row in read_figures(done.stdout).where(figure="score")}


def test_bm25_searches_the_passages_of_a_test_set(
    data: Path, nfcorpus: Path, tmp_path: Path, msshift: Command
) -> None:
    request = ("run", "bm25", "--data", data, "--set", "depth=20")
    done = msshift(*request, "--extra-test", "nf=nfcorpus")
    assert done.returncode == 0, done.stderr
    assert evaluated(msshift, "--data", data) == {"all": by_hand(bm25_of(nfcorpus, 20))}
    runs = tmp_path / "runs" / "bm25"
    own, extra = (sidecar(runs / path) for path in ("length.run.gz", "extra/nf/length.run.gz"))
    assert (own["collection"], extra["collection"]) == ("mini:300", "nfcorpus")
    assert (own["passages"]["rows"], extra["passages"]["rows"]) == (300, 60)
    assert extra["test_set"]["collection"] == "nfcorpus"
    # The run of the shift's own queries is the same without the test set.
    assert msshift(*request, "--out", "without").returncode == 0
    without = tmp_path / "without" / "bm25" / "length.run.gz"
    assert without.read_bytes() == (runs / "length.run.gz").read_bytes()
    # The ids of passages that the data set's training queries judge are other passages here.
    done = msshift("evaluate", "runs", "--data", data, "--extra-test", "nf=nfcorpus")
    assert "relevant passage" not in done.stderr + done.stdout


@pytest.mark.neural
@pytest.mark.extended
def test_kept_models_search_the_passages_of_a_test_set(
    data: Path,
    nfcorpus: Path,
    trained: Callable[[str], Trained],
    tmp_path: Path,
    msshift: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = trained("bi-encoder")
    folder = shutil.copytree(made.run_set, tmp_path / "runs" / "bi-encoder") / "length"
    given: dict[str, Any] = {"data": data, "out": tmp_path / "runs", "recipe": made.recipe}
    monkeypatch.setattr(BiEncoder, "fit", None)
    make_runs("bi-encoder", extra_test={"nf": nfcorpus}, **given)
    passages, expected = passages_of(nfcorpus), {}
    for group in ("short", "long"):
        model = BiEncoder.load_model(folder / f"{group}.model")
        vectors = model.encode_document([passage.text for passage in passages])
        queries = model.encode_query([QUERIES[query_id] for query_id in JUDGED])
        ids = [passage.doc_id for passage in passages]
        rankings = [dict(zip(ids, row, strict=True)) for row in queries @ vectors.T]
        expected[group] = by_hand(rankings)
    found = evaluated(msshift, "--data", data)
    assert {group: found[group] for group in expected} == pytest.approx(expected)


@pytest.mark.neural
@pytest.mark.extended
def test_a_kept_reranker_ranks_what_bm25_finds_in_a_test_set(
    data: Path, nfcorpus: Path, trained: Callable[[str], Trained], tmp_path: Path, msshift: Command
) -> None:
    made = trained("monobert")
    folder = shutil.copytree(made.run_set, tmp_path / "runs" / "monobert") / "length"
    given: dict[str, Any] = {"data": data, "out": tmp_path / "runs", "recipe": made.recipe}
    make_runs("monobert", held_out=["short"], extra_test={"nf": nfcorpus}, **given)
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(folder / "short.model"))
    texts = {passage.doc_id: passage.text for passage in passages_of(nfcorpus)}
    rankings = [
        dict(zip(found, model.predict([(query, texts[d]) for d in found]).tolist(), strict=True))
        for query, found in zip(QUERIES.values(), bm25_of(nfcorpus, DEPTH), strict=False)
    ]
    found = evaluated(msshift, "--data", data, "--allow", "partial")
    assert found["short"] == pytest.approx(by_hand(rankings))


def test_what_cannot_be_searched_is_refused(data: Path, nfcorpus: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"data": data, "out": tmp_path / "runs"}
    given["extra_test"] = {"nf": nfcorpus}
    with pytest.raises(UsageError, match=r"bm25-tuned keeps no model, .* passages of nf"):
        make_runs("bm25-tuned", **given)
    lines = (nfcorpus / "corpus.jsonl").read_text().splitlines(keepends=True)
    (nfcorpus / "corpus.jsonl").write_text("".join(lines[:8]))
    with pytest.raises(DataError, match=r"nfcorpus lacks 2 of the 3 relevant .* '40'; give"):
        make_runs("bm25", **given)
    assert not (tmp_path / "runs").exists()
