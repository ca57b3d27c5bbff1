"""The collection `mini`: passages, queries and qrels, generated from templates and word lists.

It may use `records`, `sampling` and `errors`.
"""

from msshift_bench.mini.generator import DEFAULT_SIZE, DOMAINS, MAX_SIZE, passages, qrels, queries

__all__ = ["DEFAULT_SIZE", "DOMAINS", "MAX_SIZE", "passages", "qrels", "queries"]
