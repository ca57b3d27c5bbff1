"""Compare the numbers in golden files with those of a revision: after texts have changed.

Usage: python -m scripts.golden_numbers REVISION. It prints the golden files whose numbers differ,
in any order or sentence, and exits with 1 if there are any.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

_NUMBER = re.compile(rb"(?<![A-Za-z\d])\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")


def numbers(content: bytes, name: str) -> Counter[bytes]:
    """Return how often each number is in a file, which may be compressed."""
    return Counter(_NUMBER.findall(gzip.decompress(content) if name.endswith(".gz") else content))


def differing(revision: str) -> list[str]:
    """Return the golden files of a revision that have other numbers in the working tree."""
    listed = subprocess.check_output(["git", "ls-tree", "-r", "--name-only", revision, "tests"])
    found = []
    for name in listed.decode().splitlines():
        if "/golden/" not in name:
            continue
        before = subprocess.check_output(["git", "show", f"{revision}:{name}"])
        try:
            now = Path(name).read_bytes()
        except FileNotFoundError:
            found.append(f"{name}: removed")
            continue
        old, new = numbers(before, name), numbers(now, name)
        if old != new:
            gone, added = (b" ".join(part).decode() for part in (old - new, new - old))
            found.append(f"{name}: without {gone or '-'}; with {added or '-'}")
    return found


if __name__ == "__main__":
    lines = differing(*sys.argv[1:])
    print("\n".join(lines) or "all numbers are equal")
    raise SystemExit(bool(lines))
