"""Memory at two sizes: commands grow by no more than docs/benchmarks.md promises."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import run_python

GROWTH = """
import resource
from pathlib import Path
Path("/proc/self/clear_refs").write_text("5")  # the peak is the present
pages = int(Path("/proc/self/statm").read_text().split()[1])
def tell():
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    Path("growth").write_text(str(peak - pages * resource.getpagesize()))
try:
    from msshift_bench.cli import main
    main()
finally:
    tell()
"""
"""Notes by how many bytes a command's peak exceeds what its process held when it began."""

QUERIES, FEW, MANY = 120, 300, 2_300
SLACK = 12_000_000
"""What the allocator and the order of the work may add; what is checked is many times as much."""


def per_item(command: str) -> dict[str, int]:
    """Return the page's bytes per "passage", "query" or "line" of a command."""
    page = (Path(__file__).parents[2] / "docs/benchmarks.md").read_text("utf-8")
    (row,) = re.findall(rf"^\| .*`{command}`.* \| ([^|]*) \|$", page, re.MULTILINE)
    found = re.findall(r"([\d,]+) B per ([a-z ]+?)(?=,|$)", row.strip())
    return {what: int(size.replace(",", "")) for size, what in found}


@pytest.fixture
def growth(tmp_path: Path) -> Callable[..., int]:
    """Return a function that runs a command and returns by how many bytes memory grew."""

    def growth(*arguments: str) -> int:
        environment = {"MSSHIFT_CACHE": str(tmp_path / "cache")}
        done = run_python(GROWTH, tmp_path, environment, arguments)
        assert done.returncode == 0, done.stderr
        return int((tmp_path / "growth").read_text())

    return growth


def write_collection(folder: Path, passages: int) -> int:
    """Write long passages of few words, with short queries; return the bytes of the passages."""
    folder.mkdir()
    words = [letter * 400 for letter in "abcdefghijklmnop"]
    with (folder / "collection.tsv").open("w") as file:
        for number in range(passages):
            text = " ".join(words[(number + place) % 16] for place in range(50))
            file.write(f"{number}\tw{number % 50} {text}\n")
    rows = range(QUERIES)
    texts = (f"{row}\tw{row % 50} is{' one of many words' * (row % 2)}\n" for row in rows)
    (folder / "queries.tsv").write_text("".join(texts))
    (folder / "qrels.tsv").write_text("".join(f"{row} 0 {row} 1\n" for row in rows))
    return (folder / "collection.tsv").stat().st_size


@pytest.mark.extended
def test_no_command_holds_the_collection(tmp_path: Path, growth: Callable[..., int]) -> None:
    grown: dict[str, list[int]] = {"build": [], "triples": [], "run bm25": []}
    sizes = []
    for passages in (FEW, MANY):
        name, data = f"c{passages}", f"d{passages}"
        sizes.append(write_collection(tmp_path / name, passages))
        options = ["--test-size", "10", "--validation-size", "5", "--licence", "CC0-1.0"]
        build = ["build", "length", "--collection", name, "--out", data, *options]
        grown["build"].append(growth(*build))
        triples = ["triples", data, "--shift", "length", "--collection", name]
        grown["triples"].append(growth(*triples))
        run = ["run", "bm25", "--data", data, "--collection", name]
        grown["run bm25"].append(growth(*run, "--out", f"r{passages}"))
    for command, (less, more) in grown.items():
        rate = per_item(command).get("passage", 0)
        assert more - less < rate * (MANY - FEW) + SLACK, command
    # To hold the passages would be seen.
    assert sizes[1] - sizes[0] > 3 * SLACK


@pytest.mark.extended
def test_no_command_holds_a_run(tmp_path: Path, growth: Callable[..., int]) -> None:
    # From the smaller on, as many lines are under way at once as ever are.
    depth, sizes = 1_000, (1_000, 2_000)
    measures = ["RR@10", "nDCG@10"]
    ranks = [f" d{rank} {rank} {depth - rank}.5 x\n" for rank in range(1, depth + 1)]
    grown: list[list[int]] = []
    for size in sizes:
        (tmp_path / "qrels").write_text("".join(f"{row} 0 d1 1\n" for row in range(size)))
        with (tmp_path / "run").open("w") as file:
            for row in range(size):
                file.writelines(f"{row} Q0{rank}" for rank in ranks)
        command = ["score", "run", "--qrels", "qrels", "--measures", ",".join(measures)]
        grown.append([growth(*command) for _ in range(2)])
    rates = per_item("score")
    assert not rates.get("line")
    queries = sizes[1] - sizes[0]
    bound = rates["judged query and measure"] * queries * len(measures) + SLACK
    # How many megabytes of lines are under way at once is up to the moment, whatever the run.
    assert min(grown[1]) - max(grown[0]) < bound < 64 * queries * depth
