"""The same bytes from a Ray cluster that loses a node as from this process alone."""

from __future__ import annotations

import random
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.support.ray_cluster import ray_cluster
from msshift_bench.baselines.bm25_shards import Bm25Task
from msshift_bench.baselines.system import stream_passages
from msshift_bench.data import open_collection
from msshift_bench.errors import MissingError, UsageError
from msshift_bench.plumbing import batches, silent
from msshift_bench.search import Bm25Parameters, stemmer_version
from msshift_bench.shards import Shard, choose_engine, map_shards, using_engine

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.mark.filterwarnings("default")
def test_a_node_is_killed_at_a_random_moment(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'msshift-bench[cluster]'")
    collection, facts = open_collection("mini"), {}
    for _ in stream_passages(collection, facts, silent):
        continue
    shards = [
        Shard({"texts": part}, len(part)) for part in batches(collection.queries.texts[:600], 20)
    ]

    def search(folder: str, places: str = "mini", depth: int = 10) -> dict[str, bytes]:
        common = {
            "parameters": asdict(Bm25Parameters(depth=depth)),
            "stemmed_by": stemmer_version("english"),
            "passages": facts["passages"]["sha256"],
        }
        found = map_shards(
            Bm25Task, common, shards, tmp_path / folder, places={"collection": places}
        )
        results = {}
        for place, (store, name) in enumerate(found):
            results[name] = store.load(name).tobytes()
            if place == moment:
                cluster.remove_node(cluster.list_all_nodes()[-1])
        return results

    moment = -1
    expected = search("here")
    with ray_cluster(2) as cluster:
        moment = random.randrange(len(shards))
        # The engine takes the connection that there is; each new one would start new workers.
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        with using_engine(choose_engine("ray", address=cluster.address)):
            assert search("ray") == expected, f"a node was killed after shard {moment}"
            moment = -1
            with pytest.raises(UsageError, match=r"shard 00000-.* has other passages"):
                search("refused", "mini:50", depth=5)
        # Workers write by themselves where a URL says so.
        url = (tmp_path / "object-store").as_uri()
        with using_engine(choose_engine("ray", address=cluster.address, place=url)):
            assert search("unused") == expected
        assert not (tmp_path / "unused").exists()
        address = cluster.address
    with (
        using_engine(choose_engine("ray", address=address)),
        pytest.raises(MissingError, match=f"no Ray cluster answers at {address}"),
    ):
        search("gone")
