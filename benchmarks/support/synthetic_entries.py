"""Leaderboard entries with made-up scores: evaluated by the evaluator, trained by nobody."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.data.manifest import DATA_VERSION, DataInfo
from msshift_bench.evaluation.evaluator import Evaluator
from msshift_bench.evaluation.run_set_report import Report
from msshift_bench.evaluation.scored_runs import ScoredRun
from msshift_bench.evaluation.settings import Settings
from msshift_bench.evaluation.system_scores import SystemScores
from msshift_bench.leaderboard.file_list import write_file_list
from msshift_bench.leaderboard.layout import FAMILIES
from msshift_bench.leaderboard.submission import parse_submission
from msshift_bench.plumbing.files import write_parquet
from msshift_bench.records import Row
from msshift_bench.runs.hits import RunReport
from msshift_bench.shifts import get_shift

SHIFTS = ("topics", "wh-words", "length")
SETTINGS = Settings(measures=("RR@10", "nDCG@10"))
DATA = DataInfo(DATA_VERSION, "rebuilt", "c" * 64, "mini")
RANKS = np.arange(1, 12)
RR = np.where(RANKS > 10, 0, 1 / RANKS)
NDCG = np.where(RANKS > 10, 0, 1 / np.log2(1 + RANKS))

SCRIPT = """"'><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}</textarea>"""


def test_sets(shift: str, queries: int) -> dict[str, list[Row]]:
    return {
        group: [
            Row(f"{shift}-{group}-{number:03}", f"text {number} of {group}", group, ("d1",), (1,))
            for number in range(queries)
        ]
        for group in get_shift(shift).groups
    }


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
) -> Report:
    """Evaluate a system whose rankings get worse by about `loss` on the group it never saw."""
    results = []
    for shift in map(get_shift, shifts):
        evaluator = Evaluator(shift, test_sets(shift.name, queries), settings, DATA)
        ids = evaluator.judgements.query_ids
        held_out: list[tuple[int | None, str | None]] = [(None, None)]
        if per_group:
            held_out = [(seed, group) for seed in seeds for group in shift.groups]
        groups = {
            group: np.array([n for n, query in enumerate(ids) if f"-{group}-" in query])
            for group in shift.groups
        }
        runs = tuple(
            _run(name, shift.name, ids, groups, settings, level, loss, seed, group)
            for seed, group in held_out
        )
        results.append(evaluator.summarise(SystemScores(name, shift, ids, groups, runs)))
    return Report(DATA, settings, results)


def _run(
    name: str,
    shift: str,
    ids: Sequence[str],
    groups: Mapping[str, Any],
    settings: Settings,
    level: float,
    loss: float,
    seed: int | None,
    held_out: str | None,
) -> ScoredRun:
    rng = np.random.default_rng([len(name), *name.encode(), seed or 0, *(held_out or "").encode()])
    ease = np.random.default_rng(7).random(len(ids))
    share = np.full(len(ids), level)
    if held_out is not None:
        share[groups[held_out]] -= loss
    found = np.clip(share * (0.5 + ease) + rng.normal(0, 0.1, len(ids)), 0, 1)
    ranks = np.clip(np.rint(11 - 10 * found), 1, 11).astype(int) - 1
    of_measure = {"RR@10": RR[ranks], "nDCG@10": NDCG[ranks]}
    scores = {measure: of_measure[measure] for measure in map(str, settings.measures)}
    missing = np.zeros(len(ids), np.bool_)
    path = f"{name}/{shift}.run" if held_out is None else f"{name}/{shift}/{held_out}.run"
    report = RunReport(path, _digest(path, str(seed)), name, 10 * len(ids), len(ids))
    return ScoredRun(report, missing, missing, scores, scores, scores, held_out, seed)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def submission_json(name: str, report: Report | None, **changes: Any) -> dict[str, Any]:
    """Return a submission; `changes` replace fields, those with a dot within an object."""
    per_group = report is None or len(report.systems[0].scores.runs) > 1
    systems = [] if report is None else report.systems
    runs = [run.report for one in systems for run in one.scores.runs]
    value: dict[str, Any] = {
        "schema": 1,
        "board": "mini",
        "version": 1,
        "note": "",
        "submitted": "2026-11-21",
        "badge": "reported" if report is None else "rescored",
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
        "authors": ["A. Author", "B. Author"],
        "training": {
            "data": "the data set's own split",
            "per_group": per_group,
            "hard_negatives": "BM25, top 1000",
            "distillation": "",
            "seeds": [0] if per_group else [],
            "hardware": "one H200",
            "class": "held-out-reported" if report is None else "held-out" if per_group else "none",
            "queries": {},
        },
        "reproduction": None,
        "report": None if report is None else report.to_json(),
        "reported": None,
        "files": [
            {"path": run.name, "bytes": 1000, "sha256": run.digest}
            for run in {run.name: run for run in runs}.values()
        ],
    }
    for path, new in changes.items():
        *parents, last = path.split(".")
        within = value
        for parent in parents:
            within = within[parent]
        within[last] = new
    return value


