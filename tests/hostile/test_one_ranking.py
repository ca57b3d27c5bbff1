"""One ranking under two models is found by its order, not by its scores, tag or file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.data import TestSet
from msshift_bench.errors import RunError
from msshift_bench.evaluation import OpenedRuns, OpenedRunSet, Settings, score_opened, score_runs
from msshift_bench.runs import Judgements, find_run_sets, judge_run, read_run, write_run

QUERIES = [f"q{number}" for number in range(24)]
QRELS = {query: {f"d{number}": 1} for number, query in enumerate(QUERIES)}
SETTINGS = Settings(("RR@10", "nDCG@10"))
Run = dict[str, dict[str, float]]


def made(shift: int = 0, depth: int = 200) -> Run:
    """Return a run with a relevant passage at some rank, its scores close from rank 20 on."""
    run = {}
    for number, query in enumerate(QUERIES):
        docs = [f"other{place}" for place in range(depth)]
        docs.insert((number * 7 + shift * number) % 15, f"d{number}")
        lower = [0.01 * min(place, 20) + 0.000013 * place for place in range(len(docs))]
        run[query] = {doc: 12.3456 - less for doc, less in zip(docs, lower, strict=True)}
    return run


def written(folder: Path, name: str, run: Run, spell: str = "{:.6f}", tag: str = "t") -> Path:
    """Write a run as another program would, its scores to some digits."""
    path = folder / f"{name}.run"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{query} Q0 {doc} {rank} {spell.format(score)} {tag}\n"
        for query, docs in run.items()
        for rank, (doc, score) in enumerate(docs.items(), 1)
    ]
    path.write_text("".join(lines))
    return path


def scaled(run: Run, change: Callable[[float], float]) -> Run:
    return {query: {doc: change(score) for doc, score in of.items()} for query, of in run.items()}


CHANGES: dict[str, tuple[Callable[[float], float], str]] = {
    "halved": (lambda score: score / 2, "{:.7f}"),
    "halved, six digits": (lambda score: score / 2, "{:.5f}"),
    "cubed": (lambda score: score**3, "{:.6f}"),
    "another tag": (lambda score: score, "{:.6f}"),
}


def check(folder: Path) -> None:
    tests = TestSet("length", QRELS, {"short": QUERIES[:12], "long": QUERIES[12:]})
    score_opened(OpenedRuns([OpenedRunSet.of(*find_run_sets([folder]), tests)]), SETTINGS)


@pytest.mark.parametrize("name", CHANGES)
def test_the_ranking_of_another_model_is_refused_whatever_its_scores(
    tmp_path: Path, name: str
) -> None:
    change, spell = CHANGES[name]
    written(tmp_path / "dense/length", "short", made())
    changed = scaled(made(), change)
    second = written(tmp_path / "dense/length", "long", changed, spell, tag="other")
    if "six" in name:
        ranking = list(read_run(second)["q0"].values())
        assert len(set(ranking)) < len(ranking), "no tie is new"
    with pytest.raises(RunError, match=r"the same rankings.*\[identical-runs\]"):
        check(tmp_path)


def test_other_rankings_of_the_same_passages_are_two_models(tmp_path: Path) -> None:
    written(tmp_path / "dense/length", "short", made())
    swapped = made()
    for docs in swapped.values():
        docs["other20"], docs["other40"] = docs["other40"], docs["other20"]
    in_order = {q: dict(sorted(of.items(), key=lambda pair: -pair[1])) for q, of in swapped.items()}
    written(tmp_path / "dense/length", "long", in_order)
    check(tmp_path)


def test_a_run_of_ties_is_not_equal_to_every_other(tmp_path: Path) -> None:
    """A reranker with one score for all passages is not another reranker of them."""
    written(tmp_path / "dense/length", "short", made())
    written(tmp_path / "dense/length", "long", scaled(made(), lambda _: 1.0))
    check(tmp_path)


@pytest.mark.parametrize("reference", [None, "second"])
def test_one_ranking_in_two_files_is_a_warning(tmp_path: Path, reference: str | None) -> None:
    first = written(tmp_path, "first", made())
    second = written(tmp_path, "second", scaled(made(), lambda score: score / 2), "{:.7f}", "other")
    compared = None if reference is None else second
    result = score_runs([first, second], QRELS, SETTINGS, reference=compared)
    assert f"{second} contains the same rankings as {first}" in result.warnings


def test_runs_in_memory_are_compared_too() -> None:
    result = score_runs([made(), scaled(made(), lambda score: score / 2)], QRELS, SETTINGS)
    assert any("the same rankings" in warning for warning in result.warnings)


def test_the_digest_of_a_ranking_is_that_of_its_order_and_passages(tmp_path: Path) -> None:
    judgements = Judgements(QRELS)

    def digest(run: Run, **options: str) -> str:
        return judge_run(run, judgements, **options).report.ranking

    first = made()
    assert digest(first) == digest(dict(reversed(first.items()))), "queries in any order"
    assert digest(first) == digest({q: dict(reversed(of.items())) for q, of in first.items()})
    path = tmp_path / "a.run.gz"
    write_run(path, first, "tag")
    assert judge_run(path, judgements).report.ranking == digest(read_run(path))
    renamed = {q: {f"x{doc}": score for doc, score in of.items()} for q, of in first.items()}
    shorter = {q: dict(list(of.items())[:-1]) for q, of in first.items()}
    others = {f"x{q}": of for q, of in first.items()}
    assert len({digest(run) for run in (first, made(1), renamed, shorter, others)}) == 5
