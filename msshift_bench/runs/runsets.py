"""Run sets: a system's run files for every held-out group of a shift, as a folder.

``<system>/<shift>/<held-out group>.run`` is the ranking of the model trained without that group,
for the test queries of all groups of the shift. A system that was not trained per group gives one
file, ``<system>/<shift>.run``; one that was trained with several seeds gives a folder for each,
``<system>/<shift>/seed-<n>/<held-out group>.run``. In place of ``.run`` a name may end in ``.trec``
or ``.txt``, and each file may be compressed: ``.run.gz``, ``.bz2``, ``.xz``, ``.zst``. A run may
have a sidecar: a JSON file beside it that records what made it. ``<system>/also/<test set>/`` holds
the system's runs for an extra test set, laid out in the same way. Any other name is an error,
because it may be a run that nobody scores; see `runset_names`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msshift_bench.errors import Finding, NotFoundError, RunError, UsageError, name_of
from msshift_bench.plumbing import is_as_written
from msshift_bench.runs.runset_names import (
    EXTRA_TESTS,
    MODEL_END,
    RUN_ENDS,
    folder_of_runs,
    in_shift_folder,
    in_system_folder,
    misplaced_seeds,
    seed_of,
    split_run_name,
    system_missed,
)
from msshift_bench.shifts import SHIFTS, Shift, in_order

__all__ = [
    "RunSet",
    "extra_runs_path",
    "find_run_sets",
    "model_path",
    "read_sidecar",
    "run_path",
    "sidecar_path",
]


@dataclass(frozen=True, slots=True, repr=False)
class RunSet:
    """One system's runs for one shift.

    Attributes:
        system: the system's name, that of its folder; see `names_apart` for folders of one name.
        shift: the shift.
        folder: the system's folder, resolved.
        runs: seed -> held-out group -> run file, groups in the order of the shift; the seed is
            `None` where there are no seed folders. Empty for a system not trained per group.
        single: the run file of a system that was not trained per group, else `None`.
    """

    system: str
    shift: Shift
    folder: Path
    runs: Mapping[int | None, Mapping[str, Path]]
    single: Path | None = None

    def __repr__(self) -> str:
        return f"<RunSet: {self.system} on {self.shift.name}, {len(self.files)} files>"

    @property
    def files(self) -> list[Path]:
        """The run files."""
        if self.single is not None:
            return [self.single]
        return [path for runs in self.runs.values() for path in runs.values()]

    @property
    def missing(self) -> tuple[tuple[int | None, str], ...]:
        """``(seed, held-out group)`` of every run file that is not there."""
        return tuple(
            (seed, group)
            for seed, runs in self.runs.items()
            for group in self.shift.groups
            if group not in runs
        )

    def check_complete(self) -> None:
        """Raise if a held-out group has no run file.

        Raises:
            RunError: naming every missing file.
        """
        findings = [
            Finding(
                "missing-run",
                f"there is no run of the model trained {self.shift.training_of(repr(group))}",
                str(Path(self.system, self.shift.name, _seed_folder(seed), f"{group}.run")),
                fix="add the file, or ask for what can be computed without it (--allow-partial)",
            )
            for seed, group in self.missing
        ]
        if findings:
            raise RunError(f"the run set {self.system}/{self.shift.name} is incomplete:", findings)


def run_path(
    root: Path, system: str, shift: Shift, held_out: str | None, seed: int | None = None
) -> Path:
    """Return the path of a run file below `root`.

    Args:
        root: the folder of several systems' run sets.
        system: the system's name.
        shift: the shift.
        held_out: the held-out group; `None` for a system that was not trained per group.
        seed: the seed of a replicate; `None` where there is only one.
    """
    if held_out is None:
        return root / system / f"{shift.name}.run.gz"
    folder = root / system / shift.name / _seed_folder(seed)
    return folder / f"{shift.check_group(held_out)}.run.gz"


def _seed_folder(seed: int | None) -> str:
    return "" if seed is None else f"seed-{seed}"


def extra_runs_path(system: Path, test_set: str) -> Path:
    """Return the folder of a system's runs for an extra test set, laid out as a system's own.

    Args:
        system: the system's folder.
        test_set: the test set's name.
    """
    return system / EXTRA_TESTS / test_set


def sidecar_path(run: Path) -> Path:
    """Return the path of a run's sidecar, the JSON file that records what made it."""
    return run.with_name(f"{_stem_of(run)}.run.json")


def read_sidecar(sidecar: Path) -> Mapping[str, Any] | None:
    """Return what a sidecar says; `None` if it is no JSON object, or was changed."""
    try:
        said = json.loads(sidecar.read_bytes())
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and is_as_written(said) else None


def model_path(run: Path) -> Path:
    """Return the path of the folder that holds the model of a run, where it was kept."""
    return run.with_name(f"{_stem_of(run)}{MODEL_END}")


def _stem_of(run: Path) -> str:
    parts = split_run_name(run.name)
    return run.name.partition(".run")[0] if parts is None else parts.stem


