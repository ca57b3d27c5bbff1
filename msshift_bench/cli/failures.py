"""Turn errors of the system (full disk, no permission, no memory) into a message and an exit code.

Errors raised on purpose (`errors.MsShiftError`) contain their own advice. All other errors are
bugs, whose reports need Python's traceback.
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
"""Maximal number of characters of a path in a message; longer ones are shortened."""


Failure = tuple[str, int]
"""The message (path, error, fix; "" after a broken pipe), and the exit code: 1 if data failed a
check, 2 if the user can correct the request, 3 if the system refuses it."""


_USAGE: Mapping[int, str] = {
    errno.EISDIR: "this is a folder; give a file",
    errno.ENOTDIR: "a part of this path is a file; give a path of folders",
    errno.ENAMETOOLONG: "the name is too long for the file system; choose a shorter one",
    errno.ELOOP: "its symbolic links form a loop",
}
"""Error number -> the error in the requested path."""

_ADVICE: Mapping[int, str] = {
    errno.ENOENT: "correct the path, or choose another folder",
    errno.ENOSPC: "free disk space and run the command again",
    errno.EDQUOT: "free disk space and run the command again",
    errno.EFBIG: "raise the limit (ulimit -f), or write to another file system",
    errno.EACCES: "get permission for it, or choose another folder",
    errno.EPERM: "get permission for it, or choose another folder",
    errno.EROFS: "choose another folder",
    errno.EMFILE: "raise the limit (ulimit -n)",
}
"""Error number -> the fix."""


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a write without enough space."""


def explain(error: BaseException) -> Failure | None:
    """Return the message and exit code for an error, or for its cause; `None` for a bug."""
    text = str(error)
    if isinstance(error, MsShiftError):
        return text, error.exit_code
    # torch's error for a full GPU has its own class; importing torch here would be slow.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return ": ".join(filter(None, ["not enough memory", text.partition("\n")[0]])), 3
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
        # Libraries in C++ and Rust raise other errors, with the system's text.
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
        f"{wrong!a} cannot be written in {error.encoding}, the encoding of the environment; "
        "set PYTHONUTF8=1",
        2,
    )


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}...{text[-_LONGEST // 4 :]} ({len(text)} characters)"


def open_missing_streams() -> None:
    """Open the null device for each standard stream that is closed.

    Otherwise the next opened file would get the stream's descriptor. Messages for a closed stderr
    are dropped. A closed stdin stays `None`; functions that read it must check this.

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
        raise MissingError("stdout is closed, and results go there; add >/dev/null to drop them")


def report_error(error: Exception) -> int:
    """Print an error on stderr, with its traceback if `DEBUG` is set; return the exit code.

    The error of a broken pipe is not printed.

    Raises:
        Exception: the error itself, if it is a bug.
    """
    if isinstance(error, OSError) and error.filename is None:
        # After a failed write the buffer is empty, and a flush alone would succeed.
        if not _flush(sys.stdout, 1, "\n"):
            error.filename = "stdout"
    else:
        _flush(sys.stdout, 1)
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
        _flush(sys.stderr, 2)
    return exit_code


def _flush(stream: TextIO | None, descriptor: int, last: str = "") -> bool:
    """Write `last` to a standard stream, and flush it; return whether this succeeded.

    On failure, the stream is redirected to the null device, so that Python can exit.
    """
    try:
        if stream is not None:
            stream.write(last)
            stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        return False
    return True
