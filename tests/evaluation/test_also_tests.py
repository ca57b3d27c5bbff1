"""Means over the models of a shift on an extra test set, and drops, by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from msshift_bench.errors import RunError
from msshift_bench.evaluation import Result, Settings, evaluate_also_tests
from msshift_bench.stats import Figure
from tests.support.fabricated import write_run
from tests.support.golden import Golden

QUERIES = ("q1", "q2", "q3", "q4")
RANKS = {
    ("short", 1): (1, 2, 4, 1),
    ("long", 1): (2, 2, 1, 5),
    ("short", 2): (1, 1, 4, 2),
    ("long", 2): (2, 4, 2, 5),
}
"""(held-out group, seed) -> the rank of the relevant passage for each query."""

SCORES = {key: 1 / np.array(ranks) for key, ranks in RANKS.items()}
MODELS = "mine/also/dl/length"


def write(system: Path, name: str, ranks: Sequence[int]) -> None:
    """Write a run of the queries, as the shift's own and as that on the extra test set."""
    rankings = [
        (query, [*(f"other{n}" for n in range(rank - 1)), "d"])
        for query, rank in zip(QUERIES, ranks, strict=True)
    ]
    for place in (".", "also/dl"):
        write_run(system / place / "length" / f"{name}.run.gz", rankings)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "dl").mkdir()
    (tmp_path / "dl" / "queries.tsv").write_text("".join(f"{q}\twho\n" for q in QUERIES))
    (tmp_path / "dl" / "qrels.tsv").write_text("".join(f"{q} 0 d 1\n" for q in QUERIES))
    for (held_out, seed), ranks in RANKS.items():
        write(tmp_path / "runs/mine", f"seed-{seed}/{held_out}", ranks)
    write(tmp_path / "runs/everything", "../length", (1, 1, 1, 1))
    return tmp_path / "runs"


def evaluate(runs: Path, *allow: str, measures: str = "RR@10", **others: Path) -> Result:
    also = {"dl": runs.with_name("dl"), **others}
    return evaluate_also_tests(runs, also, settings=Settings(measures), allow=allow)


def first(result: Result, **names: Any) -> Figure:
    return result.figures.first(**names)


def only_seed_1(runs: Path) -> None:
    for place in ("", "also/dl"):
        shutil.rmtree(runs / "mine" / place / "length" / "seed-2")


def test_means_over_models_seeds_and_queries(runs: Path) -> None:
    result = evaluate(runs)
    (table,) = result.tables()
    assert [[cell.text.split(" ")[0] for cell in row] for row in table.rows] == [
        ["everything", "all", "100.0"], ["mine", "short", "68.8"], ["", "long", "45.6"],
        ["", "mean", "57.2"],
    ]  # fmt: skip
    for group in ("short", "long"):
        expected = np.mean([SCORES[group, seed] for seed in (1, 2)])
        assert first(result, model=group).value == pytest.approx(expected)
    mean = first(result, model="mean")
    assert mean.value == pytest.approx(np.mean(list(SCORES.values())))
    assert (mean.test, mean.queries, mean.seeds) == ("dl", 4, 2)
    assert mean.interval[0] < mean.number < mean.interval[1]
    assert first(result, model="all").value == 1

    # Of one seed the interval is Student's over queries, of each query's mean over models.
    only_seed_1(runs)
    values = np.mean([SCORES["short", 1], SCORES["long", 1]], axis=0)
    expected = scipy.stats.t.interval(0.95, 3, values.mean(), scipy.stats.sem(values))
    assert first(evaluate(runs), model="mean").interval == pytest.approx(expected)


def test_the_drop_against_a_model_trained_on_everything(runs: Path) -> None:
    of_all = 1 / np.array([1, 1, 2, 1])
    write(runs / "mine-all", "../length", (1, 1, 2, 1))
    result = evaluate(runs)
    drop = first(result, figure="drop")
    assert (drop.system, drop.against, drop.queries, drop.seeds) == ("mine", "mine-all", 4, 2)
    mean = np.mean(list(SCORES.values()))
    assert drop.value == pytest.approx((of_all.mean() - mean) / of_all.mean())
    last = [cell.text for cell in result.tables()[0].rows[-1]]
    assert last[:2] == ["", "drop from mine-all"]
    assert last[2].startswith(f"{100 * drop.number:.1f}% [")
    assert any(note.text.startswith("drop: ") for note in result.notes)

    # Of one seed, Student's interval of the ratio of two means, over paired queries.
    only_seed_1(runs)
    models = np.mean([SCORES[group, 1] for group in ("short", "long")], axis=0)
    ratio = models.mean() / of_all.mean()
    terms = (ratio * of_all - models) / of_all.mean()
    expected = scipy.stats.t.interval(0.95, 3, 1 - ratio, scipy.stats.sem(terms))
    assert first(evaluate(runs), figure="drop").interval == pytest.approx(expected)


def test_what_is_not_for_these_tables_is_refused_or_doubted(runs: Path, golden: Golden) -> None:
    typed = runs.with_name("typed.tsv")
    typed.write_text("q1\thow\ttypo\n")
    golden.check_refusals(
        "also-tests.txt",
        {
            "a sum": lambda: evaluate(runs, measures="NumRet"),
            "queries and variants": lambda: evaluate(runs, typed=typed),
        },
    )
    long = runs / MODELS / "seed-2/long.run.gz"
    content = long.read_bytes()
    shutil.copy(long.with_name("short.run.gz"), long)
    with pytest.raises(RunError, match=r"long with seed 2 gave it \[identical-runs\]"):
        evaluate(runs)
    assert evaluate(runs, "identical").doubts == [
        f"{long} holds the same rankings as {long.with_name('short.run.gz')}"
    ]
    long.unlink()
    with pytest.raises(RunError, match=rf"{MODELS}/seed-2/long.run: there is no run"):
        evaluate(runs)
    result = evaluate(runs, "partial")
    assert result.figures.names("model") == ["all", "short", "long"]
    (doubt,) = result.doubts
    assert doubt.startswith("mine on dl (length): no run without long (seed 2); seed 1 alone can")
    long.write_bytes(content)

    write(runs / "mine-all", "../length", (1, 1, 1, 1))
    of_short = f"{MODELS}/seed-1/short.run.json"
    for other, whose, name in (
        (f"{MODELS}/seed-1/long.run.json", "runs of one system", "mine on dl (length)"),
        ("mine-all/also/dl/length.run.json", "runs that are compared", "mine-all and mine on dl"),
    ):
        for run, digest in ((of_short, "a"), (other, "b")):
            (runs / run).write_text(json.dumps({"passages": {"sha256": digest * 64}}))
        with pytest.raises(RunError, match=rf"{whose} are of different .*(?s:.*)\[other-passages"):
            evaluate(runs)
        result = evaluate(runs, "other-data")
        assert result.figures.where(figure="drop", against="mine-all")
        collections = "its runs are of 2 different collections of passages (--allow other-data)"
        assert f"{name}: {collections}" in result.doubts
        (runs / other).unlink()
