from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from msshift_bench.cli import output
from msshift_bench.output import Table, TableCell, to_rich, to_text

# Marks that change the character before them have no width of their own.
WORDS = st.text(st.characters(exclude_categories=["C", "Z", "M", "Sk"]), max_size=12)


def test_a_narrow_screen_cuts_no_figure_off(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(output, "stdout", lambda: Console(width=20, file=out))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.print_table(Table.plain("A title", ("name", "figure"), [("x" * 15, "1" * 15)]))
    assert [line.split() for line in out.getvalue().splitlines() if line.strip()][-1] == [
        "x" * 15,
        "1" * 15,
    ]


@pytest.mark.parametrize(("encoding", "rule"), [("ascii", "-"), ("gb18030", "─")])
def test_the_rule_is_drawn_with_what_the_encoding_has(
    monkeypatch: pytest.MonkeyPatch, encoding: str, rule: str
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", out)
    output.print_table(Table.plain("A title", ("name", "figure"), [("x", "1")]))
    out.seek(0)
    assert out.read().splitlines()[3] == f" {rule * 15} "


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = draw(st.integers(1, 4))
    cell = st.builds(TableCell, WORDS, st.booleans(), st.sampled_from(["", "*", "†"]))
    row = st.tuples(*[cell] * columns)
    return Table(
        draw(WORDS),
        draw(st.tuples(*[WORDS] * columns)),
        draw(st.lists(row, max_size=4).map(tuple)),
        frozenset(draw(st.lists(st.integers(0, 4)))),
        names=draw(st.integers(0, columns)),
    )


@given(tables())
def test_text_is_what_rich_draws_without_styles(table: Table) -> None:
    out = io.StringIO()
    Console(file=out, width=1000, highlight=False, color_system=None).print(to_rich(table))
    assert to_text(table) == out.getvalue()


def test_styles_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table("Of :smile: [b]", ("name",), ((TableCell("best", best=True),),))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    output.print_table(table)
    output.print_notes(["a note"])
    plain = capsys.readouterr().out
    assert plain == f"Of :smile: [b]\n{to_text(table)}  a note\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    output.print_table(table)
    assert "\x1b[1mbest" in capsys.readouterr().out
