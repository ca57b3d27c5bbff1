"""Every kind of run file gives the same numbers at every door that reads run files."""

from __future__ import annotations

import bz2
import gzip
import inspect
import lzma
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import msshift_bench as ms
from msshift_bench.leaderboard.submit import submit_system
from msshift_bench.plumbing.compression import _MAGIC
from msshift_bench.runs import RUN_FORMATS
from tests.conftest import Build
from tests.support.command_line import Done, run_msshift
from tests.support.commands import COMMANDS
from tests.support.fabricated import write_runs, write_system
from tests.support.lanes import with_first
from tests.support.run_formats import WRITERS, Rankings, parquet, rows_of


def columns(rankings: Rankings) -> dict[str, list[Any]]:
    rows = [(q, doc_id, score) for q, docs in rankings.items() for doc_id, score in docs.items()]
    names = ("query_id", "doc_id", "score")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


FORMATS: Mapping[str, Callable[[Rankings], bytes]] = {
    name: lambda rankings, write=write: write(rows_of(rankings)) for name, write in WRITERS.items()
}

COMPRESSIONS: Mapping[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": (".gz", gzip.compress),
    "bz2": (".bz2", bz2.compress),
    "xz": (".xz", lzma.compress),
    "zstd": (".zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
}

KINDS: Mapping[str, tuple[str, Callable[[Rankings], bytes]]] = {
    **{
        f"{name}{ending}": (ending, FORMATS[name])
        for name, row in RUN_FORMATS.items()
        for ending in row.endings
    },
    "parquet of decimals": (".parquet", lambda r: parquet(rows_of(r), score=pa.decimal128(20, 9))),
    "parquet of bytes": (
        ".parquet",
        lambda r: parquet(rows_of(r), query_id=pa.binary(), doc_id=pa.large_binary()),
    ),
    **{
        f"{name} in {compression}": (
            f"{RUN_FORMATS[name].endings[0]}{end}",
            lambda r, f=FORMATS[name], c=pack: c(f(r)),
        )
        for name in RUN_FORMATS
        for compression, (end, pack) in COMPRESSIONS.items()
        if compression == "gzip" or name in ("trec", "msmarco")
    },
}
"""Kind -> the ending of the file, and what it holds."""

FIRST = ("trec.run", "mteb.json")
"""The kinds that commands read in the first lane, and whose figures are computed by hand."""

IN_MEMORY: Mapping[str, Callable[[Rankings], object]] = {
    "mapping": dict,
    "data frame": lambda rankings: pd.DataFrame(columns(rankings)),
    "data frame of PyTerrier": lambda rankings: pd.DataFrame(columns(rankings)).rename(
        columns={"query_id": "qid", "doc_id": "docno"}
    ),
    "Arrow table": lambda rankings: pa.table(columns(rankings)),
    "lists of PyLate": lambda rankings: {
        query_id: [{"id": doc_id, "score": score} for doc_id, score in docs.items()]
        for query_id, docs in rankings.items()
    },
    "lists of pairs": lambda rankings: {
        query_id: list(docs.items()) for query_id, docs in rankings.items()
    },
    "records": lambda rankings: list(zip(*columns(rankings).values(), strict=True)),
}

COMMAND_DOORS: Mapping[str, str] = {
    "score": "score {0}/dense/wh-words/wha{1} --data msshift --test wh-words-wha --format csv",
    "evaluate": "evaluate {0} --data msshift --format csv",
    "compare": "compare {0} other --data msshift --format csv",
    "analyse": "analyse {0} --data msshift --format csv --indicator overlap --measures RR@10",
    "report": "report {0} --data msshift --no-links --out report",
    "submit": "submit {0}/dense --data msshift --system system.toml --out submission",
    "leaderboard check": "leaderboard check mini/dense --entries board/entries --data msshift "
    "--runs {0}",
}
"""Command that reads run files -> its words, with the folder of the kind and its ending."""


def values(result: ms.Result) -> list[tuple[str, object]]:
    return [(figure.figure, figure.value) for figure in result.figures]


FUNCTION_DOORS: Mapping[str, Callable[[Path, str], Any]] = {
    "read_run": lambda folder, end: rankings_of(ms.read_run(wha(folder, end))),
    "validate_run": lambda folder, end: ms.validate_run(wha(folder, end)).ok,
    "find_run_sets": lambda folder, _: list(map(repr, ms.find_run_sets([folder]))),
    "score_runs": lambda folder, end: values(
        ms.score_runs([wha(folder, end)], "wh-words-wha", data=folder.parent / "msshift")
    ),
    "evaluate_run_sets": lambda folder, _: values(
        ms.evaluate_run_sets([folder], folder.parent / "msshift")
    ),
    "compare_run_sets": lambda folder, _: values(
        ms.compare_run_sets([folder, folder.parent / "other"], folder.parent / "msshift")
    ),
}
"""Function that reads run files -> a call, with the folder of the kind and its ending."""

BY_COMMAND = ("analyse_run_sets", "evaluate_extra_tests", "write_report")
"""Functions that read run files as the commands above, or as `evaluate_run_sets`."""

TAKES_NO_FILE = ("evaluate",)
"""Functions whose parameter ``runs`` is a folder to write."""


def wha(folder: Path, end: str) -> Path:
    return folder / f"dense/wh-words/wha{end}"


def rankings_of(run: Rankings) -> dict[str, list[str]]:
    return {query_id: list(docs) for query_id, docs in run.items()}


@pytest.fixture(scope="module")
def world(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set, run sets of every kind, other run sets, and an entry of a board."""
    folder = tmp_path_factory.mktemp("kinds")
    data = build_once("mini", "wh-words")
    (folder / "msshift").symlink_to(data)
    plain = write_runs(folder / "plain" / "dense", data, "wh-words")
    write_runs(folder / "other" / "other", data, "wh-words")
    runs = {path.name.partition(".")[0]: ms.read_run(path) for path in plain.rglob("*.run.gz")}
    for kind, (end, write) in KINDS.items():
        for group, rankings in runs.items():
            path = folder / kind / f"dense/wh-words/{group}{end}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(write(rankings))
    write_system(folder / "system.toml", "dense", **{"wh-words": "msshift"})
    submit_system(folder / "trec.run" / "dense", folder / "system.toml", folder / "board", data)
    return folder


def by_hand(world: Path, model: str, group: str) -> float:
    """Return the mean RR@10 of a model on the test queries of a group."""
    run = ms.read_run(world / f"plain/dense/wh-words/{model}.run.gz")
    rows = list(ms.load_dataset(world / "msshift", f"wh-words-{group}", split="test"))
    ranks = (
        min((list(run[row.query_id]).index(doc) + 1 for doc in row.relevant_doc_ids), default=99)
        for row in rows
    )
    return sum(1 / rank for rank in ranks if rank <= 10) / len(rows)


def run_words(world: Path, folder: Path, door: str, kind: str) -> Done:
    """Run a command on the run files of a kind, which it knows as ``runs``."""
    for path in world.iterdir():
        if path.is_dir():
            (folder / path.name).symlink_to(path)
    shutil.copy(world / "system.toml", folder)
    (folder / "runs").symlink_to(world / kind)
    return run_msshift(COMMAND_DOORS[door].format("runs", KINDS[kind][0]).split(), folder)


def test_every_kind_and_every_door_has_a_row() -> None:
    assert FORMATS.keys() == RUN_FORMATS.keys()
    assert set(COMPRESSIONS) == set(_MAGIC.values())
    assert {end for end, _ in KINDS.values()} >= {f".run{end}" for end, _ in COMPRESSIONS.values()}
    reading = {
        " ".join(words)
        for words, command in COMMANDS.items()
        if any(parameter.name == "runs" for parameter in command.params)
    }
    assert reading == COMMAND_DOORS.keys()
    functions = {
        name
        for name in ms.__all__
        if inspect.isroutine(value := getattr(ms, name))
        and "runs" in inspect.signature(value).parameters
    }
    assert functions <= {*FUNCTION_DOORS, *BY_COMMAND, *TAKES_NO_FILE}


@pytest.mark.parametrize("kind", FIRST)
def test_the_figures_of_a_kind_are_those_computed_by_hand(world: Path, kind: str) -> None:
    figures = ms.evaluate_run_sets([world / kind], world / "msshift").figures
    groups = ms.SHIFTS["wh-words"].groups
    for group in groups:
        out = by_hand(world, group, group)
        avg_in = sum(by_hand(world, other, group) for other in groups if other != group) / 2
        given = {"system": "dense", "group": group, "measure": "RR@10"}
        assert figures.first(figure="avg_in", **given).value == pytest.approx(avg_in, abs=1e-9)
        assert figures.first(figure="out", **given).value == pytest.approx(out, abs=1e-9)
        loss = figures.first(figure="rel_loss", **given).value
        assert loss == pytest.approx((avg_in - out) / avg_in, abs=1e-9)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "door", with_first(FUNCTION_DOORS, ["read_run", "validate_run", "evaluate_run_sets"])
)
def test_every_function_reads_every_kind(world: Path, door: str) -> None:
    call = FUNCTION_DOORS[door]
    expected = call(world / "trec.run", ".run")
    wrong = [kind for kind, (end, _) in KINDS.items() if call(world / kind, end) != expected]
    assert wrong == []


@pytest.fixture(scope="module")
def plain(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Done]:
    """Return a function that runs a command on plain TREC files, once, in its own folder."""

    @cache
    def run(door: str) -> Done:
        return run_words(world, tmp_path_factory.mktemp("plain"), door, "trec.run")

    return run


@pytest.mark.parametrize(
    ("door", "kind"),
    [
        pytest.param(door, kind, marks=[] if is_first else [pytest.mark.extended])
        for door in COMMAND_DOORS
        for kind in KINDS
        for is_first in [door != "report" and kind in FIRST]
    ],
)
def test_every_command_reads_every_kind(
    world: Path, plain: Callable[[str], Done], tmp_path: Path, door: str, kind: str
) -> None:
    done, expected = run_words(world, tmp_path, door, kind), plain(door)
    assert (done.returncode, expected.returncode) == (0, 0), done.stderr + expected.stderr
    assert done.stdout.replace(KINDS[kind][0], ".run") == expected.stdout
    written = {
        path.relative_to(tmp_path): path
        for path in tmp_path.rglob("*.*")
        if path.suffix in (".csv", ".parquet") and not path.is_symlink()
    }
    assert bool(written) == (door in ("report", "submit"))
    if door == "submit":
        (entry,) = (path for path in written.values() if path.name == "scores.parquet")
        board = next((world / "board").rglob("scores.parquet"))
        assert pq.read_table(entry).equals(pq.read_table(board))


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_every_kind_in_memory_is_read_as_the_file(world: Path, kind: str) -> None:
    rankings = ms.read_run(wha(world / "trec.run", ".run"))
    value = IN_MEMORY[kind](rankings)
    assert ms.read_run(value) == rankings
    assert ms.validate_run(value).ok
    data = {"data": world / "msshift"}
    scored = ms.score_runs([value], "wh-words-wha", **data)
    expected = ms.score_runs([wha(world / "trec.run", ".run")], "wh-words-wha", **data)
    assert values(scored) == values(expected)
