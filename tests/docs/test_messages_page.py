"""The page of all messages has those of every module."""

from __future__ import annotations

import pytest

from scripts.site.messages import messages_in, messages_page


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ('UsageError("give one")', "UsageError: give one"),
        ('DataError(f"{path} has " f"{len(rows)} rows")', "DataError: {path} has {rows} rows"),
        ('RunError("a" if one else "b", findings)', "RunError: a | b"),
        (
            'UnknownNameError("shift", name, valid)',
            "UnknownNameError: unknown shift {name}: did you mean {nearest}? valid are {names}",
        ),
        ('Finding("a-b", f"is {self.x}", path, 3, "do that")', "[a-b] is {x} -> do that"),
        ('log.add("a-b", "is 3", path, fix="do that")', "[a-b] is 3 -> do that"),
        ('print("no message")', ""),
    ],
)
def test_messages_are_read_from_calls(call: str, line: str) -> None:
    assert messages_in(call) == ({line} if line else set())


@pytest.mark.extended
def test_the_page_has_modules_and_their_messages() -> None:
    page = messages_page()
    assert "## msshift_bench/runs/runsets\n" in page
    assert "UsageError: name at least one run to score\n" in page
    assert "[no-passages] " in page
    assert len(page.splitlines()) > 500
