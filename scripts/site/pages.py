"""The pages of the site: copies of Markdown files, with links that lead somewhere in the site.

A link to a file of the repository that is no page leads to a copy of that file, which browsers show
as text; one to a folder becomes plain words.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from scripts.site.reference import reference_pages

OTHER_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Pages outside docs/ -> their names in the site."""

LEADERBOARD = """# Leaderboard

[The leaderboard](leaderboard/index.html) is a folder of static pages. `msshift leaderboard build`
makes it from the accepted entries; [Submit](leaderboard.md) says how to become one of them.
"""

LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)#\s:]+)(#[^)\s]*)?\)")
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
            _write_page(source, folder / source.name, repository, folder)
        else:
            shutil.copyfile(source, folder / source.name)
    for name, page in OTHER_PAGES.items():
        _write_page(repository / name, folder / page, repository, folder)
    for own in ("vendor", "static"):
        shutil.copytree(Path(__file__).parent / own, folder / "assets", dirs_exist_ok=True)
    (folder / "leaderboard-pages.md").write_text(LEADERBOARD, encoding="utf-8")
    for name, text in reference_pages().items():
        target = folder / "reference" / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _write_page(source: Path, target: Path, repository: Path, folder: Path) -> None:
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
        else:
            place = f"source/{name}.txt"
            copy = folder / place
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, copy)
        return f"{words}({place}{anchor})"

    parts = FENCE.split(source.read_text("utf-8"))
    # Every second part is code.
    parts[::2] = [LINK.sub(led, part) for part in parts[::2]]
    target.write_text("".join(parts), encoding="utf-8")
