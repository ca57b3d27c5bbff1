"""A tiny trained model of each system, with its run: made once per test run, and only read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msshift_bench.runs import model_path
from tests.support.making import make_runs
from tests.support.tiny_recipes import NEURAL, tiny_recipe

__all__ = ["DEPTH", "SYSTEMS", "Trained", "train_tiny", "trained_in"]

SYSTEMS = (*NEURAL, "monot5", "knrm", "duet", "pacrr")
"""The systems of MS-Shift that are trained, then the further rerankers."""

DEPTH = 10
"""The depth of the neural systems' runs."""

_DROPOUT = {"dropout": 0.1, "initial": 0.05, "matching": False}

_VALIDATION = {"every": 3, "queries": 10, "depth": 5, "patience": 0}

_CHANGES: Mapping[str, Mapping[str, Any]] = {
    **{system: {"random": _DROPOUT} for system in NEURAL},
    "bi-encoder": {"random": _DROPOUT, "validation": _VALIDATION},
}


class Trained(NamedTuple):
    """A system that was trained on ``length`` without the short queries.

    The bi-encoder has a second run, without the long queries.
    """

    run: Path
    model: Path
    recipe: Path
    events: list[tuple[str, int, int]]

    @property
    def run_set(self) -> Path:
        """The run set's folder."""
        return self.run.parents[1]


def train_tiny(folder: Path, system: str, data: Path) -> None:
    """Train a system, and keep its models and the progress that it reported."""
    folder.mkdir()
    recipe, events = folder / "tiny.toml", list[tuple[str, int, int]]()
    recipe.write_text(
        tiny_recipe(system, **{"search": {"depth": DEPTH}, **_CHANGES.get(system, {})})
    )
    make_runs(
        system,
        data=data,
        out=folder / "runs",
        recipe=recipe,
        held_out=[] if system == "bi-encoder" else ["short"],
        keep_model=True,
        progress=lambda *event: events.append(event),
    )
    (folder / "events.json").write_text(json.dumps(events))


def trained_in(folder: Path, system: str) -> Trained:
    """Return what `train_tiny` wrote."""
    run = folder / "runs" / system / "length" / "short.run.gz"
    events = [tuple(event) for event in json.loads((folder / "events.json").read_text())]
    return Trained(run, model_path(run), folder / "tiny.toml", events)
