"""ReSTTest, built: five buckets of training and test queries, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.data import QueryColumns, open_collection
from msshift_bench.data.dataset import load_dataset, open_dataset
from msshift_bench.data.manifest import read_manifest
from msshift_bench.dataset_builders.build import build_dataset, default_shifts
from msshift_bench.dataset_builders.cut import ids_and_texts, queries_table
from msshift_bench.dataset_builders.topics import Buckets, group_by_bucket, replay_topics
from msshift_bench.errors import DataError, IntegrityError, UnknownNameError
from msshift_bench.shifts import SHIFTS
from tests.conftest import Command

MINI = open_collection("mini:500")
QUERIES = ids_and_texts(queries_table(MINI))
TESTS = frozenset(QUERIES.ids[::3])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "msshift"
    build_dataset(MINI, ["topics", "resttest"], folder, test_queries=TESTS, validation_size=0)
    return folder


def test_five_buckets_hold_every_query_once(built: Path) -> None:
    rows = load_dataset(built, "resttest", split="queries").table.to_pylist()
    assert [row["query_id"] for row in rows] == sorted(QUERIES.ids)
    assert {row["query_id"] for row in rows if row["split"] == "test"} == TESTS
    assert {row["split"] for row in rows} == {"train", "test"}
    sizes = Counter(row["group"] for row in rows)
    assert sorted(sizes, key=lambda group: -sizes[group]) == ["1", "2", "3", "4", "5"]
    for config, group in SHIFTS["resttest"].configs.items():
        held_out = load_dataset(built, config)
        assert {row.group for row in held_out["test"]} == {group}
        assert {row.group for row in held_out["train"]} == set("12345") - {group}
        assert len(held_out["train"]) == sum(
            row["split"] == "train" and row["group"] != group for row in rows
        )


def test_the_card_says_what_the_buckets_are(built: Path) -> None:
    manifest, card = read_manifest(built), (built / "README.md").read_text()
    facts = manifest.shifts["resttest"]
    assert facts["parameters"]["embedding"]["encoder"] == "terms"
    assert facts["parameters"]["train_size"] == "all"
    assert manifest.edition == "rebuilt"
    for words in facts["found"]["terms"].values():
        assert ", ".join(words) in card
    assert "how long, how many, when" not in card


def test_buckets_depend_on_nothing_but_the_queries(built: Path, tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(len(QUERIES))
    shuffled = QueryColumns(
        tuple(QUERIES.ids[place] for place in order), tuple(QUERIES.texts[place] for place in order)
    )
    again = group_by_bucket(shuffled, collection=MINI)
    published = Buckets.read(open_dataset(built))
    labels = [str(label + 1) for label in published.labels.tolist()]
    assert again.labels == dict(zip(published.query_ids, labels, strict=True))
    assert replay_topics(built, MINI, tmp_path / "again")[1] == []
    assert read_manifest(tmp_path / "again") == read_manifest(built)
    with pytest.raises(DataError, match="hold 750 queries, and mini:500 749 others"):
        smaller = QueryColumns(QUERIES.ids[1:], QUERIES.texts[1:])
        group_by_bucket(smaller, collection=MINI, published=published)


def test_bad_requests(tmp_path: Path) -> None:
    alike = QueryColumns(QUERIES.ids, QUERIES.texts[:1] * len(QUERIES))
    with pytest.raises(DataError, match="hold 1 distinct vectors, and 5 clusters need 5"):
        group_by_bucket(alike, collection=MINI)
    with pytest.raises(UnknownNameError, match="resttest rule"):
        group_by_bucket(QUERIES, "means", collection=MINI)
    assert default_shifts() == ("topics", "wh-words", "length")


def test_the_command(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("".join(f"{query_id}\tits text\n" for query_id in TESTS))
    done = msshift(
        *("build", "resttest", "--collection", "mini:500", "--test-queries", "dev.tsv"),
        *("--encoder", "terms"),
    )
    assert done.returncode == 0, done.stderr
    assert "resttest (rule k-means, unbalanced)" in done.stdout
    assert "resttest: top terms" in done.stdout
    refused = msshift("build", "length", "--encoder", "terms", "--out", "other")
    assert refused.returncode == 2
    assert "--encoder of no use: the groups of length rest on no embeddings" in refused.stderr
    refused = msshift("build", "restest", "--encoder", "terms", "--out", "other")
    assert "unknown shift 'restest': did you mean 'resttest'?" in refused.stderr
    path = tmp_path / "msshift/resttest-buckets/centroids.parquet"
    path.write_bytes(b"")
    with pytest.raises(IntegrityError, match="has changed since it was built"):
        Buckets.read(open_dataset(tmp_path / "msshift"))
