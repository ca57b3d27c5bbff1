"""A collection whose queries are documents: from the build to BEIR's figures, at every door."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from msshift_bench import (
    Settings,
    compare_run_sets,
    evaluate,
    evaluate_extra_tests,
    evaluate_run_sets,
    load_triples,
    open_collection,
    open_dataset,
    read_run,
    score_runs,
    verify_dataset,
    write_run,
)
from msshift_bench.baselines.training.training_data import _first_examples
from msshift_bench.data import Variant, write_variants
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import UsageError
from msshift_bench.evaluation import Result
from msshift_bench.shifts import get_shift
from tests.conftest import Command
from tests.support.arguments import write_arguments
from tests.support.making import make_runs, plan_runs
from tests.support.refusals import check_exits, check_refusals
from tests.support.run_files import sidecar
from tests.support.tiny_recipes import tiny_recipe

pytestmark = pytest.mark.extended

MEASURES = "nDCG@10 RR@10 R@5"
DEPTH = 10


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the collection ``beir``, and its data sets ``own`` and ``plain``.

    ``own`` excludes own ids, and ``plain`` nothing. ``runs-own`` and ``runs-plain`` have BM25's
    runs for them.
    """
    folder = tmp_path_factory.mktemp("arguments")
    beir = write_arguments(folder / "beir")
    for name, exclude in (("own", "own-id"), ("plain", None)):
        build_dataset(beir, ["length"], folder / name, exclude=exclude)
        bm25(folder, name, DEPTH if exclude else DEPTH + 1)
    return folder


def bm25(folder: Path, name: str, depth: int, **options: Any) -> Path:
    """Make BM25's run for a data set of `arguments`."""
    given = {"collection": folder / "beir", "data": folder / name, "out": folder / f"runs-{name}"}
    (run,) = make_runs("bm25", depth=depth, **{**given, **options})
    return run


def by_beir(run: Path, data: Path) -> dict[tuple[str, str], float]:
    """Return group and measure -> the figure, as BEIR's `EvaluateRetrieval.evaluate` computes it.

    It removes the passage with the query's id from the run, and then calls trec_eval. Each query
    has one relevant passage.
    """
    rankings, figures = read_run(run), {}
    for group, rows in open_dataset(data).test_sets(get_shift("length")).items():
        ranks = []
        for row in rows:
            found = sorted(
                ((score, doc_id) for doc_id, score in rankings[row.query_id].items()), reverse=True
            )
            left = [doc_id for _, doc_id in found if doc_id != row.query_id]
            (relevant,) = row.relevant_doc_ids
            ranks.append(left.index(relevant) + 1 if relevant in left else math.inf)
        cut = {cutoff: [rank for rank in ranks if rank <= cutoff] for cutoff in (5, 10)}
        figures[group, "nDCG@10"] = sum(1 / math.log2(rank + 1) for rank in cut[10]) / len(ranks)
        figures[group, "RR@10"] = sum(1 / rank for rank in cut[10]) / len(ranks)
        figures[group, "R@5"] = len(cut[5]) / len(ranks)
    return figures


