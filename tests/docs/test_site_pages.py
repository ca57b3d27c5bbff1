"""The site's pages: the navigation has each, and every link has a target."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.site import pages
from scripts.site.pages import NOTEBOOKS, OTHER_PAGES, notebook_page, write_pages
from tests.conftest import REPOSITORY


def leaves(nav: Any) -> Iterator[str]:
    """Yield the pages of a navigation."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for below in nav.values():
            yield from leaves(below)
    else:
        for entry in nav:
            yield from leaves(entry)


def test_the_navigation_has_every_page() -> None:
    configuration = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text("utf-8"))
    named = list(leaves(configuration["nav"]))
    assert len(named) == len(set(named))
    written = {page.name for page in (REPOSITORY / "docs").glob("*.md")} | set(OTHER_PAGES.values())
    written |= {notebook_page(one) for one in (REPOSITORY / NOTEBOOKS).glob("*.ipynb")}
    made = {name for name in named if name.startswith("reference/")}
    made |= {"leaderboard-pages.md", "reproduce.md"}
    assert set(named) == written | made


def headings(page: str) -> set[str]:
    """Return the anchors of a page's headings, as the site and the forge make them."""
    lines = re.findall(r"(?m)^#+ (.*)", (REPOSITORY / page).read_text("utf-8"))
    return {re.sub(r"[^\w -]", "", line.lower()).strip().replace(" ", "-") for line in lines}


def test_every_link_and_every_anchor_has_a_target(tmp_path: Path) -> None:
    write_pages(REPOSITORY, tmp_path / "pages")
    for page in (*OTHER_PAGES, *(f"docs/{path.name}" for path in REPOSITORY.glob("docs/*.md"))):
        text = re.sub(r"(?ms)^```.*?^```$", "", (REPOSITORY / page).read_text("utf-8"))
        for place, anchor in re.findall(r"\]\(([^():]*)#([^)]+)\)", text):
            target = os.path.normpath(Path(page).parent / place) if place else page
            assert anchor in headings(target), f"{page}: {place}#{anchor}"


def test_links_become_pages_copies_or_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "code").mkdir()
    (tmp_path / "code/file.toml").write_text("a = 1")
    (tmp_path / "docs/a.md").write_text(
        "[home](../README.md#use) [b](b.md) ![p](p.svg) [`f`](../code/file.toml) [c](../code)\n"
        "[n](notebooks/n.ipynb)\n"
        "```text\n[kept](../nowhere.md)\n```\n[web](https://host/x.md)\n"
    )
    (tmp_path / "docs/b.md").write_text("words")
    (tmp_path / "docs/p.svg").write_text("<svg/>")
    (tmp_path / "README.md").write_text("[a](docs/a.md#top)")
    for name in set(OTHER_PAGES) - {"README.md"}:
        (tmp_path / name).write_text("words")
    monkeypatch.setattr(pages, "reference_pages", lambda: {"x.md": "made"})
    (tmp_path / "docs/experiments.md").write_text("# Experiments\n")
    (tmp_path / NOTEBOOKS).mkdir()
    cells = '[{"cell_type": "markdown", "source": ["# N"]}, {"cell_type": "code", "source": ["1"]}]'
    (tmp_path / NOTEBOOKS / "n.ipynb").write_text(f'{{"cells": {cells}}}')
    write_pages(tmp_path, tmp_path / "out")
    assert (tmp_path / "out/a.md").read_text() == (
        "[home](index.md#use) [b](b.md) ![p](p.svg) [`f`](source/code/file.toml.txt) c\n"
        "[n](notebook-n.md)\n"
        "```text\n[kept](../nowhere.md)\n```\n[web](https://host/x.md)\n"
    )
    assert (tmp_path / "out/index.md").read_text() == "[a](a.md#top)"
    assert (tmp_path / "out/source/code/file.toml.txt").read_text() == "a = 1"
    assert (tmp_path / "out/reference/x.md").read_text() == "made"
    assert (tmp_path / "out/notebook-n.md").read_text() == (
        "# N\n\n[This page as a notebook](n.ipynb)\n\n```python\n1\n```\n"
    )
    assert (tmp_path / "out/n.ipynb").is_file()
    assert (tmp_path / "out/reproduce.md").read_text().startswith("# Repeat every table")
    (tmp_path / "docs/b.md").write_text("[gone](gone.md)")
    with pytest.raises(FileNotFoundError, match=r"b\.md: no gone\.md"):
        write_pages(tmp_path, tmp_path / "out")
