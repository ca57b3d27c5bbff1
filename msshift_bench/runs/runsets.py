"""Run sets: a system's run files for every held-out group of a shift, as a folder.

Paths of runs below a system's folder::

    <shift>.run                           the one run of a system that was not trained per group
    <shift>/seed-<n>/all.run              the same, where there are several seeds
    <shift>/<held-out group>.run          the run of the model trained without the group
    <shift>/seed-<n>/<held-out group>.run the same, where there are several seeds

Each is the ranking for the test queries of all groups of the shift. Instead of ``.run``, a name may
have another ending of `RUN_FORMATS`, such as ``.json``. Files may be compressed: ``.run.gz``,
``.bz2``, ``.xz``, ``.zst``. ``short.run.json`` is the sidecar of ``short.run``, and ``short.model``
is the folder of its model. ``<system>/extra/<test set>/`` (``also`` in earlier versions) has the
system's runs for an extra test set, with the same layout. Names that begin with a dot are ignored,
such as unfinished files.

Any other file or folder in a run set is an error. A run in another folder of the system is an error
too, as the folder's name may be misspelt. A file with the name of a shift or group counts as a run,
unless its ending is of a text, a table or a picture. In the place of a run, a table is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from msshift_bench.errors import Finding, NotFoundError, RunError, UsageError, name_of
from msshift_bench.runs.formats import RUN_FORMATS
from msshift_bench.runs.predictions import find_predictions
from msshift_bench.shifts import SHIFTS, Shift, as_list, grouped, in_order

_EXTRA_TESTS = ("extra", "also")
"""Names of the folder of a system's runs for extra test sets; the second is of earlier versions."""
_SIDECAR_END, _MODEL_END = ".run.json", ".model"
_ENDINGS = sorted({re.escape(end) for row in RUN_FORMATS.values() for end in row.endings})
_RUN_END = rf"(?:{'|'.join(_ENDINGS)})(?:\.gz|\.bz2|\.xz|\.zst)?"
_END = re.compile(rf"(?:\.run\.json|{_RUN_END})$")
_PATH = re.compile(
    rf"""(?P<shift>[^/.]+)
    (?: (?P<only>{_RUN_END}|\.run\.json)
      | (?:/seed-(?P<seed>0|[1-9][0-9]*))?
        (?:/(?P<group>[^/.]+)(?P<end>{_RUN_END}|\.run\.json|\.model))?
    )""",
    re.VERBOSE,
)
"""Pattern of paths in run sets, below a system's folder."""

_Kind = Literal["runs", "run", "sidecar", "model"]
_KINDS: Mapping[str, _Kind] = {"": "runs", _SIDECAR_END: "sidecar", _MODEL_END: "model"}
"""End of a path -> its kind; other ends are of runs. ``"runs"`` is a folder of a shift or seed."""

_DEEPEST = 3
"""Number of names in the longest path of a run below a system's folder."""

_OF_RUNS = {".run", ".trec", ".res"}
"""Suffixes of files that count as runs in any folder."""

_NO_RUNS = {".csv", ".html", ".log", ".md", ".pdf", ".png", ".svg", ".tex", ".toml"}
"""Last suffixes of files that are never runs."""

_TEXTS = {".txt", ".json", ".jsonl"}
"""Suffixes of files that are runs only in folders of run sets."""

_TABLES = {".csv"}
"""Last suffixes of other tools' run files that no command reads."""

_KNOWN_STEMS = {name for shift in SHIFTS.values() for name in (shift.name, *shift.groups)}
_LAYOUT = (
    "<system>/<shift>/<held-out group>.run, <system>/<shift>/seed-<n>/<held-out group>.run, "
    "<system>/<shift>.run or <system>/<shift>/seed-<n>/all.run, with <shift> one of "
    f"{', '.join(SHIFTS)} or a shift of labels of the data set (--data)"
)


FOR_ALL = "all"
"""The model of a system with one ranking for all groups, such as BM25."""

Model = tuple[str, int | None]
"""A model: the group that it was trained without, or `FOR_ALL`, and its seed."""


class Listing:
    """Lists the entries of folders, and caches them by resolved path.

    Attributes:
        shifts: name -> shift, the possible shifts of runs; see `shifts.known_shifts`.
    """

    def __init__(self, shifts: Mapping[str, Shift] = SHIFTS) -> None:
        self.shifts = shifts
        self._names: dict[str, list[str]] = {}

    def __call__(self, folder: Path) -> list[Path]:
        """Return the entries of a folder, sorted, without names that begin with a dot."""
        key = os.path.realpath(folder)
        if key not in self._names:
            names = (entry.name for entry in Path(key).iterdir())
            self._names[key] = sorted(name for name in names if not name.startswith("."))
        return [folder / name for name in self._names[key]]


