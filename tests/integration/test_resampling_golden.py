"""ReSTrain, ReSTTest and overlap on the real material: released files, and our own sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import Collection, load_dataset, open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import SampleSizes
from msshift_bench.errors import DataError
from msshift_bench.leaderboard.description import BOARDS
from msshift_bench.runs import read_qrels
from msshift_bench.similarity import count_overlap
from tests.support.board_digests import data_digest
from tests.support.tsv_files import qrel_lines

pytestmark = [pytest.mark.realdata, pytest.mark.extended]

YEARS = {"dl19": "2019", "dl20": "2020"}


def test_the_released_training_sets_and_their_overlap_with_trec_dl(real_data: Path) -> None:
    golden: dict[str, Any] = json.loads(
        (real_data / "published/upstream_golden.json").read_text("utf-8")
    )["extrapolate_eval"]
    files = real_data / "extrapolate-eval/restrain_files/msmarco-passage"
    names = {"I": "interpolate", "E": "extrapolate"}
    found = count_overlap(
        {
            f"{size} {short}": read_qrels(files / size / f"{name}.train-qrel.txt")
            for size in ("14k", "45k")
            for short, name in names.items()
        },
        {year: read_qrels(real_data / f"msmarco-pool/qrels.{year}.txt") for year in YEARS},
    )
    counts = found.figures.where(test=tuple(YEARS))
    assert len(counts) == 4 * 2 * 3 * 2
    for row in counts:
        shared = row.figure.removeprefix("sharing_")[0]
        expected = golden["label_overlap"][row.system][row.test][shared]
        assert row.value == expected[int(row.slice[-1]) - 1], row
        assert row.queries == golden["label_overlap"]["n"][row.test]
    sizes = found.figures.where(figure=("queries", "pairs", "passages"))
    for (name,), of_set in sizes.each("system"):
        size, short = name.split()
        assert golden["restrain"][size][short] == [row.value for row in of_set]
    common = {
        pair: tuple(row.value for row in rows)
        for pair, rows in found.figures.where(test="").each("system", "against")
    }
    for size in ("14k", "45k"):
        shared = golden["restrain"]["shared_passages"][size]
        assert common[f"{size} I", f"{size} E"] == (0, shared)
    for short in names:
        smaller = golden["restrain"]["14k"][short]
        assert common[f"14k {short}", f"45k {short}"] == (smaller[0], smaller[2])


@pytest.fixture(scope="module")
def pool(real_data: Path) -> Collection:
    """The pool, with the judgements of passages that are in it."""
    return open_collection(
        real_data / "msmarco-pool", qrels=real_data / "msmarco-pool/qrels_in_pool.tsv"
    )


def dev_small(real_data: Path) -> frozenset[str]:
    lines = (real_data / "query-typos/queries.dev.small.tsv").read_text("utf-8").splitlines()
    return frozenset(line.split("\t")[0] for line in lines)


def test_resttest_holds_every_query_of_the_pool_once(
    real_data: Path, pool: Collection, tmp_path: Path
) -> None:
    manifest = build_dataset(
        pool,
        ["resttest"],
        tmp_path / "msshift",
        options={"resttest": {"encoder": "terms"}},
        samples=SampleSizes(test_queries=dev_small(real_data), validation_size=0),
    )
    rows = manifest.shifts["resttest"]["rows"]
    assert sum(placed["test"] for placed in rows.values()) == 6980
    assert sum(placed["train"] for placed in rows.values()) == 12530
    assert all(placed["test"] and placed["train"] for placed in rows.values())
    whole = load_dataset(tmp_path / "msshift", "resttest", split="queries")
    assert len({row.query_id for row in whole}) == len(whole) == 19510


def test_restrain_on_the_pool(real_data: Path, pool: Collection, tmp_path: Path) -> None:
    folders = []
    for year, number in YEARS.items():
        folder = tmp_path / year
        folder.mkdir()
        queries = (real_data / f"query-typos/queries.dl{number}.tsv").read_text("utf-8")
        qrels = read_qrels(real_data / f"msmarco-pool/qrels.{year}.txt")
        judged = {one.query_id for one in qrels}
        kept = [line for line in queries.splitlines(True) if line.split("\t")[0] in judged]
        (folder / "queries.tsv").write_text("".join(kept))
        lines = [f"{one.query_id} 0 {one.doc_id} {one.relevance}\n" for one in qrels]
        (folder / "qrels.tsv").write_text("".join(lines))
        folders.append(folder)
    options = {"restrain": {"encoder": "terms", "test_sets": folders}}
    with pytest.raises(
        DataError, match="97 of the 97 test queries are queries with a relevant passage"
    ):
        build_dataset(pool, ["restrain-1k", "restrain-4k"], tmp_path / "x", options=options)
    tested = {one.query_id for folder in folders for one in read_qrels(folder / "qrels.tsv")}
    left_out = dev_small(real_data) | tested
    lines = qrel_lines({q: judged for q, judged in pool.qrels.items() if q not in left_out})
    (tmp_path / "train.tsv").write_text("".join(lines))
    own = open_collection(real_data / "msmarco-pool", qrels=tmp_path / "train.tsv")
    manifest = build_dataset(own, ["restrain-1k", "restrain-4k"], tmp_path / "x", options=options)
    sets = {
        (size, group): {
            row.query_id
            for row in load_dataset(tmp_path / "x", f"restrain-{size}-{group}", split="train")
        }
        for size in ("1k", "4k")
        for group in ("interpolation", "extrapolation")
    }
    assert [len(one) for one in sets.values()] == [1000, 1000, 4000, 4000]
    # The board's digest is of TREC DL's judged queries, for every size.
    accepted = {BOARDS["ms-marco"].shifts[f"restrain-{size}"] for size in ("14k", "45k", "200k")}
    assert {(data_digest("restrain-1k", tmp_path / "x"),)} == accepted
    for group in ("interpolation", "extrapolation"):
        assert sets["1k", group] < sets["4k", group]
    assert not sets["4k", "interpolation"] & sets["4k", "extrapolation"]
    for facts in manifest.shifts.values():
        nearness = facts["found"]["cosine with a test query"]
        # Term vectors do not tell apart queries that differ in a word which occurs nowhere else.
        assert nearness["extrapolation"]["mean"] + 0.1 < nearness["interpolation"]["mean"]
