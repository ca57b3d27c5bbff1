"""Hostile and faulty entries: the gate finds each fault, in bounded memory."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.data.dataset import open_dataset
from msshift_bench.errors import Finding
from msshift_bench.leaderboard.entries import load_entries
from msshift_bench.leaderboard.gate import check_entries, check_entry
from tests.conftest import Command
from tests.support.command_line import run_python

PLACE = "mini/made-up/v1"

Spoil = Callable[[Path], object]


def errors(entries: Path, **given: object) -> dict[str, str]:
    """Return the code -> text of each error."""
    verdicts, findings = check_entries(entries, **given)  # type: ignore[arg-type]
    every: list[Finding] = [*findings, *(one for verdict in verdicts for one in verdict.findings)]
    return {one.code: str(one) for one in every if one.severity == "error"}


def text(old: str, new: str, name: str = "system.toml") -> Spoil:
    """Return a function that replaces text in a file of the entry."""

    def spoil(entries: Path) -> None:
        path = entries / PLACE / name
        before = path.read_text("utf-8")
        assert old in before
        path.write_text(before.replace(old, new, 1), encoding="utf-8")

    return spoil


def scores(change: Callable[[pa.Table], pa.Table]) -> Spoil:
    """Change the table of scores."""

    def spoil(entries: Path) -> None:
        path = entries / PLACE / "scores.parquet"
        table = pq.read_table(path)
        changed = change(table)
        pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)

    return spoil


def column(name: str, change: Callable[[list[object]], list[object]]) -> Spoil:
    """Change a column of the scores."""

    def replaced(table: pa.Table) -> pa.Table:
        position, values = table.column_names.index(name), table[name].to_pylist()
        array = pa.array(change(values), table.schema.field(name).type)
        return table.set_column(position, name, array)

    return scores(replaced)


def first(value: object) -> Callable[[list[object]], list[object]]:
    return lambda values: [value, *values[1:]]


def renamed(to: str) -> Spoil:
    """Give the system another name, in its description, its scores and its folder."""

    def spoil(entries: Path) -> None:
        text('name = "made-up"', f'name = "{to}"')(entries)
        column("system", lambda values: [to] * len(values))(entries)
        (entries / "mini/made-up").rename(entries / "mini" / to)

    return spoil


def doubled(entries: Path) -> None:
    """Submit the same scores under another name."""
    copy = Path(shutil.copytree(entries, entries.with_name("copy")))
    renamed("another")(copy)
    shutil.copytree(copy / "mini/another", entries / "mini/another")


def lists(ids: list[str]) -> Spoil:
    """Declare lists of training queries."""

    def spoil(entries: Path) -> None:
        text('length = "msshift"', 'length = "train/{shift}/{held_out}.txt.gz"')(entries)
        for group in ("short", "long"):
            path = entries / PLACE / f"train/length/{group}.txt.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress("".join(f"{one}\n" for one in ids).encode()))

    return spoil


def put(path: str, content: str) -> Spoil:
    def spoil(entries: Path) -> None:
        (entries / path).parent.mkdir(parents=True, exist_ok=True)
        (entries / path).write_text(content, encoding="utf-8")

    return spoil


def linked(entries: Path) -> None:
    path = entries / PLACE / "training.csv"
    path.rename(entries.with_name("training.csv"))
    path.symlink_to(entries.with_name("training.csv"))


def paper(figures: str) -> Spoil:
    """Make a paper's entry of it, with these figures."""

    def spoil(entries: Path) -> None:
        text('source = ""', 'source = "a paper"')(entries)
        for name in ("scores.parquet", "training.csv"):
            (entries / PLACE / name).unlink()
        put(f"{PLACE}/figures.csv", f"shift,measure,group,figure,value,low,high\n{figures}\n")(
            entries
        )

    return spoil


