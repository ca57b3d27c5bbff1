"""The made world, as all tests of evaluation read it, and run sets of four queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Build, MakeOnce
from tests.evaluation.made_world import COLLECTION, SHIFT_NAMES, write_world
from tests.evaluation.tiny_run_sets import write_ranks

DENSE = {
    "short": {"s1": 2, "s2": 4, "l1": 1, "l2": 2},
    "long": {"s1": 1, "s2": 1, "l1": 2, "l2": 0},
}
"""The ranks of the relevant passages of the system ``dense``."""


@pytest.fixture(scope="session")
def world(build_once: Build, make_once: MakeOnce) -> Path:
    """Return the folder of `write_world`, with its data set as ``msshift``; it is only read."""
    data = build_once(COLLECTION, *SHIFT_NAMES)

    def write(folder: Path) -> None:
        write_world(folder, data)
        (folder / "msshift").symlink_to(data)

    return make_once("world", write)


@pytest.fixture
def tiny_runs(tmp_path: Path) -> Path:
    """The run sets of ``dense``, by one seed, and of ``bm25``, which was not trained."""
    for group, ranks in DENSE.items():
        write_ranks(tmp_path / f"dense/length/{group}.run", ranks)
    write_ranks(tmp_path / "bm25/length.run", {"s1": 1, "s2": 2, "l1": 5, "l2": 1})
    return tmp_path
