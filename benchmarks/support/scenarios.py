"""The commands of the pipeline that write, on the smallest data, and the files that they find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.support.planted_leaks import plant
from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import Samples
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.leaderboard.submit import submit_system
from msshift_bench.leakage import find_leakage
from tests.support.fabricated import write_runs, write_system
from tests.support.tiny_recipes import tiny_recipe

__all__ = ["SCENARIOS", "Command", "Scenario"]

Command = tuple[str, ...]

COLLECTION, BOARD_COLLECTION = "mini:300", "mini"


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


def _recipe(folder: Path) -> None:
    _data(folder)
    (folder / "tiny.toml").write_text(tiny_recipe("bi-encoder"), "utf-8")


def _runs(folder: Path) -> Path:
    _data(folder, BOARD_COLLECTION)
    write_system(folder / "system.toml", length="msshift")
    return write_runs(folder / "runs" / "made-up", folder / "msshift")


def _submission(folder: Path) -> None:
    submit_system(_runs(folder), folder / "system.toml", folder / "submission", folder / "msshift")


def _earlier_submission(folder: Path) -> None:
    """Make a submission with fewer runs, and describe the system again."""
    _submission(folder)
    (folder / "submission" / "runs" / "made-up" / "length" / "short.run.gz").unlink()
    write_system(folder / "system.toml", note="Another note.", length="msshift")


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
_BADGE: Command = (*_CHECK, "--data", "msshift", "--runs", "submission/runs")
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
        lambda folder: _data(folder, samples=Samples(seed=1)),
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
        _recipe, ("run", "bi-encoder", "--recipe", "tiny.toml", *_BASELINE), inputs=["tiny.toml"]
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
