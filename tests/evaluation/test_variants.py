"""Run sets on variants of queries: what each model loses, by method and by group."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.data import Variant, open_dataset, write_variants
from msshift_bench.errors import DataError, NotFoundError, RunError, UsageError
from msshift_bench.evaluation import Result, Settings, evaluate_also_tests
from msshift_bench.records import Row
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, Command
from tests.support.fabricated import write_run
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
    system = tmp_path / "runs" / "dense"
    for group in ("short", "long"):
        write_run(system / f"length/{group}.run", [ranked(row, group, "") for row in rows])
        typed = [ranked(row, group, method) for row in rows for method in "ab"]
        write_run(system / f"also/typed/length/{group}.run", typed)
    return system.parent


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
    assert expected is not None
    uncertainty = expected.uncertainty()
    assert uncertainty is not None
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
    assert list(again.figures) == list(result.figures)


@pytest.mark.parametrize("missing", ["zero", "skip"])
def test_a_difference_between_in_and_out_is_what_the_shift_adds(
    evaluate: Evaluate,
    rows: list[Row],
    runs: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
) -> None:
    monkeypatch.setitem(RANKS, "a", (1, 4))
    for group in ("short", "long"):
        typed = [ranked(row, group, method) for row in rows for method in "ab"]
        write_run(runs / f"dense/also/typed/length/{group}.run", typed)
    result = evaluate(missing=missing, confidence=0.975)
    for group in ("short", "long", "mean"):
        values = {row.figure: row.number for row in result.figures.where(group=group)}
        assert (values["loss_by_change_in"], values["loss_by_change_out"]) == (
            0,
            pytest.approx(0.25),
        )
        assert values["rel_loss_changed"] == pytest.approx(1 - 0.5 * 0.75)
        assert (1 - values["rel_loss_changed"]) / (1 - values["rel_loss"]) == pytest.approx(
            (1 - values["loss_by_change_out"]) / (1 - values["loss_by_change_in"])
        )
    by_model, by_method, compound = result.tables()
    assert all("97.5%" in table.header for table in (by_model, by_method, compound))
    sizes = {group: sum(row.group == group for row in rows) for group in ("short", "long")}
    assert [[cell.text for cell in row[1:6]] for row in compound.rows] == [
        *([group, str(count), "0.0%", "25.0%", "25.0%"] for group, count in sizes.items()),
        ["mean", str(len(rows)), "0.0%", "25.0%", "25.0%"],
    ]
    assert [row[1].text for row in by_model.rows] == ["short", "long", "mean"]
    assert [row[1].text for row in by_method.rows] == ["b", "a"]
    texts = "\n".join(note.text for note in result.notes)
    assert "above 0, their difference says that shift and change compound" in texts
    assert "97.5% intervals: queries only; variants are taken as they are" in texts


def test_a_folder_holds_queries_and_variants_in_one_run(
    rows: list[Row], runs: Path, tmp_path: Path, msshift: Command
) -> None:
    folder = tmp_path / "dl19"
    folder.mkdir()
    (folder / "queries.tsv").write_text("".join(f"{r.query_id}\t{r.text}\n" for r in rows))
    judged = "".join(f"{r.query_id} 0 {r.relevant_doc_ids[0]} 2\n" for r in rows)
    (folder / "qrels.tsv").write_text(judged)
    half = rows[::2]
    write_variants(folder / "variants.tsv", [Variant(r.query_id, "typed", "a") for r in half])
    for group in ("short", "long"):
        rankings = [ranked(r, group, "") for r in rows] + [ranked(r, group, "a") for r in half]
        write_run(runs / f"dense/also/dl19/length/{group}.run.gz", rankings)
    ask = ("evaluate", "runs", "--also-test", "dl19=dl19", "--format", "json")
    done = msshift(*ask, "--output", "out.json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content == json.loads((tmp_path / "out.json").read_text())
    lost = [row for row in content["figures"] if row["figure"] == "loss_by_change"]
    assert [row["value"] for row in lost] == pytest.approx([0.5] * 3)
    assert {row["queries"] for row in content["figures"]} == {len(half)}
    # Its queries are of no group, so that nothing is In or Out.
    assert not any("group" in row for row in content["figures"])


def say(system: Path, sidecars: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the sidecars of runs, by the run's place."""
    for place, content in sidecars.items():
        (system / f"{place}.run.json").write_text(json.dumps(content))


def test_what_does_not_belong_together_is_refused(
    evaluate: Evaluate, runs: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="NumRet is a sum"):
        evaluate(measures="NumRet")
    with pytest.raises(NotFoundError, match=r"they lie in <system>/also/other, and .*=.*typed.tsv"):
        evaluate(name="other")
    system, typed = runs / "dense", "also/typed/length/"
    long = system / typed / "long.run"
    content = long.read_bytes()
    long.write_bytes((system / typed / "short.run").read_bytes())
    with pytest.raises(RunError, match=r"long.run: holds the same rankings as .*short.run"):
        evaluate()
    assert evaluate("identical").doubts
    long.write_bytes(content)

    same = {"training": {"weights_sha256": "1"}, "parameters": {}}
    places = ("length/short", "length/long", f"{typed}short", f"{typed}long")
    say(system, dict.fromkeys(places, same))
    evaluate()
    say(system, {f"{typed}short": {"training": {"weights_sha256": "2"}, "parameters": {}}})
    with pytest.raises(RunError, match=r"another model or other parameters than that of .*short.r"):
        evaluate()
    # The loss of a variant is none, if its run had other passages to find.
    for place, passages in (("length/short", "a"), (f"{typed}short", "b")):
        say(system, {place: {**same, "passages": {"sha256": passages * 64}}})
    with pytest.raises(RunError, match="runs of one system are of different passages"):
        evaluate()
    assert evaluate("other-data").doubts == [
        "dense on typed (length): its runs are of 2 different collections of passages "
        "(--allow other-data)",
        "dense on typed (length): RR@10 counts no passage behind rank 6: no ranking is longer "
        "(2 of 2 run files)",
    ]


def test_missing_runs_and_foreign_queries_are_refused(
    evaluate: Evaluate, runs: Path, tmp_path: Path
) -> None:
    system = runs / "dense"
    (system / "also/typed/length/short.run").unlink()
    with pytest.raises(RunError, match="no run of the model trained without 'short'"):
        evaluate()
    result = evaluate("partial")
    assert result.figures.names("model") == ["long"]
    assert "dense on typed (length): no pair of runs for short" in result.doubts
    (system / "length").rename(tmp_path / "elsewhere")
    (system / "wh-words.run").touch()
    with pytest.raises(RunError, match="none on the queries as they are, in dense/length"):
        evaluate("partial")
    write_variants(tmp_path / "typed.tsv", [Variant("nowhere", "text", "a")])
    with pytest.raises(
        DataError, match=r"none of the 1 variants in .* is one of a test query of len"
    ):
        evaluate()
