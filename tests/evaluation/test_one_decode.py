"""A run is decoded once, whatever is computed of it; twice if its queries are interleaved."""

from __future__ import annotations

import gzip
import sys
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from msshift_bench.errors import RunError
from msshift_bench.evaluation import Settings, score_runs
from msshift_bench.plumbing import reading

QUERIES = [f"q{number}" for number in range(24)]
QRELS = {query: {f"0{number}": 1, "n": 0} for number, query in enumerate(QUERIES)}
DELEGATED = "RR@10 ERR@20 Bpref Rprec NumRel AP(rel=1,judged_only=True)@10"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the files that are decoded, by their names."""
    counts: Counter[str] = Counter()
    decompressed = reading.decompressed

    def counted(file: Any) -> BinaryIO:
        counts[Path(file.name).name] += 1
        return decompressed(file)

    monkeypatch.setattr(reading, "decompressed", counted)
    return counts


def lines_of(spell: str = "{:.6f}", doc: str = "0{}") -> list[str]:
    """Return the lines of a run that finds every relevant passage, if its ids are spelt so."""
    return [
        f"{query} Q0 {doc.format(number) if place == number % 5 else f'x{place}'} {place + 1} "
        f"{spell.format(10 - place / 3 - place**2 / 1e5)} t\n"
        for number, query in enumerate(QUERIES)
        for place in range(12)
    ]


def write(path: Path, lines: list[str]) -> Path:
    data = "".join(lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("ties", ["trec", "rank"])
def test_measures_of_ir_measures_need_no_second_decode(
    tmp_path: Path, decoded: Counter[str], ties: str
) -> None:
    path = write(tmp_path / "a.run.gz", lines_of("{:.0f}"))
    score_runs([path], QRELS, Settings(DELEGATED, ties=ties))
    assert decoded == {"a.run.gz": 1}


def test_interleaved_queries_are_decoded_twice(tmp_path: Path, decoded: Counter[str]) -> None:
    settings = Settings(DELEGATED)
    path = write(tmp_path / "a.run", lines_of())
    mixed = write(tmp_path / "mixed.run", [line for n in range(7) for line in lines_of()[n::7]])
    first, second = (score_runs([run], QRELS, settings) for run in (path, mixed))
    assert decoded == {"a.run": 1, "mixed.run": 2}
    assert [row.value for row in first.figures] == [row.value for row in second.figures]


def test_equal_rankings_and_changed_ids_are_found_without_a_second_decode(
    tmp_path: Path, decoded: Counter[str]
) -> None:
    runs = [write(tmp_path / f"{digits}.run", lines_of(f"{{:.{digits}f}}")) for digits in (6, 4, 0)]
    warnings = score_runs(runs, QRELS, Settings("RR@10")).warnings
    found = [warning for warning in warnings if "the same rankings" in warning]
    assert found == [f"{runs[1]} contains the same rankings as {runs[0]}"]
    lost = write(tmp_path / "lost.run", lines_of(doc="{}"))
    with pytest.raises(RunError, match="ids-changed"):
        score_runs([lost], QRELS, Settings(DELEGATED))
    assert decoded == {"6.run": 1, "4.run": 1, "0.run": 1, "lost.run": 1}


def test_standard_input_has_the_measures_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, settings = write(tmp_path / "a.run", lines_of("{:.1f}")), Settings(DELEGATED)
    with path.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        piped = score_runs(["-"], QRELS, settings)
    expected = score_runs([path], QRELS, settings)
    assert [row.value for row in piped.figures] == [row.value for row in expected.figures]
