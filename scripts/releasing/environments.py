"""Fresh environments, one for each Python of this machine, to try a release in."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["VERSIONS", "Environment", "find_pythons", "make_environment", "write_sbom"]

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python that a release is tried on, where they are."""

_SMOKE = Path(__file__).with_name("smoke.py")


@dataclass(frozen=True)
class Environment:
    """A fresh environment that holds one distribution of the package and what it requires.

    Attributes:
        folder: where it is.
        python: its interpreter.
    """

    folder: Path
    python: Path

    def packages(self) -> Path:
        """Return the folder of the installed packages."""
        (found,) = self.folder.glob("lib/python3*/site-packages")
        return found

    def megabytes(self) -> int:
        """Return what the installed packages take, in 10^6 bytes."""
        files = (file for file in self.packages().rglob("*") if file.is_file())
        return round(sum(file.lstat().st_size for file in files) / 1e6)

    def files(self) -> dict[str, str]:
        """Return the name and digest of every file of the package, compiled ones aside.

        Its metadata is among them, and with it what the package requires.
        """
        inside = self.packages()
        (metadata,) = inside.glob("msshift_bench-*.dist-info/METADATA")
        modules = (inside / "msshift_bench").rglob("*")
        return {
            file.relative_to(inside).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted([metadata, *modules])
            if file.is_file() and file.suffix != ".pyc"
        }

    def smoke(self, folder: Path) -> list[str]:
        """Run every command in a new folder; return what went wrong."""
        folder.mkdir(parents=True)
        hidden = ("PYTHONPATH", "MSSHIFT_HOME", "MSSHIFT_COLLECTION")
        done = subprocess.run(
            [self.python, "-I", _SMOKE],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name not in hidden},
            capture_output=True,
            text=True,
            check=False,
        )
        *wrong, last = (done.stdout + done.stderr).splitlines() or ["nothing was printed"]
        print(f"{self.folder.name}: {last}", flush=True)
        return [f"{self.folder.name}: {line}" for line in wrong] if done.returncode else []


def find_pythons() -> dict[str, Path]:
    """Return the interpreters of this machine by version: on the path, of pyenv, of uv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = {}
    for version in VERSIONS:
        installed = sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
        named = shutil.which(f"python{version}")
        candidates = [*installed, *([Path(named)] if named else []), *_of_uv(version)]
        if working := [one for one in candidates if _is_whole(one, version)]:
            found[version] = working[0]
    return found


def _of_uv(version: str) -> list[Path]:
    if shutil.which("uv") is None:
        return []
    command = ["uv", "python", "find", "--no-python-downloads", version]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [Path(done.stdout.strip())] if done.returncode == 0 else []


def _is_whole(python: Path, version: str) -> bool:
    """Say whether an interpreter is of a version, and can make environments."""
    code = f"import sys, ensurepip, venv; sys.exit('{version}' != '%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def make_environment(python: Path, folder: Path, what: str, *, alone: bool = False) -> Environment:
    """Install a distribution with what it requires, and nothing else, into a new environment.

    Args:
        python: the interpreter.
        folder: the environment, which is made.
        what: the distribution, as pip names it.
        alone: without what it requires, and without compiling it: to look at its files.
    """
    subprocess.run([python, "-m", "venv", folder], check=True)
    made = Environment(folder, folder / "bin" / "python")
    pip = [made.python, "-I", "-m", "pip", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "install", "--quiet", *(["--no-compile", "--no-deps"] if alone else []), what],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{what} does not install on {python}:\n{done.stderr}")
    # What came with the environment is no part of the package's.
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", "setuptools", "pip"], check=True)
    return made


def write_sbom(environment: Environment, pyproject: Path, out: Path) -> None:
    """Write what an environment holds as a bill of materials, CycloneDX 1.6 in JSON.

    Args:
        environment: the environment of the core.
        pyproject: whose project is described.
        out: the file to write.
    """
    command = [sys.executable, "-m", "cyclonedx_py", "environment", environment.python]
    options = ["--output-format", "JSON", "--spec-version", "1.6", "--validate"]
    files = ["--pyproject", pyproject, "--output-reproducible", "--output-file", out]
    subprocess.run([*command, *options, *files], check=True, capture_output=True)
