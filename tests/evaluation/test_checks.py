"""Runs and data that do not belong together are refused, and what is allowed leaves a doubt."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import DataInfo, TestSet
from msshift_bench.errors import RunError, UnknownNameError
from msshift_bench.evaluation import Checks, Scores, Settings, score_files, score_runs
from msshift_bench.runs import find_run_sets, write_run

SHORT = [f"s{number:02}" for number in range(20)]
LONG = [f"l{number:02}" for number in range(20)]
TESTS = TestSet(
    "length", {query: {"d1": 1} for query in SHORT + LONG}, {"short": SHORT, "long": LONG}
)
QRELS = {query: {"d1": 1} for query in SHORT}


def write(path: Path, queries: list[str], score: float = 1.0) -> Path:
    """Write a run that finds the relevant passage of each query, above one for each score."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_run(path, {query: {"d1": score, f"d{score}": 0.5} for query in queries}, "tag")
    return path


def say(run: Path, **sidecar: Any) -> None:
    """Write the sidecar of a run."""
    run.with_name(run.name.removesuffix(".gz") + ".json").write_text(json.dumps(sidecar))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """The folder of the run set of a system."""
    write(tmp_path / "dense/length/short.run", SHORT + LONG, 2.0)
    write(tmp_path / "dense/length/long.run", SHORT + LONG, 3.0)
    return tmp_path / "dense/length"


def scores_of(models: Path) -> Scores:
    (scores,) = score_files([(find_run_sets([models.parent])[0], TESTS)], Settings())
    return scores


def check(models: Path, *allow: str, data: DataInfo | None = None) -> list[str]:
    """Check a run set as an evaluation does, and return the doubts."""
    checks = Checks(data, allow)
    checks.check_run_sets(find_run_sets([models.parent]))
    checks.check_scores(scores_of(models), "zero")
    return checks.doubts


def refused(models: Path, code: str, *allow: str, data: DataInfo | None = None) -> str:
    """Check that a run set is refused with findings of one code, and return the message."""
    with pytest.raises(RunError) as caught:
        check(models, *allow, data=data)
    assert {finding.code for finding in caught.value.findings} == {code}
    return str(caught.value)


def test_runs_that_changed_places_with_their_sidecars_are_refused(models: Path) -> None:
    short, long = models / "short.run", models / "long.run"
    assert check(models) == []
    say(short, shift="length", held_out="long")
    say(long, shift="length", held_out="short")
    message = refused(models, "sidecar-differs")
    assert "short.run is where the run of length without short was expected, and this" in message
    say(short, shift="length", held_out="short")
    say(long, shift="topics", held_out="long")
    assert "says that it is of topics without long" in refused(models, "sidecar-differs")
    say(long, shift="length", held_out="long")
    assert check(models) == []


def test_models_that_ran_on_their_own_group_only_are_refused(models: Path) -> None:
    write(models / "short.run", [SHORT[0], LONG[0]])
    assert "lacks 19 of the 20 test queries of short" in refused(models, "incomplete-run")
    assert check(models, "partial") == []  # One answer in every group is enough.
    write(models / "short.run", SHORT)
    write(models / "long.run", LONG)
    message = refused(models, "no-query-answered")
    assert "the runs of dense and the test sets of length do not belong together" in message
    assert "another data set, give that one (--data)" in message
    assert "short.run: answers none of the 20 test queries of long (l00, l01, l02, l03," in message
    assert "long.run: answers none of the 20 test queries of short (s00, s01, s02, s03," in message


def test_a_missing_run_is_refused_or_allowed(models: Path) -> None:
    (models / "long.run").unlink()
    assert "trained without 'long'" in refused(models, "missing-run")
    assert check(models, "partial") == []


def test_one_file_under_two_models_or_seeds_is_refused(models: Path) -> None:
    shutil.copy(models / "short.run", models / "long.run")
    message = refused(models, "identical-runs")
    assert f"long.run: holds the same rankings as {models / 'short.run'}" in message
    assert "the model trained without short" in message
    assert "--allow identical" in message
    # So it is if it was compressed, or has another tag.
    (models / "long.run").unlink()
    with gzip.open(models / "long.run.gz", "wt") as file:
        file.write((models / "short.run").read_text().replace("tag", "other"))
    assert "long.run.gz: holds the same rankings" in refused(models, "identical-runs")
    (models / "long.run.gz").unlink()
    # Nor does half of each score change a ranking, or another order of its lines.
    rows = [line.split() for line in (models / "short.run").read_text().splitlines()]
    halved = [" ".join([*row[:4], str(float(row[4]) / 2), row[5]]) for row in rows]
    (models / "long.run").write_text("\n".join(reversed(halved)))
    assert "long.run: holds the same rankings" in refused(models, "identical-runs")
    assert check(models, "identical") == []
    # Both were tuned, and to the same parameters: they may well be alike.
    for group in ("short", "long"):
        say(models / f"{group}.run", tuned={"parameters": {"k1": 0.9}})
    assert check(models) == []
    for seed in ("seed-1", "seed-2"):
        (models / seed).mkdir()
        for group in ("short", "long"):
            write(models / seed / f"{group}.run", SHORT + LONG, 2.0 + len(group))
    for group in ("short", "long"):
        (models / f"{group}.run").unlink()
        (models / f"{group}.run.json").unlink()
    assert "the model trained without short with seed 2" in refused(models, "identical-runs")


