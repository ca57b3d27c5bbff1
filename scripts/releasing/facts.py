"""What a release must say of itself, and what its wheel must hold."""

from __future__ import annotations

import email.parser
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

from scripts.releasing.readme import wrong_links

__all__ = ["facts_of_wheel", "missing_facts", "repository_address", "version_of"]

_CLASSIFIERS = ("Development Status", "Intended Audience", "Operating System", "Topic", "Typing")

_FIELDS = ("repository-code", "date-released", "doi")


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


def facts_of_wheel(wheel: Path, repository: Path) -> list[str]:
    """Return what is wrong with the metadata and the files of a wheel, a line each.

    Args:
        wheel: the wheel.
        repository: what it was built from.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        points = archive.read(metadata.replace("METADATA", "entry_points.txt")).decode()
        said = email.parser.Parser().parsestr(archive.read(metadata).decode())
    wrong = []
    kinds = {line.partition(" :: ")[0] for line in said.get_all("Classifier") or ()}
    if lacking := [kind for kind in _CLASSIFIERS if kind not in kinds]:
        wrong.append(f"no classifier of {', '.join(lacking)}")
    urls = {line.partition(", ")[0] for line in said.get_all("Project-URL") or ()}
    if "Paper" not in urls:
        wrong.append("no project URL of the paper")
    if said["Version"] != version_of(repository):
        wrong.append(f"the wheel is of version {said['Version']}")
    wrong += [
        f"no entry point {point}"
        for point in ("[console_scripts]", "[pyterrier.dataset_provider]")
        if point not in points
    ]
    folder = metadata.rpartition("/")[0]
    wrong += [
        f"{name} is not in the wheel"
        for name in ("LICENSE", "NOTICE")
        if f"{folder}/licenses/{name}" not in names
    ]
    expected = _expected(repository)
    packaged = {name for name in names if name.startswith("msshift_bench/")}
    wrong += [f"{name} is not in the wheel" for name in sorted(expected - packaged)]
    wrong += [f"{name} should not be in it" for name in sorted(packaged - expected)]
    return wrong + wrong_links(str(said.get_payload()))


def _expected(repository: Path) -> set[str]:
    """Return every tracked module and file of data, by the name that it is installed under."""
    setuptools = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["setuptools"]
    command = ["git", "ls-files", "-z"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    tracked = set(done.stdout.split("\0"))
    found = set()
    for package in setuptools["packages"]:
        inside = package.replace(".", "/")
        folder = repository / setuptools["package-dir"].get(package, inside)
        for pattern in ("*.py", *setuptools["package-data"].get(package, ())):
            for file in folder.glob(pattern):
                if file.relative_to(repository).as_posix() in tracked:
                    found.add(f"{inside}/{file.relative_to(folder).as_posix()}")
    return found
