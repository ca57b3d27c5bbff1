"""An entry's list of files with their digests: ``manifest.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msshift_bench.data import sha256_of
from msshift_bench.errors import Finding, NotFoundError, SubmissionError
from msshift_bench.leaderboard.layout import RUN_PATH, SUBMISSION_NAME, TRAIN_PATH
from msshift_bench.leaderboard.strict_files import dump_json, read_strict_json
from msshift_bench.schema import (
    Place,
    choice,
    digest,
    integer,
    list_of,
    object_of,
    text,
)

__all__ = [
    "FILE_LIST_NAME",
    "RUNS",
    "SCORES_NAME",
    "file_problems",
    "is_expected",
    "write_file_list",
]

SCORES_NAME = "scores.parquet"
"""The file of the per-query scores."""

FILE_LIST_NAME = "manifest.json"
"""The file that lists the others."""

RUNS = "runs"
"""The folder of the run files, which ``submission.json`` lists itself."""

_SCHEMA = object_of(
    {
        "schema": choice("schema of file lists", (1,)),
        "files": list_of(
            object_of({"path": text(300), "bytes": integer(), "sha256": digest}), 1000
        ),
    }
)


def is_expected(path: str) -> bool:
    """Say whether a submission may have a file of that name.

    Args:
        path: relative to the submission, with ``/``.
    """
    return (
        path in (SUBMISSION_NAME, SCORES_NAME, FILE_LIST_NAME)
        or TRAIN_PATH.fullmatch(path) is not None
        or (path.startswith(f"{RUNS}/") and RUN_PATH.fullmatch(path[len(RUNS) + 1 :]) is not None)
    )


def _listed(folder: Path) -> dict[str, dict[str, Any]]:
    """Return path -> entry, for every file of a list."""
    paths = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }
    return {
        name: {"path": name, "bytes": path.lstat().st_size, "sha256": sha256_of(path)}
        if path.is_file() and not path.is_symlink()
        else {}
        for name, path in paths.items()
        if name != FILE_LIST_NAME and not name.startswith(f"{RUNS}/")
    }


def write_file_list(folder: Path) -> None:
    """Write the list of a folder's files, without run files."""
    files = list(_listed(folder).values())
    (folder / FILE_LIST_NAME).write_bytes(dump_json({"schema": 1, "files": files}))


def file_problems(folder: Path) -> list[Finding]:
    """Compare a folder with its list.

    Returns:
        A finding for every file that is missing, changed, not listed, not a plain file, or of a
        name that no file of a submission has.

    Raises:
        NotFoundError: if there is no list.
        SubmissionError: if the file is no list.
    """
    path = folder / FILE_LIST_NAME
    if not path.exists():
        raise NotFoundError(
            f"no file {path}: {folder} is not a submission; give the folder that 'msshift submit' "
            "wrote, or a zip file of it"
        )
    value = read_strict_json(path)
    place = Place(str(path))
    _SCHEMA(value, place)
    if place.findings:
        raise SubmissionError(f"{path} is no list of files:", place.findings)
    listed = {file["path"]: file for file in value["files"]}
    present = _listed(folder)
    problems = []
    for name in sorted({*listed, *present}):
        where = str(folder / name)
        if name not in present:
            problems.append(Finding("missing-file", f"{FILE_LIST_NAME} lists it", where))
        elif not present[name]:
            problems.append(Finding("not-a-file", "a link, or no plain file", where))
        elif name not in listed:
            problems.append(Finding("unlisted-file", f"{FILE_LIST_NAME} does not list it", where))
        elif listed[name] != present[name]:
            message = f"its bytes or SHA-256 differ from what {FILE_LIST_NAME} says"
            fix = "files are not edited: write the submission again with 'msshift submit'"
            problems.append(Finding("wrong-digest", message, where, fix=fix))
        if name in present and not is_expected(name):
            problems.append(Finding("unexpected-file", "no file of a submission", where))
    return problems
