"""Build the site: ``python -m scripts.site``, behind ``scripts/docs``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from msshift_bench.leaderboard import build_site
from msshift_bench.plumbing import replace_folder
from scripts.site.pages import relative_links, write_pages
from scripts.site.search_words import add_search_words

REPOSITORY = Path(__file__).resolve().parents[2]

CONFIGURATION = "mkdocs.yml"


def make_site(out: Path, work: Path) -> None:
    """Build the site, and put it into a folder when it is complete.

    Args:
        out: the folder of the site.
        work: a folder to work in, which is made anew.

    Raises:
        CalledProcessError: if a page has a fault, such as a link that leads nowhere.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / "msshift_bench").symlink_to(REPOSITORY / "msshift_bench")
    write_pages(REPOSITORY, work / "build" / "site")
    shutil.copyfile(REPOSITORY / CONFIGURATION, work / CONFIGURATION)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    subprocess.run(command, cwd=work, check=True)
    page = work / "site" / "404.html"
    page.write_text(relative_links(page.read_text("utf-8")), "utf-8")
    add_search_words(work / "site")
    build_site(work / "site" / "leaderboard", docs="../index.html")
    with replace_folder(out) as partial:
        shutil.copytree(work / "site", partial, dirs_exist_ok=True)


if __name__ == "__main__":
    make_site(REPOSITORY / "site", REPOSITORY / "build" / "docs")
    print(f"open {REPOSITORY / 'site' / 'index.html'}", file=sys.stderr)
