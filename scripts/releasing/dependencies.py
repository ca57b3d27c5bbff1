"""What users install with the package: its licences, and its known weaknesses."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["audit", "dependencies", "licence_of", "licences"]

PACKAGE = "msshift-bench"

EXTRAS = ("all",)
"""What a user may install; the other extras are for work on the package."""

_NONE = "not stated"

_REFUSED = re.compile(r"(?<![a-z])a?gpl|affero|gnu general public", re.IGNORECASE)
"""Licences that would bind whoever passes the package on together with its dependencies."""

_CHOICE = re.compile(r"\bor\b", re.IGNORECASE)

_TSV = Path("build/dependencies.tsv")


def dependencies(package: str = PACKAGE, extras: tuple[str, ...] = EXTRAS) -> list[Distribution]:
    """Return everything that a package needs here, directly or not, sorted by name.

    Args:
        package: an installed package.
        extras: its extras.

    Raises:
        PackageNotFoundError: if something that it needs is not installed.
    """
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(package, extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        found[name] = distribution(name)
        for need in _needs(found[name], extra):
            wanted = canonicalize_name(need.name)
            waiting += [(wanted, one) for one in ("", *need.extras)]
    found.pop(package)
    return [found[name] for name in sorted(found)]


def _needs(of: Distribution, extra: str) -> Iterator[Requirement]:
    for line in of.requires or ():
        need = Requirement(line)
        if need.marker.evaluate({"extra": extra}) if need.marker else not extra:
            yield need


def licence_of(of: Distribution) -> str:
    """Return the licence that a distribution states: an expression, or its own words."""
    facts = of.metadata
    if expression := facts.get("License-Expression"):
        return expression
    named = [
        line.rpartition(" :: ")[2]
        for line in facts.get_all("Classifier") or ()
        if line.startswith("License :: ") and not line.endswith("OSI Approved")
    ]
    if named:
        return " and ".join(named)
    first = (facts.get("License") or "").strip().partition("\n")[0]
    return first if 0 < len(first) < 80 else _NONE


def licences(of: list[Distribution]) -> tuple[str, list[str]]:
    """Return the licences as lines of TSV, and what is wrong with them.

    Args:
        of: the dependencies.
    """
    rows = [(one.metadata["Name"], one.version, licence_of(one)) for one in of]
    wrong = [
        f"{name} {version}: {licence}"
        for name, version, licence in rows
        if licence == _NONE or (_REFUSED.search(licence) and not _CHOICE.search(licence))
    ]
    lines = ["\t".join(row) for row in [("name", "version", "licence"), *rows]]
    return "\n".join([*lines, ""]), wrong


def audit(of: list[Distribution]) -> tuple[list[str], int]:
    """Ask pip-audit for known weaknesses.

    Args:
        of: the dependencies.

    Returns:
        A line per weakness, and how many dependencies could be looked up.
    """
    requirements = "".join(f"{one.metadata['Name']}=={one.version}\n" for one in of)
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(
        [*command, "--disable-pip", "--no-deps", "--requirement", "/dev/stdin"],
        input=requirements,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return [], 0
    looked_up = [one for one in found if "skip_reason" not in one]
    weak = [
        f"{one['name']} {one['version']}: {weakness['id']}, mended in "
        f"{', '.join(weakness['fix_versions']) or 'no version yet'}"
        for one in looked_up
        for weakness in one["vulns"]
    ]
    return weak, len(looked_up)


def main() -> int:
    """List licences and known weaknesses; return 1 if there is one that must not be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=_TSV, help="the list of licences to write")
    out = parser.parse_args().out
    try:
        needed = dependencies()
    except PackageNotFoundError as error:
        print(f"{error.name} is not installed; run scripts/check", file=sys.stderr)
        return 3
    text, wrong = licences(needed)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    kinds = Counter(line.rpartition("\t")[2] for line in text.splitlines()[1:])
    print(f"{len(needed)} dependencies under {len(kinds)} licences, listed in {out}")
    for line in wrong:
        print(f"  no licence that may be passed on: {line}")
    weak, looked_up = audit(needed)
    for line in weak:
        print(f"  known weakness: {line}")
    if looked_up == len(needed):
        print(f"pip-audit: {len(weak)} known weaknesses in them")
    else:
        print(
            f"pip-audit could look up {looked_up} of them: the others are unknown to the database "
            "of weaknesses, or it cannot be reached (offline)"
        )
    return int(bool(wrong or weak))


if __name__ == "__main__":
    sys.exit(main())
