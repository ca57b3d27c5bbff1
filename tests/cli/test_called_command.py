from __future__ import annotations

import gc
import os

import pytest
from typer.main import get_command

from msshift_bench import __main__
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
    ],
)
def test_only_commands_that_may_be_called_are_made(
    arguments: list[str], expected: list[str]
) -> None:
    assert names(arguments) == expected


@pytest.mark.parametrize("arguments", [[], ["--help"], ["evaluat"]])
def test_all_commands_are_made_where_none_is_called(arguments: list[str]) -> None:
    assert with_called(app, arguments) is app


def test_a_start_sets_what_loading_modules_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    before = gc.get_threshold()
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)

    def run() -> None:
        seen.append((gc.get_threshold()[0], os.environ["OPENBLAS_THREAD_TIMEOUT"]))
        monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "20")  # the user's own value stays

    monkeypatch.setattr("msshift_bench.cli.main", run)
    try:
        __main__.main()
        __main__.main()
        assert gc.get_freeze_count()
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    assert seen == [(10_000, "16"), (10_000, "20")]
