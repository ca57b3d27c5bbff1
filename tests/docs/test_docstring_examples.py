"""The examples in docstrings are run as they stand, with NumPy as `np`."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest

from tests.conftest import REPOSITORY

MODULES = [
    ".".join(file.relative_to(REPOSITORY).with_suffix("").parts)
    for folder in ("msshift_bench", "baselines", "dataset_builders", "leaderboard")
    for file in sorted((REPOSITORY / folder).rglob("*.py"))
    if ">>>" in file.read_text("utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_print_what_they_say(name: str) -> None:
    module = importlib.import_module(f"msshift_bench.{name.removeprefix('msshift_bench.')}")
    failed, tried = doctest.testmod(module, extraglobs={"np": np})
    assert tried > 0
    assert failed == 0
