"""What may stand in a user's way on this machine: versions, threads, disk, caches, Hub, data.

`examine` returns what it looked at, each with its cure where something is wrong; `cached` and
`prune` show and empty the cache. It may use `data`, `plumbing`, `shifts`, `_version` and `errors`.
"""

from msshift_bench.doctor.checkup import examine
from msshift_bench.doctor.diagnosis import Diagnosis, State
from msshift_bench.doctor.upkeep import CachedItem, cached, prune

__all__ = ["CachedItem", "Diagnosis", "State", "cached", "examine", "prune"]
