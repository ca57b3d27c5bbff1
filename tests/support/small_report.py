"""One small set of runs that the tests of the report share."""

from __future__ import annotations

import gzip
from pathlib import Path

from benchmarks.support.fabricated import write_runs

SHIFTS = ("wh-words", "length")
COLLECTION = "mini:300"


def write_small_runs(folder: Path, data: Path) -> Path:
    """Write runs of a system of two seeds, one of one seed, and one that was not trained.

    The untrained one ties its first two passages.
    """
    for shift in SHIFTS:
        write_runs(folder / "steady", data, shift, seeds=(1, 2))
        write_runs(folder / "single", data, shift)
        write_runs(folder / "lexical", data, shift, one=True)
    tied = folder / "lexical" / "length.run.gz"
    lines = gzip.decompress(tied.read_bytes()).decode().replace(" 2 98 ", " 2 99 ")
    tied.write_bytes(gzip.compress(lines.encode(), mtime=0))
    return folder
