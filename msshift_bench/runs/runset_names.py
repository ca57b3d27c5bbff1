"""Names in the folders of run sets: which ones are understood, and how to rename others.

Any other name in a run set is an error: a misspelt folder of a seed would otherwise drop that seed
from every figure in silence. Hidden entries (their names begin with a dot) are ignored: files that
are being written, a baseline's unfinished work, leftovers of file managers.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msshift_bench.errors import Finding
from msshift_bench.shifts import SHIFTS, Shift, in_order

__all__ = [
    "EXTRA_TESTS",
    "MODEL_END",
    "RUN_ENDS",
    "RunName",
    "folder_of_runs",
    "in_shift_folder",
    "in_system_folder",
    "misplaced_seeds",
    "seed_of",
    "split_run_name",
    "system_missed",
]

_COMPRESSED = ("", ".gz", ".bz2", ".xz", ".zst")
_TREC = (".run", ".trec")
_ENDS = (*_TREC, ".txt")

RUN_ENDS = tuple(end + compressed for end in _ENDS for compressed in _COMPRESSED)
"""The possible ends of a run's name, after the group or the shift."""

MODEL_END = ".model"
"""The end of the name of a folder that holds the model of a run, after the group."""

EXTRA_TESTS = "also"
"""The folder, in a system's folder, of its runs for extra test sets: ``also/<test set>/...``."""

_SEED = re.compile(r"seed-(0|[1-9][0-9]*)")
_OF_RUNS = frozenset(("", "run", "trec", "txt", "tsv", "res", "out", "parquet"))
"""Suffixes that people give to runs, without compression."""

_ELSEWHERE = "move it elsewhere, or begin its name with a dot"


def seed_of(name: str) -> int | None:
    """Return the seed that a folder's name states, e.g. 2 for ``seed-2``, or `None`."""
    match = _SEED.fullmatch(name)
    return int(match[1]) if match else None


class RunName(NamedTuple):
    """The parts of a run's name, e.g. of ``short.trec.gz``.

    Attributes:
        stem: the group or the shift, ``short``.
        end: ``.run``, ``.trec`` or ``.txt``.
        compressed: ``.gz``, ``.bz2``, ``.xz``, ``.zst`` or "".
    """

    stem: str
    end: str
    compressed: str


def split_run_name(name: str) -> RunName | None:
    """Return the parts of a run's name; `None` if it does not end like a run's."""
    compressed = next((end for end in _COMPRESSED if end and name.endswith(end)), "")
    plain = name.removesuffix(compressed)
    end = next((end for end in _ENDS if plain.endswith(end)), None)
    return None if end is None else RunName(plain.removesuffix(end), end, compressed)


def in_shift_folder(folder: Path, shift: Shift, *, seeds: bool = True) -> Iterator[Finding]:
    """Yield a finding for each wrong name in a shift's folder of runs, and in its seed folders.

    Args:
        folder: the folder of ``<held-out group>.run`` files, or of folders ``seed-<n>`` with them.
        shift: the shift.
        seeds: whether the folder may hold seed folders.
    """
    models = {f"{group}{MODEL_END}" for group in shift.groups}
    for entry in _visible(folder):
        if _is_run_or_sidecar(entry.name, shift.groups):
            if not entry.is_file():
                yield _no_file(entry)
        elif entry.name in models and entry.is_dir():
            continue
        elif seeds and entry.is_dir() and seed_of(entry.name) is not None:
            yield from in_shift_folder(entry, shift, seeds=False)
        elif seeds and entry.is_dir():
            yield _misnamed_seed(entry)
        elif not entry.is_dir() and _looks_like_a_run(entry.name, shift.groups):
            yield _misnamed_run(entry, shift)
        else:
            names = ", ".join(f"{group}.run" for group in shift.groups)
            yield Finding(
                "unknown-entry",
                f"neither a run of {shift.name} nor the JSON beside one"
                + (", nor a seed's folder" if seeds else ""),
                str(entry),
                fix=f"{_ELSEWHERE}; runs of {shift.name} are called {names}, or .run.gz and so on",
            )


def in_system_folder(folder: Path) -> Iterator[Finding]:
    """Yield a finding for each entry in a system's folder that seems to be runs of no shift.

    Other things, such as a ``system.toml``, may stand there.
    """
    for entry in _visible(folder):
        if entry.name == EXTRA_TESTS and entry.is_dir():
            continue
        if entry.name in SHIFTS:
            if not entry.is_dir():
                yield Finding(
                    "not-a-folder",
                    "a file, where the folder of a shift's runs was expected",
                    str(entry),
                    fix=f"call it {entry.name}.run if it is the one run of a system that was not "
                    f"trained per group, else {_ELSEWHERE}",
                )
        elif _is_run_or_sidecar(entry.name, SHIFTS):
            if not entry.is_file():
                yield _no_file(entry)
        elif entry.is_dir():
            near = _nearest(entry.name, SHIFTS)
            if (misplaced := _misplaced_seed(entry)) is not None:
                yield misplaced
            elif near or _a_run_below(entry):
                yield _no_shift(entry, near or "")
        elif _looks_like_a_run(entry.name, SHIFTS):
            near = _nearest(_stem(entry.name), SHIFTS)
            yield _no_shift(entry, near and f"{near}.run{_compression(entry.name)}")


