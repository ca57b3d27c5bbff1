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

from scripts.releasing.environments import (
    VERSIONS,
    Environment,
    find_pythons,
    make_environment,
    write_sbom,
)
from scripts.releasing.facts import facts_of_wheel, missing_facts, repository_address, version_of
from scripts.releasing.readme import mend_links

REPOSITORY = Path(__file__).resolve().parents[2]

OUT = REPOSITORY / "build" / "release"

CHEAP = "hf,irds,bm25,measures,leaderboard,pandas,plots,analysis"
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
    dry_run = arguments.dry_run
    missing = missing_facts(REPOSITORY)
    for line in missing:
        print(f"before a release: {line}")
    if missing and not dry_run:
        print("nothing was made; fill these in, or try with --dry-run", file=sys.stderr)
        return 1
    shutil.rmtree(OUT, ignore_errors=True)
    extras = f"{CHEAP},neural" if arguments.neural else CHEAP
    wrong = _make_and_try(OUT, OUT.parent / "release-work", arguments.python or VERSIONS, extras)
    for line in wrong:
        print(f"WRONG: {line}")
    return int(bool(wrong))


def _make_and_try(out: Path, work: Path, versions: Sequence[str], extras: str) -> list[str]:
    shutil.rmtree(work, ignore_errors=True)
    out.mkdir(parents=True)
    address = repository_address(REPOSITORY)
    if address is None:
        print(f"README.md: its links lead to {NOWHERE}, until the address is filled in")
    _export(work / "source", address or NOWHERE)
    _run("-m", "build", "--outdir", str(out), str(work / "source"))
    (wheel,) = out.glob("*.whl")
    (sdist,) = out.glob("*.tar.gz")
    print(f"built {sdist.name} ({_size(sdist)}) and {wheel.name} ({_size(wheel)})")
    _run("-m", "twine", "check", "--strict", str(wheel), str(sdist))
    wrong = facts_of_wheel(wheel, REPOSITORY)
    print("metadata: twine check passed; " + ("see below" if wrong else "so did ours, README too"))
    found = find_pythons()
    pythons = {version: python for version, python in found.items() if version in versions}
    for number, (version, python) in enumerate(pythons.items()):
        of_wheel = _installed(python, work / f"wheel-{version}", str(wheel))
        wrong += of_wheel.smoke(work / f"smoke-{version}")
        of_sdist = _installed(python, work / f"sdist-{version}", str(sdist), alone=True)
        if of_sdist.files() == of_wheel.files():
            print(f"Python {version}: sdist and wheel install the same files and requirements")
        else:
            wrong.append(f"Python {version}: the sdist installs other files than the wheel")
        if of_wheel.megabytes() > MOST_MEGABYTES:
            wrong.append(f"Python {version}: {of_wheel.megabytes()} MB installed")
        if number == len(pythons) - 1:
            write_sbom(of_wheel, REPOSITORY / "pyproject.toml", out / "sbom.cdx.json")
            print("sbom.cdx.json: CycloneDX, of what the core installs")
            with_extras = _installed(python, work / f"extras-{version}", f"{wheel}[{extras}]")
            wrong += with_extras.smoke(work / f"smoke-extras-{version}")
        for made in work.glob(f"*-{version}"):
            shutil.rmtree(made)
    shutil.rmtree(work)
    for version in VERSIONS:
        if version not in found:
            print(f"Python {version}: not tried, there is none on this machine")
        elif version not in versions:
            print(f"Python {version}: not tried, only {' and '.join(versions)} was asked for")
    if not pythons:
        wrong.append("there is no Python to try the release on")
    if "neural" not in extras:
        print("extra neural: not tried (--neural does), the test suite runs on it")
    _write_checksums(out)
    print(f"SHA256SUMS: {len(list(out.iterdir())) - 1} files in {out.relative_to(REPOSITORY)}")
    return wrong


def _export(folder: Path, address: str) -> None:
    """Write the files of the last commit: nothing else may get into a release.

    A package's page shows the README without the repository, so its links get the address.
    """
    folder.mkdir(parents=True)
    tree = subprocess.run(
        ["git", "archive", "HEAD"], cwd=REPOSITORY, capture_output=True, check=True
    )
    subprocess.run(["tar", "-x"], cwd=folder, input=tree.stdout, check=True)
    names = [file.relative_to(folder).as_posix() for file in folder.rglob("*")]
    readme = folder / "README.md"
    tag = f"v{version_of(folder)}"
    readme.write_text(mend_links(readme.read_text("utf-8"), names, address, tag), "utf-8")


def _installed(python: Path, folder: Path, what: str, *, alone: bool = False) -> Environment:
    began = time.perf_counter()
    made = make_environment(python, folder, what, alone=alone)
    seconds = time.perf_counter() - began
    name = what.rpartition("/")[2]
    print(f"{folder.name}: {name} in {seconds:.0f} s, {made.megabytes()} MB", flush=True)
    return made


def _run(*arguments: str) -> None:
    """Run a module of this environment; what it prints is shown only if it fails."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


def _size(file: Path) -> str:
    return f"{file.stat().st_size / 1e6:.1f} MB"


def _write_checksums(folder: Path) -> None:
    """Write ``SHA256SUMS``, as ``sha256sum --check`` reads it."""
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(folder.iterdir())
    ]
    (folder / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    sys.exit(main())
