from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from msshift_bench.data.manifest import DataInfo
from msshift_bench.errors import RunError
from msshift_bench.evaluation.evaluator import Evaluator
from msshift_bench.evaluation.fitting import (
    check_models,
    check_passages,
    check_sidecars,
    missing_remarks,
)
from msshift_bench.evaluation.scored_runs import score_run
from msshift_bench.evaluation.scores import KNOWN, first_ids, looks_like
from msshift_bench.evaluation.settings import Settings
from msshift_bench.records import Row
from msshift_bench.runs.qrels import Judgements
from msshift_bench.runs.runsets import find_run_sets
from msshift_bench.runs.writing import write_run
from msshift_bench.shifts import SHIFTS

LENGTH = SHIFTS["length"]
SHORT = [f"s{number:02}" for number in range(20)]
LONG = [f"l{number:02}" for number in range(20)]
TEST_SETS = {
    group: [Row(query, "text", group, ("d1",), (1,)) for query in queries]
    for group, queries in (("short", SHORT), ("long", LONG))
}


def write(path: Path, queries: list[str], score: float = 1.0) -> Path:
    """Write a run that finds the relevant passage of each query."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_run(path, {query: {"d1": score, "d2": 0.5} for query in queries}, "tag")
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    write(root / "dense" / "length" / "short.run", SHORT + LONG, 2.0)
    write(root / "dense" / "length" / "long.run", SHORT + LONG, 3.0)
    return root


def evaluate(root: Path, **allowed: bool) -> None:
    (run_set,) = find_run_sets([root])
    Evaluator(LENGTH, TEST_SETS).evaluate(run_set, **allowed)


# ---- runs that changed places ---------------------------------------------------------------


def test_runs_that_changed_places_with_their_sidecars_are_refused(runs: Path) -> None:
    folder = runs / "dense" / "length"
    (run_set,) = find_run_sets([runs])
    check_models(run_set)
    for name, said in (("short", "long"), ("long", "short")):
        (folder / f"{name}.run.json").write_text(json.dumps({"shift": "length", "held_out": said}))
    with pytest.raises(RunError) as caught:
        check_models(run_set)
    assert [finding.code for finding in caught.value.findings] == ["sidecar-differs"] * 2
    assert "short.run is where the run of length without short was expected, and this says" in str(
        caught.value
    )
    for name in ("short", "long"):
        (folder / f"{name}.run.json").write_text(json.dumps({"shift": "length", "held_out": name}))
    check_models(run_set)
    (folder / "long.run.json").write_text(json.dumps({"shift": "topics", "held_out": "long"}))
    with pytest.raises(RunError, match="says that it is of topics without long"):
        check_models(run_set)


# ---- runs that answer nothing ---------------------------------------------------------------


def test_models_that_ran_on_their_own_group_only_are_refused(runs: Path) -> None:
    write(runs / "dense" / "length" / "short.run", SHORT)
    write(runs / "dense" / "length" / "long.run", LONG)
    with pytest.raises(RunError) as caught:
        evaluate(runs)
    text = str(caught.value)
    assert "the runs of dense and the test sets of length do not belong together" in text
    assert [finding.code for finding in caught.value.findings] == ["no-query-answered"] * 2
    assert "another data set, give that one (--data)" in text
    assert "short.run: answers none of the 20 test queries of long (l00, l01, l02, l03," in text
    assert "long.run: answers none of the 20 test queries of short (s00, s01, s02, s03," in text


def test_a_run_of_other_queries_names_both(tmp_path: Path) -> None:
    run = write(tmp_path / "other.run", ["11", "12", "13"])
    judgements = Judgements.from_qrels({query: {"d1": 1} for query in SHORT})
    for missing in ("zero", "skip"):
        with pytest.raises(RunError) as caught:
            score_run(run, judgements, Settings(missing=missing))
        text = str(caught.value)
        assert (
            "answers none of the 20 queries of the test set (s00, s01, s02, s03, s04, ...)" in text
        )
        assert "it holds 3 others (11, 12, 13)" in text
        assert "look like" not in text


def test_one_answer_in_every_group_is_enough(runs: Path) -> None:
    write(runs / "dense" / "length" / "short.run", [SHORT[0], LONG[0]])
    evaluate(runs)


# ---- known sets -----------------------------------------------------------------------------


def test_known_sets_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert looks_like([query.encode() for query in SHORT]) == ""
    ours = sorted(hashlib.sha256(q.encode()).hexdigest()[:12] for q in LONG)[:8]
    monkeypatch.setattr("msshift_bench.evaluation.scores.KNOWN", {"Some Track": tuple(ours)})
    assert looks_like([query.encode() for query in LONG]) == "Some Track's queries"
    assert looks_like([query.encode() for query in SHORT + LONG]) == "Some Track's queries"
    run = write(tmp_path / "track.run", LONG)
    judgements = Judgements.from_qrels({query: {"d1": 1} for query in SHORT})
    with pytest.raises(RunError, match=r", which look like Some Track's queries"):
        score_run(run, judgements, Settings())


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "file", "separator", "count"),
    [
        ("MS MARCO dev-small", "query-typos/queries.dev.small.tsv", "\t", 6980),
        ("TREC DL 2019", "msmarco-pool/qrels.dl19.txt", " ", 43),
        ("TREC DL 2020", "msmarco-pool/qrels.dl20.txt", " ", 54),
    ],
)
def test_known_sets_are_known(
    real_data: Path, name: str, file: str, separator: str, count: int
) -> None:
    lines = (real_data / file).read_text(encoding="utf-8").splitlines()
    ids = sorted({line.split(separator)[0].encode() for line in lines})
    assert len(ids) == count
    assert looks_like(ids) == f"{name}'s queries"
    assert looks_like(ids[: len(ids) // 2]) == ""
    assert name in KNOWN


def test_first_ids() -> None:
    assert first_ids(["b", "a"]) == "a, b"
    assert first_ids(set("abcdef")) == "a, b, c, d, e, ..."


# ---- missing queries ------------------------------------------------------------------------


def test_more_than_a_few_missing_queries_are_said(runs: Path) -> None:
    evaluator = Evaluator(LENGTH, TEST_SETS)

    def remarks() -> list[str]:
        (run_set,) = find_run_sets([runs])
        found = evaluator.score(run_set)
        return missing_remarks("dense/length", found.runs, found.groups, found.query_ids)

    write(runs / "dense" / "length" / "short.run", SHORT[1:] + LONG[:19])
    assert remarks() == []  # 5% of either group
    write(runs / "dense" / "length" / "long.run", SHORT[2:] + LONG)
    assert remarks() == [
        "dense/length: test queries that a run does not hold: 2 of 20 of short, 1 of 20 of long"
    ]


# ---- identical files ------------------------------------------------------------------------


def test_one_file_under_two_models_is_refused(runs: Path) -> None:
    folder = runs / "dense" / "length"
    shutil.copy(folder / "short.run", folder / "long.run")
    with pytest.raises(RunError) as caught:
        evaluate(runs)
    (finding,) = caught.value.findings
    assert finding.code == "identical-runs"
    assert finding.source.endswith("long.run")
    assert "as " + str(folder / "short.run") in finding.message
    assert "the model trained without short" in finding.message
    assert "--allow-identical" in finding.fix
    evaluate(runs, allow_identical=True)


def test_one_file_under_two_seeds_is_refused(runs: Path) -> None:
    folder = runs / "dense" / "length"
    for seed in ("seed-1", "seed-2"):
        (folder / seed).mkdir()
        for group in ("short", "long"):
            shutil.copy(folder / f"{group}.run", folder / seed)
    (folder / "short.run").unlink()
    (folder / "long.run").unlink()
    with pytest.raises(RunError, match=r"the model trained without short with seed 2"):
        evaluate(runs)


# ---- runs of other data ---------------------------------------------------------------------


def test_a_sidecar_of_other_data_is_refused(tmp_path: Path) -> None:
    run = write(tmp_path / "short.run.gz", SHORT)
    data = DataInfo(content_digest="b" * 64)
    assert check_sidecars([run], data) == []
    sidecar = tmp_path / "short.run.json"
    sidecar.write_text(json.dumps({"data_digest": "b" * 64}))
    assert check_sidecars([run], data) == []
    sidecar.write_text(json.dumps({"data_digest": "a" * 64}))
    with pytest.raises(RunError) as caught:
        check_sidecars([run], data)
    (finding,) = caught.value.findings
    assert (finding.code, finding.source) == ("other-data", str(sidecar))
    assert "the data set aaaaaaaaaaaa, and this one is bbbbbbbbbbbb" in finding.message
    assert check_sidecars([run], data, force_data=True) == [
        f"{run} was made on other data: aaaaaaaaaaaa, not bbbbbbbbbbbb (--force-data)"
    ]
    assert check_sidecars([run], DataInfo()) == []  # qrels, say


def test_models_that_searched_other_passages_are_refused(runs: Path) -> None:
    named = [("dense", [file for run_set in find_run_sets([runs]) for file in run_set.files])]
    assert check_passages(named) == []
    sidecars = [runs / "dense" / "length" / f"{group}.run.json" for group in ("short", "long")]
    for sidecar in sidecars:
        sidecar.write_text(json.dumps({"passages": {"sha256": "a" * 64}}))
    assert check_passages(named) == []
    sidecars[1].write_text(json.dumps({"passages": {"sha256": "b" * 64}}))
    with pytest.raises(RunError) as caught:
        check_passages(named)
    (finding,) = caught.value.findings
    assert (finding.code, finding.source) == ("other-passages", str(sidecars[1].resolve()))
    assert "of the passages bbbbbbbbbbbb, and short.run of aaaaaaaaaaaa" in finding.message
    assert check_passages(named, force_data=True) == [
        "dense: its runs are of 2 different collections of passages (--force-data)"
    ]


@pytest.mark.parametrize("text", ["{", "[]", "", "\ufffe", '{"checksum": "00", "seconds": {}}'])
def test_a_sidecar_that_says_nothing_is_an_error(tmp_path: Path, text: str) -> None:
    run = write(tmp_path / "short.run", SHORT)
    (tmp_path / "short.run.json").write_text(text)
    for force in (False, True):
        with pytest.raises(RunError) as caught:
            check_sidecars([run], DataInfo(content_digest="b"), force_data=force)
        assert caught.value.findings[0].code == "sidecar-unreadable"