def misplaced_seeds(folder: Path) -> list[Finding]:
    """Return a finding for each folder of a seed that holds shifts, in place of the reverse.

    Taken for systems, the seeds of one system would stand in a table as systems with one seed each.

    Args:
        folder: one that is no system's.
    """
    found = [_misplaced_seed(entry) for entry in _visible(folder) if entry.is_dir()]
    return [finding for finding in found if finding is not None]


def _misplaced_seed(entry: Path) -> Finding | None:
    if seed_of(entry.name) is None:
        return None
    shifts = in_order(one.name for one in _visible(entry) if one.is_dir() and one.name in SHIFTS)
    if not shifts:
        return None
    return Finding(
        "misplaced-seed",
        f"a seed's folder that holds {', '.join(shifts)}; seeds stand in the folder of a shift",
        str(entry),
        fix=" and ".join(
            f"move {entry / shift} to {entry.parent / shift / entry.name}" for shift in shifts
        ),
    )


def system_missed(entry: Path) -> list[Finding]:
    """Return findings for an entry beside systems that is none itself but holds runs."""
    if not entry.is_dir():
        if ".run" not in entry.suffixes:
            return []
        where = "where systems' folders were expected"
        return [Finding("unknown-entry", f"a run, {where}", str(entry), fix=_ELSEWHERE)]
    if not os.access(entry, os.R_OK | os.X_OK):
        # Such as lost+found, where the folder is that of a disk.
        return []
    if seeds := misplaced_seeds(entry):
        return seeds
    for folder in (entry, *_visible(entry)):
        if (meant := _misspelt_shift(folder)) is not None:
            return [_no_shift(folder, meant)]
    shift, runs = _runs_by_name(entry, _TREC)
    if shift is not None:
        return [Finding("no-run-set", _holds(runs, shift), str(entry), fix=_move(entry, shift))]
    run = _a_run_below(entry)
    if run is None:
        return []
    return [
        Finding(
            "no-run-set",
            f"holds {run.relative_to(entry)}, and neither a folder nor a run named after a shift",
            str(entry),
            fix="runs stand in <system>/<shift>/<held-out group>.run or <system>/<shift>.run, with "
            f"<shift> one of {', '.join(SHIFTS)}; if {entry} holds systems, name it instead",
        )
    ]


def folder_of_runs(folder: Path, *, beside_systems: bool) -> str | None:
    """Return what is wrong with a folder that is no system's, but holds runs itself.

    Args:
        folder: the folder that was given.
        beside_systems: whether it holds folders of systems, too; texts are then no runs.
    """
    above = folder.parent if folder.name else folder.resolve().parent
    name = folder.resolve().name
    meant = name if name in SHIFTS else _misspelt_shift(folder)
    shift, runs = _runs_by_name(folder, _TREC if beside_systems else _ENDS)
    if shift is None and not (meant and _seeds_in(folder)):
        return None
    if name in SHIFTS:
        return f"{folder} is the folder of one shift; give that of its system, {above}"
    if seed_of(name) is not None and folder.resolve().parent.name in SHIFTS:
        return f"{folder} is the folder of one seed; give that of its system, {_system_of(folder)}"
    if meant is not None:
        return (
            f"{folder} holds runs of {meant}, and is named after no shift; call it {meant}, and "
            f"give the folder of its system, {above}"
        )
    assert shift is not None
    return f"{folder} {_holds(runs, shift)}; {_move(folder, shift)}"


def _runs_by_name(folder: Path, ends: tuple[str, ...]) -> tuple[Shift | None, list[str]]:
    """Return the shift whose groups some files of a folder are named after, and their names."""
    for shift in SHIFTS.values():
        runs = [
            entry.name
            for entry in _visible(folder)
            if (parts := split_run_name(entry.name)) is not None
            and parts.stem in shift.groups
            and parts.end in ends
            and entry.is_file()
        ]
        if runs:
            return shift, runs
    return None, []


def _holds(runs: Sequence[str], shift: Shift) -> str:
    shown = ", ".join(runs[:3]) + (", ..." if len(runs) > 3 else "")
    return f"holds {shown}, named after groups of {shift.name}, and no folder {shift.name}"


def _move(folder: Path, shift: Shift) -> str:
    place = folder / shift.name
    if folder.name and seed_of(folder.name) is not None:
        place = folder.parent / shift.name / folder.name
    return f"move them into {place}"


