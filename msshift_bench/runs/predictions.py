"""MTEB's predictions as runs: a folder for each model, with a file for each test set.

``mteb.evaluate`` writes ``<task>_predictions.json`` for each task of `msshift_bench.mteb_tasks`.
The folder has the model's name as in MTEB's paths: ``org__model`` for ``org/model``. A model
trained without a group is named ``org/model@without-<group>``. It is a model of the system
``org/model``, which then has a run for each held-out group.

MTEB adds the predictions of a second model to the first model's file, and keeps the first name. So
a folder must have one model, with the folder's name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msshift_bench.errors import Finding, RunError, quoted
from msshift_bench.plumbing import open_stream
from msshift_bench.runs.json_runs import MTEB_META
from msshift_bench.shifts import Shift

_FILE = re.compile(r"msshift-(?P<shift>.+)-(?P<test>[^-]+)_predictions\.json")
_WITHOUT = "@without-"
_META = re.compile(
    rf'\s*\{{\s*"{MTEB_META}"\s*:\s*\{{\s*"model_name"\s*:\s*'
    r'("(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*")'
)
"""Pattern of the beginning of a prediction file, up to the model's name."""

_HEAD = 1 << 16
"""Bytes of a file that are read for the model's name."""


def task_name(shift: Shift, test: str) -> str:
    """Return the name of the task in MTEB for a test set of a shift."""
    return f"msshift-{shift.name}-{test}"


def prediction_files(folder: Path, shift: Shift) -> list[Path]:
    """Return a model's existing prediction files for a shift, in the order of the test sets."""
    names = [f"{task_name(shift, test)}_predictions.json" for test in shift.tested]
    return [folder / name for name in names if (folder / name).is_file()]


def _held_out(shift: Shift) -> tuple[str, ...]:
    """Return the held-out groups of a shift; ``()`` if its groups are training sets."""
    return () if shift.by_size else tuple(shift.groups)


def find_predictions(
    folder: Path, listed: Callable[[Path], list[Path]], known: Mapping[str, Shift]
) -> Iterator[tuple[Path, str, str | None, Path]]:
    """Yield the predictions of the models in a folder, or of a single model's folder.

    Args:
        folder: the folder.
        listed: function that returns the entries of a folder.
        known: name -> shift, the possible shifts.

    Yields:
        The system's folder, which may not exist; the shift; the held-out group, or `None` for a
        model for all groups; the model's folder, resolved.

    Raises:
        RunError: if the model's name in a file is absent or not its folder's, a folder's group
            is in no shift of its files, or a shift has none of its files' test sets.
    """
    folders = [path for path in listed(folder) if path.is_dir() and os.access(path, os.R_OK)]
    for model in [folder, *folders]:
        path = model.resolve()
        name, without, held_out = path.name.partition(_WITHOUT)
        matches = {file: _FILE.fullmatch(file.name) for file in listed(model)}
        files = {file: found["shift"] for file, found in matches.items() if found}
        shifts = [shift for shift in dict.fromkeys(files.values()) if shift in known]
        used = [shift for shift in shifts if not without or held_out in _held_out(known[shift])]
        findings = list(filter(None, (_check_name(file, path.name) for file in files)))
        for file, shift in files.items():
            if shift in used and not prediction_files(model, known[shift]):
                tests = ", ".join(known[shift].tested)
                message = f"the task is for no test set of {shift}; its test sets are {tests}"
                fix = "predict again with the tasks of mteb_tasks for this data set"
                findings.append(Finding("no-place", message, str(file), fix=fix))
        if shifts and not used:
            findings.append(
                Finding(
                    "no-place",
                    f"its name ends in {quoted(held_out)}, which is no group of "
                    f"{', '.join(shifts)}",
                    str(model),
                    fix=f"name the model org/model{_WITHOUT}<group>, and the folder like it",
                )
            )
        if findings:
            raise RunError("predictions are in the wrong place:", findings)
        yield from ((path.with_name(name), shift, held_out or None, path) for shift in used)


def _check_name(file: Path, expected: str) -> Finding | None:
    """Return a finding if the model's name in a file is absent or not `expected`; else `None`."""
    with open_stream(file) as stream:
        head = stream.read(_HEAD).decode(errors="replace")
    found = _META.match(head)
    name = json.loads(found[1], strict=False) if found else ""
    if name and name.replace("/", "__").replace(" ", "_") == expected:
        return None
    return Finding(
        "other-model",
        f"its {MTEB_META} names the model {quoted(name)}, and the folder is {expected}",
        str(file),
        fix="give each model a folder of its own, model.model_name_as_path(), and predict again: "
        "MTEB adds a second model's rankings under the first one's name",
    )
