from __future__ import annotations

import io

import pytest
from rich.console import Console

from msshift_bench.cli import console
from msshift_bench.output.table import Table


def test_a_narrow_screen_cuts_no_figure_off(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(console, "stdout", lambda: Console(width=20, file=out))
    console.print_table(Table.plain("A title", ("name", "figure"), [("x" * 15, "1" * 15)]))
    assert [line.split() for line in out.getvalue().splitlines() if line.strip()][-1] == [
        "x" * 15,
        "1" * 15,
    ]
