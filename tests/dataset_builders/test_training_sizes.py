"""How much every group trains with: the same, unless all is asked for; and what says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msshift_bench import irds
from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import load_dataset, open_dataset
from msshift_bench.data.manifest import DataInfo, TrainingSets, is_balanced, read_manifest
from msshift_bench.data.verification import verify_dataset
from msshift_bench.dataset_builders import cut
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.clustering import TARGET
from msshift_bench.dataset_builders.cut import SPLIT_SCALE_RULE
from msshift_bench.dataset_builders.hydrate import hydrate_dataset
from msshift_bench.dataset_builders.topic_checks import replay_topics
from msshift_bench.errors import IntegrityError, UsageError
from msshift_bench.evaluation import Settings, data_notes, losses_of
from msshift_bench.shifts import SHIFTS
from tests.conftest import REPOSITORY, Build, Command
from tests.support.fabricated import write_runs

pytestmark = pytest.mark.slow

MINI = open_collection("mini:500")
NAMES = ("topics", "wh-words", "length")


@pytest.fixture(scope="session")
def equal(build_once: Build) -> Path:
    return build_once("mini:500", *NAMES)


@pytest.fixture(scope="session")
def everything(build_once: Build) -> Path:
    return build_once("mini:500", *NAMES, train_size="all")


def placed(folder: Path, shift: str) -> dict[str, set[str]]:
    """Return split -> ids, as the whole shift has them."""
    table = load_dataset(folder, shift, split="queries").table
    found: dict[str, set[str]] = {}
    for query_id, split in zip(*(table[c].to_pylist() for c in ("query_id", "split")), strict=True):
        found.setdefault(split, set()).add(query_id)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_group_trains_with_as_many_queries(equal: Path, everything: Path, name: str) -> None:
    counts, unequal = (read_manifest(f).shifts[name]["rows"] for f in (equal, everything))
    assert len({placed["train"] for placed in unequal.values()}) > 1
    smallest = min(placed["train"] for placed in unequal.values())
    assert {placed["train"] for placed in counts.values()} == {smallest}
    for group in SHIFTS[name].groups:
        assert counts[group]["train"] + counts[group]["unused"] == unequal[group]["train"]
        assert unequal[group]["unused"] == 0
    for config in SHIFTS[name].configs:
        train = load_dataset(equal, config, split="train")
        assert len(train) == smallest * (len(SHIFTS[name].groups) - 1)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_over_stands_in_the_whole_shift_alone(
    equal: Path, everything: Path, name: str
) -> None:
    mine, all_of_it = placed(equal, name), placed(everything, name)
    assert mine["train"] | mine["unused"] == all_of_it["train"]
    assert not mine["train"] & mine["unused"]
    assert {split: mine[split] for split in ("validation", "test")} == {
        split: all_of_it[split] for split in ("validation", "test")
    }
    for config in SHIFTS[name].configs:
        splits = load_dataset(equal, config)
        assert list(splits) == ["train", "validation", "test"]
        assert not mine["unused"] & {row.query_id for rows in splits.values() for row in rows}


def test_the_papers_numbers_are_the_most() -> None:
    assert [SHIFTS[name].train_size for name in NAMES] == [25_000, 48_500, 100_000]
    assert "training: of each group at most what the smallest has left" in SPLIT_SCALE_RULE


def test_the_page_of_the_data_names_these_numbers() -> None:
    page = (REPOSITORY / "docs" / "data.md").read_text()
    chosen = page.partition("## Where we had to choose")[2]
    (row,) = (line for line in chosen.splitlines() if line.startswith("| training queries per "))
    assert ", ".join(f"{SHIFTS[name].train_size:,}" for name in NAMES) in row
    (row,) = (line for line in chosen.splitlines() if line.startswith("| size of a topic "))
    assert f"grow to {TARGET:,}" in row


def test_a_number_can_be_chosen(tmp_path: Path, equal: Path) -> None:
    manifest = build_dataset(MINI, NAMES, tmp_path / "ten", train_size=10)
    for name in NAMES:
        assert {placed["train"] for placed in manifest.shifts[name]["rows"].values()} == {10}
        assert manifest.shifts[name]["parameters"]["train_size"] == 10
        # A smaller sample is a part of a larger one.
        assert placed(tmp_path / "ten", name)["train"] < placed(equal, name)["train"]
    assert manifest.parameters["train_size"] == 10
    assert verify_dataset(tmp_path / "ten")[1] == []


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (10**6, r"length: 1,000,000 training queries .* '(short|long)' has \d+ left .* 'all'"),
        (0, r"length: 0 training queries of each group; ask for 1 or more"),
    ],
)
def test_a_number_that_cannot_be_had(tmp_path: Path, size: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_dataset(MINI, ["length"], tmp_path / "msshift", train_size=size)
    assert not (tmp_path / "msshift").exists()


def test_the_manifest_and_the_card_say_what_is_unbalanced(equal: Path, everything: Path) -> None:
    for folder, balanced in ((equal, True), (everything, False)):
        manifest = read_manifest(folder)
        card = (folder / "README.md").read_text()
        assert {facts["balanced"] for facts in manifest.shifts.values()} == {balanced}
        assert card.count("**Unbalanced**: the groups give different numbers") == (
            0 if balanced else len(NAMES)
        )
        assert verify_dataset(folder)[1] == []
    assert read_manifest(everything).parameters["train_size"] == "all"
    assert 'train_size "all"' in (everything / "README.md").read_text()


def test_reports_say_how_many_queries_the_groups_train_with(equal: Path, everything: Path) -> None:
    for folder, balanced in ((equal, True), (everything, False)):
        info = open_dataset(folder).info
        counts = read_manifest(folder).shifts["length"]["rows"]
        queries = {group: placed["train"] for group, placed in counts.items()}
        assert info.training["length"] == TrainingSets(balanced, queries)
        content = losses_of([], info, Settings()).to_json()
        assert content["data"]["training"]["length"] == {"balanced": balanced, "queries": queries}
        notes = [line for line in data_notes(info, ["length"]) if line.startswith("unbalanced: ")]
        assert len(notes) == (0 if balanced else 1)
        if not balanced:
            assert f"short {queries['short']:,}, long {queries['long']:,}" in notes[0]
        assert not any(line.startswith("unbalanced: ") for line in data_notes(info))
    assert DataInfo().training == {}


def test_the_commands_say_what_is_unbalanced(everything: Path, msshift: Command) -> None:
    runs = [write_runs(everything.parent / "runs" / name, everything) for name in ("one", "two")]
    for command in (("evaluate", runs[0]), ("compare", *runs)):
        done = msshift(*command, "--data", everything)
        assert done.returncode == 0, done.stderr
        said = " ".join((done.stdout + done.stderr).split())
        assert "unbalanced: the groups of length give different numbers of training" in said


@pytest.mark.parametrize(
    ("sizes", "balanced"),
    [((100, 100), True), ((99, 100), True), ((98, 100), False), ((0, 100), False)],
)
def test_a_few_queries_do_not_unbalance(sizes: tuple[int, int], balanced: bool) -> None:
    assert is_balanced(dict(zip("ab", sizes, strict=True))) is balanced


@pytest.mark.slow
def test_the_command_line(msshift: Command, tmp_path: Path) -> None:
    build = ("build", "length", "--collection", "mini:500")
    done = msshift(*build, "--train-size", "20")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("group")[1].split()[:4] == ["train", "validation", "test", "unused"]
    (short,) = (line for line in done.stdout.splitlines() if line.split()[:1] == ["short"])
    assert short.split()[1] == "20"
    done = msshift(*build, "--train-size", "all", "--out", "all")
    assert done.returncode == 0, done.stderr
    assert "length (rule split-space, unbalanced)" in done.stdout
    for told in ("some", "0", "-1", "1.5"):
        done = msshift(*build, f"--train-size={told}")
        assert done.returncode == 2
        assert f"--train-size takes a number from 1 on, or all, not {told!r}" in done.stderr
    done = msshift(*build, "--train-size", "100000", "--out", "much")
    assert (done.returncode, (tmp_path / "much").exists()) == (2, False)
    assert "left after test and validation" in done.stderr


def test_the_official_edition_keeps_its_own_lists(msshift: Command, tmp_path: Path) -> None:
    done = msshift("build", "--official", tmp_path, "--train-size", "20")
    assert done.returncode == 2
    assert "leave out what decides how it is built: --train-size" in done.stderr


def test_a_small_part_is_as_balanced_and_leaves_out_what_is_unused(
    tmp_path: Path, equal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut, "NANO_SIZES", {"train": 9, "validation": 5, "test": 4})
    manifest = build_dataset(MINI, NAMES, tmp_path / "nano", nano=True)
    for name in NAMES:
        assert manifest.shifts[name]["balanced"] is True
        for counts in manifest.shifts[name]["rows"].values():
            assert (counts["train"], counts["test"], counts["unused"]) == (9, 4, 0)
        assert placed(tmp_path / "nano", name)["train"] < placed(equal, name)["train"]


@pytest.mark.parametrize("size", [None, 12, "all"])
def test_a_replay_gives_the_same(tmp_path: Path, size: int | None) -> None:
    build_dataset(MINI, ["length", "topics"], tmp_path / "first", train_size=size)
    manifest, differing = replay_topics(tmp_path / "first", MINI, tmp_path / "again")
    assert differing == []
    assert read_manifest(tmp_path / "again") == read_manifest(tmp_path / "first")
    assert manifest.parameters.get("train_size") == size


def test_texts_come_back_to_what_is_unused(tmp_path: Path, equal: Path) -> None:
    build_dataset(MINI, NAMES, tmp_path / "msshift", texts=False)
    hydrate_dataset(tmp_path / "msshift", MINI)
    assert read_manifest(tmp_path / "msshift") == read_manifest(equal)


def test_ir_datasets_give_what_is_unused_with_the_whole_shift(equal: Path) -> None:
    import ir_datasets

    before = dict(ir_datasets.registry._registered)
    try:
        ids = irds.register(equal)
        found = {
            query.query_id
            for query in ir_datasets.load("msshift/length").queries_iter()
            if query.split == "unused"
        }
    finally:
        ir_datasets.registry._registered = before
    assert found == placed(equal, "length")["unused"]
    assert not [name for name in ids if name.endswith("/unused")]


def test_a_manifest_of_an_earlier_layout_is_refused(equal: Path, tmp_path: Path) -> None:
    raw = json.loads((equal / "manifest.json").read_bytes())
    (tmp_path / "manifest.json").write_text(json.dumps({**raw, "schema": 2}))
    with pytest.raises(IntegrityError, match=r"schema 2; this version reads 3: build .* again"):
        read_manifest(tmp_path)
