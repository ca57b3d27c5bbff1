"""Leaderboard entries with made-up scores: evaluated by the evaluator, trained by nobody."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.arrays import Floats, Ints
from msshift_bench.checked import write_rows
from msshift_bench.data.digests import sha256_of
from msshift_bench.data.manifest import DATA_VERSION, DataInfo
from msshift_bench.evaluation import Result, ScoredRun, Scores, Settings, losses_of
from msshift_bench.leaderboard import build_site
from msshift_bench.leaderboard.description import (
    FAMILIES,
    Description,
    TrainedOn,
    write_description,
)
from msshift_bench.leaderboard.entries import SETTINGS, Rescored, entries_folder
from msshift_bench.plumbing.files import write_parquet
from msshift_bench.runs import FOR_ALL, RunReport
from msshift_bench.shifts import get_shift

SHIFTS = ("topics", "wh-words", "length")
DATA = DataInfo(DATA_VERSION, "rebuilt", "c" * 64, "mini")
RANKS = np.arange(1, 12)
RR = np.where(RANKS > 10, 0, 1 / RANKS)
NDCG = np.where(RANKS > 10, 0, 1 / np.log2(1 + RANKS))

Model = tuple[str, int | None]
"""The group that a model was trained without, or `FOR_ALL`, and its seed."""

SCRIPT = """"'><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}</textarea>"""


def scored_report(
    name: str,
    loss: float,
    *,
    level: float = 0.7,
    shifts: Sequence[str] = SHIFTS,
    queries: int = 40,
    seeds: Sequence[int | None] = (None,),
    per_group: bool = True,
    settings: Settings = SETTINGS,
) -> Result:
    """Evaluate a system whose rankings get worse by about `loss` on the held-out group."""
    scores = []
    for shift in map(get_shift, shifts):
        members = {
            group: [f"{shift.name}-{group}-{number:03}" for number in range(queries)]
            for group in shift.tested
        }
        ids = tuple(query_id for group_ids in members.values() for query_id in group_ids)
        groups = {
            group: queries * place + np.arange(queries) for place, group in enumerate(members)
        }
        models: list[Model] = [(FOR_ALL, None)]
        if per_group:
            models = [(group, seed) for seed in seeds for group in shift.groups]
        runs = {}
        for model in models:
            share = np.full(len(ids), level)
            if model[0] in groups:
                share[groups[model[0]]] -= loss
            runs[model] = _run(f"{name}/{shift.name}", model, _ranks(name, model, share), settings)
        scores.append(Scores(name, shift, ids, groups, runs))
    return losses_of(scores, DATA, settings)


def _ranks(name: str, model: Model, share: Floats) -> Ints:
    """Return the rank of each query's relevant passage, from 0; 10 if it is not found.

    Args:
        name: the system.
        model: the model.
        share: how well it does on each query, from 0 to 1.
    """
    held_out, seed = model
    key = "" if held_out == FOR_ALL else held_out
    rng = np.random.default_rng([len(name), *name.encode(), seed or 0, *key.encode()])
    ease = np.random.default_rng(7).random(len(share))
    found = np.clip(share * (0.5 + ease) + rng.normal(0, 0.1, len(share)), 0, 1)
    return np.clip(np.rint(11 - 10 * found), 1, 11).astype(int) - 1


def _run(folder: str, model: Model, ranks: Ints, settings: Settings) -> ScoredRun:
    held_out, seed = model
    of_measure = {"RR@10": RR[ranks], "nDCG@10": NDCG[ranks], "R@100": 1.0 * (ranks < 10)}
    scores = {measure: of_measure[measure] for measure in map(str, settings.measures)}
    missing = np.zeros(len(ranks), np.bool_)
    path = f"{folder}.run" if held_out == FOR_ALL else f"{folder}/{held_out}.run"
    name = folder.partition("/")[0]
    report = RunReport(path, _digest(path, str(seed)), name, 10 * len(ranks), len(ranks))
    return ScoredRun(report, missing, missing, scores, scores, scores)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def description(name: str, report: Result | None, **changes: Any) -> Description:
    """Return a system's description; `changes` replace fields, those with a dot within a table."""
    shifts = [] if report is None else [scores.shift_name for scores in report.scores]
    per_group = report is None or report.scores[0].trained_per_group
    value: dict[str, Any] = {
        "board": "mini",
        "version": 1,
        "authors": ["A. Author", "B. Author"],
        "note": "",
        "submitted": "2026-11-21",
        "source": "" if report else "a paper",
        "system": {
            "name": name,
            "title": name.replace("-", " ").capitalize(),
            "family": FAMILIES[sum(name.encode()) % len(FAMILIES)],
            "description": "Made up for a test.",
            "backbone": "distilbert-base-uncased",
            "backbone_revision": "",
            "candidates": "",
            "licence": "Apache-2.0",
            "year": 2026,
            "parameters": 66_000_000,
            "links": {"code": "https://example.org/code"},
        },
        "training": {
            "data": "the data set's own split",
            "hard_negatives": "BM25, top 1000",
            "distillation": "",
            "hardware": "one H200",
            "queries": dict.fromkeys(shifts, "msshift" if per_group else "none"),
        },
        "reproduction": {"commands": [], "tolerance": None},
    }
    for path, new in changes.items():
        *parents, last = path.split(".")
        within = value
        for parent in parents:
            within = within[parent]
        within[last] = new
    return Description.model_validate(value)


