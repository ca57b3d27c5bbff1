"""The counts of phrases that scripts/check limits."""

from __future__ import annotations

from scripts.language import PHRASES, texts_of

SOURCE = '''"""What says so."""

NAME = "those of the run"  # It tells nothing.


def stands() -> str:
    """It stands."""
    return f"{NAME} is said"
'''


def test_phrases_are_found_in_docstrings_comments_and_strings() -> None:
    found = {
        (kind, phrase)
        for kind, content in texts_of(SOURCE)
        for phrase, pattern in PHRASES.items()
        if pattern.search(content)
    }
    assert found == {
        ("docstrings", "what + verb"),
        ("docstrings", "tell, say"),
        ("docstrings", "stand"),
        ("comments", "tell, say"),
        ("strings", "those of"),
        ("strings", "tell, say"),
    }
