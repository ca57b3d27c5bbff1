"""JSON that a baseline reads back says what is wrong with it, if somebody changed it."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from msshift_bench.baselines.systems import sidecars
from msshift_bench.baselines.systems.finding import _SETTINGS, kind_of_model
from msshift_bench.baselines.systems.sidecars import installed_versions, read_json
from msshift_bench.baselines.training.training_data import TrainingData
from msshift_bench.errors import IntegrityError, UsageError

TEXTS = pa.array(["a", "b"])


def test_facts_of_training_data(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    data = TrainingData(np.zeros((1, 3), np.int32), TEXTS, TEXTS, 1, "a" * 64)
    data.save(folder)
    assert TrainingData.load(folder).examples == 1
    (folder / "facts.json").write_text(json.dumps({"exmples": 1, "digest": "abc"}))
    with pytest.raises(UsageError, match=r"facts.json is not as it was written; remove the folder"):
        TrainingData.load(folder)


@pytest.mark.parametrize("name", ["rows.npy", "queries.parquet", "passages.parquet", "scores.npy"])
def test_a_flipped_bit_in_training_data_is_seen(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    rows, scores = np.zeros((1, 3), np.int32), np.zeros((1, 2), np.float32)
    TrainingData(rows, TEXTS, TEXTS, 1, "a" * 64, scores).save(folder)
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(IntegrityError, match=f"{name} is missing or was damaged"):
        TrainingData.load(folder)


def test_a_sidecar_names_the_versions_of_the_libraries_that_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(package: str) -> str:
        if package != "numpy":
            raise PackageNotFoundError(package)
        return "1.2.3"

    monkeypatch.setattr(sidecars, "version", version)
    assert installed_versions() == {"python": platform.python_version(), "numpy": "1.2.3"}


@pytest.mark.parametrize("content", ["{", "[]", "[" * 100_000, "\x00"])
def test_what_is_no_json_object(tmp_path: Path, content: str) -> None:
    path = tmp_path / _SETTINGS
    path.write_text(content)
    with pytest.raises(UsageError, match=r"\.json is not a JSON object, as a model's"):
        kind_of_model(str(tmp_path))
    with pytest.raises(UsageError, match=r"\.json is not a JSON object"):
        read_json(path)


@pytest.mark.parametrize("content", ["{", "[]", '["Transformer"]', "[" * 100_000])
def test_what_names_no_modules(tmp_path: Path, content: str) -> None:
    (tmp_path / "modules.json").write_text(content)
    (tmp_path / _SETTINGS).write_text("{}")
    with pytest.raises(UsageError, match=r"modules\.json does not name a model's modules as"):
        kind_of_model(str(tmp_path))
