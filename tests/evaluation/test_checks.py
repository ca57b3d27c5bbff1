"""Runs and data that do not belong together are refused, and what is allowed leaves a warning."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import DataInfo, TestSet
from msshift_bench.errors import RunError, UnknownNameError
from msshift_bench.evaluation import (
    OpenedRuns,
    OpenedRunSet,
    Scores,
    Settings,
    score_opened,
    score_runs,
)
from msshift_bench.evaluation.checks import differ_in_start
from msshift_bench.runs import find_run_sets, write_run
from tests.support.refusals import check_refusals

SHORT = [f"s{number:02}" for number in range(20)]
LONG = [f"l{number:02}" for number in range(20)]
TESTS = TestSet(
    "length", {query: {"d1": 1} for query in SHORT + LONG}, {"short": SHORT, "long": LONG}
)
ALL = SHORT + LONG
QRELS = {query: {"d1": 1} for query in SHORT}
DATA = DataInfo(content_digest="b" * 64)


def write(path: Path, queries: list[str], score: float = 1.0) -> Path:
    """Write a run that finds the relevant passage of each query, above one for each score."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_run(path, {query: {"d1": score, f"d{score}": 0.5} for query in queries}, "tag")
    return path


def say(run: Path, **sidecar: Any) -> None:
    """Write the sidecar of a run."""
    run.with_name(run.name.removesuffix(".gz") + ".json").write_text(json.dumps(sidecar))


def write_models(folder: Path, queries: Sequence[list[str]] = (ALL, ALL), *sidecars: Any) -> Path:
    """Write the run set of a system, and return its folder.

    Args:
        folder: where to.
        queries: those of the run of each model.
        sidecars: what stands beside each.
    """
    models = folder / "dense/length"
    for score, (group, held) in enumerate(zip(("short", "long"), queries, strict=True), 2):
        write(models / f"{group}.run", held, score)
    for group, sidecar in zip(("short", "long"), sidecars, strict=False):
        say(models / f"{group}.run", **sidecar)
    return models


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return write_models(tmp_path)


def score(models: Path, *allow: str, data: DataInfo | None = None) -> tuple[Scores, list[str]]:
    """Score a run set as an evaluation does; return the scores and the warnings."""
    (found,) = find_run_sets([models.parent])
    opened = OpenedRuns([OpenedRunSet.of(found, TESTS)], data or DataInfo())
    (scores,), _, warnings = score_opened(opened, Settings("RR@2"), allow)
    return scores, warnings


def check(models: Path, *allow: str, data: DataInfo | None = DATA) -> list[str]:
    return score(models, *allow, data=data)[1]


OF_SHORT, OF_LONG = ({"shift": "length", "held_out": group} for group in ("short", "long"))
OTHER_DATA = {"data_digest": "a" * 64}
SPOILT: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "swapped": ("[sidecar-differs] short.run long.run", "", ((ALL, ALL), OF_LONG, OF_SHORT)),
    "of another shift": (
        "[sidecar-differs] long.run.json length topics",
        "",
        ((ALL, ALL), OF_SHORT, OF_LONG | {"shift": "topics"}),
    ),
    "of two queries": (
        "[incomplete-run] short.run 19 20 --allow", "partial", (([SHORT[0], LONG[0]], ALL),)
    ),
    "of the own group alone": (
        "[no-query-answered] short.run long.run 20 l00", "", ((SHORT, LONG),)
    ),
    "of other data": (
        "[other-data] short.run.json aaaaaaaaaaaa bbbbbbbbbbbb --allow",
        "other-data",
        ((ALL, ALL), OTHER_DATA),
    ),
    "of other passages": (
        "[other-passages] long.run.json bbbbbbbbbbbb aaaaaaaaaaaa --allow",
        "other-data",
        ((ALL, ALL), *({"passages": {"sha256": letter * 64}} for letter in "ab")),
    ),
    "missing": ("[missing-run] long.run 'long' --allow", "partial", ()),
}  # fmt: skip
"""What is wrong with a run set -> the facts of its error, what allows it, and the run set."""


