from __future__ import annotations

import pytest
from typer.main import get_command

from msshift_bench.cli import app
from msshift_bench.cli.layout import with_called


def names(arguments: list[str]) -> list[str]:
    return list(get_command(with_called(app, arguments)).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["evaluate", "--help"], ["evaluate"]),
        (["list"], ["list"]),
        (["topics", "replay"], ["topics"]),
        (["analyse", "alignment"], ["analyse", "analyse alignment"]),
    ],
)
def test_only_commands_that_may_be_called_are_made(
    arguments: list[str], expected: list[str]
) -> None:
    assert names(arguments) == expected


@pytest.mark.parametrize("arguments", [[], ["--help"], ["evaluat"]])
def test_all_commands_are_made_where_none_is_called(arguments: list[str]) -> None:
    assert with_called(app, arguments) is app
