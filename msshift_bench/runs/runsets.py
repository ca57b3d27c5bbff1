"""Run sets: a system's run files for every held-out group of a shift, as a folder.

A path below a system's folder has a place in its run sets, if it is one of::

    <shift>.run                           the one run of a system that was not trained per group
    <shift>/<held-out group>.run          that of the model trained without the group
    <shift>/seed-<n>/<held-out group>.run the same, where there are several seeds

Each is the ranking for the test queries of all groups of the shift. In place of ``.run`` a name may
end in ``.trec``, ``.res`` (PyTerrier's) or ``.txt``, and each file may be compressed: ``.run.gz``,
``.bz2``, ``.xz``, ``.zst``; ranx writes ``.parquet``. Beside ``short.run`` may stand
``short.run.json``, its sidecar, and ``short.model``, the folder of its model.
``<system>/also/<test set>/`` holds the system's runs for an extra test set, laid out in the same
way. Names that begin with a dot are ignored: files that are being written, a baseline's unfinished
work, leftovers of file managers.

Any other run is an error: in a misspelt folder it would otherwise be left out in silence. So is a
file of a shift's or group's name, unless its ending says that it is a text, a table or a picture;
in the place of a run, a table is an error, too.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from msshift_bench.errors import Finding, NotFoundError, RunError, UsageError, name_of
from msshift_bench.shifts import SHIFTS, Shift, in_order, several

_EXTRA_TESTS = "also"
_SIDECAR_END, _MODEL_END = ".run.json", ".model"
_RUN_END = r"(?:(?:\.run|\.trec|\.res|\.txt)(?:\.gz|\.bz2|\.xz|\.zst)?|\.parquet)"
_END = re.compile(rf"(?:\.run\.json|{_RUN_END})$")
_PATH = re.compile(
    rf"""(?P<shift>[^/.]+)
    (?: (?P<only>{_RUN_END}|\.run\.json)
      | (?:/seed-(?P<seed>0|[1-9][0-9]*))?
        (?:/(?P<group>[^/.]+)(?P<end>{_RUN_END}|\.run\.json|\.model))?
    )""",
    re.VERBOSE,
)
"""A path below a system's folder that has a place, if its shift and its group are known."""

_Kind = Literal["runs", "run", "sidecar", "model"]
_KINDS: Mapping[str, _Kind] = {"": "runs", _SIDECAR_END: "sidecar", _MODEL_END: "model"}
"""What a path is by its end; others are runs' ends. ``"runs"`` is a folder of a shift or seed."""

_DEEPEST = 3
"""Names in the longest path of a run below a system's folder; deeper none is looked for."""

_OF_RUNS = {".run", ".trec", ".res"}
"""Suffixes of files that seem to be runs wherever they stand."""

_NO_RUNS = {".csv", ".html", ".json", ".log", ".md", ".pdf", ".png", ".svg", ".tex", ".toml"}
"""Last suffixes of files that are no runs, whatever their names."""

_TABLES = {".csv", ".json", ".jsonl"}
"""Last suffixes of files that other tools write runs to, and that no command reads as runs."""

_KNOWN_STEMS = {name for shift in SHIFTS.values() for name in (shift.name, *shift.groups)}
_LAYOUT = (
    "<system>/<shift>/<held-out group>.run, <system>/<shift>/seed-<n>/<held-out group>.run or "
    f"<system>/<shift>.run, with <shift> one of {', '.join(SHIFTS)}"
)
_ELSEWHERE = "move it elsewhere, or begin its name with a dot"


FOR_ALL = "all"
"""The model of a system that is one ranking for all groups, such as BM25."""

Model = tuple[str, int | None]
"""A model: the group that it was trained without, or `FOR_ALL`, and its seed."""


