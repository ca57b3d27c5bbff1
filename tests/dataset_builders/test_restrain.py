"""ReSTrain: training sets near and far from test queries, of exact sizes, one inside another."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from msshift_bench.arrays import Vectors
from msshift_bench.data import (
    load_dataset,
    open_collection,
    open_dataset,
    read_manifest,
    verify_dataset,
)
from msshift_bench.dataset_builders import zhan
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import NANO_SIZES, SampleSizes
from msshift_bench.dataset_builders.kmeans import squared_distances
from msshift_bench.dataset_builders.topics import replay_topics
from msshift_bench.dataset_builders.zhan import rank_by_best_cosine
from msshift_bench.errors import UsageError
from msshift_bench.evaluation import evaluate_run_sets
from msshift_bench.similarity import compare_groups, group_similarity, unit_rows
from tests.conftest import Command
from tests.support.cut_rows import ids_of
from tests.support.fabricated import write_run
from tests.support.refusals import check_exits, check_refusals
from tests.support.run_files import write_test_set
from tests.support.tsv_files import write_tsv_folder

MINI = open_collection("mini:300")
IDS = tuple(MINI.queries)
TESTED = (*IDS[:3], *IDS[200:203])


@pytest.fixture(scope="module")
def test_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six queries of the collection under other ids, with graded judgements."""
    folder = tmp_path_factory.mktemp("tests") / "dl"
    texts = {f"t{query_id}": MINI.queries[query_id] for query_id in TESTED}
    judged = {f"t{query_id}": next(iter(MINI.qrels[query_id])) for query_id in TESTED}
    write_test_set(folder, texts, judged)
    return folder


