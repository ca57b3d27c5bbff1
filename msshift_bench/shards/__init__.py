"""Work cut into shards, carried out by one of several engines: the bytes are the same with each.

`map_shards` is the one function through which such work goes. A shard is fixed by its inputs: its
result is one array, kept under the digest of what decides it, and skipped if it stands. So neither
the engine, nor the number of workers, their order or their failures can change anything.

It may use `plumbing`, `_version` and `errors`.
"""

from msshift_bench.shards.carrying import Inputs
from msshift_bench.shards.choosing import (
    SHARD_ENGINES,
    choose_engine,
    engine_in_use,
    using_engine,
    works_here,
)
from msshift_bench.shards.job_folder import ShardJob, ShardsAwaitedError, merge_shards, run_shards
from msshift_bench.shards.mapping import Shard, map_shards
from msshift_bench.shards.shard_store import ShardStore

__all__ = [
    "SHARD_ENGINES",
    "Inputs",
    "Shard",
    "ShardJob",
    "ShardStore",
    "ShardsAwaitedError",
    "choose_engine",
    "engine_in_use",
    "map_shards",
    "merge_shards",
    "run_shards",
    "using_engine",
    "works_here",
]
