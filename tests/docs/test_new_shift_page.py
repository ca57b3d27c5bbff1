"""docs/new-shift.md: its commands run, and what it shows is what stands in the files."""

from __future__ import annotations

import re

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "new-shift.md").read_text(encoding="utf-8")


def test_it_shows_the_row_and_the_builder_as_they_are() -> None:
    shown = re.findall(r"In `([\w/.]+)`[^\n]*:\n\n```diff\n(.*?)```", PAGE, re.DOTALL)
    assert len(shown) == 2
    for path, diff in shown:
        added = "".join(line.removeprefix("+") for line in diff.splitlines(keepends=True))
        text = (REPOSITORY / path).read_text(encoding="utf-8")
        # Without the docstring, as the page says.
        assert added in re.sub(r'    """.*?"""\n', "", text, flags=re.DOTALL) or added in text


def test_it_names_files_that_are_there() -> None:
    named = re.findall(r"^ (\S+) +\|", PAGE, re.MULTILINE)
    assert len(named) == 4
    assert all((REPOSITORY / path).is_file() for path in named)
