from __future__ import annotations

import io
import re
import sys

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from msshift_bench.cli import output
from msshift_bench.output import Table, TableCell, to_text

# Marks that change the character before them have no width of their own.
WORDS = st.text(st.characters(exclude_categories=["C", "Z", "M", "Sk"]), max_size=12)


@pytest.mark.parametrize(("encoding", "rule"), [("ascii", "-"), ("gb18030", "─")])
def test_the_rule_is_drawn_with_what_the_encoding_has(
    monkeypatch: pytest.MonkeyPatch, encoding: str, rule: str
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", out)
    output.print_tables([Table.plain("A title", ("name", "figure"), [("x", "1")])])
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


@pytest.mark.extended
@given(tables())
def test_all_lines_are_as_wide_and_styles_only_add_codes(table: Table) -> None:
    text = to_text(table)
    lines = text.splitlines()
    assert len({cell_len(line) for line in lines}) == 1
    assert len(lines) == 4 + len(table.rows) + sum(0 < n < len(table.rows) for n in table.sections)
    assert all(line.startswith(" ") and line.endswith(" ") for line in lines)
    cells = [cell for row in table.rows for cell in row]
    assert all(f"{cell.text}{cell.mark}" in text for cell in cells)
    styled = to_text(table, is_styled=True)
    assert re.sub(r"\x1b\[[01]m", "", styled) == text
    assert styled.count("\x1b[1m") == sum(cell.best for cell in cells)


def test_styles_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table("Of :smile: [b]", ("name",), ((TableCell("best", best=True),),))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    output.print_tables([table], ["a note"])
    plain = capsys.readouterr().out
    assert plain == f"Of :smile: [b]\n{to_text(table)}  a note\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    output.print_tables([table], ["a note"])
    shown = capsys.readouterr().out
    assert "\x1b[1mOf :smile: [b]\x1b[0m\n" in shown
    assert "\x1b[1mbest\x1b[0m" in shown
    assert "\x1b[2m  a note\x1b[0m\n" in shown
