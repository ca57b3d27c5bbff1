"""Check the files that a command is to write, before it begins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msshift_bench.errors import UsageError

__all__ = ["check_outputs", "files_of_collection"]


def check_outputs(
    *outputs: Path | None, runs: Iterable[str | Path] = (), inputs: Iterable[Path] = ()
) -> None:
    """Check that the command can write its outputs and reads none of them; see `check_target`.

    Args:
        outputs: the files to write; `None` for an output that was not requested.
        runs: run files, and folders of run sets; the command reads their sidecars, too.
        inputs: other files that the command reads, and folders that it must not write into.

    Raises:
        NotFoundError: if an output's folder does not exist.
        UsageError: if an output is no possible file, is an input, is given twice, or is a sheet
            that was filled in or settings that somebody wrote.
        RunError: if a folder of run sets holds a name that is not understood.
        OSError: if a file cannot be written; its ``filename`` is the output.
    """
    from msshift_bench.plumbing import check_target

    wanted = [output for output in outputs if output is not None]
    if not wanted:
        return
    read = [*inputs, *_files_of(map(Path, runs))]
    for place, output in enumerate(wanted):
        try:
            check_target(output, inputs=read, others=wanted[:place])
        except OSError as error:
            error.filename, error.filename2 = str(output), None
            raise
        _check_not_typed(output)


def _check_not_typed(output: Path) -> None:
    """Check that an output that is there is nothing that people write or fill in."""
    if output.is_file() and output.suffix == ".toml":
        raise UsageError(
            f"{output} is a file that people write, and would be lost; give another name"
        )
    if output.is_file():
        from msshift_bench.annotation import check_not_filled

        check_not_filled(output)


def files_of_collection(collection: str | None) -> list[Path]:
    """Return the files of a collection's folder; none if the collection is no folder.

    Args:
        collection: what ``--collection`` says; the variable's collection, if `None`.
    """
    from msshift_bench.data import COLLECTION_VARIABLE

    named = collection or os.environ.get(COLLECTION_VARIABLE)
    folder = Path(named).expanduser() if named else None
    return list(folder.iterdir()) if folder and folder.is_dir() else []


def _files_of(runs: Iterable[Path]) -> Iterator[Path]:
    """Yield the run files, each with the path of its sidecar, which may not exist."""
    from msshift_bench.runs import find_run_sets, sidecar_path

    for path in runs:
        files = [path]
        if path.is_dir():
            files = [file for run_set in find_run_sets([path]) for file in run_set.files]
        for file in files:
            yield from (file, sidecar_path(file))
