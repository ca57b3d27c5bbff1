"""Systems killed at moments that are drawn: their runs have the bytes of those that nobody killed.

In each round a system's command is killed somewhere between its start and its end, twice by
default, and then called once more. Moments are CPU seconds of the process, drawn by a seed, so that
a busy machine kills at the same places of the work.

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

from tests.killed.laboratory import Done, Laboratory
from tests.support.forking import NEURAL

SYSTEMS = ("bm25", "bi-encoder", "splade", "colbert")


def attempt(laboratory: Laboratory, folder: Path, command: list[str], cpu: float) -> Done:
    """Run a command in a folder; kill it once it has taken so many CPU seconds; 0 lets it end."""
    started = laboratory.start(folder, command)
    if cpu:
        started.wait_until(cpu)
        started.signal(signal.SIGKILL)
    return started.wait()


def runs_in(folder: Path) -> dict[str, bytes]:
    """Return the run files below a folder: path -> bytes."""
    files = sorted((folder / "runs").rglob("*.run.gz"))
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def main() -> None:
    """Print a line a system and a round; end with 1 if any run has other bytes."""
    parser = argparse.ArgumentParser(prog="scripts/bench killed_systems", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--kills", type=int, default=2, help="of each command in a round")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--collection", default="mini")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE, of what is trained")
    asked = parser.parse_args()
    wrong = killed = 0
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        laboratory = Laboratory(root, NEURAL)
        laboratory.run(root, ["build", "length", "--collection", asked.collection])
        for system in SYSTEMS:
            command = ["run", system, "--shift", "length", "--data", str(root / "msshift")]
            if system != "bm25":
                command += ["--held-out", "short", *(f"--set={value}" for value in asked.set)]
            (root / system).mkdir()
            whole = attempt(laboratory, root / system, command, 0)
            assert whole.code == 0, whole.stderr
            expected = runs_in(root / system)
            for number in range(asked.rounds):
                draw = random.Random(f"{asked.seed} {system} {number}")
                folder = root / f"{system}-{number}"
                folder.mkdir()
                moments = [round(draw.uniform(0.01, whole.cpu), 2) for _ in range(asked.kills)]
                codes = [attempt(laboratory, folder, command, cpu).code for cpu in (*moments, 0)]
                is_same = codes[-1] == 0 and runs_in(folder) == expected
                killed += codes.count(-signal.SIGKILL)
                wrong += not is_same
                said = "the same bytes" if is_same else f"WRONG, exit codes {codes}"
                print(f"{system} {number}: {moments} of {whole.cpu:.1f} s: {said}", flush=True)
                shutil.rmtree(folder)
    print(f"{killed} kills, {asked.rounds * len(SYSTEMS)} runs, {wrong} with other bytes")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
