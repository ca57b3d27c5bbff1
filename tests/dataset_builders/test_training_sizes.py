"""How many queries train and test: equal and all, small parts, given ones; and what says so."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from msshift_bench import data
from msshift_bench.data.manifest import is_balanced
from msshift_bench.dataset_builders import cut
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import SampleSizes, ids_and_texts, queries_table
from msshift_bench.dataset_builders.groups import word_count
from msshift_bench.dataset_builders.topics import replay_topics, retrain_topics
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import UsageError
from msshift_bench.evaluation import Settings, data_caveats, losses_of
from msshift_bench.records import SPLITS
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, Command, WriteFolder
from tests.support.cut_rows import ids_of, placed
from tests.support.refusals import check_exits, check_refusals

MINI = data.open_collection("mini:500")
NAMES = ("topics", "wh-words", "length")
USABLE = tuple(ids_and_texts(queries_table(MINI)))
GIVEN = frozenset(USABLE[::7])
SHORT = next(i for i, text in MINI.queries.items() if i in GIVEN and len(text) < 25)


@pytest.fixture(scope="session")
def equal(build_once: Build) -> Path:
    return build_once("mini:500", *NAMES)


@pytest.fixture(scope="session")
def everything(build_once: Build) -> Path:
    return build_once("mini:500", *NAMES, samples=SampleSizes(train_size="all"))


# ---- what cannot be asked for ---------------------------------------------------------------

GIVES = {"test_queries": GIVEN}
SIZED = {"options": {"restrain-5": {}, "restrain": {"test_sets": ["x"]}}}


WRONG: dict[str, tuple[Sequence[str], dict[str, Any]]] = {
    "UsageError topics resttest": ([], {}),
    "-5 to test: UsageError -5 1": (["length"], {"test_size": -5}),
    "0 to test: UsageError 0 1": (["length"], {"test_size": 0}),
    "UsageError 18446744073709551616 64": (["rare-terms"], {"seed": 2**64}),
    "UsageError -1 0": (["length"], {"validation_size": -1}),
    "UsageError None": (["length"], {"test_queries": frozenset()}),
    "topics of -5: UsageError -5 1": (["topics"], {"options": {"topics": {"topic_size": -5}}}),
    "UsageError topics": (["length"], {"options": {"topics": {}}}),
    "UsageError restrain-5": (["restrain-5"], SIZED),
    "UsageError 1,000,000 'short' 217 'all'": (["length"], {"train_size": 10**6}),
    "0 to train: UsageError 0 1": (["length"], {"train_size": 0}),
    "UsageError length topics": (NAMES[:2], GIVES),
    "UsageError size 3": (["length"], GIVES | {"test_size": 3}),
    "DataError 1 'long'": (["length"], {"test_queries": frozenset({SHORT})}),
    "DataError 'short'": (["length"], {"test_queries": frozenset(USABLE)}),
    "NotFoundError nothing": (["length"], {"test_queries": Path("nothing")}),
    "UsageError apache-2.0 --licence": (["length"], {"licence": "mit"}),
}


def test_what_cannot_be_built(tmp_path: Path, tsv_folder: WriteFolder) -> None:
    def build(
        shifts: Sequence[str], asked: dict[str, Any], collection: data.Collection = MINI
    ) -> None:
        sizes = {name: asked[name] for name in asked if name not in ("licence", "options")}
        others = {name: asked[name] for name in asked if name not in sizes}
        build_dataset(collection, shifts, tmp_path / "x", samples=SampleSizes(**sizes), **others)

    toy = data.open_collection(tsv_folder(qrels="q1 0 d1 1\nq2 0 d2 0\n"))
    path, empty = tmp_path / "ids.txt", tmp_path / "empty.txt"
    path.write_text("q1\nq2\nq9\tsome text\nq1\n\nq1 \n")
    empty.touch()
    refusals = {wrong: partial(build, *case) for wrong, case in WRONG.items()}
    codes = "[unjudged-query] [unknown-query] [repeated-id] [blank-line]"
    for file, facts in (
        (path, f"{codes} ids.txt:2 ids.txt:3 'q2' 'q9' fix"),
        (empty, "[no-queries] empty.txt"),
    ):
        build_from = partial(build, ["length"], {"test_queries": file}, toy)
        refusals[f"{file.name}: CollectionError {facts}"] = build_from
    check_refusals(refusals)
    assert not (tmp_path / "x").exists()


def test_the_largest_seed(tmp_path: Path, tsv_folder: WriteFolder) -> None:
    texts = [f"q{i}\tplain words {'and more ' * (i % 4)}{i}\n" for i in range(60)]
    judged = "".join(f"q{i} 0 d1 1\n" for i in range(60))
    folder = tsv_folder(queries="".join(texts), qrels=judged)
    build_dataset(
        folder,
        ["length", "rare-terms"],
        tmp_path / "x",
        samples=SampleSizes(seed=2**64 - 1, nano=True),
    )
    add_triples(tmp_path / "x", folder, shifts=["length"], count=1, depth=2, seed=-(2**63))
    with pytest.raises(UsageError, match="64"):
        add_triples(tmp_path / "x", folder, count=1, depth=2, seed=10**60)


# ---- training sets: equal, or all -----------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_group_trains_with_as_many_queries(equal: Path, everything: Path, name: str) -> None:
    counts, unequal = (data.read_manifest(f).shifts[name]["rows"] for f in (equal, everything))
    assert len({group["train"] for group in unequal.values()}) > 1
    smallest = min(group["train"] for group in unequal.values())
    assert {group["train"] for group in counts.values()} == {smallest}
    mine, all_of_it = placed(equal, name), placed(everything, name)
    assert mine["train"] | mine["unused"] == all_of_it["train"]
    assert not mine["train"] & mine["unused"]
    assert (mine["validation"], mine["test"]) == (all_of_it["validation"], all_of_it["test"])
    # What is left over stands in the whole shift alone.
    for config in SHIFTS[name].configs:
        splits = data.load_dataset(equal, config)
        assert len(splits["train"]) == smallest * (len(SHIFTS[name].groups) - 1)
        assert not mine["unused"] & {row.query_id for rows in splits.values() for row in rows}


@pytest.mark.parametrize("balanced", [True, False])
def test_what_is_unbalanced_is_said(request: pytest.FixtureRequest, balanced: bool) -> None:
    folder: Path = request.getfixturevalue("equal" if balanced else "everything")
    manifest, card = data.read_manifest(folder), (folder / "README.md").read_text()
    assert {facts["balanced"] for facts in manifest.shifts.values()} == {balanced}
    assert card.count("**Unbalanced**") == (0 if balanced else len(NAMES))
    assert manifest.parameters.get("train_size") == (None if balanced else "all")
    assert data.verify_dataset(folder)[1] == []
    info = data.open_dataset(folder).info
    queries = {g: counts["train"] for g, counts in manifest.shifts["length"]["rows"].items()}
    assert info.training["length"] == {"balanced": balanced, "queries": queries}
    content = losses_of([], info, Settings()).to_json()
    assert content["data"]["training"]["length"] == {"balanced": balanced, "queries": queries}
    notes = list(data_caveats(info, ["length"]))
    assert len(notes) == (0 if balanced else 1)
    assert all(f"long {queries['long']:,}" in note for note in notes)
    assert not list(data_caveats(info))


@pytest.mark.parametrize(
    ("sizes", "balanced"),
    [((100, 100), True), ((99, 100), True), ((98, 100), False), ((0, 100), False)],
)
def test_a_few_queries_do_not_unbalance(sizes: tuple[int, int], balanced: bool) -> None:
    assert is_balanced(dict(zip("ab", sizes, strict=True))) is balanced


def test_the_command_line(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("nobody\n")
    build = "build length --collection mini:500"
    for size, trained in (("20", [20, 20]), ("all", [217, 318])):
        assert msshift(*build.split(), "--train-size", size, "--out", size).returncode == 0
        rows = data.read_manifest(tmp_path / size).shifts["length"]["rows"]
        assert [rows[group]["train"] for group in ("short", "long")] == trained
    wrong = {f"--train-size={size}": f"2 --train-size '{size}'" for size in ("some", "0", "1.5")}
    wrong["--test-queries=ids.txt"] = "1 [unknown-query] ids.txt:1 'nobody'"
    check_exits(msshift, wrong, f"{build} --out much")
    assert not (tmp_path / "much").exists()


@pytest.mark.extended
@pytest.mark.parametrize("size", [None, 12, "all"])
def test_a_number_can_be_chosen_and_a_replay_gives_the_same(
    tmp_path: Path, equal: Path, size: int | None
) -> None:
    build_dataset(MINI, NAMES, tmp_path / "first", samples=SampleSizes(train_size=size))
    manifest, differing = replay_topics(tmp_path / "first", MINI, tmp_path / "again")
    assert differing == []
    assert data.read_manifest(tmp_path / "again") == data.read_manifest(tmp_path / "first")
    assert manifest.parameters.get("train_size") == size
    for name in NAMES if size == 12 else ():
        # A smaller sample is a part of a larger one.
        assert placed(tmp_path / "first", name)["train"] < placed(equal, name)["train"]


# ---- small parts ----------------------------------------------------------------------------


@pytest.mark.extended
def test_a_small_part_is_one_of_the_full_data_set_and_says_so(
    tmp_path: Path, equal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it never trains on test queries of the full one."""
    sizes = {"train": 9, "validation": 5, "test": 4}
    monkeypatch.setattr(cut, "NANO_SIZES", sizes)
    part, again = (
        build_dataset(MINI, NAMES, tmp_path / name, samples=SampleSizes(nano=True))
        for name in ("nano", "again")
    )
    other, alone = (
        build_dataset(MINI, ["length"], tmp_path / name, samples=SampleSizes(nano=True, seed=seed))
        for name, seed in (("other", 1), ("alone", 0))
    )
    whole, nano = data.read_manifest(equal), tmp_path / "nano"
    assert again == part
    for name in NAMES:
        facts = part.shifts[name]
        assert (facts["balanced"], facts["parameters"]["nano"]) == (True, sizes)
        for counts in facts["rows"].values():
            assert (counts["train"], counts["test"], counts["unused"]) == (9, 4, 0)
        assert placed(nano, name)["train"] < placed(equal, name)["train"]
        for config in SHIFTS[name].configs:
            for split in SPLITS:
                rows, some = (
                    list(data.load_dataset(f, config, split=split)) for f in (equal, nano)
                )
                assert set(some) < set(rows)
                assert some == sorted(some)
                others = len(SHIFTS[name].groups) - 1
                assert len(some) == sizes[split] * (others if split == "train" else 1)
    # A shift does not move what another samples.
    for config in ("length", *SHIFTS["length"].configs):
        assert alone.configs[config] == part.configs[config]
    assert len({m.content_digest for m in (whole, part, other, alone)}) == 4
    assert (whole.parameters["nano"], part.parameters["nano"]) == (False, True)
    assert "nano true" in (nano / "README.md").read_text()
    assert data.verify_dataset(nano)[1] == []
    monkeypatch.undo()
    # What is small already stays whole.
    build_dataset(MINI, ["length"], tmp_path / "small", samples=SampleSizes(nano=True))
    for split in SPLITS:
        small, whole_one = (ids_of(f, "length-long", split) for f in (tmp_path / "small", equal))
        assert small == whole_one