def _system_of(seed: Path) -> Path:
    parts = len(seed.parts)
    return seed.parents[1] if parts > 2 else seed.resolve().parents[1]


def _misspelt_shift(folder: Path) -> str | None:
    """Return the shift that a folder with runs of its groups is misspelt after."""
    near = None if folder.name in SHIFTS or not folder.is_dir() else _nearest(folder.name, SHIFTS)
    if near is None or difflib.SequenceMatcher(None, folder.name.lower(), near).ratio() < 0.7:
        return None
    held = [_runs_by_name(place, _TREC)[0] for place in (folder, *_seeds_in(folder))]
    return near if SHIFTS[near] in held else None


def _seeds_in(folder: Path) -> list[Path]:
    return [one for one in _visible(folder) if one.is_dir() and seed_of(one.name) is not None]


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _is_run_or_sidecar(name: str, stems: Collection[str]) -> bool:
    parts = split_run_name(name)
    if parts is not None:
        return parts.stem in stems
    return _is_sidecar(name) and name.removesuffix(".run.json") in stems


def _is_sidecar(name: str) -> bool:
    return name.endswith(".run.json")


def _looks_like_a_run(name: str, stems: Collection[str]) -> bool:
    if ".run" in Path(name).suffixes:
        return True
    plain = name.lower().removesuffix(_compression(name))
    ends = Path(plain).suffix.removeprefix(".") in _OF_RUNS
    return ends and _nearest(_stem(name), stems) is not None


def _compression(name: str) -> str:
    suffix = Path(name).suffix.lower()
    return suffix if suffix in _COMPRESSED else ""


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _nearest(stem: str, names: Collection[str]) -> str | None:
    """Return the name that `stem` means: equal but for case, the only one in it, or the nearest."""
    lowered = {name.lower(): name for name in names}
    plain = stem.lower().replace("_", "-")
    if plain in lowered:
        return lowered[plain]
    inside = [name for name in lowered if re.search(rf"(?<![a-z0-9]){name}(?![a-z0-9])", plain)]
    if len(inside) == 1:
        return lowered[inside[0]]
    near = difflib.get_close_matches(plain, lowered, n=1, cutoff=0.7)
    return lowered[near[0]] if near else None


def _a_run_below(folder: Path) -> Path | None:
    """Return a run in a folder or below it, as deep as a system's runs may lie."""
    for pattern in ("*.run*", "*/*.run*", "*/*/*.run*", "*/*/*/*.run*"):
        for path in sorted(folder.glob(pattern)):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if not hidden and ".run" in path.suffixes and path.suffix != ".json":
                return path
    return None


def _no_file(entry: Path) -> Finding:
    what = "a folder" if entry.is_dir() else "a link to nothing, or no regular file"
    return Finding("not-a-file", f"{what}, where a file was expected", str(entry), fix=_ELSEWHERE)


def _misnamed_seed(entry: Path) -> Finding:
    numbers = re.findall("[0-9]+", entry.name)
    if len(numbers) != 1:
        fix = f"a seed's folder is called seed-<n>, e.g. seed-1; if it holds no runs, {_ELSEWHERE}"
    else:
        name = f"seed-{int(numbers[0])}"
        fix = f"call it {name}"
        if entry.with_name(name).exists():
            fix = f"{name} is there as well: keep one of them, or give them different numbers"
    return Finding(
        "misnamed-seed", "not the name of a seed's folder, seed-<n>", str(entry), fix=fix
    )


def _misnamed_run(entry: Path, shift: Shift) -> Finding:
    end = ".json" if _is_sidecar(entry.name) else _compression(entry.name)
    near = _nearest(_stem(entry.name), shift.groups)
    if near is None:
        names = ", ".join(f"{group}.run{end}" for group in shift.groups)
        fix = f"call it after the group that the model was trained without: {names}"
    else:
        fix = f"call it {near}.run{end}"
        if entry.with_name(f"{near}.run{end}").exists():
            fix = f"{near}.run{end} is there as well: keep one of them"
    if _stem(entry.name) in shift.groups:
        message = (
            "not the name of a run, which ends in .run, .trec or .txt, and then perhaps in .gz, "
            ".bz2, .xz or .zst"
        )
        return Finding("misnamed-run", message, str(entry), fix=fix)
    return Finding("unknown-group", f"named after no group of {shift.name}", str(entry), fix=fix)


def _no_shift(entry: Path, meant: str | None) -> Finding:
    fix = f"call it {meant}" if meant else f"shifts are {', '.join(SHIFTS)}"
    if meant and entry.with_name(meant).exists():
        fix = f"{meant} is there as well: keep one of them"
    return Finding(
        "unknown-shift",
        "holds runs or looks like one, and is named after no shift",
        str(entry),
        fix=f"{fix}; if it is something else, {_ELSEWHERE}",
    )