@dataclass(frozen=True, slots=True, repr=False)
class RunSet:
    """One system's runs for one shift.

    Attributes:
        system: the system's name, that of its folder; see `names_apart` for folders of one name.
        shift: the shift.
        folder: the system's folder, resolved.
        runs: model -> its run file, by seed, groups in the order of the shift.
        seeds: the seeds, of which some may have no run; ``(None,)`` where there is only one, and
            none of a system not trained per group.
    """

    system: str
    shift: Shift
    folder: Path
    runs: Mapping[Model, Path]
    seeds: tuple[int | None, ...]

    def __repr__(self) -> str:
        return f"<RunSet: {self.system} on {self.shift.name}, {len(self.runs)} files>"

    @property
    def files(self) -> list[Path]:
        """The run files."""
        return list(self.runs.values())

    @property
    def trained_per_group(self) -> bool:
        """Whether its runs are those of models that were trained without a group."""
        return bool(self.seeds)

    @property
    def missing(self) -> tuple[tuple[int | None, str], ...]:
        """``(seed, held-out group)`` of every run file that is not there."""
        return tuple(
            (seed, group)
            for seed in self.seeds
            for group in self.shift.groups
            if (group, seed) not in self.runs
        )

    def check_complete(self) -> None:
        """Raise if a held-out group has no run file.

        Raises:
            RunError: naming every missing file.
        """
        lacking = {seed for seed, _ in self.missing}
        complete_seeds = [f"seed-{seed}" for seed in self.seeds if seed not in lacking]
        fix = "add the file, or go on without it (--allow partial)"
        fix += f"; {' and '.join(complete_seeds)} can be evaluated alone" if complete_seeds else ""
        findings = [
            Finding(
                "missing-run",
                f"there is no run of the model trained {self.shift.training_of(repr(group))}",
                str(Path(self.system, self.shift.name, _seed_folder(seed), f"{group}.run")),
                fix=fix,
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
    return system / _EXTRA_TESTS / test_set


def sidecar_path(run: Path) -> Path:
    """Return the path of a run's sidecar, the JSON file that records what made it."""
    return run.with_name(f"{_stem_of(run)}{_SIDECAR_END}")


def model_path(run: Path) -> Path:
    """Return the path of the folder that holds the model of a run, where it was kept."""
    return run.with_name(f"{_stem_of(run)}{_MODEL_END}")


def _stem_of(run: Path) -> str:
    end = _END.search(run.name)
    return run.name[: end.start()] if end else run.name.partition(".run")[0]


def system_of(run: Path) -> str:
    """Return the name of the system's folder that a run is to lie in; "" if it has no place."""
    parts = run.absolute().parts
    for depth in range(1, min(_DEEPEST + 1, len(parts))):
        place = _place_of(Path(*parts[-depth:]))
        if place is not None and place.what == "run":
            *above, name = parts[:-depth]
            return above[-2] if above[-1:] == [_EXTRA_TESTS] and len(above) > 1 else name
    return ""


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
        UsageError: if there is no folder, one holds no run set, or two files claim one place in it.
        RunError: if a folder holds a run that has no place in a run set; it says the nearest.

    Examples:
        >>> for run_set in find_run_sets("runs"):
        ...     print(run_set.system, run_set.shift.name, len(run_set.files))
        dense wh-words 3
        sparse wh-words 3
        dense length 2
        sparse length 2
    """
    parents = [Path(path) for path in several(paths)]
    if not parents:
        raise UsageError("name at least one folder of run sets")
    folders: dict[Path, Path] = {}
    for path in parents:
        if not path.is_dir():
            raise NotFoundError(f"no folder {path}; run sets are folders: <system>/<shift>/...")
        for system in [path] if _is_system(path) else _systems_in(path):
            folders.setdefault(system.resolve(), system)
    names = names_apart(list(folders))
    run_sets = [
        run_set
        for name, folder in zip(names, folders.values(), strict=True)
        for run_set in _read_system(folder, name)
    ]
    order = in_order({run_set.shift.name for run_set in run_sets})
    return sorted(
        run_sets,
        key=lambda run_set: (
            order.index(run_set.shift.name),
            run_set.trained_per_group,
            run_set.system,
        ),
    )


def check_layout(run: Path) -> None:
    """Check that a run to be written has the layout of the run set that it belongs to.

    Raises:
        UsageError: if the folder has a run of another layout, which `find_run_sets` would refuse.
    """
    for depth in range(1, _DEEPEST + 1):
        new, folder = _place_of(Path(*run.parts[-depth:])), Path(*run.parts[:-depth])
        if new is None or new.what != "run" or not folder.is_dir():
            continue
        for path, place in _entries(folder, folder):
            if place is None or (place.shift, place.what) != (new.shift, new.what):
                continue
            if place.form != new.form:
                raise UsageError(
                    f"{path} has another layout than {run}, and a run set has one: with several "
                    "seeds all are in folders seed-<n>; choose another --name or --out, or remove "
                    f"{path} and the runs next to it"
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


class _Place(NamedTuple):
    """What stands at a path below a system's folder.

    Attributes:
        shift: the name of its shift.
        seed: its seed; `None` where there is none.
        group: its held-out group; `None` where there is none.
        what: what it is.
    """

    shift: str
    seed: int | None
    group: str | None
    what: _Kind

    @property
    def form(self) -> tuple[bool, bool]:
        """Its layout: whether it is of no seed, and whether it is one run for all groups."""
        return self.seed is None, self.what == "run" and self.group is None

    def is_at(self, path: Path) -> bool:
        """Whether there is a folder, if it is one of runs or a model, or else a file."""
        return path.is_dir() if self.what in ("runs", "model") else path.is_file()


def _place_of(path: Path) -> _Place | None:
    """Return the place of a path, relative to a system's folder; `None` if it has none."""
    match = _PATH.fullmatch(path.as_posix())
    if match is None or match["shift"] not in SHIFTS:
        return None
    if match["group"] is not None and match["group"] not in SHIFTS[match["shift"]].groups:
        return None
    seed = None if match["seed"] is None else int(match["seed"])
    what = _KINDS.get(match["only"] or match["end"] or "", "run")
    return _Place(match["shift"], seed, match["group"], what)


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _is_system(folder: Path) -> bool:
    """Whether a folder, which is no seed's, holds a folder or a run named after a shift."""
    if not folder.is_dir() or _meant_seed(folder.name) is not None:
        return False
    placed = ((entry, _place_of(Path(entry.name))) for entry in _visible(folder))
    return any(
        place is not None and place.what in ("runs", "run") and place.is_at(entry)
        for entry, place in placed
    )


def _systems_in(folder: Path) -> list[Path]:
    """Return the systems' folders in a folder that is none itself."""
    # Nobody may read lost+found, where the folder is that of a disk.
    entries = [entry for entry in _visible(folder) if os.access(entry, os.R_OK)]
    systems = [entry for entry in entries if _is_system(entry)]
    findings = [
        _without_place(run, Path("<system>"))
        for entry in entries
        if entry not in systems
        for run in _runs_below(entry, texts=not systems)
    ]
    if findings:
        raise RunError(f"not every run in {folder} has a place in a run set:", findings)
    if not systems:
        shown = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries[:5]]
        names = ", ".join(shown) + (", ..." if len(entries) > len(shown) else "")
        raise UsageError(
            f"{folder} holds no run set; it holds {names or 'nothing'}; expected {_LAYOUT}"
        )
    return systems


def _read_system(folder: Path, system: str) -> list[RunSet]:
    """Return the run sets of a system's folder."""
    placed: dict[str, list[tuple[_Place, Path]]] = {}
    findings = []
    for path, place in _entries(folder, folder):
        if place is None:
            findings.append(_without_place(path, folder))
        elif place.what == "run" or place.seed is not None:
            placed.setdefault(place.shift, []).append((place, path))
    if findings:
        raise RunError(f"not everything in {folder} has a place in a run set:", findings)
    if not placed:
        raise UsageError(f"{folder} holds no run; expected {_LAYOUT}")
    return [
        _run_set(system, SHIFTS[shift], folder.resolve(), placed[shift])
        for shift in in_order(placed)
    ]


def _run_set(
    system: str, shift: Shift, folder: Path, placed: Sequence[tuple[_Place, Path]]
) -> RunSet:
    """Make a run set of a shift's runs, and of folders of seeds, which may hold none."""
    runs: dict[Model, Path] = {}
    for place, path in placed:
        if place.what == "run":
            model = place.group or FOR_ALL, place.seed
            if model in runs:
                raise UsageError(f"{runs[model]} and {path} are both there; keep one")
            runs[model] = path
    forms = {place.form: path for place, path in placed}
    if len(forms) > 1:
        first, second, *_ = forms.values()
        raise UsageError(f"{first} and {second} are both there; keep one or the other")
    if (FOR_ALL, None) in runs:
        return RunSet(system, shift, folder, runs, ())
    seeds = sorted(
        {place.seed for place, _ in placed}, key=lambda seed: -1 if seed is None else seed
    )
    models = [(group, seed) for seed in seeds for group in shift.groups]
    of_models = {model: runs[model] for model in models if model in runs}
    return RunSet(system, shift, folder, of_models, tuple(seeds))


def _entries(system: Path, folder: Path) -> Iterator[tuple[Path, _Place | None]]:
    """Yield what a system's folder holds of run sets, and its place; `None` if it has none.

    Other things, such as a ``system.toml``, may stand in the folder itself.
    """
    for entry in _visible(folder):
        place = _place_of(entry.relative_to(system))
        if place is not None:
            yield entry, place if place.is_at(entry) else None
            if place.what == "runs" and entry.is_dir():
                yield from _entries(system, entry)
        elif folder != system or _is_table_of_run(Path(entry.name)):
            yield entry, None
        elif entry.name != _EXTRA_TESTS:
            yield from ((run, None) for run in _runs_below(entry, texts=False))


def _runs_below(entry: Path, *, texts: bool) -> Iterator[Path]:
    """Yield what seems to be a run, in a folder and below, or as a file.

    Args:
        entry: the folder or file.
        texts: whether a text named after a group or shift seems to be one.
    """
    depths = ("/".join("*" * depth) for depth in range(1, _DEEPEST + 2))
    for path in [entry, *(path for names in depths for path in sorted(entry.glob(names)))]:
        is_hidden = any(name.startswith(".") for name in path.relative_to(entry).parts)
        suffixes = set(path.suffixes)
        is_known = _stem(path) in _KNOWN_STEMS and (texts or ".txt" not in suffixes)
        seems_run = (
            (is_known or suffixes & _OF_RUNS) and path.suffix not in _NO_RUNS
        ) or _is_table_of_run(path.relative_to(entry))
        if path.is_file() and not is_hidden and seems_run:
            yield path


def _is_table_of_run(path: Path) -> bool:
    """Whether a table is in the place of a run, by its path below a system's folder."""
    return path.suffix in _TABLES and _place_of(path.with_suffix(".run")) is not None


def _without_place(path: Path, system: Path) -> Finding:
    """Return the finding for what has no place in a run set, with the nearest path that has one.

    Args:
        path: a run, or a folder.
        system: the folder of its system; ``<system>``, if it is in none that was given.
    """
    is_inside = path.is_relative_to(system)
    names = path.relative_to(system).parts if is_inside else path.absolute().parts[-_DEEPEST:]
    meant = _nearest_place(names, is_folder=path.is_dir())
    if not path.exists():
        fix = "its link leads nowhere, or in a circle; put the file there"
    elif meant is not None and path.suffix in _TABLES and not path.name.endswith(_SIDECAR_END):
        fix = f"write it as a run, {meant} (write_run), if it is one; else {_ELSEWHERE}"
    elif meant is None:
        fix = f"{_ELSEWHERE}; runs stand in {_LAYOUT}"
        if names[0] in SHIFTS:
            runs = ", ".join(f"{group}.run" for group in SHIFTS[names[0]].groups)
            fix = f"{_ELSEWHERE}; runs of {names[0]} are called {runs}, or .run.gz and so on"
    elif meant.parts == names[-len(meant.parts) :] and not is_inside:
        fix = f"it is a run of {path.absolute().parents[len(meant.parts) - 1]}: give that folder"
    elif (system / meant).exists():
        fix = f"{system / meant} is there as well: keep one of them"
    else:
        fix = f"move it to {system / meant}, if it belongs there; else {_ELSEWHERE}"
    what = "a folder" if path.is_dir() else "a file"
    return Finding("no-place", f"{what} that has no place in a run set", str(path), fix=fix)


def _nearest_place(names: Sequence[str], *, is_folder: bool) -> Path | None:
    """Return the path with a place that names of folders and a file most likely mean."""
    folders = list(names) if is_folder else list(names[:-1])
    seeds = [seed for seed in map(_meant_seed, folders) if seed is not None][:1]
    near = [name if name in SHIFTS else _near(name, SHIFTS) for name in folders]
    shifts = [shift for shift in near if shift is not None]
    place = [f"seed-{seed}" for seed in seeds]
    if is_folder:
        return Path(shifts[0], *place) if shifts and seeds else None
    stem, end = _stem(Path(names[-1])), _END.search(names[-1])
    meant = {
        shift: group
        for shift in shifts[:1] or SHIFTS
        if (group := _near(stem, SHIFTS[shift].groups, within=True)) is not None
    }
    suffix = end[0] if end else ".run"
    if len(meant) == 1:
        ((shift, group),) = meant.items()
        return Path(shift, *place, group + suffix)
    single = None if shifts else _near(stem, SHIFTS)
    return None if single is None else Path(single + suffix)


def _meant_seed(folder: str) -> int | None:
    """Return the seed that a folder's name states, as ``seed-2`` does, or ``Seed_2``."""
    match = re.fullmatch("seed[^a-z0-9]*([0-9]+)", folder.lower())
    return int(match[1]) if match else None


def _stem(file: Path) -> str:
    return file.name.partition(".")[0]


def _near(name: str, names: Iterable[str], *, within: bool = False) -> str | None:
    """Return which of some names a name means: equal but for case, or the nearest.

    Args:
        name: the name.
        names: what it may mean.
        within: whether a name also means the only one that stands in it as a word.
    """
    lowered = {known.lower(): known for known in names}
    plain = name.lower().replace("_", "-")
    near = difflib.get_close_matches(plain, lowered, n=1, cutoff=0.7)
    if not near and within:
        near = [known for known in lowered if known in re.split("[^a-z0-9]+", plain)]
    return lowered[near[0]] if len(near) == 1 else None