@pytest.fixture(scope="module")
def built(test_set: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "msshift"
    options = {"restrain": {"test_sets": [test_set]}}
    build_dataset(MINI, ["length", "restrain-60", "restrain-20"], folder, options=options)
    return folder


BOTH = ("interpolation", "extrapolation")


def test_every_size_has_two_experiments_on_the_same_test_set(built: Path) -> None:
    manifest = read_manifest(built)
    assert list(manifest.shifts) == ["length", "restrain-20", "restrain-60"]
    trained, tested = (
        {size: [ids_of(built, f"restrain-{size}-{g}", split) for g in BOTH] for size in (20, 60)}
        for split in ("train", "test")
    )
    for size, (near, far) in trained.items():
        assert len(near) == len(far) == size
        assert not near & far
        # Each test query is a training query under another id.
        assert set(TESTED) <= near
        assert tested[size] == [{f"t{query_id}" for query_id in TESTED}] * 2
        validation = ids_of(built, f"restrain-{size}-interpolation", "validation")
        assert not (near | far) & validation
        facts = manifest.shifts[f"restrain-{size}"]
        assert facts["balanced"] is True
        for counts in facts["rows"].values():
            assert (counts["test"], counts["validation"]) == (6, len(validation))
        nearness = facts["found"]["cosine with a test query"]
        assert nearness["interpolation"]["largest"] == 1.0
        assert nearness["extrapolation"]["largest"] < nearness["interpolation"]["mean"]
    assert validation
    assert all(few < many for few, many in zip(trained[20], trained[60], strict=True))
    rows = load_dataset(built, "restrain-20-extrapolation", split="test")
    assert {level for row in rows for level in row.relevances} == {2}
    assert verify_dataset(built)[1] == []
    card = (built / "README.md").read_text()
    assert "`restrain-20`" in card
    assert "The groups of this shift are training sets" in card
    with pytest.raises(UsageError, match="restrain-20"):
        group_similarity(built, "restrain-20")


def test_groups_of_sizes_alone_cannot_be_compared(test_set: Path, tmp_path: Path) -> None:
    options = {"restrain": {"test_sets": [test_set]}}
    folder = tmp_path / "both"
    build_dataset(MINI, ["restrain-20", "restrain-60"], folder, options=options)
    call = partial(compare_groups, folder)
    check_refusals({f"UsageError {folder} restrain-20 restrain-60 --train --test": call})


def test_a_small_part_keeps_the_test_set(test_set: Path, tmp_path: Path) -> None:
    options = {"restrain": {"test_sets": [test_set]}}
    sizes = {"train": 10, "validation": 3, "test": 4}
    with mock.patch.dict(NANO_SIZES, sizes):
        build_dataset(
            MINI, ["restrain-30"], tmp_path / "x", options=options, samples=SampleSizes(nano=True)
        )
    for group in BOTH:
        rows = load_dataset(tmp_path / "x", f"restrain-30-{group}")
        assert {split: len(rows[split]) for split in rows} == sizes
    with pytest.raises(UsageError, match="restrain-30"):
        replay_topics(tmp_path / "x", MINI, tmp_path / "y")


def test_the_same_bytes_for_shuffled_lines_and_other_blocks(
    built: Path, test_set: Path, tmp_path: Path
) -> None:
    folder, first = write_tsv_folder(tmp_path / MINI.name, MINI, shuffle=True), read_manifest(built)
    options = {"restrain": {"test_sets": [test_set], "encoder": "terms"}}
    with mock.patch.object(zhan, "_BLOCK", 7), mock.patch.object(zhan, "_TESTS", 2):
        again = build_dataset(
            open_collection(folder), list(first.shifts), tmp_path / "x", options=options
        )
    assert again.content_digest == first.content_digest
    assert again.shifts == first.shifts


@st.composite
def two_sets(draw: st.DrawFn) -> tuple[Vectors, Vectors]:
    seed, count, tests = draw(st.tuples(*(st.integers(low, 40) for low in (0, 6, 1))))
    numbers = np.random.default_rng(seed)
    # A few vectors repeat, so that ranks tie.
    vectors = numbers.standard_normal((count, 4)).astype(np.float32)
    train = vectors[numbers.integers(0, count, count)]
    return train, numbers.standard_normal((tests, 4)).astype(np.float32)


@pytest.mark.extended
@settings(max_examples=40)
@given(two_sets(), st.data())
def test_sets_are_exact_nested_and_without_the_neighbours(
    sets: tuple[Vectors, Vectors], data: st.DataObject
) -> None:
    train, test = sets
    # Blocks of few, so that later test queries meet ranks that are known.
    with mock.patch.object(zhan, "_BLOCK", 7), mock.patch.object(zhan, "_TESTS", 2):
        near = rank_by_best_cosine(train, test)
    rows = np.arange(len(train))
    unit = unit_rows(train)
    ones = unit_rows(test)[:, np.newaxis]
    squared = np.array([squared_distances(unit, rows, one, 0 * rows) for one in ones])
    ranks = np.argsort(np.argsort(squared, axis=1, kind="stable"), axis=1) + 1
    best = [min(zip(ranks[:, row], squared[:, row], strict=True)) for row in rows]
    assert near.ranks.tolist() == [rank for rank, _ in best]
    assert near.cosines.tolist() == [1 - distance / 2 for _, distance in best]
    assert sorted(near.order.tolist()) == list(range(len(train)))
    size = data.draw(st.integers(1, len(train) // 2))
    depths = near.depths(size)
    units = [one / np.linalg.norm(one.astype(float), axis=1, keepdims=True) for one in sets]
    # Repeated vectors may differ in the last bit here.
    neighbours = np.argsort(-(units[1] @ units[0].T).round(9), axis=1, kind="stable")
    interpolation = set(near.order[:size].tolist())
    extrapolation = set(near.order[-size:].tolist())
    assert not interpolation & extrapolation
    whole, part = (set(neighbours[:, : depths["I"] - less].ravel().tolist()) for less in (0, 1))
    assert part <= interpolation <= whole
    assert not extrapolation & set(neighbours[:, : depths["E"]].ravel().tolist())
    assert extrapolation & set(neighbours[:, depths["E"]].tolist())


def test_a_vector_of_zeros_is_near_nothing() -> None:
    train = np.array([[0, 0], [-1, 0], [0, 1], [3, 0]], np.float32)
    near = rank_by_best_cosine(train, np.array([[1, 0]], np.float32))
    assert near.order.tolist() == [3, 0, 2, 1]
    assert near.cosines.tolist() == [0, -1, 0, 1]


def test_bad_requests(test_set: Path, tmp_path: Path) -> None:
    texts = {name: (test_set / name).read_text() for name in ("queries.tsv", "qrels.tsv")}
    bare = {name: re.sub("(?m)^t", "", text) for name, text in texts.items()}
    unjudged = {**texts, "qrels.tsv": f"t{TESTED[0]} 0 nothing 0\n"}
    for folder, files in (("dl", texts), ("same", bare), ("unjudged", unjudged)):
        (tmp_path / folder).mkdir()
        for name, text in files.items():
            (tmp_path / folder / name).write_text(text)

    def build(*folders: str, size: int = 20, rule: str = "nearest", **options: Any) -> None:
        asked = {"test_sets": [tmp_path / folder for folder in folders], "rule": rule}
        names = [f"restrain-{size}"]
        build_dataset(MINI, names, tmp_path / "x", options={"restrain": asked}, **options)

    refusals = {
        "UsageError --test-set": build,
        "UnknownNameError 'restrain-0'": partial(build, "dl", size=0),
        "UsageError 300 600 428 214": partial(build, "dl", size=300),
        "DataError relevance 1": partial(build, "unjudged"),
        "DataError 't0' dl": partial(build, "dl", "dl"),
        "DataError 6 mini:300 --qrels": partial(build, "same"),
        "UnknownNameError 'nearst'": partial(build, "dl", rule="nearst"),
        "UsageError --ids-only": partial(build, "dl", texts=False),
        "UsageError --train-size": partial(build, "dl", samples=SampleSizes(train_size=5)),
    }
    check_refusals(refusals)
    assert not (tmp_path / "x").exists()


def test_the_sizes_stand_in_one_table(built: Path, tmp_path: Path) -> None:
    tests = sorted(open_dataset(built).rows("restrain-20-extrapolation", "test"))
    for size, places in (
        (20, {"interpolation": 0, "extrapolation": 1}),
        (60, {"interpolation": 0, "extrapolation": 0}),
    ):
        for model, place in places.items():
            ranked = [(r.query_id, [*["x", "y"][:place], *r.relevant_doc_ids]) for r in tests]
            write_run(tmp_path / f"dense/restrain-{size}/{model}.run.gz", ranked, model)
    best = [(row.query_id, list(row.relevant_doc_ids)) for row in tests]
    write_run(tmp_path / "bm25/restrain-20.run", best, "bm25")
    result = evaluate_run_sets(tmp_path, built, allow=["identical"])
    (table,) = (
        table for section in result.layout(result.figures, delta=True) for table in section.tables
    )
    rows = [[cell.text for cell in row] for row in table.rows]
    assert table.header == ("#Q", "system", "MRR@10 Inter.", "Extra.", "Delta")
    assert rows[0] == ["20", "bm25", "100.0", "100.0", "0.0%"]
    assert rows[1][:4] == ["", "dense", "100.0", "50.0"]
    assert rows[1][4].startswith("-50.0%")
    assert rows[2][:4] == ["60", "dense", "100.0", "100.0"]


def test_the_command(test_set: Path, msshift: Command, tmp_path: Path) -> None:
    shutil.copytree(test_set, tmp_path / "dl")
    build = "build restrain-50 restrain-40 --collection mini:300 --encoder terms --test-set dl"
    assert msshift(*build.split()).returncode == 0
    rows = read_manifest(tmp_path / "msshift").shifts["restrain-40"]["rows"]["extrapolation"]
    assert rows == {"train": 40, "validation": 22, "test": 6, "unused": 0}
    check_exits(
        msshift,
        {
            "build restrain-50 --collection mini:300": "2 restrain --test-set",
            "build restrain": "2 restrain restrain-14k",
            "evaluate runs --shift restrain": "2 restrain restrain-14k",
        },
    )
    listed = msshift("list").stdout
    for name in ("restrain-50", "restrain"):
        assert f"{name}: training queries near the test queries" in listed
