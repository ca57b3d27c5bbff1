"""Inputs as the public pages of BEIR, ranx, PyTerrier, TREC and Anserini describe them.

Each test has one that gave a wrong number without a warning, or an error without a cure.
"""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ir_datasets
import ir_measures
import lz4.frame
import pandas as pd
import pytest

import msshift_bench as ms
from msshift_bench.errors import (
    CollectionError,
    MsShiftError,
    RunError,
    UnknownNameError,
    UsageError,
)
from msshift_bench.evaluation import Settings
from msshift_bench.libraries import Library
from msshift_bench.records import Qrel
from msshift_bench.runs import Judgements
from tests.support.command_line import Done, run_msshift

ranx: Any = Library("ranx", "")

RUN = {"301": {"d2": 3.0, "d3": 2.0, "d1": 1.0}, "302": {"d8": 2.0, "d9": 1.5}}
QRELS = {"301": {"d1": 1, "d2": 0, "d3": 2}, "302": {"d9": 1}, "303": {"d5": 1}}
ROWS = [(q, d, r) for q, judged in QRELS.items() for d, r in judged.items()]
RANKED = [(q, d, i, s) for q, docs in RUN.items() for i, (d, s) in enumerate(docs.items(), 1)]


def lines(form: str, rows: list[Any]) -> str:
    return "".join(form.format(*row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plain.qrels").write_text(lines("{} 0 {} {}", ROWS))
    ms.write_run(tmp_path / "plain.run", RUN)
    return tmp_path


def score(folder: Path, run: str, qrels: str, *options: str) -> Done:
    words = ["score", run, "--qrels", qrels, *options]
    return run_msshift(words, folder)


def figure(name: str, qrels: Any = QRELS) -> float:
    """Return our value of a measure, a mean or a sum."""
    figures = ms.score_runs([RUN], qrels, Settings(name)).figures
    (value,) = [one.value for kind in ("score", "sum") for one in figures.where(figure=kind)]
    return float(value or 0)


# Runs.


@pytest.mark.parametrize("indent", [None, 4])
def test_a_run_in_json_is_scored(folder: Path, indent: int | None) -> None:
    """As ranx saves results, BEIR's users theirs, and MTEB its predictions."""
    options = ("plain.qrels", "--measures", "RR@10 nDCG@10", "--format", "csv")
    expected = score(folder, "plain.run", *options).stdout
    for name, run in (("run.json", RUN), ("T_predictions.json", {"default": {"test": RUN}})):
        (folder / name).write_text(json.dumps(run, indent=indent))
        done = score(folder, name, *options)
        assert done.returncode == 0, done.stderr
        assert done.stdout == expected.replace("plain.run", name)


@pytest.mark.parametrize("kind", ["json lines", "lz4", "pickle"])
def test_other_encodings_of_a_run_are_refused_with_the_cure(folder: Path, kind: str) -> None:
    path = folder / {"json lines": "r.jsonl", "lz4": "r.lz4", "pickle": "r.pkl"}[kind]
    code, cure = "binary-input", "write_run"
    if kind == "json lines":
        path.write_text(lines('{{"qid": "{}", "docid": "{}", "rank": {}, "score": {}}}', RANKED))
        code, cure = "wrong-nesting", "corpus_id"
    elif kind == "lz4":
        path.write_bytes(lz4.frame.compress(json.dumps(RUN).encode()))  # as ranx does
    else:
        path.write_bytes(pickle.dumps(RUN))
    with pytest.raises(RunError) as caught:
        ms.read_run(path)
    finding = caught.value.findings[0]
    assert (finding.code, finding.line) == (code, 1)
    assert cure in finding.fix


@pytest.mark.parametrize(
    ("form", "code", "cure"),
    [
        ("{0}\t0\t{1}\t{2}", "field-count", "colbert (query_id doc_id rank score)"),
        ("{0},{1},{3}", "field-count", "write_run"),
        ("{0}\t{1}\t7", "format-ambiguous", "--run-format three-scores"),
        ("{0} Q0 {1} rank score tag", "rank-not-integer", "header"),
    ],
)
def test_other_columns_of_a_run_are_refused_with_the_cure(
    folder: Path, form: str, code: str, cure: str
) -> None:
    (folder / "other.tsv").write_text(lines(form, RANKED))
    with pytest.raises(RunError) as caught:
        ms.read_run(folder / "other.tsv")
    first = caught.value.findings[0]
    assert (first.code, first.line) == (code, 1)
    assert cure in first.fix


@pytest.mark.parametrize("form", ["{}\t{}\t{}\t{}", "{0}\t{1}\t{3}", "{0} {1} {3}5"])
def test_columns_of_colbert_and_of_scores_are_read(folder: Path, form: str) -> None:
    (folder / "other.tsv").write_text(lines(form, RANKED))
    read = ms.read_run(folder / "other.tsv")
    assert {query: list(docs) for query, docs in read.items()} == {q: list(RUN[q]) for q in RUN}
    assert read["302"]["d9"] == pytest.approx(1.5, abs=0.1)


def test_whole_scores_in_three_columns_are_read_as_scores(folder: Path) -> None:
    """They were read as ranks: the best document was the last."""
    (folder / "scores.tsv").write_text("301\td2\t30\n301\td3\t20\n301\td1\t10\n")
    assert ms.read_run(folder / "scores.tsv") == {"301": {"d2": 30.0, "d3": 20.0, "d1": 10.0}}
    assert not ms.validate_run(folder / "scores.tsv").warnings


def test_scores_in_memory_name_the_query_and_the_document() -> None:
    with pytest.raises(RunError) as caught:
        ms.read_run({"301": {"d1": 1.0, "d2": float("nan")}})
    (finding,) = caught.value.findings
    assert finding.code == "score-nan"
    for part in ("301", "d2", "nan"):
        assert part in finding.message
    # MTEB nests its predictions in the subset and the split.
    with pytest.raises(UsageError, match="query 'default' has"):
        ms.read_run({"default": {"test": RUN}})


def test_objects_and_tables_name_what_to_pass(tmp_path: Path) -> None:
    """Run and Qrels of ranx are neither mappings nor iterable; making one compiles for seconds."""
    assert all(callable(kind.to_dict) for kind in (ranx.Run, ranx.Qrels))
    assert not issubclass(ranx.Run, Iterable)
    other: Any = object()
    table = pd.DataFrame(RANKED, columns=["qid", "docno", "rank", "score"])
    for read in (ms.read_run, Judgements.from_qrels):
        with pytest.raises(UsageError, match=r"of ranx pass to_dict\(\)"):
            read(other)
    for rankings in (other, table):
        with pytest.raises(UsageError, match=r"read_run\(table\).*to_dict\(\)"):
            ms.write_run(tmp_path / "a.run", rankings)
    assert not (tmp_path / "a.run").exists()
    ms.write_run(tmp_path / "a.run", ms.read_run(table))
    assert ms.read_run(tmp_path / "a.run") == RUN
    with pytest.raises(UsageError, match="query, docid, score"):
        ms.read_run(pd.DataFrame(columns=["query", "docid", "score"]))


# Qrels.


@pytest.mark.parametrize("document", ["{}", "clueweb09-{}", "71871{}", "30{}"])
def test_qrels_of_ir_datasets_as_tsv_are_refused(folder: Path, document: str) -> None:
    """`ir_datasets export ID qrels --format tsv`: RR was 0 for each run, without a warning."""
    text = lines("{0}\t" + document.format("{1}") + "\t{2}\t0", ROWS)
    (folder / "q.tsv").write_text(text if document == "{}" else text.replace("d", ""))
    done = score(folder, "plain.run", "q.tsv")
    assert done.returncode == 1
    for part in ("q.tsv:1", "[wrong-columns]", "--format trec"):
        assert part in done.stderr


@pytest.mark.parametrize("iteration", ["0", "Q0", "12", "iter"])
def test_documents_may_be_digits(folder: Path, iteration: str) -> None:
    (folder / "digits.qrels").write_text(f"301 {iteration} 1 1\n301 {iteration} 2 0\n")
    assert ms.read_qrels(folder / "digits.qrels") == [Qrel("301", "1", 1), Qrel("301", "2", 0)]


def test_qrels_without_a_relevant_passage_are_warned_of(folder: Path) -> None:
    (folder / "none.qrels").write_text("301 0 d1 0\n302 0 d9 -2\n")
    done = score(folder, "plain.run", "none.qrels")
    assert figure("RR@10", folder / "none.qrels") == 0
    assert "none.qrels: no passage has a relevance of 1 or more" in done.stderr


def test_a_run_of_ms_marco_as_qrels_is_warned_of(folder: Path) -> None:
    """Three columns with a rank are three columns with a relevance: nDCG of the run by itself."""
    (folder / "run.tsv").write_text("".join(f"301\td{rank}\t{rank}\n" for rank in range(1, 11)))
    done = score(folder, "plain.run", "run.tsv", "--measures", "nDCG@10")
    assert "run.tsv: judgements go up to 10, as the ranks of a run do" in done.stderr


def test_ids_that_are_numbers_name_the_cure() -> None:
    for judged in ({301: {"d1": 1}}, pd.DataFrame({"qid": [301], "docno": "d1", "label": 1})):
        with pytest.raises(CollectionError) as caught:
            Judgements.from_qrels(judged)
        (finding,) = caught.value.findings
        assert finding.code == "id-invalid"
        assert "301" in finding.message
        assert "str" in finding.fix


# Queries and topics.


def test_queries_in_memory_name_the_cure() -> None:
    frame = pd.DataFrame({"qid": ["301"], "query": ["organized crime"]})
    with pytest.raises(UsageError, match="dict"):
        ms.find_leakage({"t": "crime"}, frame)
    queries = dict(zip(frame.qid, frame["query"], strict=True))
    assert [pair.tier for pair in ms.find_leakage({"t": "organized crime"}, queries).pairs]
    with pytest.raises(CollectionError) as caught:
        ms.find_leakage({"t": "crime"}, {301: "organized crime"})  # type: ignore[dict-item]
    assert "str" in caught.value.findings[0].fix


@pytest.mark.parametrize("tag", ["disease", "EN-title"])
def test_topics_without_a_known_field_name_the_fields(tmp_path: Path, tag: str) -> None:
    """TREC's precision medicine and CLEF have tags of their own."""
    topic = f'<topics><topic number="1"><{tag}>Melanoma</{tag}></topic></topics>'
    (tmp_path / "topics.xml").write_text(topic)
    (tmp_path / "train.tsv").write_text("t\tmelanoma\n")
    words = ["leakage", "find", "--train", "train.tsv", "--test", "topics.xml"]
    done = run_msshift(words, tmp_path)
    assert done.returncode == 1
    for part in ("topics.xml", "[no-queries]", "title, query, question"):
        assert part in done.stderr


# Collections.


def beir(folder: Path) -> Path:
    (folder / "qrels").mkdir()
    for name, text in {
        "corpus.jsonl": '{"_id": "d1", "title": "", "text": "crime", "metadata": {"url": "u"}}\n',
        "queries.jsonl": '{"_id": "301", "text": "organized crime", "metadata": {}}\n',
    }.items():
        (folder / name).write_text(text)
    return folder


def test_compressed_qrels_of_beir_are_read(tmp_path: Path) -> None:
    text = "query-id\tcorpus-id\tscore\n301\td1\t1\n"
    with pytest.raises(MsShiftError, match=r"\.tsv\.gz"):
        ms.open_collection(beir(tmp_path))
    (tmp_path / "qrels/test.tsv.gz").write_bytes(gzip.compress(text.encode()))
    assert ms.open_collection(tmp_path).qrels == {"301": {"d1": 1}}


def test_a_folder_of_another_layout_names_both(tmp_path: Path) -> None:
    (tmp_path / "documents.jsonl").write_text('{"id": "d1", "contents": "crime"}\n')
    with pytest.raises(MsShiftError, match=r"collection\.tsv.*corpus\.jsonl"):
        ms.open_collection(tmp_path)


@pytest.mark.parametrize("relevance", [0.5, 1.75, float("nan")])
def test_parts_of_a_relevance_from_ir_datasets_are_refused(
    monkeypatch: pytest.MonkeyPatch, relevance: float
) -> None:
    """The relevance was cut to a whole number, so that 0.5 was not relevant."""
    dataset = ir_datasets.Dataset(_Queries(), _Qrels(relevance))
    monkeypatch.setitem(ir_datasets.registry._registered, "msshift-test-parts", dataset)
    with pytest.raises(CollectionError) as caught:
        _ = ms.open_collection("msshift-test-parts").qrels
    (finding,) = caught.value.findings
    assert finding.code == "relevance-not-integer"
    assert str(relevance) in finding.message
    assert "--qrels" in finding.fix


class _Queries(ir_datasets.formats.BaseQueries):
    def queries_iter(self) -> Any:
        return iter([ir_datasets.formats.GenericQuery("301", "organized crime")])


class _Qrels(ir_datasets.formats.BaseQrels):
    def __init__(self, relevance: float) -> None:
        self._relevance = relevance

    def qrels_iter(self) -> Any:
        return iter([ir_datasets.formats.TrecQrel("301", "d1", self._relevance, "0")])


# Measures.


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("bpref", "Bpref"),
        ("err@20", "ERR@20"),
        ("set_P", "SetP"),
        ("set_recall", "SetR"),
        ("set_F", "SetF"),
        ("num_q", "NumQ"),
        ("num_ret", "NumRet"),
        ("num_rel", "NumRel"),
        ("num_rel_ret", "NumRet(rel=1)"),
        ("r-precision", "Rprec"),
        ("top_k_accuracy@2", "Success@2"),
        ("ndcg_burges@2", "nDCG(dcg='exp-log2')@2"),
    ],
)
def test_measures_of_other_tools_are_named_as_here(name: str, here: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        Settings(name)
    assert f"'{name}': it is called {here} here" in str(caught.value)
    parsed = ir_measures.parse_measure(here)
    expected = ir_measures.calc_aggregate([parsed], QRELS, RUN)[parsed]
    if here == "NumRel":  # ir_measures leaves out query 303, which `trec_eval -c` counts
        expected += 1
    assert figure(here) == pytest.approx(expected, abs=1e-5)


def test_accuracy_is_not_beir_s(folder: Path) -> None:
    """BEIR's Accuracy@2 is the part of queries with a relevant document in two places: 2/3."""
    done = score(folder, "plain.run", "plain.qrels", "--measures", "Accuracy@2", "--verbose")
    assert "Accuracy@k of BEIR and DPR is Success@k" in done.stdout
    assert figure("Accuracy@2") == 0
    assert figure("Success@2") == pytest.approx(2 / 3)
