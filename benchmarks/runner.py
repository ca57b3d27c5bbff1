"""The runner of all benchmarks that put programs side by side: each is a row of a table of cases.

Every program of a case is a process of its own. Programs run in turns, one round after the other,
so that what else the machine does meets all of them, and the fastest round of each is printed as a
row of a Markdown table. A program is a command line, timed whole, or a function, which may time the
part that matters by itself and return facts for further columns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Case", "Clock", "Row", "measure_process", "run_case"]

Sizes = argparse.Namespace
"""The sizes of a case, as its options give them."""

SETUP = "setup"


class Clock:
    """Times the part of a function that matters; entered again, it adds up."""

    def __init__(self) -> None:
        self.seconds = self.cpu = 0.0
        self.was_used = False

    @contextmanager
    def __call__(self) -> Any:
        start, before = time.perf_counter(), time.process_time()
        yield
        self.seconds += time.perf_counter() - start
        self.cpu += time.process_time() - before
        self.was_used = True


Program = Sequence[str] | Callable[[Path, Sizes, Clock], Mapping[str, object] | None]
"""A command line, whose words may name sizes in braces, or a function of the case's folder."""


@dataclass(frozen=True)
class Case:
    """A benchmark.

    Attributes:
        about: what is measured, for ``--help``.
        setup: writes what the programs read into an empty folder; it is not timed. `None` if they
            draw what they need.
        programs: label of a row -> program. The first one is ours: the others are compared with it.
        sizes: option -> default.
        targets: label -> what is aimed at.
        environment: variables of every program; values may name sizes in braces.
        without_files: whether memory counts without the pages of mapped files, which the system may
            drop: for programs that read vectors from a file.
        repeats: how many rounds there are by default.
        check: what to say under the table, of what the programs left in the folder.
    """

    about: str
    setup: Callable[[Path, Sizes], None] | None
    programs: Mapping[str, Program]
    sizes: Mapping[str, int | float | str]
    targets: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    without_files: bool = False
    repeats: int = 3
    check: Callable[[Path, Sizes, Mapping[str, Row]], Iterable[str]] | None = None


@dataclass(frozen=True, order=True)
class Row:
    """What a program took: seconds, CPU seconds, the most MB; further columns; what it printed."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    facts: Mapping[str, object] = field(default_factory=dict, compare=False)
    output: str = field(default="", compare=False)


def measure_process(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    without_files: bool = False,
) -> Row:
    """Run a command in a folder, and return what the whole process took.

    Raises:
        SystemExit: if it fails, with its exit code.
    """
    peak = 0
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, env={**os.environ, **(environment or {})}
        )
        if without_files:
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                peak = max(peak, _memory_without_files(process.pid))
                time.sleep(0.02)
        else:
            ended = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        _, status, usage = ended
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            print(f"failed with {process.returncode}: {' '.join(command)}", file=sys.stderr)
            sys.exit(process.returncode)
        output.seek(0)
        text = output.read().decode()
    megabytes = (peak if without_files else usage.ru_maxrss) / 1024
    return Row(seconds, usage.ru_utime + usage.ru_stime, megabytes, output=text)


def _memory_without_files(process: int) -> int:
    """Return the kilobytes that are a process's own; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def run_program(name: str, case: Case, label: str, folder: Path, sizes: Sizes) -> Row:
    """Run one program of a case once."""
    program = SETUP if label == SETUP else case.programs[label]
    values = vars(sizes)
    environment = {key: value.format(**values) for key, value in case.environment.items()}
    if not (callable(program) or label == SETUP):
        command = [str(Path(sys.executable).with_name(program[0]))]
        command += [word.format(**values) for word in program[1:]]
        return measure_process(command, folder, environment, without_files=case.without_files)
    repository = Path(__file__).resolve().parents[1]
    environment["PYTHONPATH"] = str(repository)
    command = [sys.executable, "-m", "benchmarks", "--child", name, label, json.dumps(values)]
    row = measure_process(command, folder, environment, without_files=case.without_files)
    *printed, last = row.output.splitlines()
    seconds, cpu, facts = json.loads(last)
    if seconds is None:
        seconds, cpu = row.seconds, row.cpu_seconds
    return Row(seconds, cpu, row.peak_mb, facts, "\n".join(printed))


def act_as_child(case: Case, label: str, sizes: Sizes) -> None:
    """Be one program of a case, in the working directory; print what was timed, as JSON."""
    clock, folder, facts = Clock(), Path.cwd(), {}
    if label == SETUP:
        assert case.setup
        case.setup(folder, sizes)
    else:
        program = case.programs[label]
        assert callable(program)
        facts = dict(program(folder, sizes, clock) or {})
    timed = (clock.seconds, clock.cpu) if clock.was_used else (None, None)
    print(json.dumps([*timed, facts], default=str))


def table(rows: Mapping[str, Row], targets: Mapping[str, str]) -> list[str]:
    """Return the rows in Markdown; ratios are to the first."""
    columns = list(dict.fromkeys(key for row in rows.values() for key in row.facts))
    heads = ["program", "seconds", "CPU seconds", "peak MB", "times ours", "CPU times ours"]
    heads += [*columns, *(["target"] if targets else [])]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    ours = next(iter(rows.values()))
    for label, row in rows.items():
        cells = [label, f"{row.seconds:.2f}", f"{row.cpu_seconds:.2f}", f"{row.peak_mb:,.0f}"]
        cells.append(f"{row.seconds / ours.seconds:.2f}")
        cells.append(f"{row.cpu_seconds / ours.cpu_seconds:.2f}" if ours.cpu_seconds else "")
        cells += [str(row.facts.get(key, "")) for key in columns]
        cells += [targets.get(label, "")] if targets else []
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def run_case(name: str, case: Case, arguments: Sequence[str]) -> None:
    """Be the command line of a case: set it up, run its programs in turns, and print the table."""
    parser = argparse.ArgumentParser(prog=f"scripts/bench {name}", description=case.about)
    for option, default in case.sizes.items():
        parser.add_argument(f"--{option.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument(
        "--repeats", type=int, default=case.repeats, help="the fastest of so many is shown"
    )
    labels = list(case.programs)
    parser.add_argument("--only", nargs="+", choices=labels, default=labels, metavar="PROGRAM")
    parser.add_argument("--folder", type=Path, help="an empty folder, which is kept")
    parser.add_argument("--verbose", action="store_true", help="show what every program printed")
    given = parser.parse_args(arguments)
    values = {option: getattr(given, option) for option in case.sizes}
    for option, value in values.items():
        # Programs work in a folder of their own.
        if isinstance(value, str) and value and Path(value).exists():
            values[option] = str(Path(value).resolve())
    sizes = argparse.Namespace(**values)
    with tempfile.TemporaryDirectory(prefix="msshift-bench-") as temporary:
        folder = (given.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        # A process is said to have needed at least what the one that started it had: stay small.
        if case.setup:
            run_program(name, case, SETUP, folder, sizes)
        said = ", ".join(f"{option} {value}" for option, value in vars(sizes).items())
        print(f"{said}; {os.cpu_count()} cores; fastest of {given.repeats}\n", flush=True)
        rows: dict[str, Row] = {}
        for _ in range(given.repeats):
            for label in given.only:
                row = run_program(name, case, label, folder, sizes)
                rows[label] = min(row, rows.get(label, row))
        if given.verbose:
            for label, row in rows.items():
                print(f"{label}:\n{row.output}\n")
        print("\n".join(table(rows, case.targets)))
        if case.check:
            print("", *case.check(folder, sizes, rows), sep="\n")
