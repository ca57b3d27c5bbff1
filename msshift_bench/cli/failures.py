"""Turn errors of the system (a full disk, no rights, no memory) into a sentence and an exit code.

Errors raised on purpose (`errors.MsShiftError`) say what to do themselves. Anything else is a bug,
and its report needs Python's traceback.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Mapping
from typing import TextIO

from msshift_bench.cli.output import note
from msshift_bench.errors import NOT_UTF8, MissingError, MsShiftError

DEBUG = "MSSHIFT_DEBUG"
"""The environment variable that makes errors print their tracebacks."""

_LONGEST = 100
"""Most characters of a path that a message spells out."""


Failure = tuple[str, int]
"""What to tell the user: one sentence (what, where, and what to do), "" if nobody reads it, and the
exit code: 2 if the user can correct the request, 3 if the system refuses it."""


_USAGE: Mapping[int, str] = {
    errno.EISDIR: "it is a folder, and a file was expected",
    errno.ENOTDIR: "a part of this path is a file, and a folder was expected",
    errno.ENAMETOOLONG: "the name is too long for the file system; choose a shorter one",
    errno.ELOOP: "its links lead in a circle",
}
"""Error number -> what is wrong with the path in the request."""

_ADVICE: Mapping[int, str] = {
    errno.ENOENT: "correct the name, or choose another place",
    errno.ENOSPC: "make room and run the command again",
    errno.EDQUOT: "make room and run the command again",
    errno.EFBIG: "raise the limit (ulimit -f), or write elsewhere",
    errno.EACCES: "get the right to it, or choose another place",
    errno.EPERM: "get the right to it, or choose another place",
    errno.EROFS: "choose another place",
    errno.EMFILE: "raise the limit (ulimit -n)",
}
"""Error number -> what to do where the system refuses."""


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a write that does not fit."""


def explain(error: BaseException) -> Failure | None:
    """Return what to tell the user about an error; `None` for an error that is a bug."""
    text = str(error)
    if isinstance(error, MsShiftError):
        return text, error.exit_code
    # torch has its own error for a GPU without memory; importing torch for it would be slow.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return ": ".join(
            filter(None, ["there is not enough memory for this", text.partition("\n")[0]])
        ), 3
    if isinstance(error, BrokenPipeError):
        return "", 3
    if isinstance(error, OSError):
        return _explain_system(error)
    if isinstance(error, UnicodeEncodeError):
        return _explain_encoding(error)
    if isinstance(error, RuntimeError) and "Symlink loop" in text:
        return f"{text}: {_USAGE[errno.ELOOP]}", 2
    if isinstance(error, RuntimeError) and "home directory" in text:
        return f"{text.rstrip('.')}; set HOME, or write the path without ~", 3
    for number in _NO_ROOM:
        # Libraries in C++ and Rust raise errors of their own, with the system's text.
        if os.strerror(number) in text:
            return f"{os.strerror(number)}; {_ADVICE[number]}", 3
    return explain(error.__cause__) if error.__cause__ is not None else None


def _explain_system(error: OSError) -> Failure:
    path = error.filename if error.filename2 is None else error.filename2
    where = "" if path is None or isinstance(path, int) else f"{_short(os.fsdecode(path))}: "
    number = error.errno or 0
    if number in _USAGE:
        return f"{where or 'a path: '}{_USAGE[number]}", 2
    what = error.strerror or str(error) or type(error).__name__
    return "; ".join(filter(None, [f"{where}{what}", _ADVICE.get(number)])), 3


def _explain_encoding(error: UnicodeEncodeError) -> Failure:
    wrong = error.object[error.start : error.end]
    if any("\ud800" <= letter <= "\udfff" for letter in wrong):
        return f"{_short(ascii(error.object))}: {NOT_UTF8}", 2
    return (
        f"{wrong!a} cannot be written in {error.encoding}, which the environment asks for; "
        "set PYTHONUTF8=1",
        2,
    )


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}...{text[-_LONGEST // 4 :]} ({len(text)} characters)"


def ready_streams() -> None:
    """Open the null device for each standard stream that is closed.

    Otherwise a file that we open would take the stream's number. Messages for a closed stderr are
    dropped. A closed stdin stays missing: whoever reads it must say so.

    Raises:
        MissingError: if stdout is closed, since results would be lost.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stdout is None:
        raise MissingError("stdout is closed, and results go there; to drop them: >/dev/null")


def tell(error: Exception) -> int:
    """Print an error on stderr, with its traceback if `DEBUG` is set.

    Returns:
        The exit code.

    Raises:
        Exception: the error itself, if it is a bug.
    """
    if isinstance(error, OSError) and error.filename is None:
        # What was too long for the buffer is gone, and a flush alone would succeed.
        if not _flushed(sys.stdout, 1, "\n"):
            error.filename = "stdout"
    else:
        _flushed(sys.stdout, 1)
    failure = explain(error)
    if failure is None:
        raise error
    message, exit_code = failure
    try:
        if os.environ.get(DEBUG, "") not in ("", "0"):
            traceback.print_exception(error)
        if message:
            note(f"error: {message}")
    except OSError:
        _flushed(sys.stderr, 2)
    return exit_code


def _flushed(stream: TextIO | None, descriptor: int, last: str = "") -> bool:
    """Write to a standard stream what comes last, and flush it.

    If that fails, the stream is pointed at the null device, so that exit works.
    """
    try:
        if stream is not None:
            stream.write(last)
            stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        return False
    return True