def are_per_group(models: Iterable[Model]) -> bool:
    """Return whether each model was trained without one group; true without models."""
    return all(group != FOR_ALL for group, _ in models)


@dataclass(frozen=True, slots=True, repr=False)
class RunSet:
    """One system's runs for one shift.

    Attributes:
        system: the system's name, from its folder; see `unique_names` for folders of equal names.
        shift: the shift.
        folder: the system's folder, resolved.
        runs: model -> its run file, by seed and by group in the order of the shift; for MTEB's
            predictions, the model's folder.
        seeds: the seeds, some of which may have no run; ``(None,)`` for runs without seed, and
            empty for one model for all groups without seed.
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
        """The run files in the order of `runs`; folders for MTEB's predictions."""
        return list(self.runs.values())

    @property
    def trained_per_group(self) -> bool:
        """Whether each of its models was trained without one group."""
        return are_per_group(self.runs)

    @property
    def missing(self) -> tuple[tuple[int | None, str], ...]:
        """``(seed, held-out group or `FOR_ALL`)`` of every missing run file."""
        groups = self.shift.groups if self.trained_per_group else [FOR_ALL]
        models = [(group, seed) for seed in self.seeds for group in groups]
        return tuple((seed, group) for group, seed in models if (group, seed) not in self.runs)


def run_path(
    root: Path, system: str, shift: Shift, held_out: str | None, seed: int | None = None
) -> Path:
    """Return the path of a run file below `root`.

    Args:
        root: the folder of several systems' run sets.
        system: the system's name.
        shift: the shift.
        held_out: the held-out group; `None` for a system that was not trained per group.
        seed: the seed of a replicate; `None` without seeds.

    Raises:
        UnknownNameError: if the shift has no such group.
    """
    if held_out is None and seed is None:
        return root / system / f"{shift.name}.run.gz"
    folder = root / system / shift.name / seed_folder(seed)
    return folder / f"{FOR_ALL if held_out is None else shift.check_group(held_out)}.run.gz"


def seed_folder(seed: int | None) -> str:
    """Return the name of the folder of a seed's runs; "" for `None`."""
    return "" if seed is None else f"seed-{seed}"


def extra_runs_path(system: Path, test_set: str) -> Path:
    """Return the folder of a system's runs for an extra test set, which may not exist.

    Args:
        system: the system's folder.
        test_set: the test set's name.

    Raises:
        UsageError: if both ``extra`` and ``also`` have a folder for the test set.
    """
    new, old = (system / name / test_set for name in _EXTRA_TESTS)
    if new.is_dir() and old.is_dir():
        raise UsageError(f"{new} and {old} are both there; keep one")
    return old if old.is_dir() else new


def sidecar_path(run: Path) -> Path:
    """Return the path of a run's sidecar, the JSON file with its provenance."""
    return run.with_name(f"{_stem_of(run)}{_SIDECAR_END}")


def model_path(run: Path) -> Path:
    """Return the path of the folder of a run's model, which exists if the model was kept."""
    return run.with_name(f"{_stem_of(run)}{_MODEL_END}")


def _stem_of(run: Path) -> str:
    end = _END.search(run.name)
    return run.name[: end.start()] if end else run.name.partition(".run")[0]


def system_of(run: Path) -> str:
    """Return the system's folder name, if a run's path has the layout of a run set; else ""."""
    parts = run.absolute().parts
    for depth in range(1, min(_DEEPEST + 1, len(parts))):
        place = _place_of(Path(*parts[-depth:]))
        if place is not None and place.what == "run":
            *above, name = parts[:-depth]
            return above[-2] if len(above) > 1 and above[-1] in _EXTRA_TESTS else name
    return ""