def test_a_sidecar_of_other_data_is_refused(models: Path) -> None:
    data, run = DataInfo(content_digest="b" * 64), models / "short.run"
    assert check(models, data=data) == []
    say(run, data_digest="b" * 64)
    assert check(models, data=data) == []
    say(run, data_digest="a" * 64)
    message = refused(models, "other-data", data=data)
    assert "the data set aaaaaaaaaaaa, and this one is bbbbbbbbbbbb" in message
    assert check(models, "other-data", data=data) == [
        f"{run} was made on other data: aaaaaaaaaaaa, not bbbbbbbbbbbb (--allow other-data)"
    ]
    assert check(models) == []  # qrels, say


def test_a_sidecar_of_another_file_leaves_a_doubt(models: Path) -> None:
    run = models / "short.run"
    say(run, run_sha256=hashlib.sha256(run.read_bytes()).hexdigest())
    shallow = (
        "dense: RR@10 counts no passage behind rank 2: no ranking is longer (2 of 2 run files)"
    )
    assert Checks().doubts_about(scores_of(models), "dense") == [shallow]
    write(run, SHORT + LONG, 4.0)
    assert Checks().doubts_about(scores_of(models), "dense") == [
        shallow,
        f"{run}.json was written for another file than {run}, by its SHA-256: it does not say "
        "what made this run",
    ]


@pytest.mark.parametrize("text", ["{", "[]", "", "\ufffe", '{"checksum": "00", "seconds": {}}'])
def test_a_sidecar_that_says_nothing_is_an_error(models: Path, text: str) -> None:
    (models / "short.run.json").write_text(text)
    for allow in ((), ("other-data",)):
        refused(models, "sidecar-unreadable", *allow, data=DataInfo(content_digest="b"))


def test_models_that_searched_other_passages_are_refused(models: Path) -> None:
    say(models / "short.run", passages={"sha256": "a" * 64})
    assert check(models) == []
    say(models / "long.run", passages={"sha256": "b" * 64})
    message = refused(models, "other-passages")
    assert "long.run is of the passages bbbbbbbbbbbb, and short.run of aaaaaaaaaaaa" in message
    assert check(models, "other-data") == [
        "dense/length: its runs are of 2 different collections of passages (--allow other-data)"
    ]


def test_an_unknown_allowance_lists_those_that_there_are() -> None:
    with pytest.raises(UnknownNameError, match=r"partail.*did you mean 'partial'"):
        Checks(allow=["partail"])


# ---- queries ----------------------------------------------------------------------------------


def test_more_than_a_few_missing_queries_are_a_doubt(tmp_path: Path) -> None:
    tests: Mapping[str, Any] = {query: {"d1": 1} for query in SHORT}
    few = write(tmp_path / "few.run", SHORT[1:])
    assert score_runs([few], tests).doubts == []  # 5%
    many = write(tmp_path / "many.run", SHORT[2:])
    assert score_runs([many], tests).doubts == [
        f"{many}: test queries that the run does not hold: 2 of 20 of <qrels>"
    ]


@pytest.mark.parametrize("missing", ["zero", "skip"])
def test_a_run_of_other_queries_names_both(tmp_path: Path, missing: str) -> None:
    run = write(tmp_path / "other.run", ["11", "12", "13"])
    with pytest.raises(RunError) as caught:
        score_runs([run], QRELS, Settings(missing=missing))
    text = str(caught.value)
    assert "answers none of the 20 queries of the test set (s00, s01, s02, s03, s04, ...)" in text
    assert "it holds 3 others (11, 12, 13)" in text
    assert "look like" not in text


def test_known_sets_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ours = sorted(hashlib.sha256(query.encode()).hexdigest()[:12] for query in LONG)[:8]
    monkeypatch.setattr("msshift_bench.evaluation.scores.KNOWN", {"Some Track": tuple(ours)})
    with pytest.raises(RunError, match=r", which look like Some Track's queries"):
        score_runs([write(tmp_path / "track.run", LONG)], QRELS)


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
    ids = sorted({line.split(separator)[0] for line in lines})
    assert len(ids) == count
    with pytest.raises(RunError, match=f"which look like {name}'s queries"):
        score_runs([{query: {"d": 1.0} for query in ids}], QRELS)
    with pytest.raises(RunError) as caught:
        score_runs([{query: {"d": 1.0} for query in ids[: count // 2]}], QRELS)
    assert "look like" not in str(caught.value)


@pytest.mark.parametrize(
    ("starts", "is_start"),
    [
        ((["a", "a"], ["b", "b"]), True),
        ((["a", "b"], ["c", "c"]), True),
        ((["a", "a"], ["a", "a"]), False),
        ((["a", "b"], ["c", "d"]), False),  # several pre-trainings, which count as the seed
    ],
)
def test_two_starts_of_one_pretraining_each_are_told_by_their_sidecars(
    tmp_path: Path, starts: tuple[list[str], list[str]], is_start: bool
) -> None:
    def system(name: str, encoders: list[str], baseline: str = "bi-encoder") -> Scores:
        for group, encoder in zip(("short", "long"), encoders, strict=True):
            run = write(tmp_path / name / "length" / f"{group}.run", SHORT + LONG)
            say(run, baseline=baseline, encoder={"weights_sha256": encoder})
        return scores_of(tmp_path / name / "length")

    first, second = (system(name, encoders) for name, encoders in zip("xy", starts, strict=True))
    assert Checks().differ_in_start(first, second) == is_start
    other = system("z", starts[1], baseline="colbert")
    assert not Checks().differ_in_start(first, other)
    assert not Checks().differ_in_start(scores_of(write_nameless(tmp_path)), first)


def write_nameless(folder: Path) -> Path:
    """Return the folder of a run set without sidecars."""
    for group in ("short", "long"):
        write(folder / "nameless" / "length" / f"{group}.run", SHORT + LONG)
    return folder / "nameless" / "length"
