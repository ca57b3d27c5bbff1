"""Opening the files of a run, standard input and pipes, and digesting them."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from msshift_bench.errors import NotFoundError, UsageError
from msshift_bench.plumbing import FileState

__all__ = ["InputFile", "is_parquet", "open_run_files", "sha256_of_files"]


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of a run.

    Attributes:
        name: the name by which the user gave it.
        path: a path that can be read more than once.
        lasting: whether that path is still there after the run was read.
        state: the file's state when it was first opened.
    """

    name: str
    path: Path
    lasting: bool
    state: FileState | None

    @property
    def has_changed(self) -> bool:
        """Whether the file was written to, replaced or removed since it was first opened."""
        return FileState.of(self.path) != self.state


@contextmanager
def open_run_files(sources: Sequence[str | PathLike[str]]) -> Iterator[list[InputFile]]:
    """Make every source readable more than once; ``"-"`` is standard input.

    Standard input and other pipes are copied to a temporary folder for as long as the context
    lasts, because a run whose queries turn out to be interleaved is read twice.

    Raises:
        NotFoundError: if there is no such file, or standard input is closed.
        UsageError: if a path is a folder.
    """
    with ExitStack() as stack:
        files = []
        for number, source in enumerate(sources):
            path = Path(source)
            if str(source) == "-":
                if sys.stdin is None:
                    raise NotFoundError("stdin is closed, and a run was to be read from it")
                stream = sys.stdin.buffer
            elif path.is_dir():
                raise UsageError(f"{source} is a folder; a run is a file")
            elif not path.exists():
                raise NotFoundError(f"there is no file {source}")
            elif path.is_file():
                files.append(InputFile(str(source), path, True, FileState.of(path)))
                continue
            else:
                stream = stack.enter_context(path.open("rb"))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="msshift-"))
            copy = Path(folder) / str(number)
            with copy.open("wb") as file:
                shutil.copyfileobj(stream, file)
            name = "<stdin>" if str(source) == "-" else str(source)
            files.append(InputFile(name, copy, False, FileState.of(copy)))
        yield files


def sha256_of_files(files: Sequence[InputFile]) -> str:
    """Return the SHA-256 of the files' bytes as they are stored, one file after the other.

    For a single file this is what ``sha256sum`` prints.
    """
    digest = hashlib.sha256()
    for run_file in files:
        with _named(run_file.path), run_file.path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def is_parquet(path: Path) -> bool:
    """Whether the file begins as Parquet files do."""
    with _named(path), path.open("rb") as file:
        return file.read(4) == b"PAR1"


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the path to errors of reading, as errors of opening have it."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise
