"""The pages of the site: copies of Markdown files and of notebooks, with links that lead somewhere.

A link to a file of the repository that is no page leads to a copy of that file, which browsers show
as text; one to a folder becomes plain words.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

from scripts.site.reference import reference_pages

OTHER_PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Pages outside docs/ -> their names in the site."""

LEADERBOARD = """# Leaderboard

[Open the leaderboard](leaderboard/index.html). `msshift leaderboard build` makes its static pages
from the accepted entries; [Submit](leaderboard.md) adds yours.

![A board: systems by Out, with their losses on each topic](leaderboard-table.png)
"""

LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)#\s:]+)(#[^)\s]*)?\)")
HIDDEN = re.compile(r"(?:(?<=/)|^)\.")
"""The dot at the beginning of a hidden file's or folder's name in a path."""

NOTEBOOKS = "docs/notebooks"
"""The folder of the notebooks, each of which becomes a page."""

FENCE = re.compile(r"(```.*?```)", re.DOTALL)


def write_pages(repository: Path, folder: Path) -> None:
    """Write all pages into a folder, which is made anew.

    Args:
        repository: the checkout.
        folder: the folder.

    Raises:
        FileNotFoundError: if a page links to a file that does not exist.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    docs = repository / "docs"
    for source in sorted(docs.iterdir()):
        if source.suffix == ".md":
            text = source.read_text("utf-8")
            (folder / source.name).write_text(_led(text, source, repository, folder), "utf-8")
        elif source.is_file():
            shutil.copyfile(source, folder / source.name)
    for name, page in OTHER_PAGES.items():
        source = repository / name
        text = source.read_text("utf-8")
        (folder / page).write_text(_led(text, source, repository, folder), "utf-8")
    for source in sorted((repository / NOTEBOOKS).glob("*.ipynb")):
        shutil.copyfile(source, folder / source.name)
        page = notebook_page(source)
        (folder / page).write_text(notebook_markdown(source), "utf-8")
    for own in ("vendor", "static"):
        shutil.copytree(Path(__file__).parent / own, folder / "assets", dirs_exist_ok=True)
    (folder / "leaderboard-pages.md").write_text(LEADERBOARD, encoding="utf-8")
    for name, text in reference_pages().items():
        target = folder / "reference" / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")


def relative_links(page: str) -> str:
    """Return a page at the top of the site with relative links instead of links to a host's root.

    The builder writes the page 404 with the latter, which lead nowhere from a disk, nor on a host
    where the site is in a folder.
    """
    return re.sub(r'((?:href=|src=|"base":)")/', r"\1./", page)


def notebook_page(notebook: Path) -> str:
    """Return the name of a notebook's page."""
    return f"notebook-{notebook.stem}.md"


def notebook_markdown(notebook: Path) -> str:
    """Return a notebook as a page: its words, its code, and the file to take away."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    shown = [
        source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        for cell in cells
        if (source := "".join(cell["source"]))
    ]
    shown[1:1] = [f"[This page as a notebook]({notebook.name})"]
    return "\n\n".join(shown) + "\n"


def _led(text: str, source: Path, repository: Path, folder: Path) -> str:
    """Return a page's text with links that lead somewhere in the site."""

    def led(link: re.Match[str]) -> str:
        words, where, anchor = link[1], link[2], link[3] or ""
        found = Path(os.path.normpath(source.parent / where))
        if found.is_dir():
            return words.removeprefix("!")[1:-1]
        if not found.exists():
            raise FileNotFoundError(f"{source}: no {where}")
        name = found.relative_to(repository).as_posix()
        if name in OTHER_PAGES:
            place = OTHER_PAGES[name]
        elif found.parent == repository / "docs":
            place = found.name
        elif found.parent == repository / NOTEBOOKS:
            place = notebook_page(found)
        else:
            # The builder omits files and folders whose names begin with a dot.
            place = f"source/{HIDDEN.sub('', name)}.txt"
            copy = folder / place
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, copy)
        return f"{words}({place}{anchor})"

    parts = FENCE.split(text)
    # Every second part is code.
    parts[::2] = [LINK.sub(led, part) for part in parts[::2]]
    return "".join(parts)
