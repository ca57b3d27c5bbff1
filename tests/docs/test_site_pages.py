"""The site's pages: the navigation has each, and every link has a target."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.site import pages
from scripts.site.pages import NOTEBOOKS, OTHER_PAGES, notebook_page, relative_links, write_pages
from scripts.site.search_words import SEARCH_WORDS, add_search_words
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
    made.add("leaderboard-pages.md")
    assert set(named) == written | made


def headings(page: str) -> set[str]:
    """Return the anchors of a page's headings, as the site and the forge make them."""
    lines = re.findall(r"(?m)^#+ (.*)", (REPOSITORY / page).read_text("utf-8"))
    return {re.sub(r"[^\w -]", "", line.lower()).strip().replace(" ", "-") for line in lines}


@pytest.mark.extended
def test_every_link_and_every_anchor_has_a_target(tmp_path: Path) -> None:
    write_pages(REPOSITORY, tmp_path / "pages")
    copies = [path.relative_to(tmp_path) for path in (tmp_path / "pages/source").rglob("*.txt")]
    assert any(path.match("github/workflows/leaderboard-gate.yml.txt") for path in copies)
    # The site's builder omits what is hidden.
    assert not [path for path in copies if any(part[0] == "." for part in path.parts)]
    of_docs = (f"docs/{path.name}" for path in REPOSITORY.glob("docs/*.md"))
    for page in ("README.md", *OTHER_PAGES, *of_docs):
        text = re.sub(r"(?ms)^```.*?^```$", "", (REPOSITORY / page).read_text("utf-8"))
        for place, anchor in re.findall(r"\]\(([^():]*)#([^)]+)\)", text):
            target = os.path.normpath(Path(page).parent / place) if place else page
            assert anchor in headings(target), f"{page}: {place}#{anchor}"


@pytest.mark.extended
def test_the_page_404_has_its_styles_and_links_in_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "build/site").mkdir(parents=True)
    for name in ("index.md", "b.md"):
        (tmp_path / "build/site" / name).write_text("# Words\n")
    configuration = (REPOSITORY / "mkdocs.yml").read_text("utf-8")
    # Without the reference from docstrings, the builder takes half a second.
    without = configuration.partition("  - mkdocstrings:")[0]
    (tmp_path / "mkdocs.yml").write_text(f"{without}nav: [index.md, b.md]\n")
    command = [sys.executable, "-m", "zensical", "build"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    page = (tmp_path / "site/404.html").read_text("utf-8")
    assert 'href="/b.html"' in page, "the builder's own page has links to the host's root"
    links = re.findall(r'(?:href|src)="(?!#|https:)([^"]*)"', relative_links(page))
    assert {"./b.html", "./index.html"} < set(links)
    assert [link for link in links if link.endswith(".css")]
    # The two files of scripts/site/static and vendor are not in this small site.
    missing = {link for link in links if not (tmp_path / "site" / link).is_file()}
    assert missing == {
        "./assets/readable.css", "./assets/reachable.js", "./assets/iframe-worker.js"
    }  # fmt: skip


def test_links_become_pages_copies_or_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "code").mkdir()
    (tmp_path / "code/file.toml").write_text("a = 1")
    (tmp_path / "docs/a.md").write_text(
        "[home](../SECURITY.md#use) [b](b.md) ![p](p.svg) [`f`](../code/file.toml) [c](../code)\n"
        "[n](notebooks/n.ipynb)\n"
        "```text\n[kept](../nowhere.md)\n```\n[web](https://host/x.md)\n"
    )
    (tmp_path / "docs/b.md").write_text("words")
    (tmp_path / "docs/p.svg").write_text("<svg/>")
    for name in OTHER_PAGES:
        (tmp_path / name).write_text("[a](docs/a.md#top)")
    monkeypatch.setattr(pages, "reference_pages", lambda: {"x.md": "made"})
    (tmp_path / NOTEBOOKS).mkdir()
    cells = '[{"cell_type": "markdown", "source": ["# N"]}, {"cell_type": "code", "source": ["1"]}]'
    (tmp_path / NOTEBOOKS / "n.ipynb").write_text(f'{{"cells": {cells}}}')
    write_pages(tmp_path, tmp_path / "out")
    assert (tmp_path / "out/a.md").read_text() == (
        "[home](security.md#use) [b](b.md) ![p](p.svg) [`f`](source/code/file.toml.txt) c\n"
        "[n](notebook-n.md)\n"
        "```text\n[kept](../nowhere.md)\n```\n[web](https://host/x.md)\n"
    )
    assert (tmp_path / "out/changelog.md").read_text() == "[a](a.md#top)"
    assert (tmp_path / "out/source/code/file.toml.txt").read_text() == "a = 1"
    assert (tmp_path / "out/reference/x.md").read_text() == "made"
    assert (tmp_path / "out/notebook-n.md").read_text() == (
        "# N\n\n[This page as a notebook](n.ipynb)\n\n```python\n1\n```\n"
    )
    assert (tmp_path / "out/n.ipynb").is_file()
    (tmp_path / "docs/b.md").write_text("[gone](gone.md)")
    with pytest.raises(FileNotFoundError, match=r"b\.md: no gone\.md"):
        write_pages(tmp_path, tmp_path / "out")


def test_search_words_come_first_and_lead_to_pages_of_the_site(tmp_path: Path) -> None:
    pages = sorted({page for page, _ in SEARCH_WORDS.values()})
    index = {"items": [{"location": page} for page in pages]}
    (tmp_path / "search.json").write_text(json.dumps(index))
    add_search_words(tmp_path)
    text = (tmp_path / "search.json").read_text("utf-8")
    items = json.loads(text)["items"]
    assert items[-len(pages) :] == index["items"]
    assert [item["title"].partition(":")[0] for item in items[: -len(pages)]] == [*SEARCH_WORDS]
    assert (tmp_path / "search.js").read_text("utf-8") == f"var __index = {text}"
    (tmp_path / "search.json").write_text(json.dumps({"items": index["items"][1:]}))
    with pytest.raises(ValueError, match=f"leads to {pages[0]}, which does not exist"):
        add_search_words(tmp_path)