def find_run_sets(
    paths: str | Path | Iterable[str | Path], *, listing: Listing | None = None
) -> list[RunSet]:
    """Return the run sets in folders.

    Args:
        paths: one or several folders, each of one system or of several systems.
        listing: lists folders; shared between calls, it lists each folder once. For labelled
            shifts, it needs the shifts of their data set.

    Returns:
        The run sets, by shift, see `shifts.in_order`; systems that were not trained per group
        first, as in the paper's tables, then by name. A repeated folder counts once. Systems with
        equal names get more parts of their paths.

    Raises:
        NotFoundError: if a folder does not exist.
        UsageError: if `paths` is empty, a folder has no run set, a run has two files, a shift has
            runs of two layouts, or a folder's name is not UTF-8.
        RunError: if a run is in the wrong place, or a run set has an unexpected file.

    Examples:
        >>> for run_set in find_run_sets("runs"):
        ...     print(run_set.system, run_set.shift.name, len(run_set.files))
        dense wh-words 3
        sparse wh-words 3
        dense length 2
        sparse length 2
    """
    parents, listed = [Path(path) for path in as_list(paths)], listing or Listing()
    if not parents:
        raise UsageError("name at least one folder of run sets")
    folders: dict[Path, Path] = {}
    predicted: dict[tuple[Path, str, str | None, Path], None] = {}
    for path in parents:
        if not path.is_dir():
            raise NotFoundError(f"no folder {path}; run sets are folders: <system>/<shift>/...")
        predictions = dict.fromkeys(find_predictions(path, listed, listed.shifts))
        predicted |= predictions
        if predictions and not any(_is_system(entry, listed) for entry in (path, *listed(path))):
            continue
        for system in [path] if _is_system(path, listed) else _systems_in(path, listed):
            folders.setdefault(system.resolve(), system)
    by_place = grouped(
        ((system, shift), (held_out, model)) for system, shift, held_out, model in predicted
    )
    systems = list(dict.fromkeys([*folders, *(system for system, _ in by_place)]))
    names = dict(zip(systems, unique_names(systems), strict=True))
    run_sets = [
        run_set
        for resolved, folder in folders.items()
        for run_set in _read_system(folder, names[resolved], listed)
    ]
    run_sets += [
        _run_set(
            names[system].replace("__", "/"),
            listed.shifts[shift],
            system,
            [(_Place(shift, None, held_out, "run"), model) for held_out, model in models],
        )
        for (system, shift), models in by_place.items()
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


def check_layout(run: Path, listing: Listing) -> None:
    """Check that a run to be written has the layout of its run set.

    Args:
        run: the run file.
        listing: the listing, the same for all runs of a plan.

    Raises:
        UsageError: if the folder has a run of another layout, an error in `find_run_sets`.
    """
    for depth in range(1, _DEEPEST + 1):
        below, folder = Path(*run.parts[-depth:]), Path(*run.parts[:-depth])
        new = _place_of(below, listing.shifts)
        if new is None or new.what != "run" or not folder.is_dir():
            continue
        for path, place in _entries(folder, folder, listing):
            of_shift = place is not None and (place.shift, place.what) == (new.shift, new.what)
            if place is not None and of_shift and place.form != new.form:
                raise UsageError(
                    f"{path} has another layout than {run}, and a run set has one: with several "
                    "seeds all are in folders seed-<n>; choose another --name or --out, or remove "
                    f"{path} and the runs next to it"
                )


def unique_names(folders: Sequence[Path]) -> list[str]:
    """Return a unique name for each of several systems' folders.

    A name is the last part of the folder's path, with more parts if needed to be unique:
    ``paper/bm25`` and ``mini/bm25``.

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
    """Shift, seed, group and kind of a path below a system's folder.

    Attributes:
        shift: the name of its shift.
        seed: its seed, or `None`.
        group: its held-out group; `None` for all groups, or for a folder.
        what: its kind, see `_KINDS`.
    """

    shift: str
    seed: int | None
    group: str | None
    what: _Kind

    @property
    def form(self) -> tuple[bool, bool]:
        """Its layout: whether it has no seed, and whether it is one run for all groups."""
        return self.seed is None, self.what == "run" and self.group is None

    def is_at(self, path: Path) -> bool:
        """Return whether the path is a folder, for kinds ``runs`` and ``model``, or else a file."""
        return path.is_dir() if self.what in ("runs", "model") else path.is_file()


def _place_of(path: Path, shifts: Mapping[str, Shift] = SHIFTS) -> _Place | None:
    """Return the place of a path below a system's folder.

    `None` is returned for paths of another layout, or of an unknown shift or group.
    """
    match = _PATH.fullmatch(path.as_posix())
    shift = shifts.get(match["shift"]) if match else None
    if match is None or shift is None:
        return None
    if match["group"] not in (None, *shift.groups, match["seed"] and FOR_ALL):
        return None
    group = None if match["group"] == FOR_ALL else match["group"]
    return _Place(
        shift.name,
        None if match["seed"] is None else int(match["seed"]),
        group,
        _KINDS.get(match["only"] or match["end"] or "", "run"),
    )


def _is_system(folder: Path, listed: Listing) -> bool:
    """Return whether a folder, not of a seed, has a folder or a run named after a shift."""
    if not folder.is_dir() or re.fullmatch("seed-[0-9]+", folder.name):
        return False
    placed = ((entry, _place_of(Path(entry.name), listed.shifts)) for entry in listed(folder))
    return any(
        place is not None and place.what in ("runs", "run") and place.is_at(entry)
        for entry, place in placed
    )


def _systems_in(folder: Path, listed: Listing) -> list[Path]:
    """Return the systems' folders in a folder; raise `UsageError` if there are none."""
    # lost+found, at the root of a disk, is not readable.
    entries = [entry for entry in listed(folder) if os.access(entry, os.R_OK)]
    systems = [entry for entry in entries if _is_system(entry, listed)]
    others = [entry for entry in entries if entry not in systems]
    _refuse_unexpected(folder, (run for entry in others for run in _find_runs_below(entry, listed)))
    if not systems:
        shown = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries[:5]]
        names = ", ".join(shown) + (", ..." if len(entries) > len(shown) else "")
        raise UsageError(
            f"{folder} holds no run set; it holds {names or 'nothing'}; expected {_LAYOUT}"
        )
    return systems


