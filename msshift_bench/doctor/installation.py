"""The package, Python, and what the extras need."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from packaging.requirements import Requirement

from msshift_bench._version import __version__
from msshift_bench.doctor.diagnosis import Diagnosis, State

__all__ = ["look_at_installation"]

_PACKAGE = "msshift-bench"

_NOT_FOR_USERS = ("all", "dev")
"""Extras that hold other extras, or serve those who change this package."""


def look_at_installation() -> Iterator[Diagnosis]:
    """Look at the package, its requirements, and each extra."""
    yield _package()
    try:
        installed = distribution(_PACKAGE)
    except PackageNotFoundError:
        yield Diagnosis(
            "package",
            State.WARNING,
            "the package is imported from a folder and not installed; its extras are unknown",
            f"pip install {_PACKAGE}",
        )
        return
    requirements = [Requirement(line) for line in installed.requires or ()]
    extras = installed.metadata.get_all("Provides-Extra") or []
    yield _core(requirements)
    for extra in sorted(set(extras) - set(_NOT_FOR_USERS)):
        yield _extra(extra, requirements)


def _package() -> Diagnosis:
    place = Path(__file__).resolve().parents[1]
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return Diagnosis("package", State.OK, f"{_PACKAGE} {__version__} in {place}; {python}")


def _needed(requirements: list[Requirement], extra: str) -> Iterator[Requirement]:
    """Yield what an extra needs, that of extras that it holds included."""
    for one in requirements:
        is_wanted = one.marker is None or one.marker.evaluate({"extra": extra})
        if extra and (one.marker is None or one.marker.evaluate({"extra": ""})):
            continue  # everybody needs it
        if not is_wanted:
            continue
        if one.name == _PACKAGE:
            for inner in sorted(one.extras):
                yield from _needed(requirements, inner)
        else:
            yield one


def _lacking(needed: Iterator[Requirement]) -> tuple[list[str], list[str]]:
    """Return the packages that are not installed, and those of another version than is needed."""
    absent, wrong = [], []
    for one in needed:
        try:
            there = version(one.name)
        except PackageNotFoundError:
            absent.append(one.name)
        else:
            if not one.specifier.contains(there, prereleases=True):
                wrong.append(f"{one.name} {there} ({one.specifier} is needed)")
    return absent, wrong


def _core(requirements: list[Requirement]) -> Diagnosis:
    absent, wrong = _lacking(_needed(requirements, ""))
    if absent or wrong:
        found = f"missing or of a wrong version: {', '.join(absent + wrong)}"
        return Diagnosis("requirements", State.MISSING, found, f"pip install -U {_PACKAGE}")
    return Diagnosis("requirements", State.OK, "all required packages are there")


def _extra(extra: str, requirements: list[Requirement]) -> Diagnosis:
    cure = f"pip install -U '{_PACKAGE}[{extra}]'"
    absent, wrong = _lacking(_needed(requirements, extra))
    if wrong:
        return Diagnosis("extra", State.WARNING, f"{extra}: {', '.join(wrong)}", cure)
    if absent:
        return Diagnosis("extra", State.NOTE, f"{extra}: not installed ({', '.join(absent)})", cure)
    return Diagnosis("extra", State.OK, f"{extra}: installed")
