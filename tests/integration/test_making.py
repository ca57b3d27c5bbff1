"""Runs, descriptions and data that make no submission, and what to do about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_meta, write_runs
from msshift_bench.data import sha256_of
from msshift_bench.data.dataset import open_dataset
from msshift_bench.dataset_builders.importing import import_official
from msshift_bench.errors import NotFoundError, SubmissionError, UsageError
from msshift_bench.leaderboard.gate import check_submission
from msshift_bench.leaderboard.making import make_submission
from msshift_bench.leaderboard.trained_on import own_split
from msshift_bench.runs import sidecar_path
from msshift_bench.shifts import SHIFTS
from tests.support.official_checkout import write_checkout


def test_a_system_is_trained_per_group_on_all_shifts_or_on_none(
    first: Path, tmp_path: Path
) -> None:
    runs = write_runs(tmp_path / "runs" / "made-up", first, "length")
    write_runs(runs, first, "wh-words", one=True)
    meta = write_meta(tmp_path / "meta.toml", length="msshift", wh_words="msshift")
    with pytest.raises(SubmissionError, match="does not fit together") as caught:
        make_submission(runs, meta, tmp_path / "out", first)
    said = {finding.code: str(finding) for finding in caught.value.findings}
    mixed = "some run sets are per held-out group and some are not"
    assert mixed in said["mixed-run-sets"]
    assert "training.queries.wh-words: 'msshift' is the training split of" in said["not-per-group"]
    assert "give a list of ids, 'none' or 'undeclared'" in said["not-per-group"]
    assert not (tmp_path / "out").exists()


def test_a_seed_that_is_too_long_for_a_submission_s_paths_is_named(
    mini_length: Path, tmp_path: Path
) -> None:
    runs = write_runs(tmp_path / "runs" / "made-up", mini_length, seeds=(1_234_567_890,))
    meta = write_meta(tmp_path / "meta.toml", length="msshift")
    with pytest.raises(UsageError, match=r"seed-1234567890/short\.run\.gz: .* 9 digits; rename"):
        make_submission(runs, meta, tmp_path / "out", mini_length)
    assert not (tmp_path / "out").exists()


def test_a_list_of_training_queries_that_is_not_there_is_named(
    mini_length: Path, tmp_path: Path
) -> None:
    runs = write_runs(tmp_path / "runs" / "made-up", mini_length)
    meta = write_meta(tmp_path / "meta.toml", length="ids/{held_out}.txt")
    with pytest.raises(NotFoundError, match=r"no list of training queries at .*/ids/short\.txt"):
        make_submission(runs, meta, tmp_path / "out", mini_length)


def test_released_test_sets_alone_have_no_training_split_to_declare(tmp_path: Path) -> None:
    import_official([write_checkout(tmp_path / "checkout")], tmp_path / "msshift")
    with pytest.raises(UsageError, match=r"no training split of topics-C0, so 'msshift' says noth"):
        own_split(SHIFTS["topics"], "C0", open_dataset(tmp_path / "msshift"))


def test_a_description_of_megabytes_is_not_read(first: Path, tmp_path: Path) -> None:
    meta = write_meta(tmp_path / "meta.toml", length="none")
    meta.write_text(meta.read_text() + "#" * 2_000_000)
    with pytest.raises(SubmissionError, match=r"meta\.toml is too large to describe a system"):
        make_submission(tmp_path, meta, tmp_path / "out", first)


def test_a_sidecar_that_is_a_link_is_not_followed(first: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs" / "made-up", first, one=True)
    (tmp_path / "elsewhere.json").write_text(json.dumps({}))
    sidecar_path(runs / "length.run.gz").symlink_to(tmp_path / "elsewhere.json")
    meta = write_meta(tmp_path / "meta.toml", length="none")
    with pytest.raises(SubmissionError, match=r"length.*json: .*a link \[not-a-file\]"):
        make_submission(runs, meta, tmp_path / "out", first)


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"parameters": None},
        {"parameters": {"seed": [1]}},
        {"hardware": ["a machine"]},
        {"candidates": 1000},
    ],
)
def test_a_file_beside_a_run_that_is_no_sidecar_is_named(
    content: object, mini_length: Path, tmp_path: Path
) -> None:
    runs = write_runs(tmp_path / "runs" / "made-up", mini_length, one=True)
    if isinstance(content, dict):
        digest = sha256_of(runs / "length.run.gz")
        content = {"shift": "length", "held_out": None, "run_sha256": digest, **content}
    sidecar_path(runs / "length.run.gz").write_text(json.dumps(content))
    meta = write_meta(tmp_path / "meta.toml", length="none")
    with pytest.raises(SubmissionError, match=r"json does not describe a run as 'msshift baseline"):
        make_submission(runs, meta, tmp_path / "out", mini_length)


def test_models_of_several_seeds_are_no_replicate(mini_length: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs" / "made-up", mini_length)
    for seed, group in enumerate(("short", "long"), 1):
        run = runs / "length" / f"{group}.run.gz"
        said = {"shift": "length", "held_out": group, "parameters": {"seed": seed}}
        sidecar_path(run).write_text(json.dumps({**said, "run_sha256": sha256_of(run)}))
    meta = write_meta(tmp_path / "meta.toml", length="msshift")
    with pytest.raises(SubmissionError, match=r"the seeds \[1, 2\], and one run of each model"):
        make_submission(runs, meta, tmp_path / "out", mini_length)
    sidecar_path(run).unlink()
    meta.write_text(meta.read_text().replace("seeds = []", "seeds = [2]"))
    with pytest.raises(SubmissionError, match=r"the seeds \[1, 2\], and one run of each model"):
        make_submission(runs, meta, tmp_path / "out", mini_length)
    meta.write_text(meta.read_text().replace("seeds = [2]", "seeds = [1]"))
    submission = make_submission(runs, meta, tmp_path / "out", mini_length)
    assert submission.training.seeds == (1,)
    assert check_submission(tmp_path / "out", data=mini_length).accepted
