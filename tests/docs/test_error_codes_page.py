"""docs/error-codes.md names every code that a finding may have, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from msshift_bench.runs import CODES, WARNINGS
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "error-codes.md").read_text(encoding="utf-8")

FOLDERS = ("msshift_bench", "baselines", "dataset_builders", "leaderboard")

CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

CALLS = {"Finding", "add", "wrong", "_verify_bytes"}
"""What makes findings: their code comes first, or behind a path and a digest."""


def codes_in(file: Path) -> Iterator[str]:
    """Yield the codes that a module gives to findings."""
    text = file.read_text(encoding="utf-8")
    if not any(word in text for word in ("Finding", ".wrong(", "_refuse(")):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "code":
            yield from strings(node.value)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("(code, "):
            yield from strings(node.value.elts[0] if isinstance(node.value, ast.Tuple) else node)
        if isinstance(node, ast.FunctionDef) and "problem_of" in node.name:
            for returned in ast.walk(node):
                if isinstance(returned, ast.Return) and isinstance(returned.value, ast.Tuple):
                    yield from strings(*returned.value.elts[:1] or [node])
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Tuple):
            for row in node.iter.elts:
                if isinstance(row, ast.Tuple) and ast.unparse(node.target).startswith("(code, "):
                    yield from strings(row.elts[0])
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if name in CALLS and node.args:
            yield from strings(node.args[0])
            if name == "_verify_bytes":
                yield from strings(node.args[-1])
        elif name == "_refuse":
            yield from strings(node.args[1 if len(node.args) > 2 else 0])
        elif name == "_broken":
            for rule in node.args[1:]:
                yield from strings(rule.elts[1] if isinstance(rule, ast.Tuple) else rule)


def strings(value: ast.AST) -> Iterator[str]:
    """Yield the texts that an expression may be."""
    if isinstance(value, ast.IfExp):
        yield from strings(value.body)
        yield from strings(value.orelse)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value


def test_every_code_has_its_line_and_every_line_its_code() -> None:
    files = [file for folder in FOLDERS for file in (REPOSITORY / folder).rglob("*.py")]
    given = {code for file in files for code in codes_in(file) if CODE.fullmatch(code)}
    explained = re.findall(r"^\| `([a-z0-9-]+)` \|", PAGE, re.MULTILINE)
    assert len(explained) == len(set(explained)) > 120
    assert sorted((given | set(CODES)) - set(explained)) == []
    assert sorted(set(explained) - given - set(CODES)) == []


def test_the_cures_of_runs_are_those_that_are_printed() -> None:
    for code, fix in CODES.items():
        (line,) = re.findall(rf"^\| `{code}` \| (.+)$", PAGE, re.MULTILINE)
        assert line.endswith(f"| {fix} |")
        assert ("(a warning)" in line) == (code in WARNINGS)
