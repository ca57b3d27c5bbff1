"""Lay out the package as users import it: ``python scripts/package_tree.py FOLDER``.

The four top folders become one package only when they are installed. Tools that read sources, not
an installed package, get a folder of links instead, made from the same lines of pyproject.toml.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def link_package(folder: Path) -> Path:
    """Make `folder` anew and return the package within it, one link per module."""
    setuptools = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]
    shutil.rmtree(folder, ignore_errors=True)
    for package in setuptools["packages"]:
        sources = REPOSITORY / setuptools["package-dir"].get(package, package.replace(".", "/"))
        target = folder / package.replace(".", "/")
        target.mkdir(parents=True)
        for module in sources.glob("*.py"):
            (target / module.name).symlink_to(module)
    return folder / "msshift_bench"


if __name__ == "__main__":
    link_package(Path(sys.argv[1]))
