"""Scores without the test queries that leaked, and training sets without what leaks."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from msshift_bench import clean_training, find_leakage
from msshift_bench.data import load_dataset, open_dataset
from msshift_bench.errors import DataError, UsageError
from msshift_bench.evaluation import (
    Result,
    Settings,
    evaluate_run_sets,
    losses_of,
    open_test_set,
    score_runs,
)
from msshift_bench.leakage import LeakedPair, read_left_out
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, Command
from tests.support.fabricated import write_run, write_runs
from tests.support.golden import Golden
from tests.support.leaks import write_found

KEPT, DIFFERENCE = "not leaked", "all minus not leaked"


def pair_of(query_id: str, text: str) -> LeakedPair:
    return LeakedPair(query_id, f"t{query_id}", "near-duplicate", 0.95, text, "a text")


def write_leaked(folder: Path, leaked: dict[str, str]) -> Path:
    """Write candidates of these test queries alone: which were searched is not known."""
    return write_found(folder, (pair_of(*query) for query in leaked.items()))


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length")


@pytest.fixture
def runs(data: Path, tmp_path: Path) -> Path:
    write_runs(tmp_path / "runs" / "trained", data)
    return tmp_path / "runs"


@pytest.fixture
def found(data: Path, tmp_path: Path) -> Path:
    rows = [*load_dataset(data, "length-short", split="test")]
    rows += load_dataset(data, "length-long", split="test")
    return write_leaked(tmp_path / "found", {row.query_id: row.text for row in rows[::3]})


def test_run_sets_without_leaked_queries(data: Path, runs: Path, found: Path) -> None:
    write_runs(runs / "bm25", data, one=True)
    without = read_left_out(found, data)
    result = evaluate_run_sets(runs, data, without=without)
    rest = [
        scores.restricted_to({*scores.query_ids} - without.query_ids) for scores in result.scores
    ]
    expected = [
        (row.system, row.group, row.figure, row.queries, pytest.approx(row.value))
        for row in losses_of(rest, result.data, Settings()).figures
        if row.figure in ("avg_in", "out", "rel_loss", "score")
    ]
    kept = result.figures.where(slice=KEPT)
    mine = [(row.system, row.group, row.figure, row.queries, row.value) for row in kept]
    assert sorted(mine) == sorted(expected)
    assert len(mine) == 12
    assert set(result.figures.names("slice")) == {"", KEPT, DIFFERENCE}


def test_runs_without_leaked_queries(data: Path, found: Path, tmp_path: Path) -> None:
    qrels, ranked = tmp_path / "qrels.tsv", ("d1", "d2", "d3")
    # The relevant passage is the 1st, 2nd, 1st, and none of those found.
    relevant = {"q1": "d1", "q2": "d2", "q3": "d1", "q4": "d9"}
    qrels.write_text("".join(f"{one} 0 {doc_id} 1\n" for one, doc_id in relevant.items()))
    run = write_run(tmp_path / "mine.run", [(one, ranked) for one in relevant])
    of_group = write_runs(tmp_path / "runs" / "bm25", data, one=True) / "length.run.gz"
    leaked = write_leaked(tmp_path / "leaked", {"q1": "a text"})
    settings = Settings("RR@10 ASL@10")
    test_set = open_test_set(qrels)
    for path, test, without in (
        (of_group, "length-short", read_left_out(found, data)),
        (run, qrels, read_left_out(leaked, test_set)),
    ):
        result = score_runs([path], test, settings, data=data, without=without)
        (scored,) = result.scores[0].runs.values()
        kept = [query_id not in without.query_ids for query_id in result.scores[0].query_ids]
        for measure, scores in scored.scores.items():
            rows = result.figures.where(figure="score", measure=measure)
            whole, rest = scores.mean(), scores[kept].mean()
            expected = {"": whole, KEPT: rest, DIFFERENCE: whole - rest}
            assert {row.slice: row.value for row in rows} == pytest.approx(expected)
    # Passages above the relevant one are 0, 1, 0, and 10 where it is not found.
    values = {(row.measure, row.slice): row.value for row in result.figures.where(figure="score")}
    assert values["RR@10", KEPT] == pytest.approx(1.5 / 3)
    every = read_left_out(write_leaked(tmp_path / "every", dict.fromkeys(relevant, "")), test_set)
    with pytest.raises(DataError, match=r"every test query of .*qrels\.tsv leaked; no score"):
        score_runs([run], qrels, without=every)


def test_a_group_without_a_score_has_no_loss_to_compare(
    data: Path, runs: Path, found: Path, golden: Golden
) -> None:
    # The model that saw `short` finds nothing there, so that its Rel Loss would divide by 0.
    path = runs / "trained" / "length" / "long.run.gz"
    rows = open_dataset(data).test_sets(SHIFTS["length"])
    nothing = [(row.query_id, ["nothing"]) for row in rows["short"]]
    write_run(path, [*nothing, *((row.query_id, row.relevant_doc_ids) for row in rows["long"])])
    without = read_left_out(found, data)
    shown = {"no score on short": evaluate_run_sets(runs, data, without=without)}
    # With one of two held-out models, there is nothing to compare it with.
    path.unlink()
    shown["partial"] = evaluate_run_sets(runs, data, without=without, allow=["partial"])
    golden.check_results("left-out.md", shown)
    assert not shown["partial"].figures.where(slice=(KEPT, DIFFERENCE))


def test_candidates_of_other_test_queries_are_refused(
    data: Path, runs: Path, tmp_path: Path, golden: Golden
) -> None:
    short, long = (
        [*load_dataset(data, f"length-{group}", split="test")] for group in ("short", "long")
    )
    first = short[0]

    def evaluate(name: str) -> Result:
        without = read_left_out(tmp_path / name, open_dataset(data))
        return evaluate_run_sets(runs, data, without=without)

    for name, leaked in (
        ("strangers", {"no-such": "x", first.query_id: first.text}),
        ("other texts", {first.query_id: "another text"}),
        ("every query", {row.query_id: row.text for row in short}),
        ("none", {}),
    ):
        write_leaked(tmp_path / name, leaked)
    for name, searched in (("one group", short), ("both", [*short, *long])):
        pair = pair_of(first.query_id, first.text)
        write_found(tmp_path / name, [pair], [row.query_id for row in searched])
    # Queries that were not searched do not count as not leaked.
    wrong = ("strangers", "other texts", "every query", "one group")
    golden.check_refusals("other-queries.txt", {name: partial(evaluate, name) for name in wrong})
    assert {row.value for row in evaluate("none").figures.where(slice=DIFFERENCE)} == {0.0}
    assert evaluate("both").figures.where(slice=DIFFERENCE)
    # Whoever scores the group that was searched alone may.
    run = runs / "trained" / "length" / "short.run.gz"
    without = read_left_out(tmp_path / "one group", open_test_set("length-short", data))
    assert score_runs([run], "length-short", data=data, without=without).figures


# ---- training sets -------------------------------------------------------------------------------


TRAIN = "1\tcheap flights\n2\tred shoes\n3\tshoes red\n4\thow old is the sun\n"
QRELS = "1 0 d1 1\n2 0 d2 2\n2 0 d3 0\n9 0 d1 1\n4 0 d4 1\n"
IDS = "1\td1\td2\n3\td2\td1\n9\td1\td2\n"
TEXTS = "cheap flights\ta passage\tanother one\nred shoes\ta passage\tanother\nnobody's\tp p\tn n\n"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name, text in (("train", TRAIN), ("qrels", QRELS), ("ids", IDS), ("texts", TEXTS)):
        (tmp_path / f"{name}.tsv").write_text(text)
    find_leakage(tmp_path / "train.tsv", {"t": "red shoes"}).write(tmp_path / "found")
    return tmp_path


def test_every_file_loses_what_leaks_and_what_nobody_looked_at(
    msshift: Command, work: Path
) -> None:
    command = ("leakage", "clean", "--found", "found", "--train", "train.tsv")
    done = msshift(*command, "--qrels", "qrels.tsv", "--triples", "ids.tsv")
    assert done.returncode == 0, done.stderr
    clean = work / "clean"
    manifest = json.loads((clean / "manifest.json").read_text())
    counts = {(row["figure"], row["slice"]): row["value"] for row in manifest["figures"]}
    kinds = ("lines", "leaking_lines", "other_lines", "kept_lines")
    for name, expected in (
        ("queries.tsv", [4, 2, 0, 2]), ("qrels.tsv", [5, 2, 1, 2]), ("triples.tsv", [3, 1, 1, 1])
    ):  # fmt: skip
        assert [counts[kind, name] for kind in kinds] == expected
    written = {path.name: path.read_text() for path in clean.iterdir() if path.suffix == ".tsv"}
    assert written == {
        "queries.tsv": "1\tcheap flights\n4\thow old is the sun\n",
        "qrels.tsv": "1\t0\td1\t1\n4\t0\td4\t1\n",
        "triples.tsv": "1\td1\td2\n",
        "removed.tsv": "2\tsame-text\n3\tsame-words\n",
    }
    cleaned = clean_training(
        work / "found", work / "train.tsv", clean, triples=work / "texts.tsv", tier="same-text"
    )
    assert [(row.slice, row.value) for row in cleaned.figures.where(figure="left_out")] == [
        ("same-text", 1)
    ]
    assert [row.value for row in cleaned.figures.where(figure="kept_lines")] == [3, 1]
    assert (clean / "triples.tsv").read_text() == "cheap flights\ta passage\tanother one\n"
    assert not (clean / "qrels.tsv").exists()
    # What is clean stays clean.
    assert find_leakage(clean / "queries.tsv", {"t": "red shoes"}).count("same-text").pairs == 0


def test_what_cannot_be_cleaned_leaves_nothing_behind(work: Path, golden: Golden) -> None:
    found, train, out = work / "found", work / "train.tsv", work / "clean"
    files = {"none": "2\td1\td2\n", "bad": "1\td1\td2\n2\td1\n", "other": "7\tflowers\n"}
    for name, text in files.items():
        (work / f"{name}.tsv").write_text(text)
    facts = (found / "found.json").read_bytes()
    data = (found / "candidates.parquet").read_bytes()
    for name, facts_now, data_now in (
        ("facts", facts.replace(b'"training_queries": ', b'"training_queries": 1'), data),
        ("pairs", facts, data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]),
        ("short", facts, b"PAR1"),
    ):
        (work / name).mkdir()
        (work / name / "found.json").write_bytes(facts_now)
        (work / name / "candidates.parquet").write_bytes(data_now)
    clean = partial(clean_training, out=out)
    refusals = {
        "nothing left": partial(clean, found, train, triples=work / "none.tsv"),
        "two columns": partial(clean, found, train, triples=work / "bad.tsv"),
        "other queries": partial(clean, found, work / "other.tsv"),
        "nothing found": partial(clean, work, train),
        "no queries": partial(clean, found, work / "gone.tsv"),
        **{f"other {name}": partial(clean, work / name, train)
           for name in ("facts", "pairs", "short")},
    }  # fmt: skip
    golden.check_refusals("cannot-be-cleaned.txt", refusals)
    assert not out.exists()


def test_no_training_set_but_a_cleaned_one_is_replaced(work: Path) -> None:
    clean = partial(clean_training, work / "found", work / "train.tsv")
    for files in (["mine.txt"], ["queries.tsv", "qrels.tsv"], ["qrels.tsv", "removed.tsv"]):
        folder = work / files[0].partition(".")[0]
        folder.mkdir()
        for name in files:
            (folder / name).write_text(TRAIN)
        with pytest.raises(UsageError, match=rf"{folder.name} holds {min(files)}, which is no"):
            clean(folder)
        assert {path.read_text() for path in folder.iterdir()} == {TRAIN}
    clean(work / "clean")
    queries = work / "clean" / "queries.tsv"
    find_leakage(queries, {"t": "how old is the sun"}).write(work / "again")
    with pytest.raises(UsageError, match=r"queries\.tsv is read, and would be overwritten"):
        clean_training(work / "again", queries, work / "clean")
    assert (
        clean_training(work / "again", queries, work / "next")
        .figures.where(figure="kept_lines")[0]
        .value
        == 1
    )
