"""Atomic writing of folders, by renames.

A process writes into a hidden folder next to the final one, ``.<name>.partial``, locked by one
process at a time:

===========  ======================================================================
``new``      the folder that is being written
``old``      the folder from the final name, after the first of two renames
===========  ======================================================================

The last step renames ``new``, after the folder at the final name. After a kill, the names in the
hidden folder give the state:

=======================  ===========================================================
``new``, no ``old``      the final name is as it was
``new`` and ``old``      killed between the renames: ``old`` is put back
no ``new``               the new folder is in place
=======================  ===========================================================

The next process that reads or writes the folder restores it (`clean_up`), and removes the rest.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msshift_bench.errors import UsageError
from msshift_bench.plumbing.files import check_locks, open_locked, partial_name

_NEW, _OLD = "new", "old"

_TRIES = 1000
"""Number of attempts to make a folder that other processes remove."""

_MOMENTS, _MOMENT = 500, 0.01
"""Number of checks, and seconds between them, of a writer between its renames."""


@contextmanager
def hold_folder(folder: Path, target: Path | None = None) -> Iterator[None]:
    """Context that locks a folder against other processes; it is made if missing.

    Args:
        folder: the folder.
        target: the folder that is being written, for the message; by default `folder`.

    Raises:
        UsageError: if another process has locked it.
    """
    check_locks()
    with ExitStack() as stack:
        for left in reversed(range(_TRIES)):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(_lock_existing(folder, target or folder))
                break
            except (FileExistsError, FileNotFoundError):
                # The last process with the lock may have just removed it.
                if not left:
                    raise
        yield


@contextmanager
def hold_unfinished(
    work: Path, target: Path | None = None, *, empty_parents: int = 0
) -> Iterator[None]:
    """Context that locks the folder of unfinished work, which survives a kill.

    The folder is removed when the block ends without an error, or if it is empty.

    Args:
        work: the folder.
        target: the result of the work, for the message; by default the folder.
        empty_parents: number of its parents to remove with it, if empty.

    Raises:
        UsageError: if another process has locked it.
    """
    with hold_folder(work, target):
        is_over = False
        try:
            yield
            is_over = True
        finally:
            if is_over or not any(work.iterdir()):
                shutil.rmtree(work)
                with suppress(OSError):  # It is not empty, or another process was faster.
                    for parent in list(work.parents)[:empty_parents]:
                        parent.rmdir()


def check_contents(folder: Path, mark: str, names: Collection[str], what: str) -> None:
    """Check that a folder to be replaced has only files of an earlier output, or is empty.

    Args:
        folder: the folder, which may not exist.
        mark: a path in it that identifies an earlier output.
        names: names that may be in it.
        what: the output, for the message, e.g. ``"the page"``.

    Raises:
        UsageError: if it has other files, which would be lost.
    """
    clean_up(folder)
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    others = present.difference(names) if (folder / mark).exists() else present
    if others:
        raise UsageError(
            f"{folder} contains {min(others)}, which is not part of {what} and would be lost; "
            "choose another folder, or move the file"
        )


def check_folder(folder: Path, *, inside: bool = False) -> None:
    """Check that `replace_folder` can write a folder, before anything is computed.

    It completes or undoes the work of a killed process, and changes nothing else.

    Args:
        folder: the folder.
        inside: whether files are to be written into it, so that others in it stay.

    Raises:
        UsageError: if it is not a folder, another process is writing it, or the working directory
            is in it.
        OSError: if it cannot be written; its ``filename`` is `folder`.
    """
    target = Path(os.path.realpath(folder))
    try:
        _check_is_folder(target, folder)
        if not inside:
            _try(target, folder)
        else:
            # Another process is about to write into it, so it can be written.
            with suppress(UsageError):
                _try(target / _NEW, folder)
    except OSError as error:
        error.filename, error.filename2 = str(folder), None
        raise


def _try(target: Path, as_named: Path) -> None:
    top = target
    while not top.parent.exists():  # The check makes no parent folder.
        top = top.parent
    with _hold_work_folder(top, as_named) as work:
        (work / _NEW / target.relative_to(top)).mkdir(parents=True, exist_ok=True)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` when the block ends without an error.

    If `folder` is a link, its target is replaced. Missing parents are made first.

    Args:
        folder: the folder.

    Raises:
        UsageError: if another process is writing the same folder, it is a file, or the working
            directory is in it.
    """
    target = Path(os.path.realpath(folder))
    with _hold_work_folder(target, folder) as work:
        _check_is_folder(target, folder)
        yield work / _NEW
        _check_is_folder(target, folder)
        try:
            if target.exists():
                target.rename(work / _OLD)
            (work / _NEW).rename(target)
        except BaseException:
            _put_back(target, work)
            raise


