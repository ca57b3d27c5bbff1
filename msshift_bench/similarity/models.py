"""Where the models of a run set lie: the bi-encoders that were trained without each group."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msshift_bench.errors import Finding, MissingError, RunError, UnknownNameError, UsageError
from msshift_bench.runs import RunSet, Sidecar, find_run_sets, model_path
from msshift_bench.shifts import Shift

__all__ = ["models_of_shift"]


def models_of_shift(
    models: Mapping[str, str | Path] | str | Path, shift: Shift, seed: int | None, digest: str
) -> dict[str, Path]:
    """Return held-out group -> the folder of the model that was trained without it.

    Args:
        models: such a mapping, or a folder of run sets of one system.
        shift: the shift.
        seed: the seed; by default the smallest.
        digest: the content digest of the data set whose groups the models were trained without.

    Raises:
        NotFoundError: if there is no such folder.
        UsageError: if it holds the runs of several systems or of none that was trained per group,
            or a group has no model in a mapping.
        UnknownNameError: if there is no such seed.
        RunError: if a held-out group has no run, or a model was trained on another data set or
            without another group, as far as the sidecar of its run says.
        MissingError: if a model was not kept.
    """
    if isinstance(models, Mapping):
        for group in models:
            shift.check_group(group)
        if absent := [group for group in shift.groups if group not in models]:
            raise UsageError(f"no model is given for {', '.join(absent)} of {shift.name}")
        return {group: Path(models[group]) for group in shift.groups}
    run_set = _run_set(models, shift)
    chosen = run_set.seeds[0] if seed is None else seed
    if chosen not in run_set.seeds:
        raise UnknownNameError(f"seed of {run_set.folder}", str(seed), map(str, run_set.seeds))
    runs = {group: path for (group, of_seed), path in run_set.runs.items() if of_seed == chosen}
    if absent := [group for group in shift.groups if group not in runs]:
        raise RunError(f"{run_set.folder} holds no run of {shift.name} without {absent[0]}")
    folders = {group: model_path(runs[group]) for group in shift.groups}
    for group, folder in folders.items():
        if not folder.is_dir():
            raise MissingError(
                f"no model was kept of {runs[group]} ({folder.name} beside it): run "
                "'msshift run' with --keep-model"
            )
    _check_models(runs, digest)
    return folders


def _check_models(runs: Mapping[str, Path], digest: str) -> None:
    """Check that models were trained without their groups, and on a data set.

    In another data set, a group is of other queries.
    """
    findings = []
    for group, run in runs.items():
        sidecar = Sidecar.of(run)
        if not sidecar.is_sound:
            findings.append(sidecar.unsound())
        elif sidecar.data not in ("", digest):
            message = f"the model was trained on the data set {sidecar.data[:12]}, and this one "
            message += f"is {digest[:12]}"
            fix = "give the data set that it was trained on (--data), or train it again"
            findings.append(Finding("other-data", message, str(sidecar.path), fix=fix))
        elif sidecar.held_out not in ("", group):
            message = f"the model was trained without {sidecar.held_out}, and not without {group}"
            fix = "put run, sidecar and model back where they were written"
            findings.append(Finding("sidecar-differs", message, str(sidecar.path), fix=fix))
    if findings:
        raise RunError("models and data do not belong together:", findings)


def _run_set(folder: str | Path, shift: Shift) -> RunSet:
    """Return the one run set of a shift in a folder that was trained per group."""
    run_sets = [
        run_set
        for run_set in find_run_sets(folder)
        if run_set.shift == shift and run_set.trained_per_group
    ]
    if len(run_sets) != 1:
        names = ", ".join(run_set.system for run_set in run_sets) or "none"
        raise UsageError(
            f"{folder} holds the runs of {len(run_sets)} systems that were trained per group of "
            f"{shift.name} ({names}), and one is needed: give the folder of one system"
        )
    return run_sets[0]
