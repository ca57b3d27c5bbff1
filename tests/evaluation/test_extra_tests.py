"""Runs on an extra test set, by hand: means over models, drops, what variants of queries lose."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from msshift_bench.data import Variant, open_dataset, write_variants
from msshift_bench.errors import DataError, RunError
from msshift_bench.evaluation import Result, Settings, evaluate_extra_tests
from msshift_bench.records import Row
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import Figure
from tests.conftest import Build
from tests.support.fabricated import write_run
from tests.support.made_scores import losses
from tests.support.refusals import check_refusals

QUERIES = ("q1", "q2", "q3", "q4")
RANKS = {
    ("short", 1): (1, 2, 4, 1),
    ("long", 1): (2, 2, 1, 5),
    ("short", 2): (1, 1, 4, 2),
    ("long", 2): (2, 4, 2, 5),
}
"""(held-out group, seed) -> the rank of the relevant passage for each query."""

SCORES = {key: 1 / np.array(ranks) for key, ranks in RANKS.items()}
MODELS = "mine/extra/dl/length"


def write(system: Path, name: str, ranks: Sequence[int]) -> None:
    """Write a run of the queries, as the shift's own and as that on the extra test set."""
    rankings = [
        (query, [*(f"other{n}" for n in range(rank - 1)), "d"])
        for query, rank in zip(QUERIES, ranks, strict=True)
    ]
    for place in (".", "extra/dl"):
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
    test_sets = {"dl": runs.with_name("dl"), **others}
    return evaluate_extra_tests(runs, test_sets, settings=Settings(measures), allow=allow)


def first(result: Result, **names: Any) -> Figure:
    return result.figures.first(**names)


def only_seed_1(runs: Path) -> None:
    for place in ("", "extra/dl"):
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
    (runs / MODELS / "seed-1" / "long.run.gz").unlink()  # one model says nothing of their mean
    assert not evaluate(runs, "partial").figures.where(figure="drop")


def test_what_is_not_for_these_tables_is_refused_or_doubted(runs: Path) -> None:
    typed = runs.with_name("typed.tsv")
    typed.write_text("q1\thow\ttypo\n")
    check_refusals(
        {
            "UsageError NumRet score": lambda: evaluate(runs, measures="NumRet"),
            "UsageError typed dl": lambda: evaluate(runs, typed=typed),
        }
    )
    long = runs / MODELS / "seed-2/long.run.gz"
    content = long.read_bytes()
    shutil.copy(long.with_name("short.run.gz"), long)
    with pytest.raises(RunError, match=r"seed 2 .*\[identical-runs\]"):
        evaluate(runs)
    assert evaluate(runs, "identical").warnings == [
        f"{long} contains the same rankings as {long.with_name('short.run.gz')}"
    ]
    long.unlink()
    with pytest.raises(RunError, match=rf"{MODELS}/seed-2/long.run: .*\[missing-run"):
        evaluate(runs)
    result = evaluate(runs, "partial")
    assert result.figures.names("model") == ["all", "short", "long"]
    (warning,) = result.warnings
    assert warning.startswith("mine on dl (length): no run without long (seed 2); seed 1 alone can")
    long.write_bytes(content)

    write(runs / "mine-all", "../length", (1, 1, 1, 1))
    of_short = f"{MODELS}/seed-1/short.run.json"
    for other, name in (
        (f"{MODELS}/seed-1/long.run.json", "mine on dl (length)"),
        ("mine-all/extra/dl/length.run.json", "mine-all and mine on dl"),
    ):
        for run, digest in ((of_short, "a"), (other, "b")):
            (runs / run).write_text(json.dumps({"passages": {"sha256": digest * 64}}))
        with pytest.raises(RunError, match=r"\[other-passages"):
            evaluate(runs)
        result = evaluate(runs, "other-data")
        assert result.figures.where(figure="drop", against="mine-all")
        assert any(f"in {name} (--allow other-data)" in warning for warning in result.warnings)
        (runs / other).unlink()


