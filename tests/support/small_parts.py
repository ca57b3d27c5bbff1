"""A baseline that encodes and scores in many small parts, so that it can be killed between them."""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

__all__ = ["run_in_small_parts"]


def run_in_small_parts(
    system: str, options: Mapping[str, Any], data: Path, out: Path, events: Connection
) -> None:
    """Run a baseline for the shift ``length``; tell of every event, and wait to be let on."""
    from msshift_bench.baselines.rerankers import reranker
    from msshift_bench.baselines.systems import searcher as block_search
    from tests.support.making import make_runs

    block_search._SIZE = 60
    reranker._PAIRS = 200

    def tell(*event: object) -> None:
        events.send(event)
        events.recv()

    make_runs(system, ["length"], data=data, out=out, progress=tell, **options)
