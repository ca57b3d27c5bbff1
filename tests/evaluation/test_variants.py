"""Run sets on variants of queries: what each model loses, by method and by group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.fabricated import write_run
from msshift_bench.data import (
    Variant,
    VariantFile,
    open_dataset,
    read_extra_tests,
    read_variants,
    write_variants,
)
from msshift_bench.errors import (
    CollectionError,
    DataError,
    NotFoundError,
    RunError,
    UsageError,
)
from msshift_bench.evaluation import (
    CompoundFigure,
    Settings,
    VariantFigure,
    VariantReport,
    evaluate_variants,
)
from msshift_bench.records import Row
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import group_loss
from tests.conftest import Build, Command

RANKS: Mapping[str, tuple[int, int]] = {"": (1, 2), "a": (2, 4), "b": (1, 2)}
"""Method, "" for queries as they are -> the rank of the relevant passage, for a model that saw the
query's group and one that did not."""


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
def file(rows: list[Row], tmp_path: Path) -> Path:
    texts = {"a": "{}x", "b": "{}"}
    made = [Variant(r.query_id, texts[m].format(r.text), m) for r in reversed(rows) for m in "ba"]
    write_variants(tmp_path / "typed.tsv", [*made, Variant("nowhere", "another query", "a")])
    return tmp_path / "typed.tsv"


def by_model(report: VariantReport) -> dict[tuple[str, str], VariantFigure]:
    return {(one.model, one.method): one for one in report.figures}


def test_losses_by_model_method_and_group(
    data: Path, rows: list[Row], runs: Path, file: Path, build_once: Build
) -> None:
    report = evaluate_variants(runs, {"typed": file}, data)
    found = by_model(report)
    models = ("short", "long", "mean")
    assert list(found) == [(model, "all") for model in models] + [("mean", "b"), ("mean", "a")]
    own = sum(row.group == "short" for row in rows)
    # 1 as it is for the others' queries and 1/2 for its own; a variant by "a" halves both.
    as_is = (own / 2 + len(rows) - own) / len(rows)
    one = found["short", "all"]
    assert (one.score, one.changed) == (pytest.approx(as_is), pytest.approx(0.75 * as_is))
    assert (one.loss, one.queries, one.seeds) == (pytest.approx(0.25), len(rows), 1)
    assert found["mean", "a"].loss == pytest.approx(0.5)
    same = found["mean", "b"]
    assert (same.loss, same.p) == (0.0, 1.0)
    # It is the inference of any loss, paired by query.
    plain = [0.5 if row.group == "short" else 1.0 for row in rows]
    expected = group_loss([plain], [0.75 * score for score in plain])
    assert one.interval == pytest.approx(expected.intervals and expected.intervals.rel_loss)

    groups = {figure.group: figure for figure in report.compounds}
    assert list(groups) == ["short", "long", "mean"]
    for figure in groups.values():
        losses = figure.losses
        assert (losses.inside, losses.out) == (pytest.approx(0.25), pytest.approx(0.25))
        assert (losses.rel_loss, losses.rel_loss_changed) == (pytest.approx(0.5),) * 2
        assert losses.difference == pytest.approx(0)
    assert report.contents == [
        f"typed (length): {2 * len(rows)} variants, {len(rows)} of them as the query"
    ]
    # A data set of ids does not tell which variants are as the query.
    without = build_once("mini:300", "length", texts=False)
    again = evaluate_variants(runs, {"typed": file}, without)
    assert (again.contents, again.figures) == (
        [f"typed (length): {2 * len(rows)} variants"],
        report.figures,
    )


def test_tables_name_the_level_of_their_intervals(data: Path, runs: Path, file: Path) -> None:
    settings = Settings(confidence=0.975)
    report = evaluate_variants(runs, {"typed": file}, data, settings=settings)
    headers = [table.header for table in report.tables()]
    assert len(headers) == 3
    assert all("97.5%" in header and "95%" not in header for header in headers)


