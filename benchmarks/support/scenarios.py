"""The commands of the pipeline that write, on the smallest data, and the files that they find."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.support.planted_leaks import plant
from msshift_bench.data import open_dataset
from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import SampleSizes
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.leaderboard.submit import submit_system
from msshift_bench.leakage import find_leakage
from msshift_bench.shifts import SHIFTS

__all__ = ["SCENARIOS", "Command", "Scenario"]

Command = tuple[str, ...]

COLLECTION, BOARD_COLLECTION = "mini:300", "mini"


_SYSTEM = """
board = "mini"
version = 1
authors = ["Ada Lovelace"]
note = "{note}"
submitted = "2026-11-21"

[system]
name = "made-up"
title = "Made up"
family = "dense"
description = "Ranks that were drawn."
backbone = ""
backbone_revision = ""
candidates = ""
licence = "Apache-2.0"
year = 2026
parameters = ""

[system.links]
paper = ""
code = "https://example.org/code"
model = ""

[training]
data = "The shifts' own training splits."
hard_negatives = ""
distillation = ""
hardware = "none"

[training.queries]
length = "msshift"

[reproduction]
commands = ""
tolerance = ""
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command that writes files.

    Attributes:
        prepare: writes the files that the command finds in its folder.
        command: its words after ``msshift``.
        reads: commands that read the files that the command changes.
        inputs: patterns of files that a user writes: every content of these files is valid, if it
            can be parsed.
    """

    prepare: Callable[[Path], object]
    command: Command
    reads: Sequence[Command] = ()
    inputs: Sequence[str] = ()


def _data(folder: Path, collection: str = COLLECTION, **options: Any) -> None:
    build_dataset(open_collection(collection), ["length"], folder / "msshift", **options)


def _triples(folder: Path) -> None:
    _data(folder)
    add_triples(folder / "msshift", open_collection(COLLECTION), count=5, depth=20)


def _runs(folder: Path) -> Path:
    """Write a run set with a loss on the held-out group, and the description of its system."""
    _data(folder, BOARD_COLLECTION)
    _describe(folder, "")
    tests, runs = open_dataset(folder / "msshift").test_sets(SHIFTS["length"]), folder / "runs"
    queries = {row.query_id: row for rows in tests.values() for row in rows}
    for held_out in tests:
        lines = []
        for number, (query_id, row) in enumerate(sorted(queries.items())):
            ranked = [f"filler{place}" for place in range(12)]
            for doc_id in row.relevant_doc_ids:
                ranked.insert(number % (12 if row.group == held_out else 6), doc_id)
            lines += [
                f"{query_id} Q0 {one} {n} {99 - n} made-up" for n, one in enumerate(ranked, 1)
            ]
        path = runs / "made-up" / "length" / f"{held_out}.run.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), mtime=0))
    return runs / "made-up"


def _describe(folder: Path, note: str) -> None:
    (folder / "system.toml").write_text(_SYSTEM.format(note=note), "utf-8")


def _submission(folder: Path) -> None:
    submit_system(_runs(folder), folder / "system.toml", folder / "submission", folder / "msshift")


def _earlier_submission(folder: Path) -> None:
    """Make a submission with fewer runs, and describe the system again."""
    _submission(folder)
    (folder / "submission" / "runs" / "made-up" / "length" / "short.run.gz").unlink()
    _describe(folder, "Another note.")


def _planted(folder: Path) -> None:
    train, tests = plant(300)
    lines = (f"{query_id}\t{text}\n" for query_id, text in train.items())
    (folder / "train.tsv").write_text("".join(lines), "utf-8")
    lines = (f"{one.test_id}\t{one.text}\n" for one in tests)
    (folder / "test.tsv").write_text("".join(lines), "utf-8")


def _found(folder: Path) -> None:
    _planted(folder)
    find_leakage(folder / "train.tsv", folder / "test.tsv").write(folder / "found")


_VERIFY: Command = ("verify", "msshift")
_CHECK: Command = ("leaderboard", "check", "--entries", "submission/entries")
_BADGE: Command = (*_CHECK, "--data", "msshift", "--runs", "submission/runs", "--write-badges")
_TRIPLES = ("triples", "msshift", "--negatives", "10", "--depth", "50")
_SUBMIT = ("submit", "runs/made-up", "--system", "system.toml", "--data", "msshift")
_BASELINE = ("--shift", "length", "--data", "msshift")

SCENARIOS = {
    "build": Scenario(
        lambda _: None,
        ("build", "length", "--collection", COLLECTION, "--out", "deep/data/msshift"),
    ),
    "build, with embeddings": Scenario(
        lambda _: None, ("build", "topics", "--collection", BOARD_COLLECTION)
    ),
    "build over a build": Scenario(
        lambda folder: _data(folder, samples=SampleSizes(seed=1)),
        ("build", "length", "--collection", COLLECTION, "--out", "msshift"),
        [_VERIFY],
    ),
    "triples": Scenario(_data, _TRIPLES, [_VERIFY]),
    "triples over triples": Scenario(_triples, _TRIPLES, [_VERIFY]),
    "export": Scenario(
        _triples, ("export", "length-short-triples", "t.tsv.gz", "--data", "msshift")
    ),
    "import of texts": Scenario(
        lambda folder: _data(folder, texts=False), ("import", "msshift"), [_VERIFY]
    ),
    "topics replay": Scenario(
        lambda folder: build_dataset(
            open_collection(BOARD_COLLECTION), ["topics"], folder / "msshift"
        ),
        ("verify", "--topics", "replay", "msshift"),
    ),
    "install": Scenario(_data, ("install", "msshift"), [_VERIFY]),
    "run bm25": Scenario(_data, ("run", "bm25", *_BASELINE)),
    "run bi-encoder": Scenario(
        _data, ("run", "bi-encoder", "--held-out", "short", "--set", "steps=4", *_BASELINE)
    ),
    "evaluate": Scenario(
        _runs,
        (
            *("evaluate", "runs", "--data", "msshift"),
            *("--output", "report.json", "--per-query", "scores.parquet"),
        ),
    ),
    "report": Scenario(_runs, ("report", "runs", "--data", "msshift", "--no-links")),
    "submit": Scenario(_runs, _SUBMIT, inputs=["system.toml"]),
    "submit over a submission": Scenario(
        _earlier_submission, _SUBMIT, [_CHECK], inputs=["system.toml"]
    ),
    "leaderboard check": Scenario(_submission, _BADGE, [_CHECK]),
    "leaderboard build": Scenario(
        _submission, ("leaderboard", "build", "--entries", "submission/entries", "--out", "site")
    ),
    "leakage find": Scenario(
        _planted,
        ("leakage", "find", "--train", "train.tsv", "--test", "test.tsv"),
        inputs=["*.tsv"],
    ),
    "leakage clean": Scenario(
        _found, ("leakage", "clean", "--found", "found", "--train", "train.tsv"), inputs=["*.tsv"]
    ),
}
