"""Runs broken down by groups of queries: by hand, against ir_measures, notes and refusals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from scipy import stats

from msshift_bench.arrays import Floats
from msshift_bench.data import TestSet, open_dataset, read_labels
from msshift_bench.evaluation import Result, Settings, compare_run_sets, score_runs
from msshift_bench.runs import read_qrels, read_run
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import Figure
from tests.conftest import Build, Command
from tests.support.fabricated import write_runs
from tests.support.figures import read_figures
from tests.support.refusals import check_exits, check_refusals

SIZES = {"easy": 40, "hard": 30, "mid": 25}
QUERIES = [f"{label}-{n}" for label, size in SIZES.items() for n in range(size)]
LABELS = {query_id: query_id.partition("-")[0] for query_id in QUERIES}
QRELS = {query_id: {f"d-{query_id}": 1} for query_id in QUERIES}


def drawn_run(seed: int, queries: list[str] = QUERIES) -> dict[str, dict[str, float]]:
    """Return a run that has relevant passages at drawn ranks, or below rank 10."""
    rng = np.random.default_rng(seed)
    run = {}
    for query_id in queries:
        docs = [f"x{n}" for n in range(11)]
        docs.insert(int(rng.integers(12)), f"d-{query_id}")
        run[query_id] = {doc: 20.0 - place for place, doc in enumerate(docs)}
    return run


def values_of(run: Mapping[str, Mapping[str, float]]) -> dict[str, Floats]:
    """Return label -> RR@10 of its queries, computed by hand."""
    ranks = {query_id: [*docs].index(f"d-{query_id}") + 1 for query_id, docs in run.items()}
    reciprocal = {query_id: 1 / rank if rank <= 10 else 0.0 for query_id, rank in ranks.items()}
    labels = np.array([LABELS[query_id] for query_id in run])
    values = np.array([*reciprocal.values()])
    return {label: values[labels == label] for label in SIZES}


def row_of(result: Result, figure: str, label: str, **names: object) -> Figure:
    (row,) = result.figures.where(figure=figure, slice=label, **names)
    return row


def test_means_and_differences_by_hand() -> None:
    run = drawn_run(1)
    values = values_of(run)
    result = score_runs([run], QRELS, by=LABELS)
    differences = {}
    for label, size in SIZES.items():
        row, half = row_of(result, "score", label), stats.t.ppf(0.975, size - 1)
        half *= values[label].std(ddof=1) / size**0.5
        assert row.value == pytest.approx(values[label].mean())
        assert row.interval == pytest.approx((row.number - half, row.number + half))
        assert (row.queries, row.p, row.group) == (size, None, "<qrels>")
        others = [values[other] for other in SIZES if other != label]
        row = differences[label] = row_of(result, "score_difference", label)
        expected = values[label].mean() - np.mean([other.mean() for other in others])
        variance = values[label].var(ddof=1) / size
        variance += sum(other.var(ddof=1) / len(other) / 4 for other in others)
        half = stats.t.ppf(0.975, len(QUERIES) - 3) * variance**0.5
        assert row.value == pytest.approx(expected)
        assert row.interval == pytest.approx((expected - half, expected + half))
        p = 2 * stats.t.sf(abs(expected) / variance**0.5, len(QUERIES) - 3)
        assert row.p_uncorrected == pytest.approx(p)
        assert (row.family, row.counts) == ("holm over 3 tests (runs x groups)", "queries only")
    smallest = min(differences.values(), key=lambda row: row.p_uncorrected or 1)
    assert smallest.p == pytest.approx(min(1, 3 * (smallest.p_uncorrected or 1)))


def test_of_two_groups_there_is_one_test() -> None:
    two = {query_id: label for query_id, label in LABELS.items() if label != "mid"}
    result = score_runs([drawn_run(1)], QRELS, by=two)
    easy, hard = (row_of(result, "score_difference", label) for label in ("easy", "hard"))
    assert easy.family == "holm over 1 test (runs x groups)"
    assert hard._replace(slice="easy") == easy._replace(
        value=-easy.number, low=-(easy.high or 0), high=-(easy.low or 0)
    )


def test_a_measure_where_lower_is_better_turns_the_sign() -> None:
    result = score_runs([drawn_run(1)], QRELS, "ASL@5", by=LABELS)
    means = {label: row_of(result, "score", label).number for label in SIZES}
    others = (means["hard"] + means["mid"]) / 2
    assert row_of(result, "score_difference", "easy").value == pytest.approx(others - means["easy"])


def test_leads_on_groups_and_their_differences() -> None:
    run, reference = drawn_run(1), drawn_run(2)
    leads = {label: values_of(run)[label] - values_of(reference)[label] for label in SIZES}
    result = score_runs({"a": run}.values(), QRELS, by=LABELS, reference=reference)
    for label, size in SIZES.items():
        lead = row_of(result, "lead", label)
        half = stats.t.ppf(0.975, size - 1) * leads[label].std(ddof=1) / size**0.5
        assert lead.value == pytest.approx(leads[label].mean())
        assert lead.interval == pytest.approx((lead.number - half, lead.number + half))
        assert lead.family == "holm over 3 tests (runs x groups)"
        others = np.mean([leads[other].mean() for other in SIZES if other != label])
        difference = row_of(result, "lead_difference", label)
        assert difference.value == pytest.approx(leads[label].mean() - others)
    assert len(result.figures.where(figure="score_difference")) == 2 * len(SIZES)


@pytest.mark.parametrize("measure", ["RR@10", "nDCG@10", "R@5", "AP"])
def test_a_group_has_the_mean_of_ir_measures_on_its_queries(measure: str) -> None:
    run = drawn_run(3, QUERIES[4:])
    result = score_runs([run], QRELS, measure, by=LABELS)
    for label in SIZES:
        judged = {query_id: QRELS[query_id] for query_id in QUERIES if LABELS[query_id] == label}
        parsed = ir_measures.parse_measure(measure)
        known = ir_measures.calc_aggregate([parsed], judged, run)[parsed]
        assert row_of(result, "score", label).value == pytest.approx(known)
    assert [row.number for row in result.figures.where(figure="missing")] == [4, 4, 0, 0]


@pytest.fixture
def work(build_once: Build, tmp_path: Path) -> Path:
    """A data set, two single models, and a file of the groups of the queries of ``length``."""
    data = build_once("mini:300", "length", "wh-words")
    (tmp_path / "msshift").symlink_to(data)
    for system in ("a", "b"):
        write_runs(tmp_path / "runs" / system, data, one=True)
    tests = open_dataset(data).test_sets(SHIFTS["length"])
    rows = [row for of_group in tests.values() for row in of_group]
    lines = [f"{row.query_id}\t{row.group}" for row in rows]
    (tmp_path / "groups.tsv").write_text("\n".join(["query_id\tlabel", *lines, ""]))
    judged = [f"{row.query_id} 0 {doc} 1\n" for row in rows for doc in row.relevant_doc_ids]
    (tmp_path / "qrels.txt").write_text("".join(judged))
    return tmp_path


def test_the_groups_of_a_shift_are_labels_of_its_queries(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work)
    runs = ["runs/a/length.run.gz", "runs/b/length.run.gz"]
    by_shift = score_runs(runs, shift="length", reference=runs[1])
    judged = {query_id: {} for query_id in read_labels("groups.tsv")}
    for qrel in read_qrels("qrels.txt"):
        judged[qrel.query_id][qrel.doc_id] = qrel.relevance
    for test_set, by in (("qrels.txt", "groups.tsv"), (judged, "length")):
        labelled = score_runs(runs, test_set, by=by, reference=runs[1])
        assert {row._replace(group="length") for row in labelled.figures} == {*by_shift.figures}
    # The leads are those of the run sets.
    compared = compare_run_sets(["runs"], reference="b").figures
    for figure in ("lead", "lead_difference"):
        for row in compared.where(figure=figure, group=("short", "long")):
            of_run = row_of(by_shift, figure, row.group)
            assert (of_run.value, of_run.interval) == (row.value, row.interval)
            assert of_run.p_uncorrected == row.p_uncorrected


def test_every_format_has_the_groups(msshift: Command, work: Path) -> None:
    words = "score runs/a/length.run.gz --shift length"
    text = msshift(*words.split()).stdout
    assert "length, MRR@10 x 100: by group" in text
    assert "score - others: the mean on a group" in text
    for chosen, head in (
        ("markdown", "| run | group | queries | missing | RR@10 | score - others |"),
        ("latex", r"run & group & queries & missing & RR@10 & score - others &"),
        ("csv", "score_difference,,,"),
    ):
        done = msshift(*words.split(), "--format", chosen)
        assert done.returncode == 0, done.stderr
        assert head in done.stdout
    figures = read_figures(msshift(*words.split(), "--format", "json").stdout)
    assert figures.where(figure="score", slice="short")[0].queries == 44
    line = "score runs/a/length.run.gz --shift length --by groups.tsv --format json"
    assert {*read_figures(msshift(*line.split()).stdout)} == {*figures}
    checked = msshift(*words.split(), "--check")
    assert (checked.returncode, "can be scored" in checked.stderr) == (0, True)


def test_queries_that_do_not_count_are_in_the_notes(tmp_path: Path) -> None:
    labels = {**LABELS, "zz": "easy", "mid-0": "alone"}
    del labels["easy-0"]
    result = score_runs([drawn_run(1)], QRELS, "RR@10 NumRet", by=labels)
    text = " ".join(note.text for note in result.notes)
    assert "in no group, without a label: 1 of 95 test queries" in text
    assert "labels of other queries, which do not count: 1" in text
    assert "not by group: NumRet, a sum over queries" in text
    assert "groups of fewer than 2 queries that count have no figures: alone" in text
    assert not result.figures.where(figure=("score", "score_difference"), slice="alone")
    assert result.figures.where(figure="score", slice="")[0].queries == len(QUERIES)
    shared = {"a": QUERIES[:20], "b": QUERIES[10:]}
    overlapping = score_runs([drawn_run(1)], TestSet("tests", QRELS, shared))
    assert [row.queries for row in overlapping.figures.where(figure="score")] == [95, 20, 85]
    shown = [note.text for note in overlapping.notes]
    assert "10 test queries are in several groups, and count in each" in shown


def test_queries_that_a_run_lacks_count_as_the_policy_decides() -> None:
    run = drawn_run(1, QUERIES[3:])
    values = values_of(run)["easy"]
    for missing, expected in (("zero", values.sum() / 40), ("skip", values.mean())):
        result = score_runs([run], QRELS, Settings(missing=missing), by=LABELS)
        assert row_of(result, "score", "easy").value == pytest.approx(expected)
        assert row_of(result, "missing", "easy").value == 3


def test_one_group_alone_has_no_difference() -> None:
    result = score_runs([drawn_run(1)], QRELS, by=dict.fromkeys(QUERIES[:30], "some"))
    assert math.isfinite(row_of(result, "score", "some").number)
    assert not result.figures.where(figure="score_difference")
    assert [table.header for table in result.tables()][1] == (
        *("run", "group", "queries", "missing", "RR@10"),
    )


def test_what_cannot_be_broken_down_is_refused(
    work: Path, msshift: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work)
    for name, text in {
        "twice.tsv": "q1\ta\nq1\tb\n",
        "empty.tsv": "q1\t\n",
        "spaces.tsv": "q1 a\n",
        "others.tsv": "q1\ta\nq2\tb\n",
        "groups.csv": "q1\ta\n",
    }.items():
        Path(name).write_text(text)
    run, file = drawn_run(1), "runs/a/length.run.gz"
    partial = {query_id: docs for query_id, docs in run.items() if LABELS[query_id] != "mid"}
    lacking = {query_id: run[query_id] for query_id in QUERIES[:89] + QUERIES[94:]}
    of_five = {query_id: "five" if query_id in QUERIES[89:94] else "rest" for query_id in QUERIES}
    check_refusals(
        {
            "CollectionError [repeated-id] twice.tsv:2 'q1' 'b' fix": lambda: score_runs(
                [run], QRELS, by="twice.tsv"
            ),
            "CollectionError [empty-text] empty.tsv:1 'q1' fix": lambda: score_runs(
                [run], QRELS, by="empty.tsv"
            ),
            "CollectionError [field-count] spaces.tsv:1 fix": lambda: score_runs(
                [run], QRELS, by="spaces.tsv"
            ),
            "DataError 95 q1": lambda: score_runs([run], QRELS, by="others.tsv"),
            "DataError 95 query": lambda: score_runs([run], QRELS, by={}),
            "RunError [incomplete-run] 25 95 fix": lambda: score_runs([partial], QRELS, by=LABELS),
            "DataError 5 five mid-19": lambda: score_runs([lacking], QRELS, by=of_five),
            "UsageError test shift": lambda: score_runs([file], "length-short", shift="length"),
            "UsageError test shift one": lambda: score_runs([file]),
            "UnknownNameError 'lenght' length": lambda: score_runs([file], shift="lenght"),
            "UnknownNameError 'topics' length": lambda: score_runs([file], shift="topics"),
            "UnknownNameError 'nowhere.tsv' length": lambda: score_runs(
                [file], "length-short", by="nowhere.tsv"
            ),
        }
    )
    check_exits(
        msshift,
        {
            "--shift length --test length-short": "2 --test --qrels --shift one",
            "--shift lenght": "2 'lenght' 'length'",
            "--shift length --by lengt-h": "2 'lengt-h' 'length'",
            "--shift length --by groups.csv --output groups.csv": "2 groups.csv",
            "--check --by groups.tsv": "2 --by --check",
        },
        f"score {file}",
    )


def test_a_run_of_other_groups_is_named(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    short = {row.query_id for row in open_dataset("msshift").rows("length-short", "test")}
    run = {
        query: docs for query, docs in read_run("runs/a/length.run.gz").items() if query in short
    }
    check_refusals(
        {"RunError [incomplete-run] 62 106 length fix": lambda: score_runs([run], shift="length")}
    )
