"""Run sets on variants of queries: what each model loses, by method and by group."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.data import Variant, open_dataset, write_variants
from msshift_bench.errors import MsShiftError
from msshift_bench.evaluation import Result, Settings, evaluate_also_tests
from msshift_bench.records import Row
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build
from tests.support.fabricated import write_run
from tests.support.golden import Golden
from tests.support.made_scores import losses

RANKS: dict[str, tuple[int, int]] = {"": (1, 2), "a": (2, 4), "b": (1, 2)}
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
    rank = RANKS[method][row.group == held_out]
    ranking = [f"filler{n}" for n in range(5)]
    ranking.insert(rank - 1, row.relevant_doc_ids[0])
    return f"{row.query_id}#{method}" if method else row.query_id, ranking


@pytest.fixture
def runs(rows: list[Row], tmp_path: Path) -> Path:
    """A run set, and its runs on variants by two methods, the second of which changes nothing."""
    for group in ("short", "long"):
        run = tmp_path / f"runs/dense/length/{group}.run"
        write_run(run, [ranked(row, group, "") for row in rows])
    write_typed(tmp_path / "runs", rows)
    return tmp_path / "runs"


def write_typed(runs: Path, rows: list[Row]) -> None:
    for group in ("short", "long"):
        typed = [ranked(row, group, method) for row in rows for method in "ab"]
        write_run(runs / f"dense/also/typed/length/{group}.run", typed)


@pytest.fixture
def evaluate(runs: Path, data: Path, rows: list[Row], tmp_path: Path) -> Evaluate:
    """A function that evaluates the runs on a file of variants."""
    texts = {"a": "{}x", "b": "{}"}
    variants = [
        Variant(r.query_id, texts[m].format(r.text), m) for r in reversed(rows) for m in "ba"
    ]
    write_variants(tmp_path / "typed.tsv", [*variants, Variant("nowhere", "another query", "a")])

    def run(*allow: str, name: str = "typed", data: Path = data, **settings: Any) -> Result:
        also = {name: tmp_path / "typed.tsv"}
        return evaluate_also_tests(runs, also, data, settings=Settings(**settings), allow=allow)

    return run


def test_losses_by_model_method_and_group(
    evaluate: Evaluate, rows: list[Row], build_once: Build
) -> None:
    result = evaluate()
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
    again = evaluate(data=build_once("mini:300", "length", texts=False))
    assert contents in [note.text for note in again.notes]
    # No run lacks a query.
    for same in (again, evaluate(missing="skip")):
        assert list(same.figures) == list(result.figures)


def test_what_does_not_belong_together_is_refused_or_doubted(
    evaluate: Evaluate, runs: Path, tmp_path: Path, golden: Golden
) -> None:
    system = runs / "dense"
    short, long = (system / f"also/typed/length/{group}.run" for group in ("short", "long"))
    texts: list[str] = []

    def refuse(wrong: str, allowance: str = "", **options: Any) -> None:
        with pytest.raises(MsShiftError) as caught:
            evaluate(**options)
        texts.append(f"# {wrong}\n{type(caught.value).__name__}: {caught.value}")
        if allowance:
            texts.extend(f"--allow {allowance}: {doubt}" for doubt in evaluate(allowance).doubts)

    def say(run: Path, weights: str, **content: Any) -> None:
        training = {"training": {"weights_sha256": weights}, "parameters": {}}
        run.with_suffix(".run.json").write_text(json.dumps(training | content))

    refuse("a sum", measures="NumRet")
    refuse("runs of another name", name="other")
    content = long.read_bytes()
    long.write_bytes(short.read_bytes())
    refuse("one file twice", "identical")
    long.write_bytes(content)
    plain = system / "length/short.run"
    for run in (plain, plain.with_name("long.run"), short, long):
        say(run, "1")
    evaluate()
    say(short, "2")
    refuse("another model")
    # The loss of a variant is none, if its run had other passages to find.
    for run, passages in ((plain, "a"), (short, "b")):
        say(run, "1", passages={"sha256": passages * 64})
    refuse("other passages", "other-data")
    short.unlink()
    refuse("no run", "partial")
    assert evaluate("partial").figures.names("model") == ["long"]
    (system / "length").rename(tmp_path / "elsewhere")
    (system / "wh-words.run").touch()
    refuse("no run on the queries as they are")
    write_variants(tmp_path / "typed.tsv", [Variant("nowhere", "text", "a")])
    refuse("variants of other queries")
    golden.check("variants-refused.txt", "\n".join(texts) + "\n")
