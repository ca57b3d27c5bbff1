"""Grades of relevance, from the qrels of a collection to the measures on its test sets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import ir_datasets
import ir_measures
import pytest

from msshift_bench import data, irds
from msshift_bench.dataset_builders.build import build_dataset, import_official
from msshift_bench.errors import UsageError
from msshift_bench.evaluation import Settings, evaluate_run_sets, score_runs
from msshift_bench.runs import read_qrels
from msshift_bench.shifts import SHIFTS
from tests.conftest import WriteFolder
from tests.support.fabricated import write_run
from tests.support.official_checkout import write_checkout

PASSAGES = [f"d{number}" for number in range(12)]
NAMES = ("nDCG@10", "nDCG", "RR@10", "R@5", "AP", "P@3", "Success@1", "R(rel=2)@5", "RR(rel=3)@10")
READ_WHAT_IS_NOT_RELEVANT = (
    *("Judged@10", "Bpref", "infAP", "AP(rel=2,judged_only=True)"),
    *("nDCG(gains={0:1})@10", "RR(rel=0)@10"),
)
MEASURES = {str(measure): measure for measure in map(ir_measures.parse_measure, NAMES)}


def grade(query: int, passage: int) -> int:
    """Return the relevance of a passage: -2 to 3; 1 or more for the first passage."""
    return 1 + query % 3 if passage == 0 else (query * 7 + passage * 5) % 6 - 2


@pytest.fixture
def folder(tsv_folder: WriteFolder) -> Path:
    judged = [(q, p) for q in range(40) for p in range(0, len(PASSAGES), 2)]
    return tsv_folder(
        collection="".join(f"{doc_id}\tpassage {doc_id}\n" for doc_id in PASSAGES),
        queries="".join(f"q{q}\twhat is number {'x ' * (q % 4)}{q}\n" for q in range(40)),
        qrels="".join(f"q{q} 0 {PASSAGES[p]} {grade(q, p)}\n" for q, p in judged),
    )


@pytest.fixture
def collection(folder: Path) -> data.Collection:
    return data.open_collection(folder)


@pytest.fixture
def built(collection: data.Collection, tmp_path: Path) -> Path:
    build_dataset(collection, ["length"], tmp_path / "msshift")
    return tmp_path / "msshift"


def test_rows_hold_the_grades_of_what_is_relevant(built: Path, collection: data.Collection) -> None:
    judged = collection.relevant
    rows = data.load_dataset(built, "length", split="queries")
    assert {row.query_id: row.relevant for row in rows} == judged
    assert {level for row in rows for level in row.relevances} == {1, 2, 3}
    assert all(list(row.relevant_doc_ids) == sorted(row.relevant_doc_ids) for row in rows)
    for splits in (
        data.load_dataset(built, "length-short"),
        data.load_dataset(built, "length-long"),
    ):
        assert all(row.relevant == judged[row.query_id] for part in splits.values() for row in part)


def test_another_grade_is_another_data_set(built: Path, folder: Path, tmp_path: Path) -> None:
    (row, *_) = data.load_dataset(built, "length-short", split="test")
    qrels = (folder / "qrels.tsv").read_text()
    there = f"{row.query_id} 0 d0 {row.relevant['d0']}\n"
    (folder / "qrels.tsv").write_text(qrels.replace(there, f"{row.query_id} 0 d0 9\n"))
    other = build_dataset(data.open_collection(folder), ["length"], tmp_path / "other")
    assert other.content_digest != data.read_manifest(built).content_digest
    assert data.verify_dataset(tmp_path / "other")[1] == data.verify_dataset(built)[1] == []
    (tmp_path / "other" / "manifest.json").write_bytes((built / "manifest.json").read_bytes())
    assert "changed-rows" in {
        finding.code for finding in data.verify_dataset(tmp_path / "other")[1]
    }


def test_ir_datasets_gives_the_grades(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ir_datasets.registry, "_registered", dict(ir_datasets.registry._registered))
    irds.register(built)
    rows = data.load_dataset(built, "length-short", split="test")
    dataset = ir_datasets.load("msshift/length/short/test")
    assert dataset.qrels.asdict() == {row.query_id: row.relevant for row in rows}
    assert list(dataset.qrels_defs()) == [1, 2, 3]
    counts = dataset.metadata()["qrels"]["fields"]["relevance"]["counts_by_value"]
    levels = [level for row in rows for level in row.relevances]
    assert counts == {str(level): levels.count(level) for level in (1, 2, 3)}


@pytest.fixture
def runs(built: Path, tmp_path: Path) -> Path:
    for held_out in SHIFTS["length"].groups:
        path = tmp_path / "runs" / "toy" / "length" / f"{held_out}.run"
        write_run(path, rankings(built, held_out))
    return tmp_path / "runs"


def rankings(built: Path, held_out: str) -> Iterator[tuple[str, list[str]]]:
    def key(query_id: str, doc_id: str) -> str:
        return hashlib.sha256(f"{held_out} {query_id} {doc_id}".encode()).hexdigest()

    for rows in data.open_dataset(built).test_sets(SHIFTS["length"]).values():
        for row in rows:
            yield row.query_id, sorted(PASSAGES, key=partial(key, row.query_id))


def test_measures_of_run_sets_and_test_sets_are_graded(
    built: Path, folder: Path, runs: Path
) -> None:
    figures = evaluate_run_sets([runs], built, settings=Settings(NAMES)).figures
    judged = [ir_measures.Qrel(*qrel) for qrel in read_qrels(folder / "qrels.tsv")]
    for group, rows in data.open_dataset(built).test_sets(SHIFTS["length"]).items():
        tested = {row.query_id for row in rows}
        qrels = [qrel for qrel in judged if qrel.query_id in tested]
        for held_out in SHIFTS["length"].groups:
            run = runs / "toy" / "length" / f"{held_out}.run"
            theirs = ir_measures.calc_aggregate(
                MEASURES.values(), qrels, ir_measures.read_trec_run(str(run))
            )
            ours = figures.where(figure="model_score", group=group, model=held_out)
            alone = score_runs([run], f"length-{group}", Settings(NAMES), data=built).figures
            for part in (ours, alone.where(figure="score")):
                values = {MEASURES[row.measure]: row.value for row in part}
                assert values == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("name", READ_WHAT_IS_NOT_RELEVANT)
def test_what_reads_nonrelevant_judgements_is_refused_on_a_built_data_set(
    built: Path, folder: Path, runs: Path, name: str
) -> None:
    settings = Settings(measures=("RR@10", name))
    refusal = r"needs passages that were judged not relevant.*--qrels FILE"
    run = runs / "toy" / "length" / "short.run"
    with pytest.raises(UsageError, match=refusal):
        score_runs([run], "length-short", settings, data=built)
    with pytest.raises(UsageError, match=refusal):
        evaluate_run_sets([runs], built, settings=settings)
    qrels = folder / "qrels.tsv"
    figures = score_runs([run], qrels, settings, allow=["partial"]).figures
    assert figures.first(measure=settings.measures[1].name).value > 0


def test_measures_that_read_only_what_is_relevant_are_not_refused() -> None:
    names = ("Rprec", "AP(rel=2)", "nDCG(gains={2:5})@10", "NumRel")
    test_set = data.TestSet("toy", {"q": {"d": 2}}, {"toy": ["q"]}, relevant_only=True)
    figures = score_runs([{"q": {"d": 1.0}}], test_set, Settings(names)).figures
    assert [row.value for row in figures.where(figure=("score", "sum"))] == [1, 1, 1, 1]


def test_grades_of_an_official_release_are_kept(tmp_path: Path) -> None:
    judged = {"3": {"d2": 3, "d10": 1, "d9": 0, "d8": -1}}
    checkout = write_checkout(tmp_path / "checkout", C0=("3\ta\n", judged))
    import_official([checkout], tmp_path / "msshift", shifts=["topics"])
    (row,) = data.load_dataset(tmp_path / "msshift", "topics-C0", split="test")
    assert row.relevant == {"d10": 1, "d2": 3}
    assert json.loads(json.dumps(row)) == ["3", "a", "C0", ["d10", "d2"], [1, 3]]
