"""A small made world: run sets of five systems, extra queries, typing errors, leaks and labels.

All of it follows from names alone, so that what is computed from it is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import product, starmap
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from msshift_bench.data import Variant, open_dataset, write_variants
from msshift_bench.records import Row
from msshift_bench.shifts import SHIFTS

__all__ = ["COLLECTION", "SHIFT_NAMES", "write_world"]

COLLECTION = "mini:300"
SHIFT_NAMES = ("length", "wh-words", "topics")


class _System(NamedTuple):
    """A system.

    Attributes:
        skill: the more, the better it ranks.
        seeds: those of its models; none if it has one ranking for all groups, 0 without replicates.
        extra: the extra test sets that it has runs on.
        lacks: the share of the queries that its runs lack.
    """

    skill: float
    seeds: Sequence[int] = ()
    extra: Sequence[str] = ()
    lacks: float = 0.0


_SYSTEMS: Mapping[str, _System] = {
    "bm25": _System(2.0, extra=("graded", "mistyped", "typos")),
    "dense": _System(3.0, (1, 2, 3), ("graded", "mistyped", "typos")),
    "dense-all": _System(3.4, extra=("graded",)),
    "late": _System(3.6, (0,), ("graded", "mistyped", "typos")),
    "sparse": _System(2.7, (1, 2, 3), ("typos",), lacks=0.03),
}
_METHODS = ("swap", "drop")
_FILLERS = tuple(f"filler{number}" for number in range(12))
"""The passages that every system finds for every query; they are not relevant."""

_GRADED = [
    Row.judged(f"g{n}", f"graded query {n}", "", {f"d{n}-{grade}": grade for grade in (1, 2, 3)})
    for n in range(40)
]
"""The queries of the extra test set."""


def _draw(*keys: object) -> float:
    """Return a number from 0 to 1 that follows from the keys."""
    digest = blake2b("\0".join(map(str, keys)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


class _Model(NamedTuple):
    """A model of a system, which never saw a group (`None`: it saw all)."""

    system: str
    held_out: str | None = None
    seed: int = 0

    def place(self, query: Row, doc_id: str, method: str) -> int:
        """Return how many fillers stand above a relevant passage.

        The query, the system and the model draw independently of each other.
        """
        difficulty = (
            0.45 * _draw(query.query_id, doc_id)
            + 0.2 * _draw(self.system, query.query_id)
            + 0.1 * _draw(*self)
            + 0.2 * _draw(*self, query.query_id)
            + 0.2 * _draw(self.system, self.held_out) * (query.group == self.held_out)
            + 0.2 * _draw(self.system, method, query.query_id) * bool(method)
        )
        return min(int(14 * difficulty ** _SYSTEMS[self.system].skill), len(_FILLERS))

    def lines(self, query: Row, method: str = "") -> str:
        """Return the lines of a query in a run; the first two passages of some queries tie."""
        docs = list(_FILLERS)
        for doc_id in query.relevant_doc_ids:
            docs.insert(self.place(query, doc_id, method), doc_id)
        ties = _draw("ties", query.query_id) < 0.2
        query_id = Variant(query.query_id, "", method).run_id if method else query.query_id
        return "".join(
            f"{query_id} Q0 {doc_id} {rank} {20 - max(rank, 2 * ties)} {self.system}\n"
            for rank, doc_id in enumerate(docs, 1)
        )

    def changed_lines(self, queries: Iterable[Row]) -> Iterator[str]:
        """Yield the lines of every variant of queries."""
        return starmap(self.lines, product(queries, _METHODS))


def _models(system: str, shift: str) -> Iterator[tuple[str, _Model]]:
    """Yield the models of a system for a shift, each with the name of its run."""
    for seed, group in product(_SYSTEMS[system].seeds, SHIFTS[shift].groups):
        place = f"seed-{seed}/{group}" if seed else group
        yield f"{shift}/{place}.run", _Model(system, group, seed)
    if not _SYSTEMS[system].seeds:
        yield f"{shift}.run", _Model(system)


def _write(path: Path, parts: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(parts))


def write_world(folder: Path, data: Path) -> None:
    """Write everything below a folder.

    - ``runs``: two systems with three seeds, one with one, and two of one ranking each, on three
      shifts, with runs on the extra test sets and on ``typos`` for two of these.
    - ``partial``: a system of which a run is missing.
    - ``graded``: an extra test set with grades; ``mistyped``: the same, with variants.
    - ``typos.tsv``: variants of the shifts' queries; ``labels.tsv``: their labels, one of them
      rare; ``leaked``: which of them leaked; ``qrels.tsv``: judgements of those of ``length``.

    Args:
        folder: an empty folder.
        data: the data set of `SHIFT_NAMES`, built from `COLLECTION`.
    """
    dataset = open_dataset(data)
    tests: dict[str, list[Row]] = {}
    for shift in SHIFT_NAMES:
        groups = dataset.test_sets(SHIFTS[shift]).values()
        tests[shift] = sorted({row.query_id: row for rows in groups for row in rows}.values())
        _write_runs(folder / "runs", shift, tests[shift])
    for name, model in _models("late", "wh-words"):
        if model.held_out != "how":
            _write(folder / "partial/late" / name, map(model.lines, tests["wh-words"]))
    _write(folder / "qrels.tsv", _qrels(tests["length"]))
    for extra in ("graded", "mistyped"):
        _write(folder / extra / "queries.tsv", (f"{row.query_id}\t{row.text}\n" for row in _GRADED))
        _write(folder / extra / "qrels.tsv", _qrels(_GRADED))
    write_variants(folder / "mistyped/variants.tsv", _variants(_GRADED))

    queries = {row.query_id: row for rows in tests.values() for row in rows}
    write_variants(folder / "typos.tsv", _variants(queries.values()))
    _write(folder / "labels.tsv", (f"{query_id}\t{_label(query_id)}\n" for query_id in queries))
    leaked = [row for query_id, row in queries.items() if _draw("leaked", query_id) < 0.2]
    _write_leaked(folder / "leaked", leaked)


def _write_runs(runs: Path, shift: str, queries: Sequence[Row]) -> None:
    for system, (_, _, extra, lacks) in _SYSTEMS.items():
        answered = [row for row in queries if _draw("lacks", row.query_id) >= lacks]
        for name, model in _models(system, shift):
            _write(runs / system / name, map(model.lines, answered))
            if shift == "topics":
                continue
            graded = [model.lines(row) for row in _GRADED]
            if "graded" in extra:
                _write(runs / system / "also/graded" / name, graded)
            if "mistyped" in extra:
                lines = [*graded, *model.changed_lines(_GRADED)]
                _write(runs / system / "also/mistyped" / name, lines)
            if "typos" in extra:
                _write(runs / system / "also/typos" / name, model.changed_lines(queries))


def _variants(rows: Iterable[Row]) -> Iterator[Variant]:
    for row, method in product(rows, _METHODS):
        yield Variant(row.query_id, f"{row.text} {method}", method)


def _qrels(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        for doc_id, grade in row.relevant.items():
            yield f"{row.query_id} 0 {doc_id} {grade}\n"


def _label(query_id: str) -> str:
    drawn = _draw("label", query_id)
    return "rare" if drawn < 0.05 else "often" if drawn < 0.6 else "seldom"


def _write_leaked(folder: Path, rows: Iterable[Row]) -> None:
    """Write candidates as ``msshift leakage find`` does."""
    columns = {
        "test_id": [row.query_id for row in rows],
        "test_text": [row.text for row in rows],
        "train_id": [f"t{row.query_id}" for row in rows],
        "train_text": [row.text for row in rows],
        "tier": ["near-duplicate" for _ in rows],
        "cosine": pa.array([0.95 for _ in rows], pa.float32()),
    }
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "candidates.parquet")
