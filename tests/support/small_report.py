"""Small sets of runs for the tests of the report."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

from msshift_bench.runs import find_run_sets, model_path
from tests.support.fabricated import write_runs
from tests.support.tiny_models import save_tiny_models

SHIFTS = ("wh-words", "length")
COLLECTION = "mini:300"

EVERY_FIGURE = {
    *(
        f"{name}-{shift}"
        for name in ("rel-loss", "in-out", "lead")
        for shift in ("topics", *SHIFTS)
    ),
    *(
        f"matrix-{shift}-{system}"
        for system in ("steady", "single")
        for shift in ("topics", *SHIFTS)
    ),
    "link-weighted-jaccard", "link-nearest-query", "link-model-based", "topic-map",
}  # fmt: skip
"""The figures of a report of three shifts for which nothing is lacking."""


def write_small_runs(folder: Path, data: Path, shifts: tuple[str, ...] = SHIFTS) -> Path:
    """Write runs of a system of two seeds, one of one seed, and one that was not trained.

    The untrained one ties its first two passages.
    """
    for shift in shifts:
        write_runs(folder / "steady", data, shift, seeds=(1, 2))
        write_runs(folder / "single", data, shift)
        write_runs(folder / "lexical", data, shift, one=True)
    tie_first(folder / "lexical" / "length.run.gz")
    return folder


def write_runs_for_every_figure(folder: Path, data: Path) -> Path:
    """Write small runs of three shifts, and the models of one system.

    The models are tiny ones that nobody trained; the runs are not theirs.
    """
    write_small_runs(folder, data, ("topics", *SHIFTS))
    save_tiny_models(folder.with_name("models"))
    for run_set in find_run_sets([folder]):
        for (_, seed), path in run_set.runs.items():
            if run_set.system == "steady" and seed == 1:
                shutil.copytree(folder.with_name("models") / "my-bi-encoder", model_path(path))
    return folder


def tie_first(path: Path) -> None:
    """Tie the first two passages of every query of a run."""
    lines = gzip.decompress(path.read_bytes()).decode().replace(" 2 98 ", " 2 99 ")
    path.write_bytes(gzip.compress(lines.encode(), mtime=0))
