"""MS MARCO's size on one machine: every stage that needs no GPU, with its time, memory and disk.

8.8 million passages, 500,000 training and 7,000 test queries are generated, or a part of them
(``--size 1/64``), and taken through the commands that a user would type. Each stage is a process of
its own; what it took is written to ``stages.json`` in the folder of the size. Killed at any moment,
the same command goes on: finished stages are not repeated, and commands continue their own work.

``scripts/bench full [--size 1/64] [--out build/full] [--only STAGE ...]``

With several sizes measured, the column ``growth`` is the exponent of CPU seconds between the
smallest one and this one: above 1, a stage grows faster than its input.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from benchmarks.runner import measure_process
from benchmarks.support.large_collection import write_collection
from msshift_bench.plumbing import write_json
from msshift_bench.shifts import SIZED

PASSAGES, TRAINING, TEST, NEAR = 8_841_823, 500_000, 7_000, 14_000
STATE = "stages.json"


@dataclass(frozen=True)
class Stage:
    """A step of the whole: the arguments of `msshift`, and what it writes below the folder."""

    name: str
    arguments: str
    writes: str


def stages(size: Fraction) -> list[Stage]:
    """Return the stages, in their order; `generate` is this script itself."""
    near = SIZED["restrain"].of_size(max(50, int(NEAR * size))).name
    texts = "--encoder terms --collection collection"
    return [
        Stage("generate", "--generate", "collection"),
        Stage("build", f"build topics wh-words length {texts}", "msshift"),
        Stage(
            "restrain",
            f"build {near} --test-set collection/test {texts} --out near/msshift",
            "near",
        ),
        Stage("triples", "triples msshift --shift length --collection collection", "msshift"),
        Stage("bm25", "run bm25 --data msshift --collection collection", "runs"),
        Stage(
            "leakage",
            "leakage find --train collection/queries.tsv --test collection/test/queries.tsv",
            "found",
        ),
        Stage(
            "evaluate",
            "evaluate runs --data msshift --measures RR@10,nDCG@10,R@1000 --output report.json",
            "report.json",
        ),
        Stage("report", "report runs --data msshift", "report"),
    ]


def bytes_of(path: Path) -> int:
    """Return the bytes of a file, or of all files of a folder."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def run_stage(stage: Stage, size: Fraction, folder: Path) -> dict[str, float]:
    """Run a stage in a process of its own, and return what it took."""
    if stage.name == "generate":
        command = [sys.executable, "-m", "benchmarks", "full", "--size", str(size)]
        command += ["--out", str(folder.parent), stage.arguments]
    else:
        command = [str(Path(sys.executable).parent / "msshift"), *stage.arguments.split()]
    repository = str(Path(__file__).resolve().parents[1])
    row = measure_process(command, folder, {"PYTHONPATH": repository})
    return {
        "seconds": row.seconds,
        "cpu_seconds": row.cpu_seconds,
        "peak_mb": row.peak_mb,
        "bytes": bytes_of(folder / stage.writes),
    }


def finish(
    size: Fraction,
    folder: Path,
    only: Sequence[str],
    run: Callable[[Stage, Fraction, Path], dict[str, float]] = run_stage,
) -> dict[str, dict[str, float]]:
    """Run the stages that have not been run, and return what each one took."""
    folder.mkdir(parents=True, exist_ok=True)
    took: dict[str, dict[str, float]] = {}
    if (folder / STATE).exists():
        took = json.loads((folder / STATE).read_text())
    for stage in stages(size):
        if stage.name not in took and (not only or stage.name in only):
            took[stage.name] = run(stage, size, folder)
            write_json(folder / STATE, took)
    return took


def table(sizes: dict[Fraction, dict[str, dict[str, float]]]) -> list[str]:
    """Return the rows of all sizes, stage by stage."""
    smallest = min(sizes)
    lines = [
        "| stage | size | seconds | CPU seconds | growth | peak MB | MB on disk |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for stage in stages(smallest):
        for size, took in sorted(sizes.items()):
            if stage.name not in took:
                continue
            figures, growth = took[stage.name], ""
            if size != smallest and stage.name in sizes[smallest]:
                ratio = figures["cpu_seconds"] / sizes[smallest][stage.name]["cpu_seconds"]
                growth = f"{math.log(ratio) / math.log(size / smallest):.2f}"
            lines.append(
                f"| {stage.name} | {size} | {figures['seconds']:.0f} "
                f"| {figures['cpu_seconds']:.1f} | {growth} | {figures['peak_mb']:.0f} "
                f"| {figures['bytes'] / 1e6:.0f} |"
            )
    return lines


def folder_of(size: Fraction, out: Path) -> Path:
    """Return the folder of a size, e.g. ``1-64``."""
    return out.resolve() / str(size).replace("/", "-")


def main() -> None:
    """Run what is left to run, and print the table of all sizes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=Fraction, default=Fraction(1, 64), metavar="1/64")
    parser.add_argument("--out", type=Path, default=Path("build/full"))
    names = [stage.name for stage in stages(Fraction(1))]
    parser.add_argument("--only", nargs="+", default=[], choices=names, metavar="STAGE")
    parser.add_argument("--generate", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not 0 < options.size <= 1:
        parser.error(f"--size is {options.size}; it must be above 0 and at most 1")
    folder = folder_of(options.size, options.out)
    if options.generate:
        counts = (int(whole * options.size) for whole in (PASSAGES, TRAINING, TEST))
        write_collection(folder / "collection", *counts)
        return
    finish(options.size, folder, options.only)
    measured = {
        Fraction(path.parent.name.replace("-", "/")): json.loads(path.read_text())
        for path in options.out.glob(f"*/{STATE}")
    }
    print("\n".join(table(measured)))


if __name__ == "__main__":
    main()