def find_run_sets(paths: str | Path | Iterable[str | Path]) -> list[RunSet]:
    """Find the run sets in folders.

    Args:
        paths: one or several folders, each a system's own or one that holds several systems.

    Returns:
        The run sets, by shift in the order of the table; systems that were not trained per group
        first, as in the paper's tables, then by name. A folder that is there twice counts once,
        and systems of one name in several folders are told apart by these.

    Raises:
        NotFoundError: if a folder does not exist.
        UsageError: if a folder holds no run set, or a file of a run set occurs twice.
        RunError: if a run set holds a wrong name; it says the right one.
    """
    folders: dict[Path, Path] = {}
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        if not path.is_dir():
            raise NotFoundError(f"no folder {path}; run sets are folders: <system>/<shift>/...")
        for system in [path] if _is_system(path) else _systems_in(path):
            folders.setdefault(system.resolve(), system)
    names = names_apart(list(folders))
    run_sets = []
    for name, folder in zip(names, folders.values(), strict=True):
        found = list(_run_sets_of(folder, name))
        if not found:
            raise UsageError(_without_runs(folder))
        run_sets += found
    order = in_order({run_set.shift.name for run_set in run_sets})
    return sorted(
        run_sets,
        key=lambda run_set: (
            order.index(run_set.shift.name),
            run_set.single is None,
            run_set.system,
        ),
    )


def names_apart(folders: Sequence[Path]) -> list[str]:
    """Return a name for each of several systems' folders, all different.

    A name is the last part of the folder's path, or as many of its last parts as it takes to tell
    it from others that end alike: ``paper/bm25`` and ``mini/bm25``.

    Args:
        folders: different folders, resolved.

    Raises:
        UsageError: if a name is not UTF-8.
    """
    names = [name_of(folder) for folder in folders]
    parts = 1
    while len(set(names)) < len(names):
        parts += 1
        alike = {name for name in names if names.count(name) > 1}
        names = [
            "/".join(map(name_of, reversed([folder, *folder.parents][:parts])))
            if name in alike
            else name
            for name, folder in zip(names, folders, strict=True)
        ]
    return names


def _is_system(folder: Path) -> bool:
    return folder.is_dir() and bool(_shifts_in(folder))


def _shifts_in(system: Path) -> list[Shift]:
    """Return the shifts that have a folder or a run in a system's folder."""
    names = set()
    for entry in system.iterdir():
        parts = split_run_name(entry.name)
        names.add(entry.name if parts is None or entry.is_dir() else parts.stem)
    return [
        SHIFTS[name]
        for name in in_order(name for name in names if name in SHIFTS)
        if (system / name).is_dir() or _file_of(system, name) is not None
    ]


def _systems_in(folder: Path) -> list[Path]:
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    systems = [entry for entry in entries if _is_system(entry)]
    seeds = misplaced_seeds(folder)
    if (problem := folder_of_runs(folder, beside_systems=bool(systems))) is not None:
        raise UsageError(problem)
    if seeds:
        raise RunError(f"{folder} holds seeds where systems were expected:", seeds)
    findings: list[Finding] = []
    for entry in entries:
        if entry not in systems:
            findings += system_missed(entry)
    if findings:
        raise RunError(f"not every run in {folder} belongs to a run set:", findings)
    if not systems:
        shown = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries[:5]]
        held = ", ".join(shown) + (", ..." if len(entries) > len(shown) else "")
        raise UsageError(
            f"{folder} holds no run set; it holds {held or 'nothing'}; expected "
            "<system>/<shift>/<held-out group>.run or <system>/<shift>.run, with <shift> one of "
            + ", ".join(SHIFTS)
        )
    return systems


def _without_runs(system: Path) -> str:
    expected = [
        f"{system / shift.name} holds none of "
        + ", ".join(f"{group}.run" for group in shift.groups)
        for shift in _shifts_in(system)
    ]
    return f"{system} holds no run: {'; '.join(expected)}"


def _run_sets_of(folder: Path, system: str) -> Iterable[RunSet]:
    _check_entries(folder)
    resolved = folder.resolve()
    for shift in _shifts_in(folder):
        single = _file_of(folder, shift.name)
        per_group = folder / shift.name
        if single is not None and per_group.is_dir():
            raise UsageError(f"{folder} holds both {single.name} and a folder {shift.name}/")
        if single is not None:
            yield RunSet(system, shift, resolved, {}, single)
        elif per_group.is_dir() and (runs := _runs_by_seed(per_group, shift)):
            yield RunSet(system, shift, resolved, runs)


def _check_entries(system: Path) -> None:
    findings = list(in_system_folder(system))
    for shift in _shifts_in(system):
        if (system / shift.name).is_dir():
            findings += in_shift_folder(system / shift.name, shift)
    if findings:
        raise RunError(f"not everything in the run sets of {system} is understood:", findings)


def _runs_by_seed(folder: Path, shift: Shift) -> dict[int | None, dict[str, Path]]:
    folders: dict[int | None, Path] = {None: folder}
    for entry in folder.iterdir():
        if entry.is_dir() and (seed := seed_of(entry.name)) is not None:
            folders[seed] = entry
    runs: dict[int | None, dict[str, Path]] = {}
    for seed in sorted(folders, key=lambda seed: -1 if seed is None else seed):
        files = {group: _file_of(folders[seed], group) for group in shift.groups}
        present = {group: file for group, file in files.items() if file is not None}
        if present or seed is not None:
            runs[seed] = present
    if None in runs and len(runs) > 1:
        raise UsageError(f"{folder} holds run files beside its seed folders; keep one or the other")
    return runs


def _file_of(folder: Path, stem: str) -> Path | None:
    candidates = [folder / f"{stem}{end}" for end in RUN_ENDS]
    present = [candidate for candidate in candidates if candidate.is_file()]
    if len(present) > 1:
        raise UsageError(f"{' and '.join(map(str, present))} are both there; keep one")
    return present[0] if present else None
