"""Atomic writing of folders, by renames.

A process writes into a hidden folder next to the target, ``.<name>.partial``, which one process at
a time can lock:

===========  ======================================================================
``new``      the folder that is being written
``old``      the earlier folder, after the first of two renames
===========  ======================================================================

First the earlier folder is renamed to ``old``, then ``new`` to the target's name. After a kill, the
content of the hidden folder shows the state:

=======================  ===========================================================
``new``, no ``old``      the target is unchanged
``new`` and ``old``      killed between the renames: ``old`` must be restored
no ``new``               the target is the new folder
=======================  ===========================================================

The next process that reads or writes the target restores it and removes the rest (`clean_up`).
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
"""Maximum number of attempts to make a folder that other processes remove."""

_CHECKS, _CHECK_SECONDS = 500, 0.01
"""Maximum number of checks of a writer between its renames, and seconds between checks."""


@contextmanager
def lock_folder(folder: Path, target: Path | None = None) -> Iterator[None]:
    """Context that locks a folder against other processes; the folder is made if missing.

    Args:
        folder: the folder.
        target: the folder that is being written, for the message; by default `folder`.

    Raises:
        UsageError: if another process has locked the folder.
        OSError: if the folder cannot be made.
    """
    check_locks()
    with ExitStack() as stack:
        for left in reversed(range(_TRIES)):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(_lock_existing(folder, target or folder))
                break
            except (FileExistsError, FileNotFoundError):
                # The process that had the lock may have just removed the folder.
                if not left:
                    raise
        yield


@contextmanager
def lock_unfinished(
    work: Path, target: Path | None = None, *, empty_parents: int = 0
) -> Iterator[None]:
    """Context that locks a folder of unfinished work, which can be continued after a kill.

    The folder is removed when the block ends without an error, or if it is empty.

    Args:
        work: the folder.
        target: the result of the work, for the message; by default `work`.
        empty_parents: number of parents to remove, too, if they are empty.

    Raises:
        UsageError: if another process has locked the folder.
    """
    with lock_folder(work, target):
        is_complete = False
        try:
            yield
            is_complete = True
        finally:
            if is_complete or not any(work.iterdir()):
                shutil.rmtree(work)
                with suppress(OSError):  # The parent is not empty, or no longer exists.
                    for parent in list(work.parents)[:empty_parents]:
                        parent.rmdir()


def check_contents(folder: Path, mark: str, names: Collection[str], what: str) -> None:
    """Check that a folder to be replaced has only files of an earlier output, or is empty.

    Args:
        folder: the folder, which may not exist.
        mark: a path, relative to the folder, that identifies an earlier output. If it does not
            exist, no file may be replaced.
        names: names of files and folders that may be replaced.
        what: the output, for the message, e.g. ``"the page"``.

    Raises:
        UsageError: if the folder has other files or folders, which would be lost.
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
    """Check that `replace_folder` can write a folder; call it before a long computation.

    The check cleans up after a killed process and changes nothing else.

    Args:
        folder: the folder, which may not exist.
        inside: whether files will be added to the folder instead of replacing it.

    Raises:
        UsageError: if `folder` is a file. Unless `inside`, also if another process is writing it,
            it is the root of the file system, or the working directory is in it.
        OSError: if the folder cannot be written; the error's ``filename`` is `folder`.
    """
    target = Path(os.path.realpath(folder))
    try:
        _check_is_folder(target, folder)
        if not inside:
            _try_writing(target, folder)
        else:
            # If another process is writing into the folder, the folder is writable.
            with suppress(UsageError):
                _try_writing(target / _NEW, folder)
    except OSError as error:
        error.filename, error.filename2 = str(folder), None
        raise


