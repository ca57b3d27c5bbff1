"""The tables of trainings that docs/experiments.md shows, from sidecars."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msshift_bench.runs import sidecar_path
from scripts.experiments.tables import main


def write(run: Path, system: str, group: str, seed: int, history: object = None) -> None:
    run.parent.mkdir(parents=True, exist_ok=True)
    sidecar = {
        "shift": "length",
        "system": system,
        "held_out": group,
        "data_digest": "abcdef0123456789",
        "encoder": {"weights_sha256": "0123456789abcdef"},
        "parameters": {"seed": seed},
        "training": {"history": history},
        "seconds": {"negatives": 360, "train": 1080, "encode": 700, "total": 5400},
        "hardware": {"torch_threads": 2},
    }
    run.write_bytes(b"")
    sidecar_path(run).write_text(json.dumps(sidecar))


def test_trainings_are_counted_with_their_hours_and_digests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    for seed in (0, 1):
        write(runs / f"a/length/seed-{seed}/short.run.gz", "a", "short", seed)
    # A test set besides: no further training.
    write(runs / "a/also/typos/length/seed-0/short.run.gz", "a", "short", 0)
    (runs / "bm25").mkdir()
    (runs / "bm25/length.run.gz").write_bytes(b"")
    run = runs / "b/length/short.run.gz"
    write(run, "b", "short", 0)
    without = {**json.loads(sidecar_path(run).read_text()), "encoder": None}
    sidecar_path(run).write_text(json.dumps(without))
    assert main(["costs", str(runs)]) == 0
    printed = capsys.readouterr().out
    assert "| length | a | 2 | 2 | 1.6 | 4.4 | `abcdef01` | `01234567` |" in printed
    assert "| length | b | 1 | 1 | 0.8 | 2.2 | `abcdef01` | random |" in printed


def test_curves_stand_beside_each_other_if_their_steps_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a/length/short.run.gz", "a", "short", 0, {"100": 0.5, "200": 0.625})
    write(tmp_path / "b/length/short.run.gz", "b", "short", 0, {"100": 0.25, "200": 0.75})
    assert main(["curves", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "| system | model | 100 | 200 |" in printed
    assert "| b | without short, seed 0 | 25.0 | 75.0 |" in printed
    write(tmp_path / "c/length/short.run.gz", "c", "short", 0, {"100": 0.25})
    assert main(["curves", str(tmp_path)]) == 3
    assert "not all validated after the same steps" in capsys.readouterr().err
    assert main(["costs", str(tmp_path / "none")]) == 3
    assert "none" in capsys.readouterr().err
