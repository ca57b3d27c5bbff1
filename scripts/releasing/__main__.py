"""Make a release and try it: ``python -m scripts.releasing``, behind ``scripts/release``."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

from scripts.package_tree import REPOSITORY
from scripts.releasing.environments import (
    VERSIONS,
    Environment,
    find_pythons,
    make_environment,
    write_sbom,
)
from scripts.releasing.facts import facts_of_wheel, missing_facts

OUT = REPOSITORY / "build" / "release"

CHEAP = "hf,irds,bm25,measures,leaderboard,pandas,plots,analysis"
"""The extras that are tried; `neural` is gigabytes of torch, and the test suite runs on it."""

MOST_MEGABYTES = 450
"""What the package and its requirements may take on a disk."""


def main() -> int:
    """Make and try a release; return 1 if something is wrong with it."""
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__)
    parser.add_argument(
        "--dry-run", action="store_true", help="go on although facts are still to be filled in"
    )
    dry_run = parser.parse_args().dry_run
    missing = missing_facts(REPOSITORY)
    for line in missing:
        print(f"before a release: {line}")
    if missing and not dry_run:
        print("nothing was made; fill these in, or try with --dry-run", file=sys.stderr)
        return 1
    shutil.rmtree(OUT, ignore_errors=True)
    wrong = _make_and_try(OUT, OUT.parent / "release-work")
    for line in wrong:
        print(f"WRONG: {line}")
    return int(bool(wrong))


def _make_and_try(out: Path, work: Path) -> list[str]:
    shutil.rmtree(work, ignore_errors=True)
    out.mkdir(parents=True)
    _export(work / "source")
    _run("-m", "build", "--outdir", str(out), str(work / "source"))
    (wheel,) = out.glob("*.whl")
    (sdist,) = out.glob("*.tar.gz")
    print(f"built {sdist.name} ({_size(sdist)}) and {wheel.name} ({_size(wheel)})")
    _run("-m", "twine", "check", "--strict", str(wheel), str(sdist))
    print("metadata: twine check passed, README included")
    wrong = facts_of_wheel(wheel, REPOSITORY)
    pythons = find_pythons()
    for number, (version, python) in enumerate(pythons.items()):
        of_wheel = _installed(python, work / f"wheel-{version}", str(wheel))
        wrong += of_wheel.smoke(work / f"smoke-{version}")
        of_sdist = _installed(python, work / f"sdist-{version}", str(sdist), compiled=False)
        if of_sdist.files() != of_wheel.files():
            wrong.append(f"Python {version}: the sdist installs other files than the wheel")
        print(f"Python {version}: sdist and wheel install the same files, outside the repository")
        if of_wheel.megabytes() > MOST_MEGABYTES:
            wrong.append(f"Python {version}: {of_wheel.megabytes()} MB installed")
        if number == len(pythons) - 1:
            write_sbom(of_wheel, REPOSITORY / "pyproject.toml", out / "sbom.cdx.json")
            print("sbom.cdx.json: CycloneDX, of what the core installs")
            extras = _installed(python, work / f"extras-{version}", f"{wheel}[{CHEAP}]")
            wrong += extras.smoke(work / f"smoke-extras-{version}")
        for made in work.glob(f"*-{version}"):
            shutil.rmtree(made)
    shutil.rmtree(work)
    for version in VERSIONS:
        if version not in pythons:
            print(f"Python {version}: not tried, there is none on this machine")
    if not pythons:
        wrong.append("there is no Python to try the release on")
    print("extra neural: not tried here, the test suite runs on it")
    _write_checksums(out)
    print(f"SHA256SUMS: {len(list(out.iterdir())) - 1} files in {out.relative_to(REPOSITORY)}")
    return wrong


def _export(folder: Path) -> None:
    """Write the files of the last commit: nothing else may get into a release."""
    folder.mkdir(parents=True)
    tree = subprocess.run(
        ["git", "archive", "HEAD"], cwd=REPOSITORY, capture_output=True, check=True
    )
    subprocess.run(["tar", "-x"], cwd=folder, input=tree.stdout, check=True)


def _installed(python: Path, folder: Path, what: str, *, compiled: bool = True) -> Environment:
    began = time.perf_counter()
    made = make_environment(python, folder, what, compiled=compiled)
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
