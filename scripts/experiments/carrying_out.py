"""Carry out a plan by commands of `msshift`: build, pre-train, train, evaluate."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msshift_bench.baselines.systems.recipe import recipe_files
from msshift_bench.data import open_dataset
from msshift_bench.errors import MsShiftError, UnknownNameError
from msshift_bench.shifts import get_shift, holds_triples
from scripts.experiments.plans import DataPlan, Plan, load, names

MEASURES = ("RR@10", "R@1000", "nDCG@10")
DEPTH = 200

QUICK = "quick"
"""The folder, below that of the experiments, of what --quick makes: it has the same names."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an experiment is carried out.

    Attributes:
        collection: the collection.
        test_queries: the file of the test queries of length; `None` if the plan needs none.
        work: the folder of data sets, encoders and runs.
        recipe: the recipes' name.
    """

    collection: str
    test_queries: Path | None
    work: Path
    recipe: str

    def data(self, plan: DataPlan) -> Path:
        """Return the folder of a data set."""
        return self.work / "data" / plan.name / "msshift"

    def encoder(self, start: str) -> Path:
        """Return the folder of an encoder."""
        return self.work / "encoders" / start

    def runs(self, plan: Plan, variant: str = "") -> Path:
        """Return the folder of the run sets: one for each data set and recipe's changes."""
        changed = plan.changes or plan.variants.get(variant)
        return self.work / "runs" / (plan.name if changed else plan.data.name)


@dataclass(frozen=True, slots=True)
class Training:
    """One run set to make, with one seed: a model for each held-out group."""

    system: str
    start: str
    seed: int
    variant: str = ""

    @property
    def name(self) -> str:
        """The run set's name."""
        start = "" if self.start in ("pool", "mini") else self.start
        return "-".join(part for part in (self.system, start, self.variant) if part)


def start(*arguments: object) -> subprocess.Popen[bytes]:
    """Start `msshift` with these arguments, and say so; it ends with this process."""
    command = ["msshift", *map(str, arguments)]
    print("$", shlex.join(command), file=sys.stderr, flush=True)
    return subprocess.Popen(command, preexec_fn=_end_with_parent)


def _end_with_parent() -> None:
    """Have the kernel kill this process with its parent: what it makes would meet its successor."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def run(*arguments: object) -> None:
    """Run `msshift` with these arguments; raise if it fails."""
    process = start(*arguments)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, process.args)


def build(plan: DataPlan, place: Place) -> None:
    """Build a data set with its triples, unless it is there."""
    folder = place.data(plan)
    if not folder.exists():
        options: list[object] = [*plan.options]
        if plan.test_queries:
            assert place.test_queries is not None
            options += ["--test-queries", place.test_queries]
        if plan.train_share < 1:
            whole = open_dataset(place.data(plan.whole))
            (shift,) = plan.shifts
            groups = get_shift(shift).groups
            rows = len(whole.rows(f"{shift}-{next(iter(groups))}", "train"))
            options += ["--train-size", int(rows / (len(groups) - 1) * plan.train_share)]
        run("build", *plan.shifts, "--collection", place.collection, "--out", folder, *options)
    if not any(holds_triples(config) for config in open_dataset(folder).manifest.configs):
        amount = ("--negatives", plan.negatives, "--depth", DEPTH)
        run("triples", folder, "--collection", place.collection, *amount)


def trainings(plan: Plan) -> list[Training]:
    """Return what is to be trained: all of one seed before the next."""
    return [
        Training(system, start, seed, variant if plan.variants[variant] else "")
        for seed in range(plan.seeds)
        for system in plan.systems
        for start in plan.starts
        for variant in plan.variants
    ]


def teachers(plan: Plan) -> list[Training]:
    """Return the teachers to train before all others, from the first of the starts."""
    taught = replace(plan, systems=plan.teachers, starts=plan.starts[:1], variants={"": {}})
    return trainings(taught)


def settings(plan: Plan, place: Place, training: Training) -> Iterator[str]:
    """Yield what replaces fields of the recipe: the start, and the changes of plan and variant."""

    def recipe(name: str) -> dict[str, Any]:
        return tomllib.loads(recipe_files()[f"{name}-{place.recipe}"].text)

    fields: dict[str, Any] = {}
    own = recipe(training.system)
    if training.start == "random":
        fields = {"encoder": "random", "random": recipe("pretrain")["random"]}
    elif not (own["encoder"] == "random" and own["random"].get("matching")):
        # A system that `mini` teaches only with a lexical prior keeps the start that has one.
        fields = {"encoder": str(place.encoder(training.start))}
    fields |= {**plan.changes, **plan.variants.get(training.variant, {})}
    if fields.get("teacher") in plan.teachers:
        fields["teacher"] = str(place.runs(plan) / fields["teacher"])
    for key, value in _flat(fields):
        yield f"{key}={value if isinstance(value, str) else json.dumps(value)}"


def _flat(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in fields.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{name}", one) for name, one in value.items())
        else:
            yield key, value


def command(plan: Plan, place: Place, training: Training) -> list[object]:
    """Return the arguments that make one run set's runs of one seed."""
    return [
        *("run", training.system, "--recipe", place.recipe, "--name", training.name),
        *("--collection", place.collection, "--data", place.data(plan.data)),
        *("--out", place.runs(plan, training.variant), "--keep-model"),
        *("--seeds", training.seed, "--shift", *plan.data.shifts),
        *(word for group in plan.held_out for word in ("--held-out", group)),
        *(word for text in settings(plan, place, training) for word in ("--set", text)),
    ]


