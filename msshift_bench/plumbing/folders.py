"""Writing folders whole or not at all: they appear, or replace others, by a rename.

A process writes into a hidden folder beside the final one, ``.<name>.partial``, which one process
at a time locks:

===========  ======================================================================
``new``      the folder that is being written
``old``      the folder from the final name, after the first of two renames
===========  ======================================================================

The last step renames ``new``, after the folder at the final name. After a kill at any moment, the
names in the hidden folder tell the state:

=======================  ===========================================================
``new``, no ``old``      the final name is as it was
``new`` and ``old``      killed between the renames: ``old`` is put back
no ``new``               the new folder is in place
=======================  ===========================================================

The next process that reads or writes the folder puts it back (`settle`), and removes the rest.
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
"""How often other processes may remove a folder while it is made."""

_MOMENTS, _MOMENT = 500, 0.01
"""How often, and how many seconds apart, to check on a writer that is between its renames."""


@contextmanager
def hold_folder(folder: Path, target: Path | None = None) -> Iterator[None]:
    """Lock a folder against other processes; make it if it is missing.

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
                stack.enter_context(_held_as_it_is(folder, target or folder))
                break
            except (FileExistsError, FileNotFoundError):
                # The last process that held it may have just removed it.
                if not left:
                    raise
        yield


@contextmanager
def hold_unfinished(
    work: Path, target: Path | None = None, *, empty_parents: int = 0
) -> Iterator[None]:
    """Hold the folder of unfinished work, from which the process after a killed one goes on.

    The folder is removed when the block ends without an error, or before anything is in it.

    Args:
        work: the folder.
        target: what is made in it, for the message; the folder itself by default.
        empty_parents: how many of its parents are removed with it, where nothing else is in them.

    Raises:
        UsageError: if another process holds it.
    """
    with hold_folder(work, target):
        is_over = False
        try:
            yield
            is_over = True
        finally:
            if is_over or not any(work.iterdir()):
                shutil.rmtree(work)
                with suppress(OSError):  # Something is in it, or another process was faster.
                    for parent in list(work.parents)[:empty_parents]:
                        parent.rmdir()


def check_contents(folder: Path, mark: str, names: Collection[str], what: str) -> None:
    """Check that a folder that is to be replaced holds what was written there before, or nothing.

    Args:
        folder: the folder, which need not exist.
        mark: a path in it by which what was written is recognised.
        names: what may lie in it.
        what: what was written, e.g. ``"the page"``.

    Raises:
        UsageError: if it holds something else, which would be lost.
    """
    settle(folder)
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    others = present.difference(names) if (folder / mark).exists() else present
    if others:
        raise UsageError(
            f"{folder} holds {min(others)}, which is no part of {what} and would be lost; choose "
            "another folder, or move it away"
        )


def check_folder(folder: Path, *, inside: bool = False) -> None:
    """Check that `replace_folder` can write a folder, before anything is computed.

    It completes or undoes the work of a killed process; nothing else changes.

    Args:
        folder: the folder.
        inside: whether something is to be written into it, so that the rest of it stays.

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
    while not top.parent.exists():  # Checking leaves no parent behind.
        top = top.parent
    with _workshop(top, as_named) as work:
        (work / _NEW / target.relative_to(top)).mkdir(parents=True, exist_ok=True)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` when the block ends without an error.

    If `folder` is a link, the folder that it leads to is replaced. Missing parents are made first.

    Args:
        folder: the folder.

    Raises:
        UsageError: if another process is writing the same folder, it is a file, or the working
            directory is in it.
    """
    target = Path(os.path.realpath(folder))
    with _workshop(target, folder) as work:
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
def _workshop(target: Path, as_named: Path) -> Iterator[Path]:
    """Yield the hidden folder, locked, in which an empty ``new`` stands; remove it at the end."""
    if not target.name:
        raise UsageError(f"{as_named} is the root of the file system; give a folder in it")
    with suppress(FileNotFoundError):  # The working directory was removed, and can be nowhere.
        if Path(os.path.realpath(Path.cwd())).is_relative_to(target):
            raise UsageError(
                f"{as_named} holds the working directory, and whoever works there would be left in "
                "a removed folder; give another folder, or call it from elsewhere"
            )
    settle(target.parent)
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


def settle(folder: Path) -> None:
    """Clean up after killed writers of a folder, or of one that it lies in; call it before reading.

    It puts back a folder that was moved aside, and removes half-written work. It leaves the work of
    a living writer alone, and waits for it only while it is between its two renames.

    Raises:
        UsageError: if the writer does not finish its renames.
    """
    target = Path(os.path.realpath(folder))
    # Nothing replaces the root of the file system, which is the last of the parents.
    for made in (target, *target.parents)[:-1]:
        _settle(made, folder)


def _settle(target: Path, as_named: Path) -> None:
    work = target.with_name(partial_name(target.name))
    for left in range(_MOMENTS, -1, -1):
        if not work.is_dir():
            return
        try:
            with _held_as_it_is(work, as_named):
                _put_back(target, work)
                shutil.rmtree(work, ignore_errors=True)
        except FileNotFoundError:  # The process that held it has just removed it.
            return
        except UsageError:
            if target.exists() or not _is_between_renames(work):
                return
            if not left:
                raise
            time.sleep(_MOMENT)


@contextmanager
def _held_as_it_is(work: Path, target: Path) -> Iterator[None]:
    """Lock an existing folder.

    Raises:
        FileNotFoundError: if it is not there any more.
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
    """Return whether a process holds a folder; the folder stays as it is."""
    try:
        with _held_as_it_is(folder, folder):
            return False
    except FileNotFoundError:
        return False
    except UsageError:
        return True


def is_unfinished(path: Path) -> bool:
    """Say whether a name is that of an unfinished file or folder, perhaps left by a kill."""
    return path.name.startswith(".") and path.name.endswith(".partial")


def copy_files(source: Path, target: Path) -> None:
    """Copy the files of a folder and its subfolders into another one, which is made if missing.

    Raises:
        OSError: for the first file that cannot be copied; `shutil.copytree` raises a list of them.
    """
    for path in filter(Path.is_file, sorted(source.rglob("*"))):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def remove_folder(folder: Path) -> None:
    """Remove a folder; it is renamed first, so that nobody finds a part of it under its name.

    Of a link to a folder, the link is removed alone.
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
    """Return the folder that holds all cached data, whether or not it is there.

    It is ``$MSSHIFT_CACHE``, or else ``$XDG_CACHE_HOME/msshift``, or else ``~/.cache/msshift``. As
    in the XDG Base Directory Specification 0.8, an empty variable counts as not set.
    """
    if own := os.environ.get("MSSHIFT_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "msshift"
    return Path.home() / ".cache" / "msshift"
