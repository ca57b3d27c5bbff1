"""Means over the models of a shift on an extra test set, by hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from benchmarks.support.fabricated import write_run
from msshift_bench.errors import RunError, UsageError
from msshift_bench.evaluation import Settings, evaluate_extra_tests, parse_measure
from msshift_bench.output import show_percent, show_percent_interval

QUERIES = ("q1", "q2", "q3", "q4")
RANKS = {
    ("short", 1): (1, 2, 4, 1),
    ("long", 1): (2, 2, 1, 5),
    ("short", 2): (1, 1, 4, 2),
    ("long", 2): (2, 4, 2, 5),
}
"""(held-out group, seed) -> the rank of the relevant passage for each query."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dl").mkdir()
    (tmp_path / "dl" / "queries.tsv").write_text("".join(f"{one}\twho\n" for one in QUERIES))
    (tmp_path / "dl" / "qrels.tsv").write_text("".join(f"{one} 0 d 1\n" for one in QUERIES))
    for (held_out, seed), ranks in RANKS.items():
        rankings = [
            (query, [*(f"other{n}" for n in range(rank - 1)), "d"])
            for query, rank in zip(QUERIES, ranks, strict=True)
        ]
        name = Path("length", f"seed-{seed}", f"{held_out}.run.gz")
        write_run(tmp_path / "runs" / "mine" / name, rankings)
        write_run(tmp_path / "runs" / "mine" / "also" / "dl" / name, rankings)
    one = [(query, ["d"]) for query in QUERIES]
    write_run(tmp_path / "runs" / "everything" / "length.run.gz", one)
    write_run(tmp_path / "runs" / "everything" / "also" / "dl" / "length.run.gz", one)
    return tmp_path


def test_means_over_models_seeds_and_queries(folder: Path) -> None:
    found = evaluate_extra_tests(folder / "runs", {"dl": folder / "dl"})
    figures = {(one.system, one.model): one for one in found.figures}
    assert list(figures) == [
        ("everything", "all"), ("mine", "short"), ("mine", "long"), ("mine", "mean"),
    ]  # fmt: skip
    scores = {key: 1 / np.array(ranks) for key, ranks in RANKS.items()}
    for group in ("short", "long"):
        expected = np.mean([scores[group, seed] for seed in (1, 2)])
        assert figures["mine", group].mean == pytest.approx(expected)
    mean = figures["mine", "mean"]
    assert mean.mean == pytest.approx(np.mean(list(scores.values())))
    assert (mean.queries, mean.seeds) == (4, 2)
    assert mean.interval is not None
    low, high = mean.interval
    assert low < mean.mean < high
    assert figures["everything", "all"].mean == 1
    (table,) = found.tables()
    assert [[cell.text.split(" ")[0] for cell in row] for row in table.rows] == [
        ["everything", "all", "100.0"],
        ["mine", "short", "68.8"],
        ["", "long", "45.6"],
        ["", "mean", "57.2"],
    ]
    frame = found.to_pandas()
    assert list(frame["label"]) == ["all", "short", "long", "mean"]
    assert repr(found) == "<ExtraTestReport: dl, 4 figures>"

    # Of one seed the interval is Student's over queries, of each query's mean over models.
    for group in ("short", "long"):
        for place in ("", "also/dl"):
            (folder / "runs" / "mine" / place / "length" / "seed-2" / f"{group}.run.gz").unlink()
    for place in ("", "also/dl"):
        (folder / "runs" / "mine" / place / "length" / "seed-2").rmdir()
    found = evaluate_extra_tests(folder / "runs", {"dl": folder / "dl"})
    mean = found.figures[-1]
    values = np.mean([scores["short", 1], scores["long", 1]], axis=0)
    expected = scipy.stats.t.interval(0.95, 3, values.mean(), scipy.stats.sem(values))
    assert mean.interval == pytest.approx(expected)


def test_a_missing_model_is_said(folder: Path) -> None:
    (folder / "runs" / "mine" / "also" / "dl" / "length" / "seed-2" / "long.run.gz").unlink()
    asked = (folder / "runs", {"dl": folder / "dl"})
    with pytest.raises(RunError, match=r"mine/also/dl/length/seed-2/long.run: there is no run"):
        evaluate_extra_tests(*asked)
    found = evaluate_extra_tests(*asked, allow_partial=True)
    assert [one.model for one in found.figures] == ["all", "short", "long"]
    assert found.remarks == ["mine on dl (length): no run without long, seed 2"]