def train_all(plan: Plan, place: Place, todo: Sequence[Training], processes: int) -> None:
    """Make all runs, several processes side by side; if one fails, the others end with it."""
    # Each process has its own thread: two of them take half the time of one with two threads.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    working: list[subprocess.Popen[bytes]] = []
    waiting, done = list(todo), 0
    try:
        while waiting or working:
            while waiting and len(working) < processes:
                working.append(start(*command(plan, place, waiting.pop(0))))
            time.sleep(0.1)
            for process in [one for one in working if one.poll() is not None]:
                working.remove(process)
                if process.returncode:
                    raise subprocess.CalledProcessError(process.returncode, process.args)
                done += 1
                print(f"{done} of {len(todo)}", file=sys.stderr, flush=True)
    finally:
        for process in working:
            process.terminate()
            process.wait()


def report(plan: Plan, place: Place) -> None:
    """Write what the evaluator says of all runs of the data set, beside BM25, and the report."""
    folder = place.work / "results" / plan.name
    folder.mkdir(parents=True, exist_ok=True)
    runs, data = place.runs(plan), ("--data", place.data(plan.data))
    searched = (*data, "--collection", place.collection, "--shift", *plan.data.shifts)
    run("run", "bm25", *searched, "--out", runs)
    measures = ("--measures", ",".join(MEASURES), "--allow", "partial")
    written = ("--output", folder / "report.json", "--per-query", folder / "scores.parquet")
    made = [runs]
    if any(plan.variants.values()):
        trained = [place.runs(plan, one.variant) / one.name for one in trainings(plan)]
        made = [runs / "bm25", *dict.fromkeys(trained)]
    run("evaluate", *made, *data, *measures, "--format", "markdown", *written)
    run("report", *made, *data, *measures, "--out", folder / "report")


def only(what: str, asked: Sequence[str] | None, planned: Sequence[str]) -> list[str]:
    """Return those of a plan's names that were asked for, in the plan's order; all by default.

    Raises:
        UnknownNameError: if the plan has no such name.
    """
    for name in asked or ():
        if name not in planned:
            raise UnknownNameError(f"{what} of this plan", name, planned)
    return [name for name in planned if name in (asked or planned)]


def positive(text: str) -> int:
    """Return a whole number from 1 on, for an option.

    Raises:
        argparse.ArgumentTypeError: if the text is none.
    """
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="scripts/reproduce", description=__doc__)
    parser.add_argument("name", choices=names(), help="the experiment")
    parser.add_argument("--collection", help="the folder of the slice; mini with --quick")
    parser.add_argument("--test-queries", type=Path, help="the official test queries of length")
    parser.add_argument(
        "--work", type=Path, default=Path("experiments"), help="default: %(default)s"
    )
    parser.add_argument("--processes", type=positive, default=2, help="default: %(default)s")
    parser.add_argument("--systems", nargs="+", help="only these of the plan's systems")
    parser.add_argument("--starts", nargs="+", help="only these of the plan's starts")
    parser.add_argument("--seeds", type=positive, help="only so many of the plan's seeds")
    parser.add_argument("--no-report", action="store_true", help="train only")
    quick = f"on mini, with two seeds at most, in the folder {QUICK} of --work"
    parser.add_argument("--quick", action="store_true", help=quick)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Carry out an experiment, and return the exit code."""
    given = parse(arguments)
    try:
        return carry_out(given)
    except MsShiftError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except subprocess.CalledProcessError as error:  # msshift has said why.
        return error.returncode


def carry_out(given: argparse.Namespace) -> int:
    """Carry out an experiment as the command line asks, and return the exit code.

    Raises:
        MsShiftError: if something is wrong.
        CalledProcessError: if a command that was run ends with an error.
    """
    plan = load(given.name)
    if given.quick:
        plan = plan.quick
        place = Place(given.collection or "mini", None, given.work / QUICK, "mini")
    else:
        if given.collection is None or (plan.data.test_queries and given.test_queries is None):
            print(
                "error: --collection names the folder of the slice, and --test-queries the file "
                "of the official test queries; or try --quick",
                file=sys.stderr,
            )
            return 2
        place = Place(given.collection, given.test_queries, given.work, "pool")
    systems = only("system", given.systems, plan.systems)
    starts = only("start", given.starts, plan.starts)
    seeds = min(plan.seeds, given.seeds or plan.seeds)
    plan = replace(plan, systems=systems, starts=starts, seeds=seeds)
    if plan.data.train_share < 1:
        build(plan.data.whole, place)
    build(plan.data, place)
    for begin in plan.starts:
        if begin != "random" and not place.encoder(begin).exists():
            what = ("--collection", place.collection, "--recipe", begin)
            run("pretrain", *what, "--out", place.encoder(begin))
    for todo in (teachers(plan), trainings(plan)):
        train_all(plan, place, todo, given.processes)
    if not given.no_report:
        report(plan, place)
    return 0
