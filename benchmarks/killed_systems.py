"""Systems that are killed at drawn moments: their runs have the bytes of runs that were not killed.

In each round a command is killed between its start and its end, twice by default, and then runs
once more. Moments are CPU seconds of the process, drawn by a seed: a busy machine kills
at the same places of the work.

``scripts/bench killed_systems [--rounds 10] [--kills 2] [--seed 0] [--set steps=20]``
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.support.trial_folders import Done, Trials, children_cpu

SYSTEMS = ("bm25", "bi-encoder", "splade", "colbert")


def attempt(trials: Trials, folder: Path, command: tuple[str, ...], cpu: float) -> Done:
    """Run a command in a folder; kill it when it has used `cpu` CPU seconds; 0 lets it end."""
    running = trials.start(folder, command)
    if cpu:
        running.wait_until(cpu)
        running.signal(signal.SIGKILL)
    return running.wait()


def runs_in(folder: Path) -> dict[str, bytes]:
    """Return the run files below a folder: path -> bytes."""
    files = sorted((folder / "runs").rglob("*.run.gz"))
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def main() -> None:
    """Print a line for each system and round; exit with 1 if any run has other bytes."""
    parser = argparse.ArgumentParser(prog="scripts/bench killed_systems")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--kills", type=int, default=2, help="of each command in a round")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--collection", default="mini")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE, of what is trained")
    arguments = parser.parse_args()
    wrong = killed = 0
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        trials = Trials(root)
        trials.run(root, ("build", "length", "--collection", arguments.collection))
        for system in SYSTEMS:
            command = ("run", system, "--shift", "length", "--data", str(root / "msshift"))
            if system != "bm25":
                command += ("--held-out", "short", *(f"--set={value}" for value in arguments.set))
            (root / system).mkdir()
            cpu = children_cpu()
            complete = attempt(trials, root / system, command, 0)
            if complete.code:
                sys.exit(f"{system} ends with {complete.code}: {complete.stderr}")
            cpu = children_cpu() - cpu
            expected = runs_in(root / system)
            for number in range(arguments.rounds):
                draw = random.Random(f"{arguments.seed} {system} {number}")
                folder = root / f"{system}-{number}"
                folder.mkdir()
                moments = [round(draw.uniform(0.3, 1) * cpu, 2) for _ in range(arguments.kills)]
                codes = [attempt(trials, folder, command, at).code for at in (*moments, 0)]
                is_same = codes[-1] == 0 and runs_in(folder) == expected
                killed += codes.count(-signal.SIGKILL)
                wrong += not is_same
                result = "the same bytes" if is_same else f"WRONG, exit codes {codes}"
                print(f"{system} {number}: {moments} of {cpu:.1f} s: {result}", flush=True)
                shutil.rmtree(folder)
    print(f"{killed} kills, {arguments.rounds * len(SYSTEMS)} runs, {wrong} with other bytes")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
