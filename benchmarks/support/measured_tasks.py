"""Tasks of a benchmark, each measured in a process of its own."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

__all__ = ["MakeFiles", "Task", "measure", "measure_as_asked", "run_measured"]

Task = Callable[[Path, int], None]
"""Takes the file of vectors and how many of them are training queries."""

MakeFiles = Callable[[Path, int, int, int], None]
"""Takes the file of vectors to write, and numbers: training queries, test queries, components."""


def _watch(stop: threading.Event, peak: list[int]) -> None:
    """Keep the most memory of the process's own; pages of files the system may drop."""
    while not stop.wait(0.05):
        lines = Path("/proc/self/status").read_text().splitlines()
        (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
        peak[0] = max(peak[0], kilobytes // 1024)


def measure(task: Task, path: Path, training: int) -> None:
    """Do a task, and print its seconds, CPU seconds and peak of memory in MB as JSON."""
    stop, peak = threading.Event(), [0]
    watching = threading.Thread(target=_watch, args=(stop, peak))
    watching.start()
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    task(path, training)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    seconds = time.perf_counter() - start
    stop.set()
    watching.join()
    print(json.dumps([seconds, cpu, peak[0]]))


def run_measured(script: str, tasks: Iterable[str], path: Path, training: int) -> None:
    """Run a script with ``--work TASK PATH TRAINING`` for each task, and print what it took."""
    for task in tasks:
        command = [sys.executable, script, "--work", task, str(path), str(training)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        seconds, cpu, peak = json.loads(done.stdout)
        print(f"{task:15} {seconds:7.1f} s {cpu:7.1f} CPU s, peak {peak:,} MB", flush=True)


def measure_as_asked(
    script: str, about: str | None, tasks: Mapping[str, Task], make_files: MakeFiles, columns: int
) -> None:
    """Be the command line of a script: make the files, and run its tasks, or those that are named.

    Args:
        script: the script's path, which is run again for each task.
        about: the script's docstring.
        tasks: name -> task.
        make_files: makes what the tasks read.
        columns: the vectors' components, if ``--columns`` says no other number.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--training", type=int, default=500_000)
    parser.add_argument("--test", type=int, default=7000)
    parser.add_argument("--columns", type=int, default=columns)
    parser.add_argument("--only", nargs="*", default=list(tasks), choices=list(tasks))
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        name, path, training = given.work
        measure(tasks[name], Path(path), int(training))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.npy"
        make_files(path, given.training, given.test, given.columns)
        run_measured(script, given.only, path, given.training)