VARIANT_RANKS: dict[str, tuple[int, int]] = {"": (1, 2), "a": (2, 4), "b": (1, 2)}
"""Method, "" for queries as they are -> the rank of the relevant passage, for a model that saw the
query's group and one that did not."""

Evaluate = Callable[..., Result]


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length")


@pytest.fixture(scope="module")
def rows(data: Path) -> list[Row]:
    tests = open_dataset(data).test_sets(SHIFTS["length"]).values()
    return sorted(row for members in tests for row in members)


def ranked(row: Row, held_out: str, method: str) -> tuple[str, list[str]]:
    rank = VARIANT_RANKS[method][row.group == held_out]
    ranking = [f"filler{n}" for n in range(5)]
    ranking.insert(rank - 1, row.relevant_doc_ids[0])
    return f"{row.query_id}#{method}" if method else row.query_id, ranking


@pytest.fixture
def variant_runs(rows: list[Row], tmp_path: Path) -> Path:
    """A run set, and its runs on variants by two methods, the second of which changes nothing."""
    for group in ("short", "long"):
        run = tmp_path / f"runs/dense/length/{group}.run"
        write_run(run, [ranked(row, group, "") for row in rows])
        typed = [ranked(row, group, method) for row in rows for method in "ab"]
        write_run(tmp_path / f"runs/dense/extra/typed/length/{group}.run", typed)
    return tmp_path / "runs"


@pytest.fixture
def evaluate_variants(variant_runs: Path, data: Path, rows: list[Row], tmp_path: Path) -> Evaluate:
    """A function that evaluates the runs on a file of variants."""
    texts = {"a": "{}x", "b": "{}"}
    variants = [
        Variant(r.query_id, texts[m].format(r.text), m) for r in reversed(rows) for m in "ba"
    ]
    write_variants(tmp_path / "typed.tsv", [*variants, Variant("nowhere", "another query", "a")])

    def run(*allow: str, name: str = "typed", data: Path = data, **settings: Any) -> Result:
        test_sets = {name: tmp_path / "typed.tsv"}
        return evaluate_extra_tests(
            variant_runs, test_sets, data, settings=Settings(**settings), allow=allow
        )

    return run


def test_losses_by_model_method_and_group(
    evaluate_variants: Evaluate, rows: list[Row], build_once: Build, tmp_path: Path
) -> None:
    result = evaluate_variants()
    lost = result.figures.where(figure="loss_by_change")
    assert [(row.model, row.slice) for row in lost] == [
        ("short", ""), ("long", ""), ("mean", ""), ("mean", "b"), ("mean", "a"),
    ]  # fmt: skip
    of_short = sum(row.group == "short" for row in rows)
    # 1 as it is for the others' queries and 1/2 for its own; a variant by "a" halves rankings.
    as_is = (of_short / 2 + len(rows) - of_short) / len(rows)
    values = {row.figure: row for row in result.figures.where(model="short")}
    assert values["as_is"].value == pytest.approx(as_is)
    assert values["changed"].value == pytest.approx(0.75 * as_is)
    row = values["loss_by_change"]
    assert (row.value, row.queries, row.seeds) == (pytest.approx(0.25), len(rows), 1)
    assert lost[4].value == pytest.approx(0.5)
    assert (lost[3].value, lost[3].p) == (0.0, 1.0)
    # It is the inference of any loss, paired by query.
    plain = np.array([[0.5 if row.group == "short" else 1.0 for row in rows]])
    expected = losses(plain, 0.75 * plain)["rel_loss"]
    uncertainty = expected.uncertainty()
    assert row.interval == pytest.approx(uncertainty.interval(0.25, 0.95))

    for group in ("short", "long", "mean"):
        values = {row.figure: row.value for row in result.figures.where(group=group)}
        assert values == {
            "loss_by_change_in": pytest.approx(0.25), "loss_by_change_out": pytest.approx(0.25),
            "out_minus_in": pytest.approx(0), "rel_loss": pytest.approx(0.5),
            "rel_loss_changed": pytest.approx(0.5),
        }  # fmt: skip
    contents = f"typed (length): {2 * len(rows)} variants"
    assert f"{contents}, {len(rows)} of them as the query" in [note.text for note in result.notes]
    # A data set of ids does not tell which variants are as the query.
    again = evaluate_variants(data=build_once("mini:300", "length", texts=False))
    assert contents in [note.text for note in again.notes]
    # Where a mean is 0, nothing can be lost.
    finds_nothing = evaluate_variants(measures="RR@1").figures
    assert finds_nothing.names("model") == ["short", "long", "mean"]
    assert not finds_nothing.where(group=("short", "long", "mean"))
    # No run lacks a query.
    for same in (again, evaluate_variants(missing="skip")):
        assert list(same.figures) == list(result.figures)
    write_variants(tmp_path / "typed.tsv", [Variant(row.query_id, row.text, "a") for row in rows])
    of_one = [table.title.partition(": ")[2] for table in evaluate_variants().tables()]
    assert of_one == ["loss of each model", "does the shift add to it?"]


