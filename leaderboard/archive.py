"""Unpacking a submission's zip file, which may come from anybody.

It streams members out one by one, and only plain files whose names a submission can have. It checks
each limit before it writes the bytes that would exceed it, so a zip bomb fills no disk.
"""

from __future__ import annotations

import stat
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Never

from msshift_bench.errors import Finding, NotFoundError, SubmissionError
from msshift_bench.leaderboard.file_list import is_expected

__all__ = ["LIMITS", "Limits", "unpack"]

_CHUNK = 1 << 20
_RATIO_FROM = 10_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of an archive.

    Attributes:
        archive_bytes: size of the archive itself.
        file_bytes: size of one file.
        total_bytes: size of all files.
        files: number of members, folders included.
        ratio: how many times larger than the archive its files may be, from 10 MB on.
    """

    archive_bytes: int = 4_000_000_000
    file_bytes: int = 2_000_000_000
    total_bytes: int = 8_000_000_000
    files: int = 2000
    ratio: int = 100


LIMITS = Limits()


def unpack(archive: Path, folder: Path, limits: Limits = LIMITS) -> None:
    """Unpack a submission into an empty folder; if all members are in one folder, that is left out.

    Args:
        archive: a zip file.
        folder: an empty folder; the caller removes it if this raises.
        limits: the archive's limits.

    Raises:
        NotFoundError: if there is no such file.
        SubmissionError: if it is no zip file, exceeds a limit, or holds a file that no submission
            has.
    """
    if not archive.is_file():
        raise NotFoundError(f"no file {archive}")
    size = archive.stat().st_size
    if size > limits.archive_bytes:
        _refuse(archive, "archive-too-large", f"{size} bytes; at most {limits.archive_bytes}")
    if not zipfile.is_zipfile(archive):
        fix = "hand in the folder that 'msshift submit' wrote, or a zip file of it"
        _refuse(archive, "not-an-archive", "it is not a zip file", fix)
    try:
        with zipfile.ZipFile(archive) as file:
            _unpack_members(archive, file, folder, limits)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error) as error:
        _refuse(archive, "damaged-archive", str(error), "pack the folder again")


def _refuse(archive: Path, code: str, message: str, fix: str = "") -> Never:
    finding = Finding(code, message, str(archive), fix=fix)
    raise SubmissionError("the archive is not unpacked:", [finding]) from None


def _unpack_members(archive: Path, file: zipfile.ZipFile, folder: Path, limits: Limits) -> None:
    size = archive.stat().st_size
    taken: dict[str, str] = {}
    tops: set[str] = set()
    total = 0
    for number, member in enumerate(file.infolist(), 1):
        if number > limits.files:
            _refuse(archive, "too-many-files", f"more than {limits.files} members")
        top, name = _place(archive, member)
        tops.add(top)
        if len(tops) > 1:
            message = f"{member.orig_filename!r} is not in the folder of the other files"
            _refuse(archive, "several-folders", message)
        if member.is_dir():
            continue
        other = taken.setdefault(_folded(name), name)
        if other != name:
            _refuse(archive, "colliding-names", f"{other!r} and {name!r} collide")
        target = folder / name
        if target.exists():
            _refuse(archive, "repeated-file", f"{name!r} is there twice")
        total += member.file_size
        for code, count, most in (
            ("file-too-large", member.file_size, limits.file_bytes),
            ("archive-unpacks-too-large", total, limits.total_bytes),
            ("compression-ratio", total, max(_RATIO_FROM, limits.ratio * size)),
        ):
            if count > most:
                _refuse(archive, code, f"{name!r}: {count} bytes where at most {most} may be")
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(archive, file, member, target)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _place(archive: Path, member: zipfile.ZipInfo) -> tuple[str, str]:
    """Return the top folder that a member lies in ("" if none), and its path below it."""
    name = member.orig_filename
    mode = member.external_attr >> 16
    if member.flag_bits & 1:
        _refuse(archive, "encrypted", f"{name!r} is encrypted")
    # Members that were zipped on Windows have no mode.
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        _refuse(archive, "not-a-file", f"{name!r} is a link or a device")
    if name.startswith("/"):
        _refuse(archive, "absolute-path", f"{name!r} is an absolute path")
    if "\\" in name or name[1:2] == ":":
        _refuse(archive, "windows-path", f"{name!r} is a path of Windows")
    parts = PurePosixPath(name).parts
    if ".." in parts:
        _refuse(archive, "path-traversal", f"{name!r} leads out of the archive")
    path = "/".join(parts)
    below = "/".join(parts[1:])
    if member.is_dir():
        known = len(parts) == 0 or parts[0] in ("runs", "train")
        return ("" if known else parts[0]) if parts else "", path
    if is_expected(path):
        return "", path
    if is_expected(below):
        return parts[0], below
    fix = "pack only what 'msshift submit' wrote; macOS adds __MACOSX and .DS_Store: leave them out"
    return _refuse(archive, "unexpected-file", f"{name!r} is no file of a submission", fix)


def _copy(archive: Path, file: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    left = member.file_size
    with file.open(member) as stream, target.open("xb") as copy:
        while left:
            chunk = stream.read(min(_CHUNK, left))
            if not chunk:
                message = f"{member.orig_filename!r} is shorter than it says"
                _refuse(archive, "damaged-archive", message)
            copy.write(chunk)
            left -= len(chunk)
        # It gives no more than the member's size, and checks the CRC at its end.
        stream.read(1)
