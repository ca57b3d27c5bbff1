"""`scripts/bench full` continues where it was stopped; `gpu` runs a tiny model, or needs a GPU."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks import encoding, full, gpu
from benchmarks.support.large_collection import vocabulary_of, write_collection
from msshift_bench.data.collection import open_collection
from msshift_bench.output import to_markdown
from msshift_bench.records import Passage
from tests.conftest import REPOSITORY

SIZE = Fraction(1, 64)
NAMES = [stage.name for stage in full.stages(SIZE)]


@pytest.mark.parametrize("stopped", NAMES)
def test_a_stopped_benchmark_continues(stopped: str, tmp_path: Path) -> None:
    ran: list[str] = []

    def run(stage: full.Stage, size: Fraction, folder: Path) -> dict[str, float]:
        ran.append(stage.name)
        if stage.name == stopped and ran.count(stopped) == 1:
            raise KeyboardInterrupt
        return {"seconds": 1.0, "cpu_seconds": 2.0, "peak_mb": 3.0, "bytes": 4.0}

    with pytest.raises(KeyboardInterrupt):
        full.finish(SIZE, tmp_path, [], run)
    full.finish(SIZE, tmp_path, [], run)
    place = NAMES.index(stopped)
    assert ran == [*NAMES[: place + 1], *NAMES[place:]]
    assert list(json.loads((tmp_path / full.STATE).read_text())) == NAMES
    full.finish(SIZE, tmp_path, [], run)
    assert len(ran) == len(NAMES) + 1


def test_growth_is_the_exponent_between_two_sizes() -> None:
    small = {"build": {"seconds": 1.0, "cpu_seconds": 2.0, "peak_mb": 3.0, "bytes": 4e6}}
    large = {"build": {"seconds": 9.0, "cpu_seconds": 32.0, "peak_mb": 5.0, "bytes": 6e6}}
    lines = full.table({Fraction(1, 64): small, Fraction(1, 8): large})
    assert lines[2:] == [
        "| build | 1/64 | 1 | 2.0 |  | 3 | 4 |",
        "| build | 1/8 | 9 | 32.0 | 1.33 | 5 | 6 |",
    ]


def test_encoding_compares_rounds_and_dtypes() -> None:
    timings = [
        encoding.Timing(("float32", 64, 32), [10.0, 20.0, 10.0], [11.0, 18.0, 10.0]),
        encoding.Timing(("bfloat16", 64, 32), [30.0, 40.0], [33.0, 36.0]),
        encoding.Timing(("bfloat16", 64, 64), [30.0], [33.0]),
    ]
    lines = to_markdown(encoding.table_of(timings, "")).splitlines()
    assert lines[4:] == [
        "| float32 | 64 | 32 | 10.0 | 11.0 | 1.00 | 0.90 to 1.10 | 1.00 |",
        "| bfloat16 | 64 | 32 | 35.0 | 34.5 | 1.00 | 0.90 to 1.10 | 3.14 |",
        "| bfloat16 | 64 | 64 | 30.0 | 33.0 | 1.10 | 1.10 to 1.10 |  |",
    ]


def test_encoding_takes_queries_with_a_relevant_passage(tmp_path: Path) -> None:
    queries, qrels = tmp_path / "queries.tsv", tmp_path / "qrels.txt"
    queries.write_text("".join(f"q{n}\ta query\tof {n}\n" for n in range(6)))
    qrels.write_text("q0 0 d1 1\nq1 0 d9 1\nq2 0 d2 0\nq3 0 d2 2\nq4 0 d1 1\n")
    passages = [Passage("d1", "one"), Passage("d2", "two")]
    rows, judged = encoding.judged_queries(queries, qrels, passages, 2)
    assert rows == [("q0", "a query\tof 0"), ("q3", "a query\tof 3")]
    assert judged == {"q0": {"d1"}, "q3": {"d2"}, "q4": {"d1"}}


def test_the_collection_can_be_read_and_is_always_the_same(tmp_path: Path) -> None:
    for name in ("once", "again"):
        write_collection(tmp_path / name, 300, 60, 7)
    for file in ("collection.tsv", "queries.tsv", "qrels.tsv", "test/queries.tsv"):
        assert (tmp_path / "once" / file).read_bytes() == (tmp_path / "again" / file).read_bytes()
    collection = open_collection(tmp_path / "once")
    texts = {passage.doc_id: passage.text for passage in collection.passages()}
    lengths = [len(text.split()) for text in texts.values()]
    assert len(texts) == 300
    assert np.mean(lengths) == pytest.approx(56, abs=3)
    relevant = collection.relevant
    assert len(relevant) == 60
    test = (tmp_path / "once" / "test" / "queries.tsv").read_text().splitlines()
    assert len(test) == 7
    assert not relevant.keys() & {line.split("\t")[0] for line in test}


def test_its_vocabulary_grows_as_that_of_the_pool() -> None:
    words, different = vocabulary_of(1_000)
    assert words == pytest.approx(56 * 1_000, rel=0.05)
    assert different == pytest.approx(10_188, rel=0.3)  # the pool's first 968, measured


@pytest.mark.neural
@pytest.mark.extended
def test_a_tiny_model_is_measured_as_a_large_one() -> None:
    few = ("--steps", "2", "--batch", "4", "--passages", "60", "--queries", "3", "--ranked", "40")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks", "gpu", "--device", "cpu", *few),
            *("--only", "bi-encoder"),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    heads, _, row = (line.strip("| ").split(" | ") for line in done.stdout.splitlines()[-3:])
    values = [float(value.replace(",", "")) for value in row[1:]]
    numbers = dict(zip(heads[1:], values, strict=True))
    assert min(numbers[name] for name in ("steps/s", "passages/s", "train GB")) > 0
    assert numbers["triples/s"] == pytest.approx(4 * numbers["steps/s"], rel=1e-2)
    # 8 bits of a number's digits are left: scores change, and not by much.
    assert 0 < numbers["of the range"] < 0.5
    assert 0.5 < numbers["first ten kept"] <= 1


@pytest.mark.neural
def test_without_a_gpu_it_exits_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as end:
        gpu.look_for_gpu(tmp_path, argparse.Namespace(device="cuda"))
    assert (end.value.code, list(tmp_path.iterdir())) == (3, [])
    assert "no GPU" in capsys.readouterr().err
