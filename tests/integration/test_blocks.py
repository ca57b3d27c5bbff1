"""A run is the same bytes, whatever the number of blocks in which passages are searched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines.systems import searcher as block_search
from tests.conftest import Build
from tests.support.making import make_runs
from tests.support.tiny_recipes import tiny_recipe

pytestmark = [pytest.mark.neural, pytest.mark.slow]

SYSTEMS: dict[str, dict[str, Any]] = {
    "bi-encoder": {"pooling": "mean", "normalize": True},
    "splade": {},
    "colbert": {"search": {"candidates": "all"}},
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_one_two_and_seven_blocks_give_the_same_run(
    system: str, build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = build_once("mini:200", "length")
    recipe = tmp_path / "blocks.toml"
    recipe.write_text(tiny_recipe(system, **SYSTEMS[system]))
    found = set()
    for size, blocks in ((200, 1), (100, 2), (29, 7)):
        monkeypatch.setattr(block_search, "_SIZE", size)
        told: list[tuple[str, int, int]] = []
        (run,) = make_runs(
            system,
            ["length"],
            data=data,
            collection="mini:200",
            out=tmp_path / str(blocks),
            recipe=recipe,
            held_out=["short"],
            progress=lambda *event, told=told: told.append(event),
        )
        assert max(total for stage, _, total in told if stage.endswith("search blocks")) == blocks
        found.add(run.read_bytes())
    assert len(found) == 1