# ---- given test queries ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("given") / "ids.txt"
    path.write_text("".join(f"{query_id}\n" for query_id in sorted(GIVEN, reverse=True)))
    return path


@pytest.fixture(scope="module")
def given(listed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "msshift"
    build_dataset(MINI, NAMES, folder, samples=SampleSizes(test_queries=listed))
    return folder


def test_length_tests_with_given_queries_and_nothing_else_uses_them(given: Path) -> None:
    short, long = (ids_of(given, f"length-{group}", "test") for group in ("short", "long"))
    assert short | long == GIVEN
    assert not short & long
    cut_at = data.read_manifest(given).shifts["length"]["parameters"]["cut"]
    texts = MINI.queries
    assert {q for q in GIVEN if word_count(texts[q]) < cut_at} == short
    validation = set()
    for name in NAMES:
        for config in SHIFTS[name].configs:
            validation.add(frozenset(ids_of(given, config, "validation")))
            assert not GIVEN & ids_of(given, config, "train")
        counts = data.read_manifest(given).shifts[name]["rows"]
        assert len({group["train"] for group in counts.values()}) == 1
    (common,) = validation
    assert common
    assert not GIVEN & common
    assert data.verify_dataset(given)[1] == []


def test_other_shifts_lose_no_query_and_sample_on(given: Path, equal: Path) -> None:
    mine, usual = (
        data.load_dataset(folder, "wh-words", split="queries") for folder in (given, equal)
    )
    # A query of no group is in a whole shift where it validates.
    assert {row.query_id for row in mine if row.group != "others"} == {
        row.query_id for row in usual if row.group != "others"
    }
    of_split = placed(given, "wh-words")
    assert not GIVEN & (of_split["train"] | of_split["validation"])


def test_the_manifest_names_them(given: Path, tmp_path: Path) -> None:
    manifest = data.read_manifest(given)
    assert manifest.parameters["test_queries"]["queries"] == len(GIVEN)
    assert manifest.shifts["length"]["parameters"]["test_queries"] == len(GIVEN)
    assert "test_size" not in manifest.shifts["length"]["parameters"]
    assert manifest.shifts["wh-words"]["parameters"]["test_size"] == 6500
    assert f'"queries": {len(GIVEN)}' in (given / "README.md").read_text()
    texts = MINI.queries
    lines = "".join(f"{query_id}\t{texts[query_id]}\r\n" for query_id in sorted(GIVEN))
    path = tmp_path / "queries.tsv.gz"
    path.write_bytes(gzip.compress(lines.encode()))
    for name, source in (("set", GIVEN), ("file", path)):
        build_dataset(MINI, NAMES, tmp_path / name, samples=SampleSizes(test_queries=source))
        assert data.read_manifest(tmp_path / name) == manifest


@pytest.mark.extended
def test_a_replay_tests_with_them_too(given: Path, listed: Path, tmp_path: Path) -> None:
    assert replay_topics(given, MINI, tmp_path / "again")[1] == []
    assert data.read_manifest(tmp_path / "again") == data.read_manifest(given)
    build_dataset(
        MINI, NAMES, tmp_path / "nano", samples=SampleSizes(test_queries=listed, nano=True)
    )
    with pytest.raises(
        UsageError, match=r"a small part of the test queries .* cannot be made again"
    ):
        replay_topics(tmp_path / "nano", MINI, tmp_path / "other")


def test_topics_grow_to_their_size_without_them(given: Path) -> None:
    target = data.read_manifest(given).shifts["topics"]["parameters"]["clustering"]["target"]
    table = data.open_dataset(given).table("topics", "queries").to_pylist()
    for group in SHIFTS["topics"].groups:
        rows = (row for row in table if row["group"] == group and row["split"] != "validation")
        assert len({row["query_id"] for row in rows} - GIVEN) >= target
    made_again = retrain_topics(given, MINI).facts
    assert (made_again["identical"], made_again["regrouped"]) == (True, 0)
