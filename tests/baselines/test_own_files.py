"""Sidecars name the libraries that are there, and what is no JSON object is refused."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from msshift_bench.baselines.systems import sidecars
from msshift_bench.baselines.systems.finding import _SETTINGS, kind_of_model
from msshift_bench.baselines.systems.sidecars import installed_versions, read_json
from msshift_bench.errors import UsageError


def test_a_sidecar_names_the_versions_of_the_libraries_that_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(package: str) -> str:
        if package != "numpy":
            raise PackageNotFoundError(package)
        return "1.2.3"

    monkeypatch.setattr(sidecars, "version", version)
    assert installed_versions() == {"python": platform.python_version(), "numpy": "1.2.3"}


@pytest.mark.parametrize("content", ["{", "[]", '["Transformer"]', "[" * 100_000, "\x00"])
def test_what_is_no_json_of_a_model(tmp_path: Path, content: str) -> None:
    settings, modules = tmp_path / _SETTINGS, tmp_path / "modules.json"
    settings.write_text(content)
    with pytest.raises(UsageError, match=r"\.json is not a JSON object, as a model's"):
        kind_of_model(str(tmp_path))
    with pytest.raises(UsageError, match=r"\.json is not a JSON object"):
        read_json(settings)
    settings.write_text("{}")
    modules.write_text(content)
    with pytest.raises(UsageError, match=r"modules\.json does not name a model's modules as"):
        kind_of_model(str(tmp_path))
