"""One name per idea: no two public things of the package are called the same, or nearly."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.support.syntax_trees import FOLDERS, modules_in, syntax_tree

COMMANDS = REPOSITORY / "msshift_bench" / "cli"
"""Its modules and functions are named after their commands; `build` is three."""


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from modules_in(folder)


def modules() -> Iterator[tuple[str, str]]:
    """Yield the name and the path of every module and package."""
    for path in sources():
        if not path.is_relative_to(COMMANDS):
            place = path.parent if path.stem == "__init__" else path
            yield place.stem, str(place.relative_to(REPOSITORY))


def definitions(*kinds: type[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield the name and the module of what is defined at the top of modules."""
    for path in sources():
        if ast.FunctionDef in kinds and path.is_relative_to(COMMANDS):
            continue
        place = str(path.relative_to(REPOSITORY))
        for node in syntax_tree(path).body:
            if not isinstance(node, kinds):
                continue
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            elif isinstance(node, ast.AnnAssign):
                names = [ast.unparse(node.target)]
            else:
                assert isinstance(node, ast.ClassDef | ast.FunctionDef)
                names = [node.name]
            yield from ((name, place) for name in names)


def nearly(name: str) -> str:
    """Return what is left of a name without case, underscores and a plural's s."""
    return name.lower().replace("_", "").removesuffix("s").removesuffix("ie").removesuffix("y")


def twins(named: Iterator[tuple[str, str]], *, exact: bool = False) -> list[list[str]]:
    """Return the public names that stand for several things, with the places of each.

    Definitions of one name in one module are the overloads of one function.
    """
    places = defaultdict(set)
    for name, place in named:
        if not name.startswith("_"):
            places[name if exact else nearly(name)].add(f"{name} in {place}")
    return [sorted(alike) for alike in places.values() if len(alike) > 1]


def test_no_two_modules_are_called_nearly_the_same() -> None:
    assert len(list(modules())) > 100
    assert twins(modules()) == []


def test_no_two_classes_are_called_nearly_the_same() -> None:
    assert len(list(definitions(ast.ClassDef))) > 100
    assert twins(definitions(ast.ClassDef)) == []


@pytest.mark.parametrize("kinds", [(ast.FunctionDef,), (ast.Assign, ast.AnnAssign)])
def test_no_two_functions_or_constants_are_called_the_same(
    kinds: tuple[type[ast.stmt], ...],
) -> None:
    assert len(list(definitions(*kinds))) > 100
    assert twins(definitions(*kinds), exact=True) == []


@pytest.mark.parametrize("other", ["Query", "Queries", "QUERY", "_".join("query")])
def test_case_underscores_and_number_make_no_other_name(other: str) -> None:
    named = [("query", "here"), (other, "there"), ("passage", "there"), ("_query", "there")]
    assert twins(iter(named)) == [sorted(["query in here", f"{other} in there"])]