def test_what_does_not_belong_together_is_refused_or_doubted(
    evaluate_variants: Evaluate, variant_runs: Path, tmp_path: Path
) -> None:
    system = variant_runs / "dense"
    short, long = (system / f"extra/typed/length/{group}.run" for group in ("short", "long"))

    def refuse(case: str, allowance: str = "", warning: str = "", **options: Any) -> None:
        check_refusals({case: partial(evaluate_variants, **options)})
        if allowance:
            assert any(warning in text for text in evaluate_variants(allowance).warnings)

    def say(run: Path, weights: str, **content: Any) -> None:
        training = {"training": {"weights_sha256": weights}, "parameters": {}}
        run.with_suffix(".run.json").write_text(json.dumps(training | content))

    refuse("a sum: UsageError NumRet score", measures="NumRet")
    refuse("another name: NotFoundError extra/other --extra-test", name="other")
    content = long.read_bytes()
    long.write_bytes(short.read_bytes())
    refuse("twice: RunError [identical-runs] long.run --allow fix", "identical", "short.run")
    typed = {short: short.read_text(), long: content.decode()}
    for run, method in ((short, "#a "), (long, "#b ")):
        lines = typed[run].splitlines(keepends=True)
        run.write_text("".join(line for line in lines if method in line))
    refuse("no variant of both models: DataError dense", missing="skip")
    for run, text in typed.items():
        run.write_text(text)
    os.renames(system / "length", tmp_path / "plain")
    os.renames(tmp_path / "plain", system / "length" / "seed-1")
    refuse("other seeds: RunError [other-seeds] dense 1 none --allow fix")
    with pytest.raises(DataError, match="seed"):
        evaluate_variants("partial")
    os.renames(system / "length" / "seed-1", tmp_path / "plain")
    os.renames(tmp_path / "plain", system / "length")
    plain = system / "length/short.run"
    for run in (plain, plain.with_name("long.run"), short, long):
        say(run, "1")
    evaluate_variants()
    say(short, "2")
    refuse("another model: RunError [other-model] short.run fix")
    # The loss of a variant is none, if its run had other passages to find.
    for run, passages in ((plain, "a"), (short, "b")):
        say(run, "1", passages={"sha256": passages * 64})
    facts = "short.run bbbbbbbbbbbb aaaaaaaaaaaa --allow fix"
    refuse(f"other passages: RunError [other-passages] {facts}", "other-data", "bbbbbbbbbbbb")
    short.unlink()
    refuse(
        "no run: RunError [missing-run] short.run --allow fix", "partial", "no run without short"
    )
    assert evaluate_variants("partial").figures.names("model") == ["long"]
    (system / "length").rename(tmp_path / "elsewhere")
    (system / "wh-words.run").touch()
    refuse("no run on the queries as they are: RunError dense/length")
    write_variants(tmp_path / "typed.tsv", [Variant("nowhere", "text", "a")])
    refuse("variants of other queries: DataError typed.tsv 1 length --shift")
