"""Words that readers search for, and the page of each: the first results of the site's search.

The search ranks headings by the place of the word, and not every page has its words in a heading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["SEARCH_WORDS", "add_search_words"]

SEARCH_WORDS: Mapping[str, tuple[str, str]] = {
    "BEIR": ("own-collection.html", "a collection in BEIR's layout"),
    "Own collection": ("own-collection.html", "build groups, train and evaluate on it"),
    "Topics": ("data.html", "how they are made and checked"),
    "Prompt": ("evaluate-a-model.html", "texts that a model adds to queries and passages"),
    "MTEB": ("mteb.html", "run models of MTEB on the test sets"),
    "Ray": ("cluster.html", "train and search on a Ray cluster"),
    "LaTeX": ("evaluate-runs.html", "a results table in LaTeX"),
}
"""A word -> its place in the site, and what is there."""

_SCRIPT = "var __index = "
"""The beginning of the index that a page from a disk reads."""


def add_search_words(site: Path) -> None:
    """Add an entry for each search word to the index of a built site.

    Args:
        site: the folder of the site.

    Raises:
        ValueError: if an entry's page is not in the index.
    """
    index = json.loads((site / "search.json").read_text("utf-8"))
    known = {item["location"] for item in index["items"]}
    for word, (location, _) in SEARCH_WORDS.items():
        if location not in known:
            raise ValueError(f"the search word {word!r} leads to {location}, which does not exist")
    entries = [
        {
            "location": location,
            "level": 1,
            "title": f"{word}: {text}",
            "text": "",
            "path": ["Index", word],
            "tags": [],
        }
        for word, (location, text) in SEARCH_WORDS.items()
    ]
    index["items"] = entries + index["items"]
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    (site / "search.json").write_text(text, "utf-8")
    (site / "search.js").write_text(_SCRIPT + text, "utf-8")
