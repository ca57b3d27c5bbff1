"""Scoring one large run file: ours against ir_measures, pytrec_eval and ranx.

Every program is a process of its own, timed from cold start to the printed RR@10, nDCG@10 and
R@1000. The run file is generated, with the ties that scores of four decimals make. Our time
includes all checks of the run.

``scripts/bench evaluate [--queries 6980] [--depth 1000] [--repeats 3] [--only NAME ...]``

A measure that we leave to ir_measures is compared with ir_measures itself, which computes it of one
order of ties where we compute three:

``scripts/bench evaluate --queries 1000 --depth 100 --measures ERR@20``
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

MEASURES = ("RR@10", "nDCG@10", "R@1000")
TARGETS = {"ir_measures": 20, "pytrec_eval": 5, "ranx": 15}
"""How many times faster than each tool the command line should be."""


class Timing(NamedTuple):
    """What one process took: seconds from start to end, seconds of CPU time, peak MB, output."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    output: str


def with_msshift_library(run: str, qrels: str) -> None:
    from msshift_bench.evaluation.named_measures import parse_measure
    from msshift_bench.runs import Judgements, judge_run, read_qrels

    judged = judge_run(run, Judgements.from_qrels(read_qrels(qrels)))
    for name in MEASURES:
        print(name, parse_measure(name).per_query(judged).mean())


def with_pytrec_eval(run: str, qrels: str) -> None:
    import pytrec_eval

    with Path(qrels).open() as file:
        judgements = pytrec_eval.parse_qrel(file)
    with Path(run).open() as file:
        ranking = pytrec_eval.parse_run(file)
    measures = {"recip_rank", "ndcg_cut.10", "recall.1000"}
    scores = pytrec_eval.RelevanceEvaluator(judgements, measures).evaluate(ranking).values()
    # trec_eval has no cutoff for the reciprocal rank
    for name in ("recip_rank", "ndcg_cut_10", "recall_1000"):
        print(name, sum(score[name] for score in scores) / len(judgements))


def with_ranx(run: str, qrels: str) -> None:
    import ranx

    judgements = ranx.Qrels.from_file(qrels, kind="trec")
    ranking = ranx.Run.from_file(run, kind="trec")
    print(ranx.evaluate(judgements, ranking, ["mrr@10", "ndcg@10", "recall@1000"]))


def with_pyarrow_alone(run: str, _: str) -> None:
    """Read the columns and compute nothing: what no reader built on it can undercut."""
    import pyarrow.csv

    names = ["query_id", "Q0", "doc_id", "rank", "score", "tag"]
    with pyarrow.csv.open_csv(
        run,
        pyarrow.csv.ReadOptions(column_names=names),
        pyarrow.csv.ParseOptions(delimiter=" ", quote_char=False),
    ) as reader:
        print(sum(batch.num_rows for batch in reader))


CHILDREN: dict[str, Callable[[str, str], None]] = {
    "msshift library": with_msshift_library,
    "pytrec_eval": with_pytrec_eval,
    "ranx": with_ranx,
    "pyarrow's CSV alone": with_pyarrow_alone,
}


def command(name: str, run: Path, qrels: Path, measures: Sequence[str]) -> list[str]:
    """What to execute for one program of the table."""
    scripts = Path(sys.executable).parent
    if name == "msshift score":
        program = [str(scripts / "msshift"), "score", str(run), "--qrels", str(qrels)]
        return [*program, "--measures", " ".join(measures)]
    if name == "ir_measures":
        return [str(scripts / "ir_measures"), str(qrels), str(run), *measures]
    return [sys.executable, __file__, "--child", name, str(run), str(qrels)]


PROGRAMS = ("msshift score", *CHILDREN, "ir_measures")


def measure(arguments: list[str]) -> Timing:
    """Run a command; its peak memory is that of the process itself."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(arguments, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed with {process.returncode}")
        output.seek(0)
        text = output.read().decode()
    return Timing(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)


def generate(queries: int, depth: int, run: Path, qrels: Path) -> None:
    """Write a run of MS MARCO's shape, and qrels with about one relevant passage per query."""
    import numpy as np

    rng = np.random.default_rng(2022)
    query_ids = rng.choice(1_100_000, queries, replace=False).tolist()
    ranks = range(1, depth + 1)
    with run.open("w") as run_file, qrels.open("w") as qrels_file:
        for query in query_ids:
            docs = rng.choice(8_841_823, depth, replace=False, shuffle=False).tolist()
            scores = np.sort(10 + 15 * rng.random(depth) ** 3)[::-1].tolist()
            run_file.writelines(
                f"{query} Q0 {doc} {rank} {score:.4f} generated\n"
                for doc, rank, score in zip(docs, ranks, scores, strict=True)
            )
            place = int(rng.geometric(0.03)) - 1
            relevant = docs[place] if place < depth and rng.random() < 0.85 else 8_841_823
            qrels_file.write(f"{query} 0 {relevant} 1\n")


def table(timings: dict[str, Timing], targets: dict[str, int]) -> list[str]:
    """The table in Markdown; ratios are of the seconds, to those of the command line."""
    ours = timings.get("msshift score") or next(iter(timings.values()))
    lines = [
        "| program | seconds | CPU seconds | peak MB | times ours | target |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, timing in timings.items():
        target = f"{targets[name]}" if name in targets else ""
        lines.append(
            f"| {name} | {timing.seconds:.2f} | {timing.cpu_seconds:.2f} | {timing.peak_mb:.0f} "
            f"| {timing.seconds / ours.seconds:.1f} | {target} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=6980)
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3, help="the fastest of so many is shown")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=PROGRAMS, metavar="NAME")
    parser.add_argument("--measures", nargs="+", help="other measures, of us and ir_measures alone")
    parser.add_argument("--verbose", action="store_true", help="show what every program printed")
    arguments = parser.parse_args()
    measures = arguments.measures or MEASURES
    if arguments.measures:
        arguments.only = ("msshift score", "ir_measures")
    with tempfile.TemporaryDirectory(prefix="msshift-bench-") as folder:
        run, qrels = Path(folder) / "big.run", Path(folder) / "big.qrels"
        generate(arguments.queries, arguments.depth, run, qrels)
        lines, size = arguments.queries * arguments.depth, run.stat().st_size / 1e6
        print(f"{arguments.queries:,} queries x {arguments.depth:,} = {lines:,} lines, ", end="")
        print(
            f"{size:.0f} MB; {os.cpu_count()} cores; fastest of {arguments.repeats}\n", flush=True
        )
        timings: dict[str, Timing] = {}
        # one round after the other, so that what else the machine does meets all programs
        for _ in range(arguments.repeats):
            for name in arguments.only:
                timing = measure(command(name, run, qrels, measures))
                timings[name] = min(timing, timings.get(name, timing))
        if arguments.verbose:
            for name, timing in timings.items():
                print(f"{name}:\n{timing.output}")
        print("\n".join(table(timings, {} if arguments.measures else TARGETS)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        CHILDREN[sys.argv[2]](*sys.argv[3:])
    else:
        main()
