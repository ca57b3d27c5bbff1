"""The examples in docstrings are run as they stand.

An example sees what its module sees, all public names of `msshift_bench` and NumPy as `np`. The
examples of each module run in a folder of their own, a copy of that of `write_examples_folder`.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import shutil
from pathlib import Path

import numpy as np
import pytest

import msshift_bench
from tests.conftest import REPOSITORY, Build
from tests.support.examples_folder import write_examples_folder

MODULES = [
    ".".join(file.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")
    for folder in ("msshift_bench", "baselines", "dataset_builders", "leaderboard")
    for file in sorted((REPOSITORY / folder).rglob("*.py"))
    if ">>>" in file.read_text("utf-8")
]

WITHOUT_EXAMPLE = {
    "install_dataset": "fills the cache of the datasets library, which takes seconds",
    "push_dataset": "needs the Hub and a token",
    "write_report": "draws for seconds; docs/report.md shows it",
}
"""The public functions and classes whose docstrings hold no example, and why."""

PUBLIC = {name: getattr(msshift_bench, name) for name in msshift_bench.__all__}


@pytest.fixture(scope="module")
def examples_folder(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the examples of each module get a copy of."""
    folder = tmp_path_factory.mktemp("examples")
    write_examples_folder(folder, build_once("mini:300", "length", "wh-words"))
    return folder


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "name",
    # Whoever looks for examples among heavy libraries imports them.
    [
        pytest.param(name, marks=[pytest.mark.neural] * name.endswith(("libraries", "mteb")))
        for name in MODULES
    ],
)
def test_the_examples_of_a_module_print_what_they_say(
    name: str, examples_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "msshift_bench.mteb":
        pytest.importorskip("mteb", reason="needs the extra mteb")
    place = name if name.startswith("msshift_bench") else f"msshift_bench.{name}"
    module = importlib.import_module(place)
    monkeypatch.chdir(shutil.copytree(examples_folder, tmp_path / "examples"))
    failed, tried = doctest.testmod(module, extraglobs={**PUBLIC, "np": np})
    assert tried > 0
    assert failed == 0


def test_every_public_function_and_class_has_an_example() -> None:
    silent = {
        name
        for name, value in PUBLIC.items()
        if callable(value) and ">>>" not in (inspect.getdoc(value) or "")
    }
    assert silent == WITHOUT_EXAMPLE.keys()