def _read_system(folder: Path, system: str, listed: Listing) -> list[RunSet]:
    entries = list(_entries(folder, folder, listed))
    _refuse_unexpected(folder, (path for path, place in entries if place is None))
    placed = [
        (place, path)
        for path, place in entries
        if place is not None and (place.what == "run" or place.seed is not None)
    ]
    if not placed:
        raise UsageError(f"{folder} holds no run; expected {_LAYOUT}")
    return [
        _run_set(system, SHIFTS[name], folder.resolve(), [p for p in placed if p[0].shift == name])
        for name in in_order({place.shift for place, _ in placed})
    ]


def _run_set(
    system: str, shift: Shift, folder: Path, placed: Sequence[tuple[_Place, Path]]
) -> RunSet:
    """Return a run set from a shift's runs and folders of seeds, which may be empty.

    Two files of one run, or two layouts, raise `UsageError`.
    """
    runs: dict[Model, Path] = {}
    for place, path in placed:
        model = place.group or FOR_ALL, place.seed
        if place.what == "run" and runs.setdefault(model, path) is not path:
            raise UsageError(f"{runs[model]} and {path} are both there; keep one")
    of_all = (False, True) in {place.form for place, _ in placed}
    # A folder of a seed may have runs of either layout.
    forms = {place.form: path for place, path in placed if place.what == "run" or not of_all}
    if len(forms) > 1:
        first, second, *_ = forms.values()
        raise UsageError(f"{first} and {second} are both there; keep one or the other")
    in_turn = sorted(
        {place.seed for place, _ in placed if (FOR_ALL, None) not in runs},
        key=lambda seed: -1 if seed is None else seed,
    )
    groups = [FOR_ALL] if of_all else shift.groups
    models = [(FOR_ALL, None), *((group, seed) for seed in in_turn for group in groups)]
    found = {model: runs[model] for model in models if model in runs}
    return RunSet(system, shift, folder, found, tuple(in_turn))


def _entries(system: Path, folder: Path, listed: Listing) -> Iterator[tuple[Path, _Place | None]]:
    """Yield every path of a system's run sets with its place; `None` for unexpected paths.

    Other files in the system's folder, such as a ``system.toml``, are skipped.
    """
    for entry in listed(folder):
        place = _place_of(entry.relative_to(system), listed.shifts)
        if place is not None:
            yield entry, place if place.is_at(entry) else None
            if place.what == "runs" and entry.is_dir():
                yield from _entries(system, entry, listed)
        elif folder != system or _is_table_of_run(Path(entry.name), listed.shifts):
            yield entry, None
        elif entry.name not in _EXTRA_TESTS:
            yield from ((run, None) for run in _find_runs_below(entry, listed))


def _find_runs_below(top: Path, listed: Listing, names: tuple[str, ...] = ()) -> Iterator[Path]:
    """Yield the files named like runs, in a folder and below; `top` may be a file."""
    path = top.joinpath(*names)
    if path.is_dir():
        for entry in listed(path) if len(names) <= _DEEPEST and os.access(path, os.R_OK) else ():
            yield from _find_runs_below(top, listed, (*names, entry.name))
        return
    suffixes = set(path.suffixes)
    is_known = path.name.partition(".")[0] in _KNOWN_STEMS and not suffixes & _TEXTS
    is_named = (is_known or suffixes & _OF_RUNS) and path.suffix not in _NO_RUNS
    is_named = is_named and not path.name.endswith(_SIDECAR_END)
    if path.is_file() and (is_named or _is_table_of_run(Path(*names), listed.shifts)):
        yield path


def _is_table_of_run(path: Path, shifts: Mapping[str, Shift]) -> bool:
    """Return whether a table, by its path below a system's folder, replaces a run."""
    return path.suffix in _TABLES and _place_of(path.with_suffix(".run"), shifts) is not None


def _refuse_unexpected(folder: Path, paths: Iterable[Path]) -> None:
    """Raise `RunError` if there are paths, with a finding for each."""
    lost = "its link leads nowhere, or in a circle; put the file there"
    fix = f"expected {_LAYOUT}; move it elsewhere, or begin its name with a dot"
    findings = [
        Finding(
            "no-place",
            f"unexpected {'folder' if path.is_dir() else 'file'} in a run set",
            str(path),
            fix=fix if path.exists() else lost,
        )
        for path in paths
    ]
    if findings:
        raise RunError(f"unexpected files in {folder}:", findings)
