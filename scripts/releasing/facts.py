"""What a release must say of itself, what its wheel must hold, and its README on its own."""

from __future__ import annotations

import posixpath
import re
import subprocess
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["files_of_wheel", "mend_links", "missing_facts", "repository_address", "version_of"]

_FIELDS = ("repository-code", "date-released", "doi")

_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)

_LINK = re.compile(r"(!?)(\[[^\[\]]*\])\((?!https?:|mailto:|#)([^()\s]+)\)")


def missing_facts(repository: Path) -> list[str]:
    """Return what is still to be filled in before a release, a line each.

    Args:
        repository: the repository.
    """
    citation = (repository / "CITATION.cff").read_text("utf-8")
    changes = (repository / "CHANGELOG.md").read_text("utf-8")
    version = version_of(repository)
    found = []
    if repository_address(repository) is None:
        found.append("pyproject.toml has no project.urls.Repository; give the public address")
    found += [
        f"CITATION.cff has no {field}; fill in the line that names it"
        for field in _FIELDS
        if not re.search(rf"^{field}: \S", citation, re.MULTILINE)
    ]
    if f"version: {version}\n" not in citation:
        found.append(f"CITATION.cff is not of version {version}")
    if not re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        found.append(f"CHANGELOG.md has no day for {version}")
    command = ["git", "status", "--porcelain"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    if done.returncode or done.stdout:
        found.append("there are changes that are not committed")
    return found


def repository_address(repository: Path) -> str | None:
    """Return where a repository is on the web, as its project's URLs say, if they say it."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    return project.get("urls", {}).get("Repository")


def version_of(repository: Path) -> str:
    """Return the version of the package in a repository."""
    text = (repository / "msshift_bench" / "_version.py").read_text()
    (version,) = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    return str(version)


def files_of_wheel(wheel: Path, repository: Path) -> list[str]:
    """Return what a wheel lacks or should not hold, a line each: modules, data, licences.

    Args:
        wheel: the wheel.
        repository: what it was built from; only tracked files count.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    setuptools = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["setuptools"]
    command = ["git", "ls-files", "-z"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    tracked = {repository / name for name in done.stdout.split("\0")}
    folder = f"msshift_bench-{version_of(repository)}.dist-info/licenses"
    expected = {f"{folder}/LICENSE", f"{folder}/NOTICE"}
    for package in setuptools["packages"]:
        inside = package.replace(".", "/")
        source = repository / setuptools["package-dir"].get(package, inside)
        for pattern in ("*.py", *setuptools["package-data"].get(package, ())):
            for file in tracked.intersection(source.glob(pattern)):
                expected.add(f"{inside}/{file.relative_to(source).as_posix()}")
    packaged = {name for name in names if ".dist-info/" not in name}
    return [f"{name} is not in the wheel" for name in sorted(expected - names)] + [
        f"{name} should not be in the wheel" for name in sorted(packaged - expected)
    ]


def mend_links(text: str, names: Iterable[str], address: str, tag: str) -> str:
    """Return a README whose relative links lead to a repository on the web.

    Args:
        text: the README, in Markdown; its code blocks are left alone.
        names: every file of the repository.
        address: where the repository is on the web, laid out as GitHub and GitLab do.
        tag: the tag of the release, so that the page shows the files of its own version.

    Raises:
        ValueError: if a link leads to no file of the repository.
    """
    known = set(names)

    def mended(link: re.Match[str]) -> str:
        image, label, target = link.groups()
        if posixpath.normpath(target.partition("#")[0]) not in known:
            raise ValueError(f"README.md links to {target}, which is not in the repository")
        kind = "raw" if image else "blob"
        return f"{image}{label}({address.rstrip('/')}/{kind}/{tag}/{target})"

    parts = _FENCE.split(text)
    # Every second part is code.
    parts[::2] = [_LINK.sub(mended, part) for part in parts[::2]]
    return "".join(parts)
