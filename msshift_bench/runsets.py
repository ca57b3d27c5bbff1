"""Run sets: a system's run files for every held-out group of a shift, as a folder.

``<system>/<shift>/<held-out group>.run`` is the ranking of the model trained without that group,
for the test queries of all groups of the shift. A system that was not trained per group gives one
file, ``<system>/<shift>.run``. Each may be compressed: ``.run.gz``, ``.bz2``, ``.xz``, ``.zst``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msshift_bench.errors import Finding, NotFoundError, RunError, UsageError
from msshift_bench.shifts import SHIFTS, Shift

__all__ = ["RunSet", "find_run_sets", "run_path", "sidecar_path"]

_SUFFIXES = ("", ".gz", ".bz2", ".xz", ".zst")


@dataclass(frozen=True, slots=True)
class RunSet:
    """One system's runs for one shift.

    Attributes:
        system: the system's name.
        shift: the shift.
        runs: held-out group -> run file, in the order of the shift's groups; empty for a system
            that was not trained per group.
        single: the run file of a system that was not trained per group, else `None`.
    """

    system: str
    shift: Shift
    runs: Mapping[str, Path]
    single: Path | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """The held-out groups whose run file is not there."""
        if self.single is not None:
            return ()
        return tuple(group for group in self.shift.groups if group not in self.runs)

    def check_complete(self) -> None:
        """Raise if a held-out group has no run file.

        Raises:
            RunError: naming every missing file.
        """
        folder = next(iter(self.runs.values())).parent
        findings = [
            Finding(
                "missing-run",
                f"no run of the model trained without {group!r}: {folder / group}.run",
                fix="add the file, or ask for what can be computed without it (--allow-partial)",
            )
            for group in self.missing
        ]
        if findings:
            raise RunError(f"the run set {self.system}/{self.shift.name} is incomplete:", findings)


def run_path(root: Path, system: str, shift: Shift, held_out: str | None) -> Path:
    """Return where a run file goes below `root`; `held_out` is `None` for a single run."""
    if held_out is None:
        return root / system / f"{shift.name}.run.gz"
    return root / system / shift.name / f"{shift.check_group(held_out)}.run.gz"


def sidecar_path(run: Path) -> Path:
    """Return the path of the JSON beside a run file that says what made it."""
    return run.with_name(run.name.partition(".run")[0] + ".run.json")


def find_run_sets(paths: Iterable[str | Path]) -> list[RunSet]:
    """Find the run sets in folders, each a system's own or one that holds several systems.

    Returns:
        The run sets, by shift in the order of the table, then by system.

    Raises:
        NotFoundError: if a folder does not exist.
        UsageError: if a folder holds no run set, a file of a run set is there twice, or a system
            is there twice.
        RunError: if a file is named after no group of its shift.
    """
    found: dict[tuple[str, str], RunSet] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            raise NotFoundError(f"no folder {path}; run sets are folders: <system>/<shift>/...")
        systems = [path] if _is_system(path) else sorted(filter(_is_system, path.iterdir()))
        if not systems:
            raise UsageError(
                f"{path} holds no run set; expected <system>/<shift>/<held-out group>.run or "
                f"<system>/<shift>.run, with <shift> one of {', '.join(SHIFTS)}"
            )
        for system in systems:
            for run_set in _run_sets_of(system):
                key = (run_set.shift.name, run_set.system)
                if key in found:
                    raise UsageError(f"the system {run_set.system!r} is there twice")
                found[key] = run_set
    order = list(SHIFTS)
    return [found[key] for key in sorted(found, key=lambda key: (order.index(key[0]), key[1]))]


def _is_system(folder: Path) -> bool:
    return folder.is_dir() and any(
        (folder / name).is_dir() or _one_file(folder, name) is not None for name in SHIFTS
    )


def _run_sets_of(folder: Path) -> Iterable[RunSet]:
    system = folder.resolve().name
    for shift in SHIFTS.values():
        single = _one_file(folder, shift.name)
        per_group = folder / shift.name
        if single is not None and per_group.is_dir():
            raise UsageError(f"{folder} holds both {single.name} and a folder {shift.name}/")
        if single is not None:
            yield RunSet(system, shift, {}, single)
        elif per_group.is_dir():
            _check_names(per_group, shift)
            files = {group: _one_file(per_group, group) for group in shift.groups}
            runs = {group: file for group, file in files.items() if file is not None}
            if runs:
                yield RunSet(system, shift, runs)


def _one_file(folder: Path, stem: str) -> Path | None:
    candidates = [folder / f"{stem}.run{suffix}" for suffix in _SUFFIXES]
    present = [candidate for candidate in candidates if candidate.is_file()]
    if len(present) > 1:
        raise UsageError(f"{' and '.join(map(str, present))} are both there; keep one")
    return present[0] if present else None


def _check_names(folder: Path, shift: Shift) -> None:
    known = {f"{group}.run{suffix}" for group in shift.groups for suffix in _SUFFIXES}
    strangers = [
        Finding("unknown-group", f"named after no group of {shift.name}", str(file))
        for file in sorted(folder.iterdir())
        if ".run" in file.suffixes and not file.name.endswith(".json") and file.name not in known
    ]
    if strangers:
        valid = ", ".join(shift.groups)
        raise RunError(f"run files in {folder} are misnamed (groups: {valid}):", strangers)