def _try_writing(target: Path, as_named: Path) -> None:
    top = target
    while not top.parent.exists():  # The check does not make parent folders.
        top = top.parent
    with _hold_work_folder(top, as_named) as work:
        (work / _NEW / target.relative_to(top)).mkdir(parents=True, exist_ok=True)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` when the block ends without an error.

    After an error, `folder` is unchanged. If `folder` is a link, its target is replaced. Missing
    parents are made.

    Args:
        folder: the folder to replace, which may not exist.

    Raises:
        UsageError: if another process is writing the same folder, `folder` is a file or the root of
            the file system, or the working directory is in it.
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
            _restore_old(target, work)
            raise


def _check_is_folder(target: Path, as_named: Path) -> None:
    if target.exists() and not target.is_dir():
        raise UsageError(f"{as_named} is a file; give the name of a folder to write")


@contextmanager
def _hold_work_folder(target: Path, as_named: Path) -> Iterator[Path]:
    """Yield the locked hidden folder with an empty ``new``; it is removed at the end."""
    if not target.name:
        raise UsageError(f"{as_named} is the root of the file system; give another folder")
    with suppress(FileNotFoundError):  # If the working directory was removed.
        if Path(os.path.realpath(Path.cwd())).is_relative_to(target):
            raise UsageError(
                f"{as_named} contains the working directory, which would be removed; give another "
                "folder, or change the working directory"
            )
    clean_up(target.parent)
    work = target.with_name(partial_name(target.name))
    with lock_folder(work, as_named):
        try:
            _restore_old(target, work)
            for name in (_NEW, _OLD):
                shutil.rmtree(work / name, ignore_errors=True)
            (work / _NEW).mkdir()
            yield work
        finally:
            if target.exists() or not (work / _OLD).exists():
                shutil.rmtree(work, ignore_errors=True)


def _restore_old(target: Path, work: Path) -> None:
    """Undo the first rename of a process that was killed before its second rename."""
    if not target.exists() and _is_between_renames(work):
        (work / _OLD).rename(target)


def _is_between_renames(work: Path) -> bool:
    return (work / _NEW).is_dir() and (work / _OLD).is_dir()


def clean_up(folder: Path) -> None:
    """Clean up after killed writers of a folder or its parents; call it before reading.

    It restores an earlier folder, and removes unfinished work. It does not change the work of a
    running writer, and waits for it only between its two renames.

    Raises:
        UsageError: if a running writer does not finish its renames.
    """
    target = Path(os.path.realpath(folder))
    # The last parent is the root of the file system, which is never replaced.
    for path in (target, *target.parents)[:-1]:
        _clean_up_one(path, folder)


def _clean_up_one(target: Path, as_named: Path) -> None:
    work = target.with_name(partial_name(target.name))
    for left in range(_CHECKS, -1, -1):
        if not work.is_dir():
            return
        try:
            with _lock_existing(work, as_named):
                _restore_old(target, work)
                shutil.rmtree(work, ignore_errors=True)
        except FileNotFoundError:  # The process with the lock has removed the folder.
            return
        except UsageError:
            if target.exists() or not _is_between_renames(work):
                return
            if not left:
                raise
            time.sleep(_CHECK_SECONDS)


@contextmanager
def _lock_existing(work: Path, target: Path) -> Iterator[None]:
    """Lock an existing folder.

    Raises:
        FileNotFoundError: if the folder no longer exists.
        UsageError: if another process has locked the folder.
    """
    descriptor = open_locked(work, target)
    if descriptor is None:
        raise FileNotFoundError(errno.ENOENT, "another process has removed the folder", str(work))
    try:
        yield
    finally:
        os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Return whether a process has locked a folder; false if the folder does not exist."""
    try:
        with _lock_existing(folder, folder):
            return False
    except FileNotFoundError:
        return False
    except UsageError:
        return True


def is_unfinished(path: Path) -> bool:
    """Return whether a path has the name of an unfinished file or folder."""
    return path.name.startswith(".") and path.name.endswith(".partial")


def copy_files(source: Path, target: Path) -> None:
    """Copy the files of a folder and its subfolders into another folder, made if missing.

    Files of the same name are overwritten.

    Raises:
        OSError: for the first file that cannot be copied (`shutil.copytree` raises a list).
    """
    for path in filter(Path.is_file, sorted(source.rglob("*"))):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def remove_folder(folder: Path) -> None:
    """Remove a folder; it is first renamed, so that no process reads a part of it.

    For a link to a folder, only the link is removed.

    Raises:
        OSError: if the folder does not exist, or cannot be removed.
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

    The folder is ``$MSSHIFT_CACHE``, or else ``$XDG_CACHE_HOME/msshift``, or else
    ``~/.cache/msshift``. An empty variable counts as not set, as in the XDG Base Directory
    Specification 0.8.
    """
    if cache := os.environ.get("MSSHIFT_CACHE"):
        return Path(cache).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "msshift"
    return Path.home() / ".cache" / "msshift"
