"""Topics and buckets: what they are made of, and what published ones are good for."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from msshift_bench import data
from msshift_bench.dataset_builders import topics
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import SampleSizes, ids_and_texts, queries_table
from msshift_bench.dataset_builders.topics import group_by_bucket, read_buckets, replay_topics
from msshift_bench.encoders.embeddings import Embeddings
from msshift_bench.mini import generator as mini
from msshift_bench.records import OTHERS
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, Command
from tests.support.golden import Golden
from tests.support.mini_rows import domains
from tests.support.refusals import check_exits, check_refusals

MINI = data.open_collection("mini")
SMALL = data.open_collection("mini:500")
QUERIES = ids_and_texts(queries_table(SMALL))


@pytest.fixture(scope="session")
def built(build_once: Build) -> Path:
    return build_once("mini", "topics")


def test_the_five_topics_of_mini_are_its_five_domains() -> None:
    grouping = topics.group_by_topic(ids_and_texts(queries_table(MINI)), collection=MINI)
    domain_of = domains()
    by_group = {
        group: Counter(domain_of[q] for q, label in grouping.labels.items() if label == group)
        for group in ("C0", "C1", "C2", "C3", "C4")
    }
    assert {counts.most_common(1)[0][0] for counts in by_group.values()} == set(mini.DOMAINS)
    for counts in by_group.values():
        assert counts.most_common(1)[0][1] > 0.95 * counts.total()
        assert counts.total() >= 3000 // 8
    assert OTHERS in grouping.labels.values()
    assert grouping.labels.keys() == set(MINI.queries)


def test_topics_are_as_large_as_asked_for() -> None:
    groups = topics.group_by_topic(QUERIES, collection=SMALL, topic_size=60).labels.values()
    assert all(60 <= Counter(groups)[f"C{number}"] < 120 for number in range(5))


@pytest.mark.extended
def test_a_replay_gives_the_same_bytes_and_embeds_nothing(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "embed_for_groups", None)
    _, differing = topics.replay_topics(built, MINI, tmp_path / "again")
    assert differing == []
    for path in sorted(built.rglob("*")):
        if path.is_file():
            assert (tmp_path / "again" / path.relative_to(built)).read_bytes() == path.read_bytes()


def test_replay_and_verification_leave_out_excluded_passages(tmp_path: Path) -> None:
    folder, pairs = tmp_path / "msshift", tmp_path / "pairs.tsv"
    emptied, kept = [query_id for query_id in QUERIES if len(SMALL.relevant[query_id]) > 1][:2]
    excluded = [(emptied, doc_id) for doc_id in SMALL.relevant[emptied]]
    excluded.append((kept, next(iter(SMALL.relevant[kept]))))
    pairs.write_text("".join(f"{query_id}\t{doc_id}\n" for query_id, doc_id in excluded))
    manifest = build_dataset(SMALL, ["topics"], folder, exclude=pairs)
    again, differing = replay_topics(folder, SMALL, tmp_path / "again")
    assert (again, differing) == (manifest, [])
    verified, retrained = (
        check(folder, SMALL).facts for check in (topics.verify_topics, topics.retrain_topics)
    )
    assert (verified["queries"], verified["agreement"]) == (len(QUERIES) - 1, 1)
    assert (retrained["identical"], retrained["same_bytes"]) == (True, True)


def noisy(embeddings: Embeddings, noise: float) -> Embeddings:
    """Return what another processor might compute."""
    random = np.random.default_rng(0)
    vectors = embeddings.vectors + random.normal(0, noise, embeddings.vectors.shape)
    return replace(embeddings, vectors=vectors.astype(np.float32), sha256=f"noise {noise}")


@pytest.mark.extended
@pytest.mark.parametrize(("noise", "passed"), [(1e-7, True), (0.05, False)])
def test_verification_tolerates_noise_and_no_more(
    built: Path, monkeypatch: pytest.MonkeyPatch, noise: float, passed: bool
) -> None:
    original = topics.embed_for_groups
    monkeypatch.setattr(topics, "embed_for_groups", lambda *a, **k: noisy(original(*a, **k), noise))
    facts = topics.verify_topics(built, MINI).facts
    assert (facts["passed"], facts["same_bytes"], facts["same_encoder"]) == (passed, False, True)
    assert bool(facts["disagreements"]) is not passed
    assert facts["agreement"] == 1 - len(facts["disagreements"]) / 3000


@pytest.mark.extended
@pytest.mark.parametrize("same_bytes", [False, True])
def test_retraining_promises_identity_for_the_same_bytes_alone(
    built: Path, monkeypatch: pytest.MonkeyPatch, same_bytes: bool
) -> None:
    first = topics.embed_for_groups(ids_and_texts(queries_table(MINI)), MINI)
    again = noisy(first, 0.01)
    again = replace(again, sha256=first.sha256) if same_bytes else again
    monkeypatch.setattr(topics, "embed_for_groups", lambda *a, **k: again)
    facts = topics.retrain_topics(built, MINI).facts
    assert (facts["same_bytes"], facts["passed"]) == (same_bytes, not same_bytes)
    assert 0 < facts["regrouped"] < 0.5


TESTS = frozenset(list(QUERIES)[::3])


@pytest.fixture(scope="module")
def bucketed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bucketed") / "msshift"
    build_dataset(
        SMALL,
        ["topics", "resttest"],
        folder,
        samples=SampleSizes(test_queries=TESTS, validation_size=0),
    )
    return folder


def test_five_buckets_hold_every_query_once(bucketed: Path) -> None:
    rows = data.open_dataset(bucketed).table("resttest", "queries").to_pylist()
    assert [row["query_id"] for row in rows] == sorted(QUERIES)
    assert {row["query_id"] for row in rows if row["split"] == "test"} == TESTS
    assert {row["split"] for row in rows} == {"train", "test"}
    sizes = Counter(row["group"] for row in rows)
    assert sorted(sizes, key=lambda group: -sizes[group]) == ["1", "2", "3", "4", "5"]
    for config, group in SHIFTS["resttest"].configs.items():
        held_out = data.load_dataset(bucketed, config)
        assert {row.group for row in held_out["test"]} == {group}
        assert {row.group for row in held_out["train"]} == set("12345") - {group}
        assert len(held_out["train"]) == sum(
            row["split"] == "train" and row["group"] != group for row in rows
        )


def test_buckets_depend_on_nothing_but_the_queries(bucketed: Path, tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(list(QUERIES)).tolist()
    shuffled = {query_id: QUERIES[query_id] for query_id in order}
    again = group_by_bucket(shuffled, collection=SMALL)
    published = read_buckets(data.open_dataset(bucketed))
    assert again.labels == published.labels_by_query()
    assert replay_topics(bucketed, SMALL, tmp_path / "again")[1] == []
    assert data.read_manifest(tmp_path / "again") == data.read_manifest(bucketed)


def test_the_command_builds_buckets(msshift: Command, tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "dev.tsv").write_text("".join(f"{query_id}\tits text\n" for query_id in TESTS))
    given = ("--collection", "mini:500", "--test-queries", "dev.tsv", "--encoder", "terms")
    done = msshift("build", "resttest", *given)
    golden.check("resttest.txt", done.stdout + done.stderr)
    check_exits(
        msshift,
        {
            "build length --encoder terms --out other": "2 --encoder length",
            "build restest --encoder terms --out other": "2 'restest' 'resttest'",
        },
    )


def test_what_cannot_be_grouped_read_or_made_again(
    built: Path, bucketed: Path, build_copy: Build, tmp_path: Path
) -> None:
    imported = build_copy("mini:500", "length").rename(tmp_path / "imported")
    data.write_manifest(imported, replace(data.read_manifest(imported), edition="official-2022"))
    topical = build_copy("mini", "topics")
    assert topics.read_topics(data.open_dataset(topical)).query_ids == tuple(sorted(MINI.queries))
    changed = Path(shutil.copytree(bucketed, tmp_path / "changed"))
    for path in (changed / topics.CENTRES, topical / topics.CENTROIDS):
        table = pq.read_table(path)
        path.unlink()
        pq.write_table(table.slice(1), path)
    published, out = topics.read_buckets(data.open_dataset(bucketed)), tmp_path / "x"
    options = {"topics": {"poling": "cls"}}
    fewer, alike = dict(list(QUERIES.items())[1:]), dict.fromkeys(QUERIES, "what is it")
    bucket = partial(group_by_bucket, collection=SMALL)
    refusals = {
        "UnknownNameError 'kmeans'": partial(
            topics.group_by_topic, QUERIES, "kmeans", collection=SMALL
        ),
        "UnknownNameError 'poling'": partial(
            build_dataset, SMALL, ["topics"], out, options=options
        ),
        "UnknownNameError 'means'": partial(bucket, QUERIES, "means"),
        "DataError 320 1": partial(bucket, alike),
        f"DataError 750 749 1 {next(iter(QUERIES))} qrels": partial(
            bucket, fewer, published=published
        ),
        "changed buckets: IntegrityError centroids.parquet": lambda: read_buckets(
            data.open_dataset(changed)
        ),
        "changed topics: IntegrityError centroids.parquet": partial(
            topics.verify_topics, topical, MINI
        ),
        "others verified: DataError 3000 750 2250 qrels": partial(
            topics.verify_topics, built, SMALL
        ),
        "others retrained: DataError 3000 750 2250 qrels": partial(
            topics.retrain_topics, built, SMALL
        ),
        "others replayed: DataError 3000 750 2250 qrels": partial(replay_topics, built, SMALL, out),
        "DataError imported": partial(topics.verify_topics, imported, SMALL),
        "UsageError imported": partial(replay_topics, imported, SMALL, out),
    }
    check_refusals(refusals)
    assert not out.exists()
