"""Which groups' queries a model trained on: in notes and JSON of evaluations."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.command_line import run_msshift

DECLARED = {
    "everything": "seen short, long; it may have seen the test queries",
    "none": "unseen short, long",
    "": "unknown short, long",
}


@pytest.mark.parametrize("declared", DECLARED)
def test_a_note_and_every_run_name_the_groups(world: Path, tmp_path: Path, declared: str) -> None:
    shutil.copytree(world / "runs/late", tmp_path / "runs/late")
    run = tmp_path / "runs/bm25/length.run"
    run.parent.mkdir()
    shutil.copy(next(world.glob("runs/bm25/length.run*")), run)
    facts = {"training_queries": declared} if declared else {}
    run.with_name("length.run.json").write_text(json.dumps(facts))
    state = {"everything": "seen", "none": "unseen", "": "unknown"}[declared]
    for words in (["evaluate", "runs"], ["compare", "runs", "--reference", "bm25"]):
        words += ["--data", str(world / "msshift"), "--shift", "length"]
        done = run_msshift(words, tmp_path)
        assert f"bm25, groups in training: {DECLARED[declared]}\n" in done.stdout
        found = json.loads(run_msshift([*words, "--format", "json"], tmp_path).stdout)
        groups = {run["model"]: run["groups"] for run in found["runs"]}
        assert groups == {
            "all": {"short": state, "long": state},
            "short": {"short": "unseen", "long": "seen"},
            "long": {"short": "seen", "long": "unseen"},
        }
