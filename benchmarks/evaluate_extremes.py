"""Scoring runs of unusual shape: one query with millions of documents, millions of queries.

Ours against pytrec_eval, each a process of its own as in ``scripts/bench evaluate``: one query of
three million documents, in the order of its ranks and shuffled; two million queries of one document
each, of which 200 are judged; and, ours alone, qrels with an id of 100 MB, which must be refused.

``scripts/bench evaluate_extremes [--scale 1.0] [--repeats 1]``
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from evaluate import Timing, command, measure

DOCUMENTS, QUERIES, JUDGED, LONG_ID = 3_000_000, 2_000_000, 200, 100_000_000
PROGRAMS = ("msshift score", "pytrec_eval")
TARGETS = {"deep": "2 s, 500 MB", "wide": "8 s, 1,000 MB"}


def write(folder: Path, name: str, lines: Iterable[str], qrels: Iterable[str]) -> tuple[Path, Path]:
    run, judged = folder / f"{name}.run", folder / f"{name}.qrels"
    with run.open("w") as file:
        file.writelines(lines)
    with judged.open("w") as file:
        file.writelines(qrels)
    return run, judged


def generate(folder: Path, scale: float) -> dict[str, tuple[Path, Path]]:
    """Write the runs and qrels; return their paths by name."""
    rng = np.random.default_rng(2022)
    count = int(DOCUMENTS * scale)
    docs = rng.permutation(3 * count)[:count].tolist()
    scores = np.sort(30 * rng.random(count))[::-1].tolist()
    deep = [
        f"1048585 Q0 {doc} {rank} {score:.4f} generated\n"
        for rank, (doc, score) in enumerate(zip(docs, scores, strict=True), start=1)
    ]
    relevant = [f"1048585 0 {docs[at]} 1\n" for at in (5, count // 2)]
    files = {"deep": write(folder, "deep", deep, relevant)}
    order = rng.permutation(count).tolist()
    files["deep, shuffled"] = write(folder, "shuffled", (deep[at] for at in order), relevant)
    queries = range(1_000_000, 1_000_000 + int(QUERIES * scale))
    wide = (f"{query} Q0 {query * 7 % 8_841_823} 1 1.5 generated\n" for query in queries)
    judged = (f"{query} 0 {query * 7 % 8_841_823} 1\n" for query in queries[:JUDGED])
    return files | {"wide": write(folder, "wide", wide, judged)}


def refuse_long_id(folder: Path, run: Path) -> Timing:
    """Time the refusal of qrels with an id of 100 MB."""
    qrels = folder / "long.qrels"
    qrels.write_text(f"1 0 {'x' * LONG_ID} 1\n")
    start = time.perf_counter()
    done = subprocess.run(
        command("msshift score", run, qrels), capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode != 1 or "binary-input" not in done.stderr:
        raise SystemExit(f"an id of 100 MB was not refused: {done.stderr[:300]}")
    return Timing(seconds, float("nan"), float("nan"), done.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of lines")
    parser.add_argument("--repeats", type=int, default=1, help="the fastest of so many is shown")
    arguments = parser.parse_args()
    print("| run | program | seconds | CPU seconds | peak MB | target |")
    print("|---|---|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory(prefix="msshift-bench-") as name:
        folder = Path(name)
        # The peak that the system reports of a process is at least that of the one that started
        # it, so this one must stay small.
        with ProcessPoolExecutor(1) as pool:
            runs = pool.submit(generate, folder, arguments.scale).result()
        for shape, (run, qrels) in runs.items():
            for program in PROGRAMS:
                timings = [measure(command(program, run, qrels)) for _ in range(arguments.repeats)]
                best = min(timings)
                target = TARGETS.get(shape, "") if program == PROGRAMS[0] else ""
                print(
                    f"| {shape} | {program} | {best.seconds:.1f} | {best.cpu_seconds:.1f} "
                    f"| {best.peak_mb:.0f} | {target} |",
                    flush=True,
                )
        timing = refuse_long_id(folder, runs["wide"][0])
        print(f"| an id of 100 MB | {PROGRAMS[0]} | {timing.seconds:.1f} | | | at once |")


if __name__ == "__main__":
    sys.exit(main())