def figures_of(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Return group and measure -> score."""
    return {
        (row["group"], row["measure"]): row["value"]
        for row in rows
        if row["figure"] == "score" and row["group"] != "mean"
    }


def in_python(result: Result) -> dict[tuple[str, str], float]:
    return figures_of(row._asdict() for row in result.figures)


def test_from_a_folder_of_beir_to_its_figures(arguments: Path, msshift: Command) -> None:
    def done(words: str) -> tuple[str, str]:
        result = msshift(*words.format(folder=arguments).split())
        assert result.returncode == 0, result.stderr
        return result.stdout, result.stderr

    source = "--collection {folder}/beir"
    done(f"build length {source} --exclude own-id --out own")
    done(f"run bm25 --data own {source} --set depth={DEPTH}")
    printed, said = done(
        f"evaluate runs --data own --measures {MEASURES.replace(' ', ',')} --verbose"
    )
    assert "excluded when the data set was built: own-id" in printed
    assert "own-id-first" not in said
    printed, _ = done(
        f"evaluate runs --data own --measures {MEASURES.replace(' ', ',')} --format json"
    )
    expected = by_beir(arguments / "runs-plain/bm25/length.run.gz", arguments / "own")
    assert figures_of(json.loads(printed)["figures"]) == pytest.approx(expected)
    assert 0.3 < expected["short", "RR@10"] < 1


def test_a_run_with_own_ids_has_a_warning_or_beir_s_figures(
    arguments: Path, tmp_path: Path, msshift: Command
) -> None:
    run = arguments / "runs-plain/bm25/length.run.gz"
    first = {query_id: dict(list(docs.items())[:4]) for query_id, docs in read_run(run).items()}
    write_run(tmp_path / "copy/length.run.gz", first)
    runs = arguments / "runs-plain/bm25"
    for words in (f"evaluate {runs}", f"compare {runs} copy", f"score {run} --test length-short"):
        command = f"{words} --data {arguments}/plain --verbose"
        done = msshift(*command.split())
        assert "[own-id-first]" in done.stderr
        assert "--exclude own-id" in done.stderr
        without = msshift(*command.split(), "--exclude", "own-id")
        assert "own-id-first" not in without.stderr
        assert "excluded: own-id" in without.stdout
    expected = by_beir(run, arguments / "plain")
    settings = Settings(MEASURES, exclude="own-id")
    result = evaluate_run_sets(arguments / "runs-plain", arguments / "plain", settings=settings)
    assert in_python(result) == pytest.approx(expected)
    assert result.to_json()["settings"]["exclude"] == "own-id"
    found = evaluate_run_sets(arguments / "runs-plain", arguments / "own", settings=MEASURES)
    assert in_python(found) == pytest.approx(by_beir(run, arguments / "own"))
    assert found.to_json()["data"]["exclude"].startswith("own-id")


def test_single_runs_of_every_kind_obey_the_data_set(arguments: Path) -> None:
    run = arguments / "runs-plain/bm25/length.run.gz"
    expected = by_beir(run, arguments / "own")
    loaded = read_run(run)
    rows = [(q, d, s) for q, docs in loaded.items() for d, s in docs.items()]
    for source in (run, loaded, rows):
        result = score_runs([source], "length-short", MEASURES, data=arguments / "own")
        for measure in MEASURES.split():
            (figure,) = result.figures.where(figure="score", measure=measure)
            assert figure.value == pytest.approx(expected["short", measure])
    scores = result.per_query().to_pylist()
    assert sum(row["score"] for row in scores if row["measure"] == "RR@10") / (
        len(scores) / 3
    ) == pytest.approx(expected["short", "RR@10"])


class Words:
    """A model in memory that ranks by the number of common words, the query itself first."""

    def __init__(self, collection: Path) -> None:
        passages = open_collection(collection).passages()
        self.words = {one.doc_id: set(one.text.lower().split()) for one in passages}
        self.depths: set[int] = set()

    def search(self, queries: list[str], k: int) -> list[dict[str, float]]:
        self.depths.add(k)
        return [self.rank(set(text.lower().split()), k) for text in queries]

    def rank(self, words: set[str], k: int) -> dict[str, float]:
        scores = {doc_id: float(len(words & of)) for doc_id, of in self.words.items()}
        return dict(sorted(scores.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)[:k])


def test_a_model_in_memory_ranks_one_passage_more(arguments: Path, tmp_path: Path) -> None:
    given = {"collection": arguments / "beir", "depth": DEPTH, "progress": False}
    deeper = Words(arguments / "beir")
    written = evaluate(
        Words(arguments / "beir"),
        "length",
        data=arguments / "plain",
        runs=tmp_path,
        measures=MEASURES,
        **{**given, "depth": DEPTH + 1},
    )
    assert any("own-id-first" in line for line in written.warnings)
    for data, settings in (("own", MEASURES), ("plain", Settings(MEASURES, exclude="own-id"))):
        result = evaluate(deeper, "length", data=arguments / data, measures=settings, **given)
        assert in_python(result) == pytest.approx(
            by_beir(tmp_path / "Words/length.run.gz", arguments / data)
        )
        (scored,) = result.scores[0].runs.values()
        assert scored.report.lines == DEPTH * len(scored.missing)
    assert deeper.depths == {DEPTH + 1}


def test_rankings_keep_their_depth_without_own_ids(arguments: Path) -> None:
    own, plain = (
        read_run(arguments / f"runs-{name}/bm25/length.run.gz") for name in ("own", "plain")
    )
    for query_id, ranking in own.items():
        assert query_id not in ranking
        expected = [doc_id for doc_id in plain[query_id] if doc_id != query_id]
        assert list(ranking) == expected[:DEPTH]
    assert max(map(len, own.values())) == DEPTH
    assert sidecar(arguments / "runs-own/bm25/length.run.gz")["exclude"] == "own-id"
    assert sidecar(arguments / "runs-plain/bm25/length.run.gz")["exclude"] is None


def test_a_run_that_excludes_is_another_run(arguments: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    tests = open_dataset(arguments / "plain").test_sets(get_shift("length"))
    query_ids = [row.query_id for rows in tests.values() for row in rows]
    pairs.write_text("".join(f"{name} {name}\n{name} {name[:7]}-x\n" for name in query_ids))
    by_file = bm25(arguments, "plain", DEPTH, out=tmp_path / "runs", exclude=pairs)
    assert read_run(by_file) == read_run(
        bm25(arguments, "plain", DEPTH, out=tmp_path / "other", exclude="own-id")
    )
    again = partial(bm25, arguments, "plain", DEPTH, out=tmp_path / "runs")
    check_refusals(
        {
            "without: UsageError exclude null pairs": again,
            "by another rule: UsageError exclude own-id": partial(again, exclude="own-id"),
            "contrary: UsageError --exclude own-id own": partial(
                bm25, arguments, "own", DEPTH, out=tmp_path / "third", exclude=pairs
            ),
        }
    )


def test_contrary_and_wrong_options_are_refused(
    arguments: Path, tmp_path: Path, msshift: Command
) -> None:
    (tmp_path / "pairs.tsv").write_text("arg-000-pro arg-001-pro\n")
    (tmp_path / "other.tsv").write_text("q1 d1\n")
    (tmp_path / "bad.tsv").write_text("q1 d1\nq2\n")
    (tmp_path / "a.run").write_text("arg-000-pro Q0 arg-000-con 1 1.0 t\n")
    (tmp_path / "qrels.txt").write_text("arg-000-pro 0 arg-000-con 1\n")
    own, plain = (f"evaluate {arguments}/runs-{n} --data {arguments}/{n}" for n in ("own", "plain"))
    check_exits(
        msshift,
        {
            f"{own} --exclude pairs.tsv": "2 --exclude own-id",
            f"{own} --exclude own-id": "0",
            f"{plain} --exclude other.tsv": "1 no-query-excluded other.tsv q1",
            f"{plain} --exclude bad.tsv": "1 field-count bad.tsv:2",
            f"{plain} --exclude none.tsv": "3 none.tsv own-id",
            "score a.run --qrels qrels.txt --exclude other.tsv": "1 no-query-excluded",
            "score a.run --qrels qrels.txt --exclude own-id": "0",
            "score a.run --qrels qrels.txt --check --exclude own-id": "0",
            "build length --collection mini:300 --exclude own-id": "2 own-id mini:300",
            "build length --collection mini:300 --exclude pairs.tsv": "2 pairs.tsv arg-000-pro",
        },
    )


def test_queries_without_another_relevant_passage_do_not_count(
    arguments: Path, tmp_path: Path, msshift: Command
) -> None:
    rows, others = (
        open_dataset(arguments / "plain").rows(f"length-{group}", "test")
        for group in ("short", "long")
    )
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{row.query_id} {row.relevant_doc_ids[0]}\n" for row in rows[:3]))
    command = f"evaluate {arguments}/runs-plain --data {arguments}/plain --exclude pairs.tsv"
    done = msshift(*command.split(), "--verbose")
    assert f"3 of {len(rows) + len(others)} queries have no relevant passage but" in done.stderr
    assert f"test queries: short {len(rows) - 3}, long {len(others)}" in done.stdout
    assert "unknown-query" not in done.stdout
    built = msshift(
        *f"build length --collection {arguments}/beir --out left --exclude pairs.tsv".split()
    )
    assert "3 queries without a relevant passage after --exclude" in built.stderr
    dataset = open_dataset(tmp_path / "left")
    left = {row.query_id for row in dataset.rows("length", "queries")}
    assert left.isdisjoint(row.query_id for row in rows[:3])
    assert verify_dataset(tmp_path / "left")[1] == []
    assert dataset.exclusions.pairs == {row.query_id: row.relevant_doc_ids for row in rows[:3]}
    run = make_runs(
        "bm25", data=dataset, collection=arguments / "beir", out=tmp_path / "runs", depth=DEPTH
    )
    assert sidecar(run[0])["exclude"] == dataset.exclusions.facts
    evaluated = msshift("evaluate", "runs", "--data", "left")
    assert "excluded when the data set was built: 3 pairs" in evaluated.stdout
    assert msshift("evaluate", "runs", "--data", "left", "--exclude", "pairs.tsv").returncode == 0


def test_equal_ids_that_mean_nothing_are_kept_without_a_warning(tmp_path: Path) -> None:
    """As in MIRACL, or where a query and its answer have the same number."""
    numbers = [str(number) for number in range(200)]
    answers = {number: {number: 1} for number in numbers}
    others = {number: {f"{number}00": 1, number: 0} for number in numbers}
    run = {number: {number: 2.0, f"{number}00": 1.0} for number in numbers}
    found = score_runs([run], answers, "RR@2")
    assert found.figures.first(figure="score").value == 1.0
    assert found.warnings == []
    rarely = {n: run[n] if int(n) < 19 else {f"{n}00": 1.0} for n in numbers}
    assert score_runs([rarely], others, "RR@2").warnings == []
    (warning,) = score_runs([run], others, "RR@2").warnings
    assert "[own-id-first]" in warning
    assert "200 of 200" in warning


def test_negatives_and_triples_obey_the_exclusions(arguments: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    build_dataset(arguments / "beir", ["length"], own, exclude="own-id")
    add_triples(own, arguments / "beir", count=6, depth=8)
    triples = list(load_triples(own, "length-short-triples"))
    assert triples
    assert not [triple for triple in triples if triple.query_id == triple.negative_id]
    assert verify_dataset(own)[1] == []
    assert open_dataset(own).exclusions.own_ids
    given = {"collection": arguments / "beir", "out": tmp_path / "runs", "held_out": ["short"]}
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(tiny_recipe("bi-encoder"))
    for data, options in ((own, {}), (arguments / "plain", {"exclude": "own-id"})):
        (run,) = plan_runs("bi-encoder", data=data, recipe=recipe, **given, **options)
        examples = _first_examples(run, run.system)
        assert examples
        for example in examples:
            assert example.query_id not in example.pool
            assert example.query_id in example.relevant
        for row, ranking in zip(run.train, run.bm25_rankings(run.train, 3), strict=True):
            assert len(ranking) == 3
            assert row.query_id not in ranking


def test_variants_exclude_what_their_queries_exclude(arguments: Path, tmp_path: Path) -> None:
    rows = open_dataset(arguments / "own").rows("length-short", "test")
    variants = [Variant(row.query_id, f"{row.text} really", "more") for row in rows]
    write_variants(tmp_path / "more.tsv", variants)
    run = bm25(
        arguments, "own", DEPTH, out=tmp_path / "runs", extra_test={"more": tmp_path / "more.tsv"}
    )
    rankings = read_run(run.parent / "extra/more/length.run.gz")
    assert len(rankings) == len(variants)
    assert all(query_id.partition("#")[0] not in ranking for query_id, ranking in rankings.items())
    result = evaluate_extra_tests(
        run.parent, {"more": tmp_path / "more.tsv"}, arguments / "own", settings="RR@10"
    )
    assert result.figures.where(figure="as_is")


def test_systems_are_compared_without_the_passages(arguments: Path, tmp_path: Path) -> None:
    run = read_run(arguments / "runs-plain/bm25/length.run.gz")
    for name in ("first", "second"):
        write_run(
            tmp_path / f"{name}/length.run.gz",
            {
                q: dict(list(docs.items())[: 3 if name == "first" else None])
                for q, docs in run.items()
            },
        )
    folders = [tmp_path / "first", tmp_path / "second"]
    result = compare_run_sets(folders, arguments / "own", settings="RR@10")
    expected = by_beir(tmp_path / "second/length.run.gz", arguments / "own")
    scores = {row.group: row.value for row in result.figures.where(figure="score", system="second")}
    assert scores["short"] == pytest.approx(expected["short", "RR@10"])


def test_a_build_without_the_option_records_nothing(arguments: Path) -> None:
    manifests = {name: open_dataset(arguments / name).manifest for name in ("own", "plain")}
    assert "exclude" not in manifests["plain"].parameters
    assert "queries_emptied" not in manifests["plain"].collection
    assert manifests["own"].parameters["exclude"] == "own-id"
    assert manifests["own"].content_digest == manifests["plain"].content_digest
    with pytest.raises(UsageError):
        build_dataset("mini:300", ["length"], arguments / "wrong", exclude="own-id")
    assert not (arguments / "wrong").exists()
