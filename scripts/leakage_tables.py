"""The tables of docs/leakage.md and docs/official-release.md on real queries, in Markdown.

Usage: python -m scripts.leakage_tables test-sets|calibration DATA; DATA has four folders:
``ms-marco-shift`` (the release of 2022), ``msmarco-pool`` (``queries.tsv`` and
``queries_sources.tsv``, query_id and sources), ``msmarco-query-texts`` (texts of further MS MARCO
queries, one a line) and ``spire22-leakage`` (webis-de/SPIRE-22).
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from msshift_bench import find_leakage
from msshift_bench.dataset_builders.release import read_test_sets
from msshift_bench.leakage import WordSpace
from msshift_bench.output import Table, to_markdown
from msshift_bench.search import sorted_words
from msshift_bench.similarity import unit_rows

COMPARED = ("dev-small", "training")
"""The sets that each official test set is compared with, next to itself."""

SOURCES = {"dev_small": "dev-small", "dl19": "DL 2019", "dl20": "DL 2020", "train_naga": "training"}
JUDGED = ("annotations-01-b-and-c", "annotations-02-a", "annotations-03-b", "annotations-04-b")
THRESHOLDS = (0.8, 0.9, 0.94)


def known_queries(data: Path) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Return query_id -> text of the known queries, and set -> its ids: test sets and others."""
    sets: dict[str, set[str]] = {}
    texts: dict[str, str] = {}
    for one in read_test_sets(data / "ms-marco-shift"):
        kept = {query_id: text for query_id, text in one.queries.items() if text.strip()}
        sets[one.config] = set(kept)
        texts |= kept
    sets |= {name: set() for name in SOURCES.values()}
    pool = dict(_rows(data / "msmarco-pool" / "queries.tsv"))
    for query_id, sources in _rows(data / "msmarco-pool" / "queries_sources.tsv"):
        for source in sources.split(","):
            if source in SOURCES:
                sets[SOURCES[source]].add(query_id)
                texts[query_id] = pool[query_id]
    return texts, sets


def _rows(path: Path) -> Iterable[tuple[str, str]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        first, second = line.split("\t")[:2]
        yield first, second


def near_queries(
    texts: Mapping[str, str], sets: Mapping[str, set[str]], wanted: Iterable[str]
) -> list[tuple[str, ...]]:
    """Return a row per test set: how many of its queries have another query in it and in others."""
    tests = {query_id: texts[query_id] for name in wanted for query_id in sets[name]}
    found = find_leakage(texts, tests)
    near: dict[str, set[str]] = defaultdict(set)
    spelled: dict[str, set[str]] = defaultdict(set)
    for pair in found.pairs:
        # A query that is in both sets is not a near-duplicate of itself.
        if pair.test_id != pair.train_id:
            near[pair.test_id].add(pair.train_id)
            if pair.tier != "near-duplicate":
                spelled[pair.test_id].add(pair.train_id)
    rows = []
    for name in wanted:
        mine = sets[name]
        cells = [name, f"{len(mine):,}"]
        for others in (mine, *(sets[one] for one in COMPARED)):
            counts = (sum(bool(of[one] & others) for one in mine) for of in (spelled, near))
            cells.append(" / ".join(map(str, counts)))
        rows.append(tuple(cells))
    return rows


def test_sets(data: Path) -> str:
    """Return the table of the official test sets."""
    texts, sets = known_queries(data)
    wanted = [name for name in sets if name not in SOURCES.values()]
    header = ("test set", "queries", "in itself", *(f"in {name}" for name in COMPARED))
    return _markdown(header, near_queries(texts, sets, wanted))


def real_texts(data: Path) -> list[str]:
    """Return the distinct texts of the real MS MARCO queries at hand, sorted."""
    texts = {text for _, text in _rows(data / "msmarco-pool" / "queries.tsv")}
    for path in sorted((data / "msmarco-query-texts").glob("*.txt")):
        texts.update(path.read_text(encoding="utf-8").splitlines())
    return sorted(text for text in texts if text.strip())


def calibration_rows(data: Path) -> list[tuple[str, ...]]:
    """Return what `terms` makes of the judged pairs, by threshold."""
    space = WordSpace(real_texts(data))
    cosines, leaks, worded = [], [], []
    for name in JUDGED:
        for line in (data / "spire22-leakage" / f"{name}.jsonl").read_text("utf-8").splitlines():
            one = json.loads(line)
            texts = [one[key] for key in ("title", "description", "variant") if one[key]]
            query, *others = unit_rows(space.vectors([one["data"], *texts]))
            cosines.append(max(float(query @ other) for other in others))
            leaks.append("Different Topic" not in one["label"])
            worded.append(sorted_words(one["data"]) in set(map(sorted_words, texts)))
    cosine, leak, same = np.array(cosines), np.array(leaks), np.array(worded)
    rows = []
    for threshold in THRESHOLDS:
        reached = cosine >= threshold
        other = reached & ~same
        rows.append(
            (
                f"{threshold:.2f}",
                str(reached.sum()),
                f"{leak[reached].mean():.3f}",
                f"{(reached & leak).sum() / leak.sum():.3f}",
                str(other.sum()),
                f"{leak[other].mean():.3f}",
            )
        )
    return rows


def calibration(data: Path) -> str:
    """Return the table of thresholds for `terms`."""
    header = ("threshold", "pairs", "precision", "recall", "in other words", "precision there")
    return _markdown(header, calibration_rows(data))


def _markdown(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return to_markdown(Table.plain("", header, rows)).removeprefix("****").strip() + "\n"


TABLES: Mapping[str, Callable[[Path], str]] = {"test-sets": test_sets, "calibration": calibration}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=list(TABLES))
    parser.add_argument("data", type=Path, help="the folder of real material")
    given = parser.parse_args()
    print(TABLES[given.table](given.data))
