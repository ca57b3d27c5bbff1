"""A test set of a model's training queries is counted, reported, and refused unless allowed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from msshift_bench.baselines import Plan, make_runs, open_system
from msshift_bench.data import open_dataset
from msshift_bench.errors import NotFoundError, RunError
from msshift_bench.evaluation import Result, evaluate_extra_tests, score_runs
from msshift_bench.plumbing import with_checksum
from msshift_bench.records import Row
from tests.conftest import Build
from tests.support.fabricated import write_run

SOME = 50


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini:500", "length")


@pytest.fixture(scope="module")
def trained(data: Path) -> list[Row]:
    """Queries that only the model without short trained on."""
    rows = {
        group: open_dataset(data).rows(f"length-{group}", "train") for group in ("short", "long")
    }
    others = {row.query_id for row in rows["long"]}
    return [row for row in rows["short"] if row.query_id not in others][:SOME]


def write(folder: Path, queries: Sequence[tuple[str, str, Sequence[str]]]) -> None:
    """Write a test set of (id, text, relevant passages), and runs on it, in a folder."""
    (folder / "own").mkdir(parents=True)
    lines = [f"{query_id}\t{text}\n" for query_id, text, _ in queries]
    (folder / "own/queries.tsv").write_text("".join(lines))
    judged = [f"{query_id} 0 {doc} 1\n" for query_id, _, docs in queries for doc in docs]
    (folder / "own/qrels.tsv").write_text("".join(judged))
    for place in (".", "extra/own"):
        for number, group in enumerate(("short", "long")):
            ranked = [(i, [*["x", "y"][:number], *docs]) for i, _, docs in queries]
            write_run(folder / "runs/dense" / place / f"length/{group}.run", ranked)


def own(rows: Sequence[Row]) -> list[tuple[str, str, Sequence[str]]]:
    return [(row.query_id, row.text, row.relevant_doc_ids) for row in rows]


def evaluate(folder: Path, data: Path | str, *allow: str) -> Result:
    return evaluate_extra_tests(folder / "runs", {"own": folder / "own"}, data, allow=allow)


def notes(result: Result) -> str:
    return "\n".join(note.text for note in result.notes)


@pytest.mark.extended
def test_sidecars_have_the_counts_for_readers_without_the_data_set(
    tmp_path: Path, data: Path, trained: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, own(trained))
    shutil.rmtree(tmp_path / "runs")
    tuned = open_system("bm25-tuned", changes={"depth": 10})
    sets = {"own": tmp_path / "own"}
    where = {"collection": "mini:500", "out": tmp_path / "runs", "data": data}
    make_runs(Plan(system=tuned, shifts=["length"], extra_test=sets, **where))
    sidecar = tmp_path / "runs/bm25-tuned/extra/own/length/short.run.json"
    counted = json.loads(sidecar.read_text())["trained_on"]
    assert (counted["queries"], counted["ids"], counted["trained"]) == (SOME, SOME, SOME)
    monkeypatch.chdir(tmp_path)  # No data set is here.
    with pytest.raises(RunError, match=rf"the model without short trained on {SOME} of the {SOME}"):
        evaluate_extra_tests(tmp_path / "runs", sets)


def test_its_own_training_queries_are_refused_unless_allowed(
    tmp_path: Path, data: Path, trained: list[Row]
) -> None:
    write(tmp_path, own(trained))
    with pytest.raises(RunError) as caught:
        evaluate(tmp_path, data)
    (finding,) = caught.value.findings
    assert finding.code == "trained-on-test"
    assert f"without short trained on {SOME} of the {SOME} queries of own" in finding.message
    assert finding.source.endswith("extra/own/length/short.run")
    assert "--allow leaked" in finding.fix

    result = evaluate(tmp_path, data, "leaked")
    (warning,) = (warning for warning in result.warnings if "trained on" in warning)
    assert f"the model without short trained on {SOME} of the {SOME}" in warning
    assert "(--allow leaked)" in warning
    counts = {row["model"]: row for row in result.to_json()["trained_on"]}
    assert counts["short"]["ids"] == counts["short"]["words"] == SOME
    assert counts["long"]["ids"] == counts["long"]["words"] == 0


def test_the_same_words_under_other_ids_are_training_queries(
    tmp_path: Path, data: Path, trained: list[Row]
) -> None:
    renamed = [
        (f"new{number}", " ".join(reversed(row.text.upper().split())) + "?", ["elsewhere"])
        for number, row in enumerate(trained[:11])
    ]
    fresh = [(f"fresh{number}", f"nothing like it {number}", ["elsewhere"]) for number in range(20)]
    write(tmp_path, [*renamed, *fresh])
    with pytest.raises(RunError, match="trained on 11 of the 31 queries of own"):
        evaluate(tmp_path, data)


def test_an_id_with_another_text_is_another_query(
    tmp_path: Path, data: Path, trained: list[Row]
) -> None:
    unheard = [(row.query_id, f"unheard {n}", ["elsewhere"]) for n, row in enumerate(trained)]
    write(tmp_path, unheard)
    assert "trained on" not in notes(evaluate(tmp_path, data))


def test_shared_judgements_are_reported_and_not_refused(
    tmp_path: Path, data: Path, trained: list[Row]
) -> None:
    shared = [(f"new{n}", f"unheard {n}", row.relevant_doc_ids) for n, row in enumerate(trained)]
    write(tmp_path, shared)
    result = evaluate(tmp_path, data)
    line = f"own (length): of {SOME} queries, the model without short trained on 0"
    assert f"{line} and {SOME} share a relevant passage with a training query" in notes(result)
    assert not [warning for warning in result.warnings if "passage with" in warning]


def test_the_table_reports_that_the_data_set_was_not_read(
    tmp_path: Path, trained: list[Row], build_once: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, own(trained))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MSSHIFT_HOME", raising=False)
    for data in ("msshift", build_once("mini:300", "wh-words")):  # None; another shift.
        said = notes(evaluate(tmp_path, data))
        assert (
            "own (length): not compared with the training queries of the models without short, long"
            in said
        )
    with pytest.raises(NotFoundError):
        evaluate(tmp_path, tmp_path / "nowhere")


def sidecar(run: Path, data: Path, held_out: str | None = "short") -> None:
    facts = {
        "shift": "length",
        "held_out": held_out,
        "data_digest": open_dataset(data).info.content_digest,
    }
    run.with_name(f"{run.stem}.run.json").write_text(json.dumps(with_checksum(facts)))


def test_a_model_of_another_data_set_is_another_model(tmp_path: Path, data: Path) -> None:
    write(tmp_path, [(f"new{number}", f"unheard {number}", ["elsewhere"]) for number in range(30)])
    shutil.copytree(tmp_path / "runs/dense", tmp_path / "runs/other")
    counts = {"test": "own", "shift": "length", "model": "short", "queries": 30, "ids": 3}
    counts |= {"words": 0, "trained": 3, "passages": 0}
    for group, more in (("short", {"trained_on": counts}), ("long", {})):
        facts = {"shift": "length", "held_out": group, "data_digest": "0" * 64, **more}
        run = tmp_path / f"runs/other/extra/own/length/{group}.run"
        run.with_name(f"{group}.run.json").write_text(json.dumps(with_checksum(facts)))
    with pytest.raises(RunError, match="the model without short trained on 3 of the 30"):
        evaluate(tmp_path, data)
    said = notes(evaluate(tmp_path, data, "leaked"))
    assert "own (length): not compared with the training queries of the models without long" in said


def test_a_single_run_whose_sidecar_names_its_model_is_refused_too(
    tmp_path: Path, data: Path, trained: list[Row]
) -> None:
    write(tmp_path, own(trained))
    run = tmp_path / "runs/dense/length/short.run"
    sidecar(run, data)
    judged = tmp_path / "own/qrels.tsv"
    with pytest.raises(RunError, match=rf"trained on {SOME} of the {SOME} queries"):
        score_runs([run], judged, data=data)
    result = score_runs([run], judged, data=data, allow=["leaked"])
    assert any("(--allow leaked)" in warning for warning in result.warnings)
    sidecar(run, data, "long")
    assert "without long trained on 0 and" in notes(score_runs([run], judged, data=data))
    sidecar(run, data, None)
    assert "trained on" not in notes(score_runs([run], judged, data=data))
