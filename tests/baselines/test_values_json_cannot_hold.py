"""Values that JSON cannot hold, at every door of a sidecar: they read back, or their key is named.

What decides a run is checked before anything is ranked; a fact that is recorded meanwhile never
costs the ranking.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from msshift_bench import evaluate
from msshift_bench.baselines import Plan, Run, System, make_runs
from msshift_bench.errors import UsageError
from msshift_bench.search import Ranking
from tests.baselines.conftest import COLLECTION

VALUES: list[tuple[Any, Any]] = [
    (math.inf, "inf"),
    (-math.inf, "-inf"),
    (np.float32("nan"), "nan"),
    (np.float32(0.5), 0.5),
    (np.int64(3), 3),
    (np.bool_(True), True),
    (np.array([[1.0, math.nan]]), [[1.0, "nan"]]),
    (Path("a") / "b", "a/b"),
    ("half a pair \udc80", "half a pair \udc80"),
    ({3, 1, 2}, [1, 2, 3]),
    ((1, 2), [1, 2]),
    ({1: {None: math.inf}}, {"1": {"null": "inf"}}),
]
"""What somebody may give, and how it reads back from a sidecar."""


class Given(System):
    """One passage first, with a value wherever a system may have one."""

    name = "given"

    place: str
    field: Any = None
    value: ClassVar[Any] = None
    ranked: ClassVar[int] = 0

    def parameters(self) -> dict[str, Any]:
        said = {"said": {"key": self.value}} if self.place == "parameters" else {}
        return {**super().parameters(), **said}

    def hardware(self) -> Mapping[str, object]:
        return {"key": self.value} if self.place == "hardware" else {}

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        Given.ranked += 1
        for query in run.queries:
            yield query.query_id, {"7": 1.0}
        if self.place == "facts":
            run.facts["mine"] = {"key": self.value}


class Searches:
    """A model that searches by itself."""

    searched = 0

    def search(self, queries: list[str], k: int) -> list[dict[str, float]]:
        Searches.searched += 1
        return [{"7": 1.0} for _ in queries]


def recorded(run: Path, *keys: str) -> Any:
    """Return what a sidecar holds under keys; it must be strict JSON."""
    value = json.loads(
        run.with_suffix("").with_suffix(".run.json").read_bytes(), parse_constant=pytest.fail
    )
    for key in keys:
        value = value[key]
    return value


def given(place: str, value: Any, data: Path, out: Path) -> Path:
    """Make the run of `Given` with a value at a place, or find it complete."""
    Given.value = value
    system = Given(place=place, field={"key": value} if place == "field" else None)
    (run,) = make_runs(
        Plan(system=system, shifts=["length"], collection=COLLECTION, data=data, out=out)
    )
    return run


DOORS = {
    "field": ("parameters", "field", "key"),
    "parameters": ("parameters", "said", "key"),
    "hardware": ("hardware", "key"),
    "facts": ("mine", "key"),
}
"""The place of a value in `Given`, and its keys in the sidecar."""


@pytest.mark.extended
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("value", "read_back"), VALUES, ids=str)
def test_values_of_a_system_read_back(
    door: str, value: Any, read_back: Any, data: Path, tmp_path: Path
) -> None:
    run = given(door, value, data, tmp_path)
    assert recorded(run, *DOORS[door]) == read_back
    before = Given.ranked
    given(door, value, data, tmp_path)
    assert Given.ranked == before


@pytest.mark.parametrize("door", DOORS)
def test_an_object_is_named_by_its_key(
    door: str, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, name = Given.ranked, ".".join(DOORS[door]).replace("parameters.field", "field")
    if door in ("field", "parameters"):
        with pytest.raises(
            UsageError, match=rf"^{name} is <built-in function len> of type builtin"
        ):
            given(door, len, data, tmp_path)
        assert (Given.ranked, list(tmp_path.iterdir())) == (before, [])
        return
    run = given(door, len, data, tmp_path)
    assert recorded(run, *DOORS[door]) == "<built-in function len>"
    assert (
        f"{name} is no JSON value (builtin_function_or_method); its text is recorded"
        in caplog.messages
    )


@pytest.mark.every(3)
@pytest.mark.parametrize(("value", "read_back"), VALUES, ids=str)
def test_parameters_of_a_model_read_back(
    value: Any, read_back: Any, data: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        before = Searches.searched
        options: dict[str, Any] = {"data": data, "runs": tmp_path, "progress": False}
        evaluate(Searches(), "length", parameters={"key": value}, **options)
    assert (
        recorded(tmp_path / "Searches" / "length.run.gz", "parameters", "given", "key") == read_back
    )
    assert Searches.searched == before


def test_a_class_of_numpy_is_refused_by_its_key(data: Path) -> None:
    with pytest.raises(
        UsageError, match=r"^parameters\.of\[1\] is <class 'numpy\.float32'> of type"
    ):
        evaluate(Searches(), "length", parameters={"of": [1, np.float32]}, data=data)


@pytest.mark.neural
def test_settings_of_a_model_read_back(data: Path, tmp_path: Path) -> None:
    from msshift_bench.baselines.opening import describe_model
    from msshift_bench.libraries import torch
    from msshift_bench.plumbing import write_json

    model = torch.nn.Linear(1, 1)
    model.prompts = {"query": "half a pair \udc80", "document": Path("a")}
    model.max_seq_length, model.truncate_dim = math.inf, np.int64(8)
    write_json(tmp_path / "settings.json", describe_model(model))
    settings = json.loads((tmp_path / "settings.json").read_bytes(), parse_constant=pytest.fail)
    assert {**settings["settings"], "modules_sha256": None} == {
        "modules_sha256": None,
        "prompts": {"query": "half a pair \udc80", "document": "a"},
        "max_seq_length": "inf",
        "truncate_dim": 8,
    }
