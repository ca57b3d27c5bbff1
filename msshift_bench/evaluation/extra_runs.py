"""Finding and scoring the runs of systems on extra test sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msshift_bench.data import ExtraTestSet, VariantFile
from msshift_bench.errors import Finding, NotFoundError, RunError
from msshift_bench.evaluation.fitting import check_distinct, check_models, unreadable_sidecar
from msshift_bench.evaluation.scored_runs import ScoredRun, score_run
from msshift_bench.evaluation.settings import Settings
from msshift_bench.runs import (
    Judgements,
    RunSet,
    extra_runs_path,
    find_run_sets,
    read_sidecar,
    sidecar_path,
)
from msshift_bench.shifts import Shift, in_order

__all__ = ["check_same_queries", "runs_for_test_set", "score_models"]


def runs_for_test_set(
    run_sets: Sequence[RunSet],
    extra: ExtraTestSet | VariantFile,
    path: Path,
    wanted: Sequence[Shift],
) -> tuple[list[tuple[str, RunSet]], list[str]]:
    """Return systems and their runs for an extra test set, by shift.

    Args:
        run_sets: the systems' own run sets.
        extra: the test set.
        path: what it was read from.
        wanted: only these shifts; all, if empty.

    Returns:
        Pairs of a system and its runs for the test set, and a remark if systems have none.

    Raises:
        NotFoundError: if no system has any.
    """
    folders = {run_set.folder: run_set.system for run_set in run_sets}
    found = [
        (system, run_set)
        for folder, system in folders.items()
        for run_set in _runs_in(folder, extra.name)
        if not wanted or run_set.shift in wanted
    ]
    if not found:
        raise NotFoundError(
            f"no system has runs for {extra.name}; they lie in <system>/also/{extra.name}, and "
            f"'msshift baseline run ... --also-test {extra.name}={path}' makes them"
        )
    lacking = sorted({*folders.values()} - {system for system, _ in found})
    order = in_order({run_set.shift.name for _, run_set in found})
    found.sort(key=lambda pair: order.index(pair[1].shift.name))
    return found, [f"{extra.name}: no runs of {', '.join(lacking)}"] if lacking else []


def _runs_in(system: Path, test_set: str) -> list[RunSet]:
    folder = extra_runs_path(system, test_set)
    found = find_run_sets(folder) if folder.is_dir() else []
    # Messages name a run set by its system.
    return [replace(one, system="/".join(folder.parts[-3:])) for one in found]


def score_models(
    run_set: RunSet, judgements: Judgements, settings: Settings, *, allow_identical: bool
) -> dict[str, dict[int | None, ScoredRun]]:
    """Score every run file of a run set.

    Args:
        run_set: the run files.
        judgements: the test set.
        settings: measures and policies.
        allow_identical: accept the same file under two models.

    Returns:
        Model -> seed -> scores. A model is named by the group that it was trained without; ``all``
        is that of a system that was not trained per group.

    Raises:
        RunError: if a run is malformed, or is that of another model: by its sidecar, or by its
            bytes (unless `allow_identical`).
    """
    check_models(run_set)
    scored: dict[str, dict[int | None, ScoredRun]] = {}
    for seed, files in run_set.runs.items():
        for held_out, file in files.items():
            run = score_run(file, judgements, settings, held_out=held_out, seed=seed)
            scored.setdefault(held_out, {})[seed] = run
    if run_set.single is not None:
        scored["all"] = {None: score_run(run_set.single, judgements, settings)}
    if not allow_identical:
        runs = [run for by_seed in scored.values() for run in by_seed.values()]
        check_distinct(run_set.system, run_set.shift, runs)
    return scored


def check_same_queries(run_set: RunSet, extra: ExtraTestSet) -> None:
    """Check that runs with sidecars were made for the queries of the test set at hand.

    Raises:
        RunError: naming those that were not, and sidecars that cannot be read.
    """
    findings = []
    for file in run_set.files:
        sidecar = sidecar_path(file)
        said = read_sidecar(sidecar) if sidecar.is_file() else {}
        if said is None:
            findings.append(unreadable_sidecar(sidecar, file))
            continue
        test_set = said.get("test_set")
        digest = test_set.get("queries_sha256") if isinstance(test_set, Mapping) else None
        if digest not in (None, extra.facts["queries_sha256"]):
            findings.append(
                Finding(
                    "other-queries",
                    f"{file.name} was made for queries {str(digest)[:12]}, and those in "
                    f"{extra.folder} are {str(extra.facts['queries_sha256'])[:12]}",
                    str(sidecar),
                    fix="give the folder that it was made for, or make the run again",
                )
            )
    if findings:
        raise RunError(f"runs and the test set {extra.name} do not belong together:", findings)
