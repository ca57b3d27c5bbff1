"""Test queries that leaked into declared training queries: found by the gate, shown by boards."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from msshift_bench.data import load_dataset, open_dataset
from msshift_bench.leaderboard.file_list import write_file_list
from msshift_bench.leaderboard.gate import check_submission
from msshift_bench.leaderboard.leaked_tests import LEAK_TIERS, leaked_share, with_leaked
from msshift_bench.leaderboard.site import build_site
from msshift_bench.leaderboard.strict_files import dump_json
from msshift_bench.leaderboard.submission import Submission, TrainingIds, read_submission
from msshift_bench.leaderboard.trained_on import ONE_MODEL, training_ids, write_ids
from msshift_bench.leakage import find_leakage
from tests.support.site_files import registered

ENTRY = "mini/made-up/v1"


def counts(submission: Submission) -> dict[str, TrainingIds]:
    return dict(submission.training.queries["length"])


def write_submission(folder: Path, submission: Submission) -> None:
    (folder / "submission.json").write_bytes(dump_json(submission.to_json()))
    write_file_list(folder)


def changed(submission: Submission, models: dict[str, TrainingIds]) -> Submission:
    return replace(submission, training=replace(submission.training, queries={"length": models}))


def test_the_gate_counts_zero_shot_test_queries_that_leaked(
    good: Path, one_entry: Path, mini_length: Path, tmp_path: Path
) -> None:
    assert all(model.leaked is None for model in counts(read_submission(good)).values())
    added = read_submission(one_entry / ENTRY)
    sizes, leaked = 0, 0
    for held_out, model in counts(added).items():
        train = load_dataset(mini_length, f"length-{held_out}", split="train")
        test = load_dataset(mini_length, f"length-{held_out}", split="test")
        found = find_leakage(train, test)
        assert model.leaked == {held_out: found.count(*LEAK_TIERS).topics}
        sizes += len(list(test))
        leaked += model.leaked[held_out]
    assert leaked_share(added, "length") == (leaked, sizes)
    site = build_site(one_entry, tmp_path / "site").parent
    tables = [registered(path) for path in site.rglob("tables/*.js")]
    assert {table["shift"] for table in tables} == {"length"}
    for table in tables:
        row = table["rows"]["made-up"]
        assert row["leaked"] == pytest.approx(leaked / sizes)
        assert row["leakedText"] == f"{100 * leaked / sizes:.1f}%"
    page = (site / "mini" / "systems" / "made-up.html").read_text()
    assert "Zero-shot test queries with a near-duplicate among them" in page


def test_planted_leaks_are_found_and_claims_are_checked(
    one_entry: Path, mini_length: Path, tmp_path: Path
) -> None:
    dataset = open_dataset(mini_length)
    added = read_submission(one_entry / ENTRY)
    tests = {
        group: [row.query_id for row in load_dataset(mini_length, f"length-{group}", split="test")]
        for group in ("short", "long")
    }
    # Test queries of the held-out group among the training queries leak themselves; those of the
    # other group are not zero-shot to the model.
    planted = [*tests["short"][:3], *tests["long"][:5]]
    write_ids(tmp_path / "train" / "length" / "short.txt.gz", planted)
    models = counts(added)
    models["short"] = training_ids(planted, tests, "train/length/short.txt.gz")
    found = with_leaked(changed(added, models), tmp_path, dataset)
    leaked = found.queries["length"]["short"].leaked
    assert leaked is not None
    assert set(leaked) == {"short"}
    assert 3 <= leaked["short"] < 8
    of_long = counts(added)["long"].leaked
    assert of_long is not None
    total = leaked["short"] + of_long["long"], sum(map(len, tests.values()))
    assert leaked_share(replace(added, training=found), "length") == total
    # Nobody knows the text of a query that the data set does not hold.
    strange = training_ids(["no-such-query"], tests, "train/length/all.txt.gz")
    write_ids(tmp_path / "train" / "length" / "all.txt.gz", ["no-such-query"])
    unknown = with_leaked(changed(added, {ONE_MODEL: strange}), tmp_path, dataset)
    assert unknown.queries["length"][ONE_MODEL].leaked is None
    nothing = with_leaked(
        changed(added, {ONE_MODEL: training_ids((), tests, None)}), tmp_path, dataset
    )
    assert nothing.queries["length"][ONE_MODEL].leaked == {"short": 0, "long": 0}
    assert leaked_share(changed(added, {}), "length") is None


def test_a_wrong_count_is_refused(one_entry: Path, mini_length: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(one_entry / ENTRY, tmp_path / "v1"))
    verdict = check_submission(folder, data=mini_length)
    assert verdict.accepted
    assert "the test queries that leaked on length" in verdict.checked
    assert "the test queries that leaked on length" in check_submission(folder).unchecked
    added = read_submission(folder)
    models = counts(added)
    for wrong, data in (({"short": 7}, mini_length), ({"short": 10_000}, None), ({"C0": 0}, None)):
        models["short"] = replace(models["short"], leaked=wrong)
        write_submission(folder, changed(added, models))
        (finding,) = check_submission(folder, data=data).findings
        assert finding.code == "wrong-leak"
        assert "training.queries.length.short.leaked" in str(finding)
    value = json.loads((folder / "submission.json").read_text())
    del value["training"]["queries"]["length"]["short"]["leaked"]
    (folder / "submission.json").write_bytes(dump_json(value))
    write_file_list(folder)
    assert check_submission(folder, data=mini_length).accepted
