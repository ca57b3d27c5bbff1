"""docs/python.md and the public API: every name is on the page, and what the page shows works."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import msshift_bench
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8")
NAMES = [name for name in msshift_bench.__all__ if not name.startswith("_")]
FUNCTIONS = [name for name in NAMES if inspect.isfunction(getattr(msshift_bench, name))]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(msshift_bench, name))]


def methods() -> Iterator[Any]:
    """Yield the public methods of the public classes as parameters of a test."""
    for name in CLASSES:
        for method, value in vars(getattr(msshift_bench, name)).items():
            function = getattr(value, "__func__", value)
            if not method.startswith("_") and inspect.isfunction(function):
                yield pytest.param(function, id=f"{name}.{method}")


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_in_the_pages_table(name: str) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert sum(f"`{name}`" in row.split("|")[1] for row in rows) == 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_says_what_it_takes_returns_and_raises(name: str) -> None:
    text = inspect.getdoc(getattr(msshift_bench, name)) or ""
    signature = inspect.signature(getattr(msshift_bench, name))
    parts = ["Args:", "Raises:"] + ["Returns:"] * (signature.return_annotation != "None")
    assert [part for part in parts if f"\n{part}\n" not in text] == []
    _, _, arguments = text.partition("\nArgs:\n")
    for parameter in signature.parameters:
        assert re.search(rf"^ +\**{parameter}: ", arguments, re.MULTILINE), parameter


@pytest.mark.parametrize(
    "function",
    [*(pytest.param(getattr(msshift_bench, name), id=name) for name in FUNCTIONS), *methods()],
)
def test_a_string_will_do_wherever_a_path_is_taken(function: Callable[..., Any]) -> None:
    for parameter in inspect.signature(function).parameters.values():
        annotation = re.sub(r"str \| Path(Like\[str\])?", "", str(parameter.annotation))
        assert "Path" not in annotation, f"{parameter}"


def test_a_collections_name_will_do_wherever_a_collection_is_taken() -> None:
    for name in FUNCTIONS:
        for parameter in inspect.signature(getattr(msshift_bench, name)).parameters.values():
            annotation = str(parameter.annotation).replace("Collection[", "collections.abc[")
            assert "Collection" not in annotation or "Collection | str | Path" in annotation, name


def test_what_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'train'"):
        _ = msshift_bench.train
    assert set(dir(msshift_bench)) == set(msshift_bench.__all__)
