"""What the Hugging Face Hub's community evaluations read: ``eval.yaml``, ``.eval_results/``.

Format: https://huggingface.co/docs/hub/eval-results, as of August 2026. ``eval.yaml`` makes a data
set's repository a benchmark, with one task per shift; a file in ``.eval_results/`` of a model's
repository holds its value for each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msshift_bench.errors import UsageError
from msshift_bench.evaluation import SystemRecord
from msshift_bench.leaderboard.layout import CLASSES, LINKS
from msshift_bench.leaderboard.results import MEAN, results_of
from msshift_bench.leaderboard.submission import Submission
from msshift_bench.plumbing import replace_folder
from msshift_bench.shifts import SHIFTS

__all__ = ["check_hub_folder", "write_hub_results"]

FRAMEWORK = "msshift-bench"
"""The name under which the Hub must know this package before it shows results as checked."""

_BENCHMARK, _VALUES = "eval.yaml", ".eval_results"
"""The data set's file, and the folder of the model's."""

_ZERO_SHOT = ("held-out", "none")
"""Keys of `CLASSES` whose scores on held-out groups are zero-shot."""

_ABOUT = (
    "MS-Shift cuts queries into groups and trains on all groups but one. The value of a task is "
    "the mean RR@10 on the test queries of the groups that were held out of training (Out)."
)


def check_hub_folder(folder: Path) -> None:
    """Check that a folder holds nothing but what `write_hub_results` wrote there before.

    Raises:
        UsageError: if it holds something else, which would be lost.
    """
    for path in sorted(folder.rglob("*")):
        is_values = path.parent == folder / _VALUES and path.suffix == ".yaml"
        if not (path.is_dir() or path == folder / _BENCHMARK or is_values):
            raise UsageError(
                f"{folder} holds {path.relative_to(folder)}, which would be lost; choose another "
                "--out, or move it away"
            )


def write_hub_results(submission: Submission, dataset: str, folder: Path) -> tuple[Path, Path]:
    """Write ``eval.yaml`` for the data set's repository, and a file of results for the model's.

    Args:
        submission: what was evaluated.
        dataset: the data set's repository on the Hub, ``ORG/NAME``.
        folder: the folder to write, which is replaced.

    Returns:
        The two files.

    Raises:
        UsageError: if the scores are not zero-shot, which the Hub's tables cannot say, or the
            folder holds something else than such results.
    """
    check_hub_folder(folder)
    exposure = submission.training.exposure
    if exposure not in _ZERO_SHOT:
        raise UsageError(
            f"no results for the Hub: {submission.system.name} is {exposure!r} "
            f"({CLASSES[exposure]}), and a table of the Hub would show its scores as zero-shot"
        )
    assert submission.report is not None
    tasks = [
        "\n".join((f"  - id: {_task(shift)}", f"    config: {shift}", "    split: queries"))
        for shift in submission.shifts
    ]
    benchmark = (
        "name: MS-Shift",
        f"description: {json.dumps(_ABOUT)}",
        f"evaluation_framework: {FRAMEWORK}",
        "tasks:",
        *tasks,
    )
    measure = submission.report.settings.measures[0]
    results = [
        _result(submission, dataset, record, measure) for record in submission.report.systems
    ]
    values = f"{_VALUES}/{dataset.partition('/')[2]}.yaml"
    with replace_folder(folder) as partial:
        (partial / _BENCHMARK).write_text("\n".join((*benchmark, "")), encoding="utf-8")
        (partial / values).parent.mkdir()
        # JSON is YAML, too, and leaves nothing to quote.
        text = "".join(f"- {json.dumps(result, ensure_ascii=False)}\n" for result in results)
        (partial / values).write_text(text, encoding="utf-8")
    return folder / _BENCHMARK, folder / values


def _task(shift: str) -> str:
    return f"{shift}-out"


def _result(
    submission: Submission, dataset: str, record: SystemRecord, name: str
) -> dict[str, Any]:
    """Return what the Hub reads of a system on one shift, by one measure."""
    # A submission that was read has the keys of its objects sorted.
    measure = record.measures[name]
    groups = [group for group in SHIFTS[record.shift].tested if group in record.test_queries]
    pooled = SHIFTS[record.shift].average == "pooled"
    of = "all queries of " if pooled else ""
    notes = f"{name}, mean of {of}{len(groups)} groups ({', '.join(groups)})"
    if measure.loss is not None:
        overall = measure.loss.overall
        value = overall.out
        notes += f"; Avg In {overall.avg_in:.4f}"
        if overall.rel_loss is not None:
            notes += f", Rel Loss {overall.rel_loss:.1%}"
    else:
        value = results_of(submission)[record.shift, name].columns[MEAN]["out"].value
        notes += "; not trained per group"
    result: dict[str, Any] = {
        "dataset": {"id": dataset, "task_id": _task(SHIFTS[record.shift].name)},
        "value": round(value, 4),
        "date": submission.submitted,
        "notes": notes,
    }
    links = submission.system.links
    if address := next((links[name] for name in LINKS if links.get(name)), ""):
        result["source"] = {"url": address, "name": submission.system.title}
    return result
