"""Topics and buckets: what they are made of, and what published ones are good for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from msshift_bench import data, errors
from msshift_bench.dataset_builders import topics
from msshift_bench.dataset_builders.build import build_dataset, default_shifts
from msshift_bench.dataset_builders.clusters import Clustering
from msshift_bench.dataset_builders.cut import Samples, ids_and_texts, queries_table
from msshift_bench.dataset_builders.topics import group_by_bucket, read_buckets, replay_topics
from msshift_bench.encoders.embeddings import Embeddings
from msshift_bench.mini import generator as mini
from msshift_bench.records import OTHERS
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, Command
from tests.support.mini_rows import domains

MINI = data.open_collection("mini")
SMALL = data.open_collection("mini:500")


@pytest.fixture(scope="session")
def built(build_once: Build) -> Path:
    return build_once("mini", "topics")


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_a_topic_is_can_be_read(built: Path) -> None:
    found = data.read_manifest(built).shifts["topics"]["found"]
    assert set(found["terms"]) == set(found["examples"]) == {"C0", "C1", "C2", "C3", "C4"}
    card = (built / "README.md").read_text()
    rows = {row.query_id: row for row in data.load_dataset(built, "topics", split="queries")}
    for group, query_ids in found["examples"].items():
        assert all(rows[query_id].group == group for query_id in query_ids)
        assert all(rows[query_id].text in card for query_id in query_ids)
        assert ", ".join(found["terms"][group]) in card
    assert 0 < found["margins"]["median"] < 1


def test_topics_are_as_large_as_asked_for_and_unknown_options_are_named(tmp_path: Path) -> None:
    queries = ids_and_texts(queries_table(SMALL))
    sizes = Counter(topics.group_by_topic(queries, collection=SMALL, topic_size=60).labels.values())
    assert all(60 <= sizes[f"C{number}"] < 120 for number in range(5))
    with pytest.raises(errors.UnknownNameError, match="k-means"):
        topics.group_by_topic(queries, "kmeans", collection=SMALL)
    with pytest.raises(
        errors.UnknownNameError, match=r"option of the shift topics 'poling'.*pooling"
    ):
        build_dataset(SMALL, ["topics"], tmp_path / "x", options={"topics": {"poling": "cls"}})


@pytest.mark.slow
def test_a_replay_gives_the_same_bytes_and_embeds_nothing(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "embed_for_groups", None)
    _, differing = topics.replay_topics(built, MINI, tmp_path / "again")
    assert differing == []
    for path in sorted(built.rglob("*")):
        if path.is_file():
            assert (tmp_path / "again" / path.relative_to(built)).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_changed_clusters_are_not_read(build_copy: Build) -> None:
    copy = build_copy("mini", "topics")
    known = topics.read_topics(data.open_dataset(copy))
    assert isinstance(known, Clustering)
    assert known.query_ids == tuple(sorted(MINI.queries))
    path = copy / topics.CENTROIDS
    table = pq.read_table(path)
    path.unlink()
    pq.write_table(table.slice(1), path)
    with pytest.raises(errors.IntegrityError, match="has changed since it was built"):
        topics.verify_topics(copy, MINI)


@pytest.mark.slow
def test_other_queries_cannot_be_replayed_or_verified(built: Path, tmp_path: Path) -> None:
    for level in (topics.verify_topics, topics.retrain_topics):
        with pytest.raises(errors.DataError, match=r"mini:500 .*give the collection"):
            level(built, SMALL)
    with pytest.raises(errors.DataError, match="give the collection they were made from"):
        topics.replay_topics(built, SMALL, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_without_clusters_nothing_is_verified_and_an_import_not_replayed(
    build_copy: Build, tmp_path: Path
) -> None:
    folder = build_copy("mini:500", "length")
    with pytest.raises(errors.DataError, match="publishes no clusters"):
        topics.verify_topics(folder, SMALL)
    data.write_manifest(folder, replace(data.read_manifest(folder), edition="official-2022"))
    with pytest.raises(errors.UsageError, match="was imported"):
        topics.replay_topics(folder, SMALL, tmp_path / "x")


def noisy(embeddings: Embeddings, noise: float) -> Embeddings:
    """Return what another processor might compute."""
    random = np.random.default_rng(0)
    vectors = embeddings.vectors + random.normal(0, noise, embeddings.vectors.shape)
    return replace(embeddings, vectors=vectors.astype(np.float32), sha256=f"noise {noise}")


@pytest.mark.slow
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


@pytest.mark.slow
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


QUERIES = ids_and_texts(queries_table(SMALL))
TESTS = frozenset(list(QUERIES)[::3])


@pytest.fixture(scope="module")
def bucketed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bucketed") / "msshift"
    build_dataset(
        SMALL,
        ["topics", "resttest"],
        folder,
        samples=Samples(test_queries=TESTS, validation_size=0),
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


def test_the_card_says_what_the_buckets_are(bucketed: Path) -> None:
    manifest, card = data.read_manifest(bucketed), (bucketed / "README.md").read_text()
    facts = manifest.shifts["resttest"]
    parameters = facts["parameters"]
    assert (parameters["embedding"]["encoder"], parameters["train_size"]) == ("terms", "all")
    assert all(", ".join(words) in card for words in facts["found"]["terms"].values())
    assert "how long, how many, when" not in card  # those of the release are others
    alike = dict.fromkeys(QUERIES, "what is it")
    with pytest.raises(errors.DataError, match="hold 1 distinct vectors, and 5 clusters need 5"):
        group_by_bucket(alike, collection=SMALL)
    with pytest.raises(errors.UnknownNameError, match="resttest rule"):
        group_by_bucket(QUERIES, "means", collection=SMALL)
    assert default_shifts() == ("topics", "wh-words", "length")


def test_buckets_depend_on_nothing_but_the_queries(bucketed: Path, tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(list(QUERIES)).tolist()
    shuffled = {query_id: QUERIES[query_id] for query_id in order}
    again = group_by_bucket(shuffled, collection=SMALL)
    published = read_buckets(data.open_dataset(bucketed))
    assert again.labels == published.labels_by_query()
    assert replay_topics(bucketed, SMALL, tmp_path / "again")[1] == []
    assert data.read_manifest(tmp_path / "again") == data.read_manifest(bucketed)
    with pytest.raises(errors.DataError, match="hold 750 queries, and mini:500 749 others"):
        smaller = dict(list(QUERIES.items())[1:])
        group_by_bucket(smaller, collection=SMALL, published=published)


def test_the_command_builds_buckets(msshift: Command, tmp_path: Path) -> None:
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
    with pytest.raises(errors.IntegrityError, match="has changed since it was built"):
        read_buckets(data.open_dataset(tmp_path / "msshift"))
