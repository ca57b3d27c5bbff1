"""The files that a command was asked to write, checked before it begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["check_outputs"]


def check_outputs(
    *outputs: Path | None, runs: Iterable[str | Path] = (), inputs: Iterable[Path] = ()
) -> None:
    """Check that files can be written, and are none of those that are read; see `check_target`.

    Args:
        outputs: the files; `None` for what was not asked for.
        runs: run files, and folders of run sets; their sidecars are read, too.
        inputs: what else is read: files, and folders into which nothing must be written.

    Raises:
        NotFoundError: if a file's folder does not exist.
        UsageError: if no file can be there, it is read, or it is given for two outputs.
        RunError: if the folders of run sets hold what is not understood.
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


def _files_of(runs: Iterable[Path]) -> Iterator[Path]:
    """Yield the run files and where their sidecars are, if there are any."""
    from msshift_bench.runs import find_run_sets, sidecar_path

    for path in runs:
        files = [path]
        if path.is_dir():
            files = [file for run_set in find_run_sets([path]) for file in run_set.files]
        for file in files:
            yield from (file, sidecar_path(file))