def test_the_drop_against_a_model_trained_on_everything(folder: Path) -> None:
    whole = 1 / np.array([1, 1, 2, 1])
    for place in (".", "also/dl"):
        write_run(
            folder / "runs" / "mine-all" / place / "length.run.gz",
            [(query, ["d"] if whole[n] == 1 else ["x", "d"]) for n, query in enumerate(QUERIES)],
        )
    found = evaluate_extra_tests(folder / "runs", {"dl": folder / "dl"}, settings=Settings("RR@10"))
    (drop,) = found.drops
    assert (drop.system, drop.against, drop.queries, drop.seeds) == ("mine", "mine-all", 4, 2)
    mean = np.mean([1 / np.array(ranks) for ranks in RANKS.values()])
    expected = (whole.mean() - mean) / whole.mean()
    assert drop.drop == pytest.approx(expected)
    (table,) = found.tables()
    shown = [[cell.text for cell in row] for row in table.rows]
    assert [row[:2] for row in shown] == [
        ["everything", "all"], ["mine-all", "all"],
        ["mine", "short"], ["", "long"], ["", "mean"], ["", "drop from mine-all"],
    ]  # fmt: skip
    assert shown[-1][2].startswith(f"{100 * expected:.1f}% [")
    assert any(note.startswith("drop: ") for note in found.notes())
    assert found.to_json()["drops"][0]["drop"] == drop.drop
    row = found.to_pandas().iloc[-1]
    assert (row["figure"], row["against"], row["value"]) == ("drop", "mine-all", drop.drop)

    # Of one seed, Student's interval of the ratio of two means, over paired queries.
    for place in ("", "also/dl"):
        shutil.rmtree(folder / "runs" / "mine" / place / "length" / "seed-2")
    found = evaluate_extra_tests(folder / "runs", {"dl": folder / "dl"}, settings=Settings("RR@10"))
    (drop,) = found.drops
    models = np.mean([1 / np.array(RANKS[group, 1]) for group in ("short", "long")], axis=0)
    ratio = models.mean() / whole.mean()
    terms = (ratio * whole - models) / whole.mean()
    assert drop.interval == pytest.approx(
        scipy.stats.t.interval(0.95, 3, 1 - ratio, scipy.stats.sem(terms))
    )


def test_what_is_not_for_these_tables_is_refused(folder: Path) -> None:
    asked = (folder / "runs", {"dl": folder / "dl"})
    with pytest.raises(UsageError, match="NumRet is a sum, and models are averaged"):
        evaluate_extra_tests(*asked, settings=Settings("NumRet"))
    (folder / "dl" / "variants.tsv").write_text("q1\thwo\ttypo\n")
    with pytest.raises(UsageError, match="dl holds variants of queries, which evaluate_variants"):
        evaluate_extra_tests(*asked)


def test_models_that_searched_other_passages_are_refused(folder: Path) -> None:
    asked = (folder / "runs", {"dl": folder / "dl"})
    for group, digest in (("short", "a"), ("long", "b")):
        sidecar = folder / "runs" / "mine" / "also" / "dl" / "length/seed-1" / f"{group}.run.json"
        sidecar.write_text(json.dumps({"passages": {"sha256": digest * 64}}))
    with pytest.raises(RunError) as caught:
        evaluate_extra_tests(*asked)
    assert [one.code for one in caught.value.findings] == ["other-passages"]
    found = evaluate_extra_tests(*asked, force_data=True)
    assert found.remarks == [
        "mine on dl (length): its runs are of 2 different collections of passages (--force-data)"
    ]


def test_a_drop_between_different_passages_is_refused(folder: Path) -> None:
    asked = (folder / "runs", {"dl": folder / "dl"})
    for place in (".", "also/dl"):
        ranking = [(query, ["d"]) for query in QUERIES]
        write_run(folder / "runs" / "mine-all" / place / "length.run.gz", ranking, "everything")
    digests = {"mine-all": "a", "mine": "b"}
    for system, name in (("mine-all", "length"), ("mine", "length/seed-1/short")):
        sidecar = folder / "runs" / system / "also" / "dl" / f"{name}.run.json"
        sidecar.write_text(json.dumps({"passages": {"sha256": digests[system] * 64}}))
    with pytest.raises(RunError, match="runs that are compared are of different passages"):
        evaluate_extra_tests(*asked)
    found = evaluate_extra_tests(*asked, force_data=True)
    assert [drop.against for drop in found.drops] == ["mine-all"]
    assert found.remarks == [
        "mine-all and mine on dl: its runs are of 2 different collections of passages "
        "(--force-data)"
    ]


def test_one_file_under_two_models_is_refused(folder: Path) -> None:
    asked = (folder / "runs", {"dl": folder / "dl"})
    models = folder / "runs" / "mine" / "also" / "dl" / "length" / "seed-2"
    shutil.copy(models / "short.run.gz", models / "long.run.gz")
    with pytest.raises(RunError, match="not every run of mine/also/dl is a model's own") as caught:
        evaluate_extra_tests(*asked)
    (finding,) = caught.value.findings
    assert finding.code == "identical-runs"
    assert "the model trained without long with seed 2 gave it" in finding.message
    found = evaluate_extra_tests(*asked, allow_identical=True)
    assert found.remarks == [
        f"{models / 'long.run.gz'} is the same file, byte for byte, as {models / 'short.run.gz'}"
    ]


def test_one_query_has_no_interval_and_measures_say_whether_they_are_scaled(folder: Path) -> None:
    for name in ("queries.tsv", "qrels.tsv"):
        file = folder / "dl" / name
        file.write_text(file.read_text().partition("\n")[0] + "\n")
    asked = (folder / "runs", {"dl": folder / "dl"})
    report = evaluate_extra_tests(*asked, settings=Settings("RR@10 ASL@1000"))
    (table,) = report.tables()
    assert table.title.startswith("dl (1 queries), models of Query length (length), means x 100")
    assert table.title.endswith("(not ASL@1000)")
    assert [one.interval for one in report.figures] == [None] * len(report.figures)
    assert table.rows[0][2].text == "100.0"


def test_a_zero_has_no_minus() -> None:
    assert show_percent(-0.0004) == "0.0%"
    assert show_percent(-0.0006) == "-0.1%"
    assert show_percent_interval((-0.0004, 0.0)) == "[0.0, 0.0]"
    assert parse_measure("RR@10").show(-1e-9) == "0.0"