def test_a_difference_between_in_and_out_is_what_the_shift_adds(
    data: Path, rows: list[Row], runs: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RANKS, "a", (1, 4))  # type: ignore[index]
    for group in ("short", "long"):
        typed = [ranked(row, group, method) for row in rows for method in "ab"]
        write_run(runs / f"dense/also/typed/length/{group}.run", typed)
    report = evaluate_variants(runs, {"typed": file}, data, settings=Settings(missing="skip"))
    for figure in report.compounds:
        losses = figure.losses
        assert (losses.inside, losses.out) == (0, pytest.approx(0.25))
        assert losses.rel_loss_changed == pytest.approx(1 - 0.5 * 0.75)
    kinds: list[type[Any]] = [VariantFigure, CompoundFigure]
    assert [type(one) for one in (report.figures[0], report.compounds[0])] == kinds


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
        both = [ranked(r, group, "") for r in rows] + [ranked(r, group, "a") for r in half]
        write_run(runs / f"dense/also/dl19/length/{group}.run.gz", both)
    done = msshift("evaluate", "runs", "--also-test", "dl19=dl19", "--json", "--output", "out.json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "out.json").read_text())
    assert {one["queries"] for one in found["figures"]} == {len(half)}
    assert [one["loss"] for one in found["figures"]] == pytest.approx([0.5] * 3)
    # Its queries are of no group, so that nothing is In or Out.
    assert found["compounds"] == []


def test_what_does_not_belong_together_is_refused(
    data: Path, runs: Path, file: Path, rows: list[Row], tmp_path: Path, msshift: Command
) -> None:
    def refused(kind: type[Exception], words: str, given: Path = file, **options: Any) -> None:
        with pytest.raises(kind, match=words):
            evaluate_variants(runs, {"typed": given}, data, **options)

    refused(UsageError, "NumRet is a sum", settings=Settings(measures="NumRet"))
    foreign = tmp_path / "foreign.tsv"
    write_variants(foreign, [Variant("nowhere", "text", "a")])
    refused(DataError, "none of the 1 variants in .* is one of a test query of length", foreign)
    with pytest.raises(NotFoundError, match=r"they lie in <system>/also/other, and .*=.*typed.tsv"):
        evaluate_variants(runs, {"other": file}, data)
    system = runs / "dense"
    long = system / "also/typed/length/long.run"
    kept = long.read_bytes()
    long.write_bytes((system / "also/typed/length/short.run").read_bytes())
    refused(RunError, r"long.run: is the same file, byte for byte, as .*short.run")
    assert evaluate_variants(runs, {"typed": file}, data, allow_identical=True).remarks
    long.write_bytes(kept)
    for group, weights in (("short", "1"), ("long", "1")):
        for place, digest in (("length", "1"), ("also/typed/length", weights)):
            said = {"training": {"weights_sha256": digest}, "parameters": {}}
            (system / place / f"{group}.run.json").write_text(json.dumps(said))
    evaluate_variants(runs, {"typed": file}, data)
    other = {"training": {"weights_sha256": "2"}, "parameters": {}}
    (system / "also/typed/length/short.run.json").write_text(json.dumps(other))
    refused(RunError, "another model or other parameters than that of .*short.run")
    # The loss of a variant is none, if its run had other passages to find.
    for place, passages in (("length", "a"), ("also/typed/length", "b")):
        said = {"training": {"weights_sha256": "1"}, "passages": {"sha256": passages * 64}}
        (system / place / "short.run.json").write_text(json.dumps(said))
    refused(RunError, "runs of one system are of different passages")
    forced = evaluate_variants(runs, {"typed": file}, data, force_data=True)
    assert forced.remarks == [
        "dense on typed (length): its runs are of 2 different collections of passages "
        "(--force-data)"
    ]
    (system / "also/typed/length/short.run.json").unlink()
    (system / "also/typed/length/short.run").unlink()
    refused(RunError, "no run of the model trained without 'short'")
    report = evaluate_variants(runs, {"typed": file}, data, allow_partial=True)
    assert {one.model for one in report.figures} == {"long"}
    assert report.remarks == ["dense on typed (length): no pair of runs for short"]
    (system / "length").rename(tmp_path / "elsewhere")
    (system / "wh-words.run").touch()
    refused(RunError, "none on the queries as they are, in dense/length")

    (tmp_path / "dl19").mkdir()
    for words, said in (
        (["typed=typed.tsv", "dl19=dl19"], "typed holds variants of queries and dl19 does not"),
        (["typed=nowhere.tsv"], "no folder nowhere.tsv for the test set typed"),
    ):
        given = [part for word in words for part in ("--also-test", word)]
        done = msshift("evaluate", "runs", "--data", data, *given)
        assert (done.returncode != 0, said in done.stderr) == (True, True), done.stderr


def test_malformed_variants_are_named_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "typed.tsv"
    path.write_text("1\tcheap\ta\n1\tchaep\ta\n2\t \ta\n3\tx\ttwo words\n4\tx\ta#b\n5\tx\n")
    with pytest.raises(CollectionError) as caught:
        read_variants(path)
    for said in (
        ":2: query '1' has a variant by a already",
        ":3: the variant of query '2' has no text",
        ":4: 'two words' is not a method's name",
        ":5: 'a#b' is not a method's name",
        ":6: 2 tab-separated fields where 3 were expected",
    ):
        assert said in str(caught.value)
    path.write_text("")
    with pytest.raises(CollectionError, match="the file holds no variant"):
        read_variants(path)
    with pytest.raises(DataError, match="the variant of query '1' holds a tab or a line break"):
        write_variants(path, [Variant("1", "cheap\nflights", "a")])
    kept = Variant("1", "che\x85ap \u2028 flights\x0c", "a")
    write_variants(path, [kept])
    assert read_variants(path) == (kept,)
    write_variants(path, [Variant("1", "cheap", "a")])
    (read,) = read_extra_tests({"typed": path})
    assert isinstance(read, VariantFile)
    assert repr(read) == "<VariantFile typed: 1 variants>"
    folder = tmp_path / "dl19"
    folder.mkdir()
    (folder / "queries.tsv").write_text("2\twhat\n")
    (folder / "qrels.tsv").write_text("2 0 d 1\n")
    path.rename(folder / "variants.tsv")
    with pytest.raises(CollectionError, match=r"variants\.tsv:1: there is no query '1'"):
        read_extra_tests({"dl19": folder})