def recorded(change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Spoil:
    """Change what the scores record of what was scored; `None` takes the record away."""

    def spoil(entries: Path) -> None:
        path = entries / PLACE / "scores.parquet"
        table = pq.read_table(path)
        head = change(json.loads(table.schema.metadata[b"msshift_bench"]))
        metadata = None if head is None else {"msshift_bench": json.dumps(head)}
        pq.write_table(table.replace_schema_metadata(metadata), path)

    return spoil


CASES: dict[str, tuple[Spoil, str, str]] = {
    # What an author writes.
    "a script as a name": (renamed("<script>"), "unexpected-file", "expected <board>"),
    "a script in a title with a bell": (text("Made up", "a\\u0007"), "control-character", "U+0007"),
    "a link that runs": (text("https://example.org/code", "javascript:a()"), "wrong-link", "https"),
    "a field too many": (text("[system]", "[system]\nbadge = 1"), "unknown-field", "system.badge"),
    "no TOML": (text("[system]", "[system"), "not-toml", "system.toml:"),
    "deep TOML": (text("authors = [", "authors = [" + "[" * 4000), "not-toml", "system.toml"),
    "large TOML": (text("Ranks", "R" * 11_000_000), "too-large", "10,000,000"),
    "another board": (text('board = "mini"', 'board = "ms-marco"'), "wrong-folder", "ms-marco/"),
    "another version": (text("version = 1", "version = 2"), "wrong-folder", "made-up/v2"),
    "a source beside scores": (text('source = ""', 'source = "x"'), "wrong-files", "figures.csv"),
    # Files.
    "a link": (linked, "not-a-file", "training.csv"),
    "a file too many": (put(f"{PLACE}/notes.md", ""), "unexpected-file", "notes.md"),
    "a board that is none": (put("mine/made-up/v1/system.toml", ""), "unexpected-file", "mine"),
    "a file beside the versions": (put("mini/made-up/x.txt", ""), "unexpected-file", "x.txt"),
    "no scores": (lambda e: (e / PLACE / "scores.parquet").unlink(), "wrong-files", "expected"),
    # Scores.
    "a score above 1": (column("score", first(1.5)), "out-of-range", "from 0 to 1"),
    "a score that is none": (column("score", first(None)), "out-of-range", "from 0 to 1"),
    "another system's scores": (column("system", lambda v: ["x"] * len(v)), "wrong-name", "'x'"),
    "an unknown shift": (column("shift", lambda v: ["rare"] * len(v)), "unreadable", "rare-terms"),
    "queries of its own": (
        column("query_id", lambda v: [f"q{one}" for one in v]), "test-set-not-accepted", "mini",
    ),
    "a row too few": (scores(lambda t: t[:-1]), "scores-layout", "rows where"),
    "a model too few": (scores(lambda t: t[: len(t) // 2]), "wrong-runs", "a run for every seed"),
    "rows in another order": (
        scores(lambda t: t.take(np.arange(len(t))[::-1])), "scores-layout", "belong",
    ),
    "a measure of its own": (
        column("measure", lambda v: ["MAP" if one == "R@100" else one for one in v]),
        "scores-layout", "measure",
    ),
    "a column too few": (scores(lambda t: t.drop_columns("missing")), "wrong-columns", "missing"),
    "a column of texts too few": (
        scores(lambda t: t.drop_columns("measure")), "wrong-columns", "measure string",
    ),
    "no table": (put(f"{PLACE}/scores.parquet", "PAR1"), "not-parquet", "not a complete Parquet"),
    "a record of no run": (recorded(lambda head: {**head, "runs": []}), "no-head", "name no run"),
    "no record": (recorded(lambda _: None), "no-head", "the data and runs"),
    "the same scores under another name": (doubled, "same-scores", "of mini/a"),
    # Training queries.
    "none, with a model for every group": (
        text('length = "msshift"', 'length = "none"'), "not-untrained", "a model for every group",
    ),
    "another shift": (text('length = "msshift"', 'topics = "msshift"'), "wrong-rows", "shifts"),
    "a path that leads out": (
        text('length = "msshift"', 'length = "../../../secret"'), "wrong-path", "train/",
    ),
    "a path that formats": (
        text('length = "msshift"', 'length = "{shift.__class__}/x"'), "wrong-path", "train/",
    ),
    "a row too few in the counts": (text("h,long", "h,all", "training.csv"), "wrong-rows", ""),
    "more test queries than there are": (
        text(",short,0,0", ",short,9999,0", "training.csv"), "wrong-count", "9999",
    ),
    "more leaked queries than there are": (
        text(",short,0,0", ",short,0,9999", "training.csv"), "wrong-count", "leaked=9999",
    ),
    "a list that is not there": (
        text('length = "msshift"', 'length = "train/{shift}/{held_out}.txt.gz"'),
        "unreadable", "no file",
    ),
    "a list that gives other counts": (lists(["1", "2"]), "wrong-count", "counted again"),
    "a list of other things": (lists(["1 2"]), "binary-input", "is not one query id"),
    "a list with a query twice": (lists(["1", "1"]), "repeated-id", ".txt.gz:2:"),
    "a list that is a bomb": (lists(["x" * 30_000_000]), "binary-input", "is not one query id"),
    # A paper's figures.
    "a measure that nobody knows": (paper("length,MRX@10,short,out,0.5,,"), "unreadable", "MRX"),
    "a shift of another board": (paper("resttest,RR@10,1,out,0.5,,"), "unknown-shift", "on rest"),
    "a mean above 1": (paper("length,RR@10,short,out,1.5,,"), "out-of-range", "figures.csv:2"),
    "an empty cell": (paper("length,,short,out,0.5,,"), "missing-field", "measure"),
}  # fmt: skip


@pytest.mark.every(3)
@pytest.mark.parametrize("case", CASES)
def test_a_faulty_entry_is_refused(broken: Path, case: str) -> None:
    spoil, code, words = CASES[case]
    spoil(broken)
    found = errors(broken)
    assert code in found, found
    assert words in found[code]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (text(",short,0,0", ",short,0,3", "training.csv"), "leaked=3"),
        (text(",short,0,0", ",short,2,0", "training.csv"), "test_queries=2"),
        (text(",short,0,0", ",short,0,", "training.csv"), "leaked=None"),
        (text("length,short,854", "length,short,853", "training.csv"), "queries=853"),
    ],
)
def test_counts_are_computed_again_with_the_data(
    broken: Path, mini_length: Path, spoil: Spoil, words: str
) -> None:
    spoil(broken)
    assert words in errors(broken, dataset=open_dataset(mini_length))["wrong-count"]


def test_a_correct_entry_is_accepted(good: Path, mini_length: Path) -> None:
    assert errors(good / "entries") == {}
    assert errors(good / "entries", base=good / "entries") == {}
    given = {"dataset": open_dataset(mini_length), "runs": good / "runs"}
    assert errors(good / "entries", **given) == {}


def test_a_changed_score_differs_from_the_runs(broken: Path, good: Path, mini_length: Path) -> None:
    given = {"dataset": open_dataset(mini_length), "runs": good / "runs"}
    column("score", first(0.123))(broken)
    table = pq.read_table(broken / PLACE / "scores.parquet")
    assert table["score"][0].as_py() == 0.123
    assert errors(broken) == {}
    assert "other scores" in errors(broken, **given)["rescored-differs"]
    (entry,) = load_entries(broken)
    assert entry.badge == "by its authors"


def test_invented_digests_of_rankings_are_found_with_the_runs(
    broken: Path, good: Path, mini_length: Path
) -> None:
    """Digests find one system under two names, so that an author may want others."""

    def invented(head: dict[str, Any]) -> dict[str, Any]:
        return {**head, "runs": [{**run, "ranking": "0" * 16} for run in head["runs"]]}

    recorded(invented)(broken)
    assert errors(broken) == {}
    given = {"dataset": open_dataset(mini_length), "runs": good / "runs"}
    assert errors(broken, **given).keys() == {"rescored-differs"}


def test_the_data_of_another_board_are_not_used(broken: Path, first: Path, good: Path) -> None:
    (verdict,), findings = check_entries(broken, dataset=open_dataset(first), runs=good / "runs")
    assert (verdict.findings, findings, verdict.rescored) == ([], [], False)


# Changes of accepted entries.


def badge_by_hand(entries: Path) -> None:
    put("rescored.csv", f"entry,sha256,date\n{PLACE},{'0' * 64},2026-11-24\n")(entries)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (badge_by_hand, "badge-claimed"),
        (text("Ranks that", "Ranks which"), "changed"),
        (column("score", first(0.123)), "changed"),
        (lambda entries: shutil.rmtree(entries / "mini"), "changed"),
        (put(f"{PLACE}/train/length/short.txt.gz", ""), "changed"),
        (
            lambda entries: (entries / "mini/made-up/v1").rename(entries / "mini/made-up/v2"),
            "changed",
        ),
    ],
)
def test_accepted_entries_do_not_change(broken: Path, good: Path, spoil: Spoil, code: str) -> None:
    spoil(broken)
    assert code in errors(broken, base=good / "entries")


