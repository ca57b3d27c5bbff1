"""Make a release and try it: ``python -m scripts.releasing``, behind ``scripts/release``."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.releasing.environments import VERSIONS, Environment, find_python, make_environment
from scripts.releasing.facts import (
    files_of_wheel,
    mend_links,
    missing_facts,
    repository_address,
    version_of,
)

REPOSITORY = Path(__file__).resolve().parents[2]

OUT = REPOSITORY / "build" / "release"

CHEAP = "hf,irds,bm25,measures,leaderboard,pandas,plots"
"""The extras that are always tried; `neural` is gigabytes of torch."""

NOWHERE = "https://repository.invalid"
"""What a dry run puts for the repository's address as long as it is not filled in."""

MOST_MEGABYTES = 450
"""What the package and its requirements may take on a disk."""


def main() -> int:
    """Make and try a release; return 1 if something is wrong with it."""
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__)
    parser.add_argument(
        "--dry-run", action="store_true", help="go on although facts are still to be filled in"
    )
    parser.add_argument(
        "--python",
        action="append",
        choices=VERSIONS,
        help="try it on this version only (again for more); the default is every one that is here",
    )
    parser.add_argument(
        "--neural", action="store_true", help="try the extra neural, too, which installs torch"
    )
    arguments = parser.parse_args()
    missing = missing_facts(REPOSITORY)
    for line in missing:
        print(f"before a release: {line}")
    if missing and not arguments.dry_run:
        print("nothing was made; fill these in, or try with --dry-run", file=sys.stderr)
        return 1
    work = OUT.parent / "release-work"
    for folder in (OUT, work):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    wheel, sdist = make(work / "source")
    wrong = files_of_wheel(wheel, REPOSITORY)
    extras = f"{CHEAP},neural" if arguments.neural else CHEAP
    wrong += try_it(wheel, sdist, work, arguments.python or VERSIONS, extras)
    shutil.rmtree(work)
    checksums = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(OUT.iterdir())
    ]
    (OUT / "SHA256SUMS").write_text("".join(checksums))
    for line in wrong:
        print(f"WRONG: {line}")
    return int(bool(wrong))


def make(source: Path) -> tuple[Path, Path]:
    """Build wheel and sdist of the last commit, and have twine check them; return their paths.

    A package's page shows the README without the repository, so its links get the address.
    """
    source.mkdir()
    archive = ["git", "archive", "HEAD"]
    tree = subprocess.run(archive, cwd=REPOSITORY, capture_output=True, check=True)
    subprocess.run(["tar", "-x"], cwd=source, input=tree.stdout, check=True)
    names = [file.relative_to(source).as_posix() for file in source.rglob("*")]
    address, readme = repository_address(REPOSITORY) or NOWHERE, source / "README.md"
    tag = f"v{version_of(source)}"
    readme.write_text(mend_links(readme.read_text("utf-8"), names, address, tag), "utf-8")
    print(f"the links of README.md lead to {address}")
    subprocess.run([sys.executable, "-m", "build", "--outdir", OUT, source], check=True)
    (wheel,), (sdist,) = OUT.glob("*.whl"), OUT.glob("*.tar.gz")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist], check=True)
    return wheel, sdist


def try_it(wheel: Path, sdist: Path, work: Path, versions: Sequence[str], extras: str) -> list[str]:
    """Install a release alone on every Python that is here, and run every command there.

    Returns:
        What is wrong.
    """
    wrong: list[str] = []
    pythons = {}
    for version in versions:
        if python := find_python(version):
            pythons[version] = python
        else:
            print(f"Python {version}: not tried, there is none on this machine")
    if not pythons:
        return ["there is no Python to try the release on"]
    for version, python in pythons.items():
        of_wheel = _installed(python, work / f"wheel-{version}", str(wheel))
        wrong += of_wheel.smoke(work / f"smoke-{version}")
        to_compare = ("--no-compile", "--no-deps")
        of_sdist = _installed(python, work / f"sdist-{version}", str(sdist), *to_compare)
        if of_sdist.files() != of_wheel.files():
            wrong.append(f"Python {version}: the sdist installs other files than the wheel")
        if of_wheel.megabytes() > MOST_MEGABYTES:
            wrong.append(f"Python {version}: {of_wheel.megabytes()} MB installed")
    _write_bill_of_materials(of_wheel)
    with_extras = _installed(python, work / "extras", f"{wheel}[{extras}]")
    return wrong + with_extras.smoke(work / "smoke-extras")


def _installed(python: Path, folder: Path, what: str, *options: str) -> Environment:
    began = time.perf_counter()
    made = make_environment(python, folder, what, *options)
    seconds = time.perf_counter() - began
    print(f"{folder.name}: {what} in {seconds:.0f} s, {made.megabytes()} MB", flush=True)
    return made


def _write_bill_of_materials(core: Environment) -> None:
    """Write what the core installs as ``sbom.cdx.json``, CycloneDX 1.6."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", core.python]
    options = ["--output-format", "JSON", "--spec-version", "1.6", "--validate"]
    options += ["--pyproject", REPOSITORY / "pyproject.toml", "--output-reproducible"]
    subprocess.run([*command, *options, "--output-file", OUT / "sbom.cdx.json"], check=True)


if __name__ == "__main__":
    sys.exit(main())
