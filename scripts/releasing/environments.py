"""Fresh environments, one for each Python of this machine, to try a release in."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["VERSIONS", "Environment", "find_python", "make_environment"]

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


def find_python(version: str) -> Path | None:
    """Return an interpreter of a version that can make environments: on the path, or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    named = shutil.which(f"python{version}")
    candidates = [
        *([Path(named)] if named else []),
        *pyenv.glob(f"versions/{version}.*/bin/python"),
    ]
    code = f"import sys, ensurepip, venv; sys.exit('{version}' != '%d.%d' % sys.version_info[:2])"
    for python in candidates:
        if subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0:
            return python
    return None


def make_environment(python: Path, folder: Path, what: str, *options: str) -> Environment:
    """Install a distribution with what it requires, and nothing else, into a new environment.

    Args:
        python: the interpreter.
        folder: the environment, which is made.
        what: the distribution, as pip names it.
        options: further options of pip.
    """
    subprocess.run([python, "-m", "venv", folder], check=True)
    made = Environment(folder, folder / "bin" / "python")
    pip = [made.python, "-I", "-m", "pip", "--disable-pip-version-check"]
    if subprocess.run([*pip, "install", "--quiet", *options, what], cwd=folder).returncode:
        sys.exit(f"{what} does not install on {python}")
    # What came with the environment is no part of the package's.
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", "setuptools", "pip"], check=True)
    return made
