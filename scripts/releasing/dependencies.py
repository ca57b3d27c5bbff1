"""What users install with the package: its licences, and by pip-audit its known weaknesses."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["audit", "dependencies", "licence_of", "refused"]

EXTRAS = ("all", "mteb")
"""What a user may install; the other extras are for work on the package."""

_REFUSED = re.compile(r"(?<![a-z])a?gpl|affero|gnu general public", re.IGNORECASE)
"""Licences that would bind whoever passes the package on together with its dependencies."""

_CHOICE = re.compile(r"\bor\b", re.IGNORECASE)


def dependencies(
    package: str = "msshift-bench", extras: tuple[str, ...] = EXTRAS
) -> list[Distribution]:
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
        for need in map(Requirement, found[name].requires or ()):
            if need.marker.evaluate({"extra": extra}) if need.marker else not extra:
                waiting += [(canonicalize_name(need.name), one) for one in ("", *need.extras)]
    found.pop(package)
    return [found[name] for name in sorted(found)]


def licence_of(of: Distribution) -> str:
    """Return the licence that a distribution states, in its own words; "" if it states none."""
    facts = of.metadata
    named = [
        line.rpartition(" :: ")[2]
        for line in facts.get_all("Classifier") or ()
        if line.startswith("License :: ") and not line.endswith("OSI Approved")
    ]
    first = (facts.get("License") or "").strip().partition("\n")[0]
    return facts.get("License-Expression") or " and ".join(named) or first[:80]


def refused(of: Iterable[Distribution]) -> list[str]:
    """Return the dependencies whose licence is not stated or must not be passed on, a line each."""
    stated = [(f"{one.metadata['Name']} {one.version}", licence_of(one)) for one in of]
    return [
        f"{name}: {licence or 'not stated'}"
        for name, licence in stated
        if not licence or (_REFUSED.search(licence) and not _CHOICE.search(licence))
    ]


def audit(of: Iterable[Distribution]) -> int:
    """Have pip-audit print the known weaknesses; return 1 if there are any.

    Whether the database of weaknesses can be reached is no property of the package: if it cannot,
    this is said, and no more.
    """
    requirements = "".join(f"{one.metadata['Name']}=={one.version}\n" for one in of)
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps"]
    command += ["--progress-spinner", "off", "--requirement", "/dev/stdin"]
    done = subprocess.run(
        command, input=requirements, text=True, stdout=subprocess.PIPE, check=False
    )
    print(done.stdout, end="")
    if done.returncode and not done.stdout.strip():
        print("pip-audit could look up none of them: see above (offline?)")
    return int(bool(done.returncode and done.stdout.strip()))


def main() -> int:
    """List licences and known weaknesses; return 1 if there is one that must not be."""
    try:
        needed = dependencies()
    except PackageNotFoundError as error:
        print(f"{error.name} is not installed; run scripts/check", file=sys.stderr)
        return 3
    for one in needed:
        print(f"{one.metadata['Name']}\t{one.version}\t{licence_of(one)}")
    wrong = refused(needed)
    for line in wrong:
        print(f"no licence that may be passed on: {line}")
    return int(bool(wrong or audit(needed)))


if __name__ == "__main__":
    sys.exit(main())