def add_entry(
    folder: Path, described: Description, report: Result | None, *, leaked: int = 0
) -> Path:
    """Write an entry below `folder`, as `msshift submit` would have.

    Args:
        folder: the folder of entries.
        described: the description.
        report: its scores; `None` for a paper's figures, which the caller adds.
        leaked: how many test queries of each group are among the training queries.
    """
    entry = folder / described.place
    entry.mkdir(parents=True)
    write_description(entry / "system.toml", described)
    if report is None:
        return entry
    write_parquet(entry / "scores.parquet", report.per_query())
    rows = [
        TrainedOn(
            shift=scores.shift_name,
            model=model,
            queries=100 if scores.trained_per_group else 0,
            sha256="0" * 64,
            group=group,
            test_queries=leaked,
            leaked=0 if model in (group, "all") else None,
        )
        for scores in report.scores
        for model in scores.models
        for group in scores.groups
        if described.training.queries[scores.shift_name] != "undeclared"
    ]
    write_rows(entry / "training.csv", TrainedOn, rows)
    return entry


def add_figures(entry: Path, figures: Sequence[tuple[str, str, str, str, float]]) -> None:
    """Write a paper's figures: shift, measure, group, figure and value of each."""
    lines = [",".join([*map(str, row), "", ""]) for row in figures]
    header = "shift,measure,group,figure,value,low,high"
    (entry / "figures.csv").write_text("\n".join([header, *lines, ""]), encoding="utf-8")


def few_entries(folder: Path) -> dict[str, Result]:
    """Write a board of seven systems of every kind, and return the results of the scored ones.

    ``steady``, ``twin`` and ``brittle`` have three seeds; ``leaky`` and ``partly`` have one.
    """
    reports = {
        "steady": scored_report("steady", 0.05, level=0.72, seeds=(1, 2, 3)),
        "twin": scored_report("twin", 0.055, level=0.7, seeds=(1, 2, 3)),
        "brittle": scored_report("brittle", 0.3, level=0.78, seeds=(1, 2, 3)),
        "leaky": scored_report("leaky", 0.0, level=0.9),
        "bm25": scored_report("bm25", 0.0, level=0.5, per_group=False),
        "partly": scored_report("partly", 0.2, shifts=("topics",)),
    }
    changes: dict[str, dict[str, Any]] = {
        "bm25": {
            "system.title": "BM25",
            "system.family": "lexical",
            "system.parameters": 0,
            "reproduction": {"commands": ["msshift build", "make 'a & b'"], "tolerance": 0},
        },
        "twin": {"version": 2, "note": "Trained for longer."},
        "brittle": {"system.candidates": "reranks BM25's first 50"},
        "partly": {"training.queries": {"topics": "undeclared"}},
    }
    for name, report in reports.items():
        described = description(name, report, **changes.get(name, {}))
        add_entry(folder, described, report, leaked=3 if name == "leaky" else 0)
    add_entry(folder, description("twin", old := scored_report("twin", 0.2)), old)
    paper = add_entry(folder, description("paper", None, **{"system.family": "dense"}), None)
    figures = {"avg_in": 0.4, "out": 0.3, "rel_loss": 0.25}
    add_figures(
        paper,
        [
            ("topics", "RR@10", group, name, value)
            for group in get_shift("topics").groups
            for name, value in figures.items()
        ],
    )
    digest = sha256_of(folder / "mini" / "steady" / "v1" / "scores.parquet")
    row = Rescored(entry="mini/steady/v1", sha256=digest, date="2026-11-22")
    write_rows(folder / "rescored.csv", Rescored, [row])
    return reports


def hostile_entries(folder: Path) -> None:
    """Write an entry with a script in every text of its author."""
    report = scored_report("evil", 0.1, shifts=("length",), queries=10)
    texts = (
        "note", "system.title", "system.description", "system.backbone",
        "system.backbone_revision", "system.licence", "training.data", "training.hard_negatives",
        "training.distillation", "training.hardware", "system.settings",
    )  # fmt: skip
    changes = {
        **dict.fromkeys(texts, SCRIPT[:100]),
        "system.candidates": f"reranks {SCRIPT[:92]}",
        "authors": [SCRIPT],
        "reproduction": {"commands": [SCRIPT], "tolerance": None},
    }
    add_entry(folder, description("evil", report, **changes), report)
    paper = add_entry(folder, description("evil-paper", None, **changes, source=SCRIPT), None)
    script = SCRIPT.replace('"', '""')
    add_figures(paper, [(f'"{script}"', "RR@10", f'"{script}"', f'"{script}"', 0.5)])


def write_board(folder: Path) -> None:
    """Write few entries and those of a packaged board of papers, and build their pages."""
    few_entries(folder / "entries")
    shutil.copytree(entries_folder() / "ms-marco", folder / "entries" / "ms-marco")
    build_site(folder / "site", folder / "entries", packaged=False)


def write_hostile_board(folder: Path) -> None:
    """Write hostile entries, and build their pages."""
    hostile_entries(folder / "entries")
    build_site(folder / "site", folder / "entries", packaged=False)