def _check_is_folder(target: Path, as_named: Path) -> None:
    if target.exists() and not target.is_dir():
        raise UsageError(f"{as_named} is not a folder; give the name of a folder to write")


@contextmanager
def _hold_work_folder(target: Path, as_named: Path) -> Iterator[Path]:
    """Yield the locked hidden folder with an empty ``new``; remove it at the end."""
    if not target.name:
        raise UsageError(f"{as_named} is the root of the file system; give a folder in it")
    with suppress(FileNotFoundError):  # The working directory was removed.
        if Path(os.path.realpath(Path.cwd())).is_relative_to(target):
            raise UsageError(
                f"{as_named} contains the working directory, which would be removed; give another "
                "folder, or change the working directory"
            )
    clean_up(target.parent)
    work = target.with_name(partial_name(target.name))
    with hold_folder(work, as_named):
        try:
            _put_back(target, work)
            for name in (_NEW, _OLD):
                shutil.rmtree(work / name, ignore_errors=True)
            (work / _NEW).mkdir()
            yield work
        finally:
            if target.exists() or not (work / _OLD).exists():
                shutil.rmtree(work, ignore_errors=True)


def _put_back(target: Path, work: Path) -> None:
    """Undo the first rename of a process that was killed before the second."""
    if not target.exists() and _is_between_renames(work):
        (work / _OLD).rename(target)


def _is_between_renames(work: Path) -> bool:
    return (work / _NEW).is_dir() and (work / _OLD).is_dir()


def clean_up(folder: Path) -> None:
    """Clean up after killed writers of a folder or its parents; call it before reading.

    It restores a folder that was moved aside, and removes unfinished work. It does not change the
    work of a living writer, and waits for it only between its two renames.

    Raises:
        UsageError: if the writer does not finish its renames.
    """
    target = Path(os.path.realpath(folder))
    # The root of the file system, the last parent, is never replaced.
    for made in (target, *target.parents)[:-1]:
        _settle(made, folder)


def _settle(target: Path, as_named: Path) -> None:
    work = target.with_name(partial_name(target.name))
    for left in range(_MOMENTS, -1, -1):
        if not work.is_dir():
            return
        try:
            with _lock_existing(work, as_named):
                _put_back(target, work)
                shutil.rmtree(work, ignore_errors=True)
        except FileNotFoundError:  # The process with the lock has just removed it.
            return
        except UsageError:
            if target.exists() or not _is_between_renames(work):
                return
            if not left:
                raise
            time.sleep(_MOMENT)


@contextmanager
def _lock_existing(work: Path, target: Path) -> Iterator[None]:
    """Lock an existing folder.

    Raises:
        FileNotFoundError: if it no longer exists.
        UsageError: if another process has locked it.
    """
    descriptor = open_locked(work, target)
    if descriptor is None:
        raise FileNotFoundError(errno.ENOENT, "other processes make and remove it", str(work))
    try:
        yield
    finally:
        os.close(descriptor)


def is_held(folder: Path) -> bool:
    """Return whether a process has locked a folder."""
    try:
        with _lock_existing(folder, folder):
            return False
    except FileNotFoundError:
        return False
    except UsageError:
        return True


def is_unfinished(path: Path) -> bool:
    """Return whether a path has the name of an unfinished file or folder, maybe left by a kill."""
    return path.name.startswith(".") and path.name.endswith(".partial")


def copy_files(source: Path, target: Path) -> None:
    """Copy the files of a folder and its subfolders into another folder, made if missing.

    Raises:
        OSError: for the first file that cannot be copied; `shutil.copytree` raises a list of them.
    """
    for path in filter(Path.is_file, sorted(source.rglob("*"))):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def remove_folder(folder: Path) -> None:
    """Remove a folder, renamed first, so that no process finds a part of it.

    For a link to a folder, only the link is removed.
    """
    if folder.is_symlink():
        folder.unlink()
        return
    if not is_unfinished(folder):
        hidden = folder.with_name(partial_name(folder.name))
        if hidden.exists():
            shutil.rmtree(hidden)
        folder = folder.rename(hidden)
    shutil.rmtree(folder)


def cache_root() -> Path:
    """Return the folder of all cached data, which may not exist.

    It is ``$MSSHIFT_CACHE``, or else ``$XDG_CACHE_HOME/msshift``, or else ``~/.cache/msshift``. An
    empty variable counts as not set, as in the XDG Base Directory Specification 0.8.
    """
    if own := os.environ.get("MSSHIFT_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "msshift"
    return Path.home() / ".cache" / "msshift"
