"""All benchmarks of building at the size of MS MARCO, one after the other.

``scripts/bench build [PART ...]``; parts are rules, topics, embedding, negatives.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PARTS = ("rules", "topics", "embedding", "negatives")


def main() -> None:
    parts = sys.argv[1:] or list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        sys.exit(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    for part in parts:
        print(f"## {part}\n", flush=True)
        script = Path(__file__).with_name(f"build_{part}.py")
        subprocess.run([sys.executable, str(script)], check=True)
        print(flush=True)


if __name__ == "__main__":
    main()