def reported(groups: Mapping[str, Mapping[str, tuple[float, float, float]]]) -> dict[str, Any]:
    """Return a paper's results from shift -> group -> (Avg In, Out, Rel Loss)."""
    shifts = {
        shift: {
            group: dict(zip(("avg_in", "out", "rel_loss"), values, strict=True))
            for group, values in of_shift.items()
        }
        for shift, of_shift in groups.items()
    }
    return {
        "source": "a paper",
        "measure": "RR@10",
        "shifts": shifts,
        "untrained": {},
        "matrix": {},
        "other": [],
    }


def add_entry(folder: Path, value: Mapping[str, Any], report: Report | None) -> Path:
    """Write an entry below `folder`, as the gate would have."""
    parse_submission(value)
    entry = folder / value["board"] / value["system"]["name"] / f"v{value['version']}"
    entry.mkdir(parents=True)
    (entry / "submission.json").write_text(json.dumps(value, sort_keys=True), encoding="utf-8")
    if report is not None:
        write_parquet(entry / "scores.parquet", report.per_query().replace_schema_metadata())
    write_file_list(entry)
    return entry


def few_entries(folder: Path) -> dict[str, Report]:
    """Write a board of seven systems of every kind, and return the reports of those scored.

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
        "leaky": {"training.class": "trained-on-test"},
        "bm25": {
            "system.title": "BM25",
            "system.family": "lexical",
            "system.parameters": 0,
            "reproduction": {"commands": ["msshift build", "make 'a & b'"], "tolerance": 0},
        },
        "steady": {"training.seeds": [1, 2, 3], "badge": "reproduced"},
        "twin": {"training.seeds": [1, 2, 3], "version": 2, "note": "Trained for longer."},
        "brittle": {
            "training.seeds": [1, 2, 3],
            "system.candidates": "reranks BM25's first 50",
        },
    }
    for name, report in reports.items():
        value = submission_json(name, report, **changes.get(name, {}))
        add_entry(folder, value, report)
    add_entry(folder, submission_json("twin", old := scored_report("twin", 0.2)), old)
    topics = dict.fromkeys(get_shift("topics").groups, (0.4, 0.3, 0.25))
    value = submission_json("paper", None, reported=reported({"topics": topics}))
    add_entry(folder, value, None)
    return reports


def hostile_entries(folder: Path) -> None:
    """Write an entry with a script in every text that a stranger may write."""
    report = scored_report("evil", 0.1, shifts=("length",), queries=10)
    texts = (
        "note", "system.title", "system.description", "system.backbone",
        "system.backbone_revision", "system.licence", "training.data", "training.hard_negatives",
        "training.distillation", "training.hardware",
    )  # fmt: skip
    changes = {
        **dict.fromkeys(texts, SCRIPT[:100]),
        "system.candidates": f"reranks {SCRIPT[:92]}",
    }
    told = {"commands": [SCRIPT], "tolerance": None}
    value = submission_json("evil", report, authors=[SCRIPT], reproduction=told, **changes)
    for run in value["report"]["systems"][0]["runs"]:
        run["tag"] = SCRIPT
    add_entry(folder, value, report)
    row = {"name": SCRIPT, "values": [1.0]}
    table = {"title": SCRIPT, "note": SCRIPT, "columns": [SCRIPT], "rows": [row]}
    paper = {"source": SCRIPT, "measure": SCRIPT, "shifts": {}, "untrained": {}, "matrix": {}}
    value = submission_json("evil-paper", None, reported={**paper, "other": [table]})
    add_entry(folder, value, None)


def many_entries(
    folder: Path,
    count: int,
    *,
    shifts: Sequence[str] = ("topics",),
) -> None:
    """Write `count` systems of two seeds on some shifts; one report stands for several."""
    settings = Settings()
    reports = [
        scored_report(
            f"base-{n}",
            0.02 * n,
            level=0.5 + 0.02 * n,
            shifts=shifts,
            queries=10,
            seeds=(1, 2),
            settings=settings,
        )
        for n in range(10)
    ]
    for number in range(count):
        report = reports[number % len(reports)]
        value = submission_json(f"system-{number:03}", report, **{"training.seeds": [1, 2]})
        add_entry(folder, value, report)