def test_badges_that_are_no_table_are_refused(broken: Path, msshift: Command) -> None:
    put("rescored.csv", "x")(broken)
    done = msshift("leaderboard", "check", "--entries", broken)
    assert done.returncode == 1
    assert "[no-column]" in done.stderr


def test_an_existing_badge_is_accepted(broken: Path, good: Path, tmp_path: Path) -> None:
    base = Path(shutil.copytree(good / "entries", tmp_path / "base"))
    badge_by_hand(base)
    assert "badge-claimed" in errors(broken, base=base)
    badge_by_hand(broken)
    assert errors(broken, base=base) == {}


def test_a_better_score_out_of_domain_is_a_warning(broken: Path) -> None:
    def swapped(values: list[object]) -> list[object]:
        return [*values[len(values) // 2 :], *values[: len(values) // 2]]

    column("score", swapped)(broken)
    (verdict,), _ = check_entries(broken)
    assert [(one.code, one.severity) for one in verdict.findings] == [("out-above-in", "warning")]
    assert verdict.accepted


# Bombs.

READ = """
import sys
from pathlib import Path
from msshift_bench.leaderboard.gate import check_entry
for place in sys.argv[1:]:
    verdict = check_entry(Path(place))
    assert not verdict.accepted
    print(verdict.findings[0].code)
"""

PEAK = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-c", *sys.argv[1:]], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Runs a program in a small process, and prints its peak memory in kilobytes."""


def peak(*program: str) -> list[str]:
    """Return the words that a program prints, and its peak memory in kilobytes."""
    done = run_python(PEAK, Path.cwd(), arguments=program)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def bomb(entries: Path, rows: int, text_of: str) -> Path:
    """Write scores whose texts are one repeated text, in few bytes."""
    indices = pa.repeat(pa.scalar(0, pa.int8()), rows)

    def same(value: str) -> pa.Array:
        return pa.DictionaryArray.from_arrays(indices, [value])

    table = pa.table(
        {
            "system": same(text_of),
            "shift": same("length"),
            "seed": pa.nulls(rows, pa.int64()),
            "held_out": same("short"),
            "group": same("short"),
            "query_id": same(text_of),
            "measure": same("RR@10"),
            "score": pa.repeat(pa.scalar(0.5), rows),
            "missing": pa.repeat(pa.scalar(False), rows),
        }
    )
    path = entries / PLACE / "scores.parquet"
    pq.write_table(
        table, path, compression="zstd", row_group_size=rows, data_page_size=2**30,
        max_rows_per_page=rows, write_batch_size=rows, write_statistics=False, store_schema=False,
    )  # fmt: skip
    return path


BOMBS = [
    (1_000, "x" * 150, "out-of-range", 4_000),
    (9_000_000, "x" * 300, "too-large", 4_000),
    (1_000, "x" * 210_000_000, "too-large", 60_000),
    (7_900_000, "x" * 90, "wrong-runs", 4_000),
]
"""How many rows, the text in each, what is found, and more bytes than the file has."""


def test_a_small_bomb_is_refused(broken: Path) -> None:
    rows, text_of, code, most_bytes = BOMBS[0]
    assert bomb(broken, rows, text_of).stat().st_size < most_bytes
    assert check_entry(broken / PLACE).findings[0].code == code


@pytest.mark.extended
def test_a_bomb_takes_less_than_a_gigabyte(good: Path, tmp_path: Path) -> None:
    places = []
    for number, (rows, text_of, _, most_bytes) in enumerate(BOMBS):
        entries = Path(shutil.copytree(good / "entries", tmp_path / str(number)))
        assert bomb(entries, rows, text_of).stat().st_size < most_bytes
        places.append(str(entries / PLACE))
    *found, kilobytes = peak(READ, *places)
    assert found == [code for _, _, code, _ in BOMBS]
    assert int(kilobytes) < 1_000_000


@pytest.mark.extended
def test_peak_returns_the_memory_of_a_program() -> None:
    (kilobytes,) = peak("x = b'x' * 300_000_000")
    assert 300_000 < int(kilobytes) < 400_000


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_refused(broken: Path, seed: int) -> None:
    path = broken / PLACE / "scores.parquet"
    content = bytearray(path.read_bytes())
    random = np.random.default_rng(seed)
    for position in random.integers(0, len(content), 40):
        content[position] ^= int(random.integers(1, 256))
    path.write_bytes(content)
    assert not check_entry(broken / PLACE).accepted
