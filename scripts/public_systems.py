"""Figures of public systems on short and long queries, from rankings that others published.

Usage: python -m scripts.public_systems [DATA] [--check]

With DATA the figures are computed, and written to docs/public-systems.csv. The folder DATA has
``public-runs`` (rankings, and RR@10 of each query), ``ms-marco-shift`` (the release of 2022) and
``msmarco-pool`` (texts and judgements of TREC DL). The tables of docs/public-systems.md and the
figures of the entries ``ms-marco/public-...`` of the leaderboard are then made from that one file.
The claims of the page are in docs/claims.toml; ``python -m scripts.findings`` writes them.
With --check nothing is written: the command prints which files differ, and exits with 1 if any do.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msshift_bench.checked import Count, Name, read_rows
from msshift_bench.data import TestSet
from msshift_bench.dataset_builders.groups import word_count
from msshift_bench.dataset_builders.release import read_test_sets
from msshift_bench.errors import DataError
from msshift_bench.evaluation import (
    WHOLE,
    WITH_ENDS,
    OpenedRun,
    OpenedRuns,
    OpenedRunSet,
    Settings,
    compare_run_sets,
    parse_measure,
)
from msshift_bench.leaderboard.entries import ReportedFigure
from msshift_bench.output import P_VALUE, QUERIES, Head, csv_text, pivot, to_markdown
from msshift_bench.runs import FOR_ALL, read_qrels
from msshift_bench.shifts import get_shift
from msshift_bench.stats import FIGURES, Figure, Figures

REPOSITORY = Path(__file__).resolve().parents[1]
CSV, PAGE = (REPOSITORY / f"docs/public-systems.{end}" for end in ("csv", "md"))
ENTRIES = REPOSITORY / "leaderboard/entries/ms-marco"
BLOCK = re.compile(r"(<!-- from public-systems.csv: ([^\n]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)

TREC = "TREC DL 2019 and 2020"
TRACKS = ("dl19", "dl20")
REFERENCE = "bm25"
TITLES = {
    "bm25": "BM25",
    "bm25-rm3": "BM25+RM3",
    "ance": "ANCE",
    "sbert": "SBERT",
    "tas-b": "TAS-B",
    "ada-002": "ada-002",
    "splade-ed": "SPLADE++ ED",
    "repllama": "RepLLaMA",
}
"""System -> its name in tables; its entry is ``public-<system>``."""
ON_DEV_SMALL = ("bm25", "ance", "sbert")
FILES = {
    "bm25": "BM25",
    "bm25-rm3": "BM25_RM3",
    "tas-b": "D_BERT_KD_TASB",
    "ada-002": "OPEN_AI_ADA2",
    "splade-ed": "SPLADE_P_P_ENSEMBLE_DISTIL",
    "repllama": "REP_LLAMA.first100",
}
"""System -> its name in the files of TREC DL."""


class PublicFigure(ReportedFigure):
    """A row of docs/public-systems.csv: see `Figure`, of which it is a part."""

    system: Name
    p: float | None
    mark: str | None
    family: str | None
    queries: Count


def dev_small(data: Path) -> Figures:
    """Return the figures on the official test sets of length, which are dev-small.

    A ranking is built again from RR@10: the relevant passage is at rank 1 / RR, or not found.
    """
    tests = {s.group: s for s in read_test_sets(data / "ms-marco-shift") if s.shift == "length"}
    judged = {query: dict(of) for s in tests.values() for query, of in s.relevant.items()}
    groups = {group: [*s.queries] for group, s in tests.items()}
    with gzip.open(data / "public-runs/dev-small.rr10.tsv.gz", "rt") as file:
        lines = list(csv.DictReader(file, delimiter="\t"))

    def ranking(query: str, value: float) -> dict[str, float]:
        found = [f"filler{place}" for place in range(10)]
        if value:
            found[round(1 / value) - 1] = min(judged[query])
        return {doc_id: 10.0 - place for place, doc_id in enumerate(found)}

    runs = {
        system: {line["query_id"]: ranking(line["query_id"], float(line[system])) for line in lines}
        for system in ON_DEV_SMALL
    }
    return compared(TestSet("length", judged, groups, relevant_only=True), "RR@10", runs)


def trec(data: Path) -> Figures:
    """Return the figures on the judged queries of two years of TREC DL, by length."""
    judged: dict[str, dict[str, int]] = {}
    for track in TRACKS:
        for qrel in read_qrels(data / f"msmarco-pool/qrels.{track}.txt"):
            judged.setdefault(qrel.query_id, {})[qrel.doc_id] = qrel.relevance
    lines = (data / "msmarco-pool/queries.tsv").read_text("utf-8").splitlines()
    texts = dict(line.split("\t")[:2] for line in lines)
    groups: dict[str, list[str]] = {group: [] for group in get_shift("length").groups}
    for query_id in sorted(judged):
        groups["short" if word_count(texts[query_id]) <= 5 else "long"].append(query_id)
    runs = {
        system: [data / f"public-runs/{track}.{name}.trec.gz" for track in TRACKS]
        for system, name in FILES.items()
    }
    return compared(TestSet(TREC, judged, groups), "nDCG@10", runs)


def compared(test_set: TestSet, measure: str, runs: Mapping[str, object]) -> Figures:
    """Return the scores of runs on short and long queries, and their leads over the reference."""
    shift = get_shift("length")
    test = "" if test_set.name == shift.name else test_set.name
    run_sets = [
        OpenedRunSet(name, test_set, {(FOR_ALL, None): OpenedRun.of(run)}, shift, test)
        for name, run in runs.items()
    ]
    opened = OpenedRuns(run_sets, reference=REFERENCE)
    return compare_run_sets(opened, settings=Settings(measures=(measure,))).figures


def compute(data: Path) -> list[PublicFigure]:
    """Return all figures of docs/public-systems.csv."""
    return [
        PublicFigure.model_validate(
            {
                name: float(f"{value:.6g}") if isinstance(value, float) else value
                for name, value in row._asdict().items()
                if name in PublicFigure.model_fields
            }
        )
        for row in (*dev_small(data), *trec(data))
    ]


def stored() -> list[PublicFigure]:
    """Return the figures of docs/public-systems.csv."""
    return read_rows(CSV, PublicFigure, DataError, f"{CSV} holds no figures:")


def block(figures: Figures) -> str:
    """Return the table of one test set, with its families of tests."""
    (measure,) = map(parse_measure, figures.names("measure"))
    rows = [Head(("queries", ""), {"figure": "score"}, QUERIES)]
    for system, of_system in ((name, figures.where(system=name)) for name in TITLES):
        for figure in of_system.names("figure"):
            where = {"system": system, "figure": figure}
            rows.append(Head((TITLES[system], FIGURES[figure].title), where, WITH_ENDS))
            rows += [Head((TITLES[system], "p"), where, P_VALUE)] if figure != "score" else []
    columns = [Head((group,), {"group": group}) for group in figures.names("group")]
    title = f"{measure.mean_name} x 100, with 95% intervals"
    table = pivot(figures, title, ("system", ""), rows, columns, ruled=1)
    families = dict.fromkeys(
        f"{FIGURES[row.figure].title}{' on average' if row.group in WHOLE else ''}: {row.family}"
        for row in figures
        if row.family
    )
    return f"{to_markdown(table)}\np: {'; '.join(families)}.\n"


def outputs(rows: Sequence[PublicFigure]) -> dict[Path, str]:
    """Return file -> its text: the table of figures, the page, and the figures of the entries."""
    figures = Figures([Figure(**row.model_dump(exclude_none=True)) for row in rows])
    tests = {test or "dev-small": part for (test,), part in figures.each("test")}
    page = BLOCK.sub(
        lambda found: f"{found[1]}{block(tests[found[2]])}{found[3]}", PAGE.read_text("utf-8")
    )
    texts = {CSV: csv_of(PublicFigure, rows), PAGE: page}
    for system in TITLES:
        of_entry = (
            row.model_copy(
                update={
                    "figure": "out" if row.figure == "score" else row.figure,
                    "against": row.against and f"public-{row.against}",
                    "seeds": 1,
                }
            )
            for row in rows
            if row.system == system
        )
        path = ENTRIES / f"public-{system}/v1/figures.csv"
        texts[path] = csv_of(ReportedFigure, of_entry)
    return texts


def csv_of(model: type[ReportedFigure], rows: Iterable[ReportedFigure]) -> str:
    """Return rows as CSV, with the fields of a model as columns."""
    columns = tuple(model.model_fields)
    return csv_text(columns, ([getattr(row, name) for name in columns] for row in rows))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or print which of them differ."""
    parser = argparse.ArgumentParser(description="Figures of public systems.")
    parser.add_argument("data", type=Path, nargs="?", help="the folder of real material")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a file differs")
    given = parser.parse_args(arguments)
    texts = outputs(stored() if given.data is None else compute(given.data))
    differing = [p for p, text in texts.items() if not p.exists() or p.read_text("utf-8") != text]
    for path in differing:
        print(f"{path.relative_to(REPOSITORY)} {'differs' if given.check else 'written'}")
        if not given.check:
            path.write_text(texts[path], encoding="utf-8")
    return int(given.check and bool(differing))


if __name__ == "__main__":
    sys.exit(main())