def test_runs_that_do_not_belong_together_are_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    refusals = {}
    for wrong, (facts, allowance, given) in SPOILT.items():
        models = write_models(tmp_path / wrong, *given)
        if wrong == "missing":
            (models / "long.run").unlink()
        refusals[f"{wrong}: RunError {facts} fix"] = partial(check, models)
        if allowance:
            assert any("--allow" in part for part in check(models, allowance)) == (
                allowance == "other-data"
            )
    check_refusals(refusals)


def test_runs_that_belong_together_are_not_doubted(models: Path) -> None:
    assert check(models) == []
    for group in ("short", "long"):
        say(models / f"{group}.run", shift="length", held_out=group, data_digest="b" * 64)
    assert check(models) == []
    say(models / "short.run", passages={"sha256": "a" * 64})
    assert check(models) == []
    say(models / "short.run", **OTHER_DATA)
    assert check(models, data=None) == []  # qrels, say
    # Both were tuned, and to the same parameters: they may well be alike.
    shutil.copy(models / "short.run", models / "long.run")
    for group in ("short", "long"):
        say(models / f"{group}.run", tuned={"parameters": {"k1": 0.9}})
    (equal,) = check(models)
    assert all(f"{group}.run" in equal for group in ("short", "long"))


def test_a_sidecar_of_another_file_leaves_a_doubt(models: Path) -> None:
    run = models / "short.run"
    say(run, run_sha256=hashlib.sha256(run.read_bytes()).hexdigest())
    assert check(models) == []
    write(run, SHORT + LONG, 4.0)
    (other,) = check(models)
    assert (f"{run}.json" in other, "SHA-256" in other) == (True, True)


@pytest.mark.parametrize("text", ["{", "[]", "", "\ufffe", '{"checksum": "00", "seconds": {}}'])
def test_a_sidecar_that_says_nothing_is_an_error(models: Path, text: str) -> None:
    (models / "short.run.json").write_text(text)
    for allow in ((), ("other-data",)):
        with pytest.raises(RunError) as caught:
            check(models, *allow)
        assert {finding.code for finding in caught.value.findings} == {"sidecar-unreadable"}


def test_an_unknown_allowance_lists_those_that_there_are() -> None:
    with pytest.raises(UnknownNameError, match=r"partail.*did you mean 'partial'"):
        score_runs([{}], QRELS, allow=["partail"])


# ---- queries ----------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["zero", "skip"])
def test_a_run_of_other_queries_names_both(
    tmp_path: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write(tmp_path / "other.run", ["11", "12", "13"])
    with pytest.raises(RunError) as caught:
        score_runs([run], QRELS, Settings(missing=missing))
    (finding,) = caught.value.findings
    assert finding.code == "no-query-answered"
    assert all(fact in finding.message for fact in (" 20 ", "(s00, s01,", " 3 ", "(11, 12, 13)"))
    assert "look like" not in finding.message
    # Known sets are named.
    ours = sorted(hashlib.sha256(query.encode()).hexdigest()[:12] for query in LONG)[:8]
    monkeypatch.setattr("msshift_bench.evaluation.scores.KNOWN", {"Some Track": tuple(ours)})
    with pytest.raises(RunError, match="Some Track"):
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
    with pytest.raises(RunError, match=name):
        score_runs([{query: {"d": 1.0} for query in ids}], QRELS)
    with pytest.raises(RunError) as caught:
        score_runs([{query: {"d": 1.0} for query in ids[: count // 2]}], QRELS)
    assert "look like" not in str(caught.value)


def test_two_starts_of_one_pretraining_each_are_told_by_their_sidecars(tmp_path: Path) -> None:
    def system(encoders: str, baseline: str = "bi-encoder") -> Scores:
        models = write_models(tmp_path / f"{encoders}-{baseline}")
        for group, encoder in zip(("short", "long"), encoders, strict=True):
            say(models / f"{group}.run", baseline=baseline, encoder={"weights_sha256": encoder})
        return score(models)[0]

    differ = differ_in_start
    assert differ(system("aa"), system("bb"))
    assert differ(system("ab"), system("cc"))
    assert not differ(system("aa"), system("aa"))
    assert not differ(system("ab"), system("cd"))  # several pre-trainings, which count as the seed
    assert not differ(system("aa"), system("bb", "colbert"))
    assert not differ(score(write_models(tmp_path / "nameless"))[0], system("aa"))
