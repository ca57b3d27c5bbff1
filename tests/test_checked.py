"""Files that people write, read into models: every fault, with its place and fix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import Field

from msshift_bench import checked
from msshift_bench.checked import (
    Checked,
    Count,
    Digest,
    Line,
    Link,
    Listed,
    Name,
    Slug,
    Text,
    read_rows,
    read_toml,
    valid_name,
    write_rows,
)
from msshift_bench.errors import DataError, NotFoundError


class Inner(Checked):
    colour: Annotated[str, valid_name("colour", ("red", "blue"))] = "red"
    level: Annotated[int, Field(ge=1, le=9)] = 1
    size: Literal["small", "large"] = "small"

    def rules(self) -> Iterator[tuple[str, str]]:
        if self.size == "large" and self.level < 2:
            yield "level", "large takes 2 or more"
            yield "size", "small takes any"


class Value(Checked):
    name: Slug = "a"
    title: Name = "b"
    text: Text = ""
    line: Line = ""
    link: Link = "https://example.org"
    share: float = 0.5
    digest: Digest = "0" * 64
    ready: bool = False
    parts: Annotated[tuple[Name, ...], Listed] = ()
    inner: Inner = Inner()
    maybe: Inner | None = None
    table: Annotated[dict[Name, Count], Field(default_factory=dict)]


class Row(Checked):
    name: Name
    count: Count
    share: float | None


def toml(path: Path, content: str | bytes) -> Value:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_toml(path, Value, DataError, "it is wrong:")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("name = 'A'", "v.toml:1: name: 'A' is not of the form ^[a-z0-9]"),
        ("\ntitle = ' '", "v.toml:2: title: must not be empty [empty-text]"),
        ("title = 'a\\nb'", None),
        ('title = "a\\nb"', "title: contains a line break [control-character]"),
        ('line = "\\u202e"', "contains the control character RIGHT-TO-LEFT OVERRIDE"),
        ('text = "\\u200f"', "contains the control character RIGHT-TO-LEFT MARK"),
        ('text = "a\\nb\\tc"', "contains the control character U+0009"),
        ("text = 3", "text: expected a text, found a number [wrong-type]"),
        ("share = 'x'", "share: expected a number, found a text"),
        ("share = inf", "share: Input should be a finite number"),
        ("ready = 1", "ready: expected true or false, found a number"),
        ("parts = 'x'", "parts: expected a list, found a text"),
        ("parts = ['a', '']", "v.toml:1: parts[1]: must not be empty"),
        ("inner = []", "inner: expected a table, found a list"),
        ("[inner]\nlevel = 1.5", "v.toml:2: inner.level: expected a whole number"),
        ("[inner]\nlevel = 10", "less than or equal to 9 (found 10) [out-of-range]"),
        ("[inner]\ncolor = 'red'", "inner.color: there is no such field; did you mean 'colour'?"),
        ("[inner]\ncolour = 'bleu'", "colour 'bleu'; did you mean 'blue'? [unknown-colour]"),
        ("[inner]\ncolour = 'bleu'", "fix: one of: red, blue"),
        ("maybe = {size = 'smal'}", "v.toml:1: maybe.size: unknown name 'smal'; did you mean"),
        ("[maybe]\nsize = 'large'", "v.toml:1: maybe.level: large takes 2 or more [broken-rule]"),
        ("[maybe]\nsize = 'large'", "v.toml:2: maybe.size: small takes any [broken-rule]"),
        ("[maybe]\nabcd = 1", "fix: one of: colour, level, size"),
        ("[table]\nx = -1", "table.x: Input should be greater than or equal to 0"),
        ("[table]\n'' = 1", "must not be empty"),
        ("link = 'ftp://example.org'", "'ftp://example.org' is not a link [wrong-link]"),
        ("link = 'https://a:b@example.org'", "is not a link"),
        ("link = 'https://[::1'", "is not a link"),
        ("link = 'https://example.org/\"'", "is not a link"),
        ("digest = 'ab'", "'ab' is not of the form"),
        (f"line = '{'x' * 301}'", "301 characters; at most 300 are allowed"),
        ("name = ", "Invalid value (at end of document) [not-toml]"),
        ("a = 1\nname\nb = 2", "v.toml:2:"),
        (b"name = '\xff'", "byte 9 is not UTF-8 [not-utf8]"),
        ("unknown = 1", "unknown: there is no such field [unknown-field]"),
        ("[[inner]]\nlevel = 10", "v.toml:1: inner: expected a table, found a list"),
        ("[inner]\nlevel = 10\n[[inners]]\nlevel = 2", "v.toml:3: inners: there is no such field"),
        ("[maybe]\nsize = 'large'\n[[x]]\nlevel = 1", "v.toml:1: maybe.level: large takes 2"),
        ("[inners]\nlevel = 2", "inners: there is no such field; did you mean 'inner'?"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_place_and_fix(
    tmp_path: Path, content: str | bytes, expected: str | None
) -> None:
    if expected is None:
        toml(tmp_path / "v.toml", content)
        return
    with pytest.raises(DataError) as error:
        toml(tmp_path / "v.toml", content)
    assert expected in str(error.value)


def test_all_faults_are_in_one_error(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        toml(tmp_path / "v.toml", "name = 'A'\nshare = 'x'\n[inner]\nlevel = 0\nx = 1\n")
    assert [finding.line for finding in error.value.findings] == [1, 2, 4, 5]


def test_a_value_does_not_change(tmp_path: Path) -> None:
    value = toml(tmp_path / "v.toml", "parts = ['a', 'b']\n[inner]\nlevel = 2\n")
    assert value.parts == ("a", "b")
    with pytest.raises(ValueError, match="frozen"):
        value.inner.level = 3  # type: ignore[misc]


@pytest.mark.parametrize("read", [read_toml, read_rows])
def test_paths_that_are_no_plain_file(
    tmp_path: Path, read: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(read)
    path = tmp_path / "v"
    with pytest.raises(NotFoundError, match="no file"):
        read(path, Row, DataError, "wrong:")
    path.symlink_to("/etc/passwd")
    with pytest.raises(DataError, match="is a link, or not a regular file"):
        read(path, Row, DataError, "wrong:")
    path.unlink()
    path.write_text("x" * 101)
    monkeypatch.setattr(checked, "MAX_BYTES", 100)
    with pytest.raises(DataError, match="more than 100 bytes"):
        read(path, Row, DataError, "wrong:")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("name,count\na,1\n", "no column share [no-column]"),
        ("name,count,share\na,x,\n", "v.csv:2: count: expected a whole number, found a text"),
        ("name,count,share\na,1,\n,2,\n", "v.csv:3: name: must not be empty [missing-field]"),
        ("name,count,share,more\na,1,,2\n", "v.csv:2: more: there is no such field"),
        ("name,count,share\na,-1,nan\n", "count: Input should be greater than or equal to 0"),
        ("name,count,share\na,-1,nan\n", "share: Input should be a finite number"),
        ('name,count,share\n"a,1,\n', "[not-csv]"),
    ],
)
def test_a_wrong_row_is_refused_with_its_line(tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "v.csv").write_text(content)
    with pytest.raises(DataError) as error:
        read_rows(tmp_path / "v.csv", Row, DataError, "wrong:")
    assert expected in str(error.value)


@given(
    st.lists(
        st.builds(
            Row,
            name=st.text('ab,"é ', min_size=1, max_size=9).map(str.strip).filter(bool),
            count=st.integers(0, 2**53),
            share=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        ),
        max_size=4,
    )
)
def test_written_rows_are_read_again(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row]
) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    write_rows(path, Row, rows)
    assert read_rows(path, Row, DataError, "wrong:") == rows
