"""Unpacking a submission's archive, from whomever it is.

Members are streamed out one by one, and only plain files whose names a submission can have. Each
limit is checked before the bytes that would exceed it are written. The tar reader is a dozen lines
of our own on `tarfile.TarInfo.frombuf`: that of the standard library reads an extended header
of any size into memory, follows links and creates holes before anyone could refuse them.
"""

from __future__ import annotations

import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Never, Protocol

from msshift_bench.errors import Finding, NotFoundError, SubmissionError
from msshift_bench.leaderboard.file_list import is_expected
from msshift_bench.plumbing import DamagedInputError, open_stream

__all__ = ["LIMITS", "Limits", "unpack"]

_CHUNK = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_ZERO_BLOCK = bytes(_BLOCK)
_MAX_EXTENDED = 1 << 16
_HARMLESS_KEYS = (b"mtime", b"atime", b"ctime", b"uname", b"gname", b"uid", b"gid", b"comment")
_RATIO_FROM = 10_000_000
_MAX_PADDING = 10_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive may hold.

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


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Member:
    """One member of an archive; `stream` gives its bytes."""

    name: str
    size: int
    is_folder: bool
    stream: _Readable


def unpack(archive: Path, folder: Path, limits: Limits = LIMITS) -> None:
    """Unpack a submission into an empty folder.

    Taken are zip and tar, the latter plain or compressed with gzip, bzip2, xz or zstd. If all
    members are in one folder, that is left out.

    Args:
        archive: the archive.
        folder: an empty folder; the caller removes it if this raises.
        limits: what the archive may hold.

    Raises:
        NotFoundError: if there is no such file.
        SubmissionError: if it is no archive, or holds anything that no submission holds.
    """
    if not archive.is_file():
        raise NotFoundError(f"no file {archive}")
    size = archive.stat().st_size
    if size > limits.archive_bytes:
        _refuse(archive, "archive-too-large", f"{size} bytes; at most {limits.archive_bytes}")
    taken: dict[str, str] = {}
    tops: set[str] = set()
    total = 0
    with _members(archive) as members:
        for number, member in enumerate(members, 1):
            if number > limits.files:
                _refuse(archive, "too-many-files", f"more than {limits.files} members")
            top, name = _place(archive, member)
            tops.add(top)
            if len(tops) > 1:
                message = f"{member.name!r} is not in the folder of the other files"
                _refuse(archive, "several-folders", message)
            if member.is_folder:
                continue
            other = taken.setdefault(_folded(name), name)
            if other != name:
                _refuse(archive, "colliding-names", f"{other!r} and {name!r} collide")
            target = folder / name
            if target.exists():
                _refuse(archive, "repeated-file", f"{name!r} is there twice")
            total += member.size
            for what, found, most in (
                ("file-too-large", member.size, limits.file_bytes),
                ("archive-unpacks-too-large", total, limits.total_bytes),
                ("compression-ratio", total, max(_RATIO_FROM, limits.ratio * size)),
            ):
                if found > most:
                    _refuse(archive, what, f"{name!r}: {found} bytes where at most {most} may be")
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(archive, member, target)


def _refuse(archive: Path, code: str, message: str) -> Never:
    raise SubmissionError(
        "the archive is not unpacked:", [Finding(code, message, str(archive))]
    ) from None


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _place(archive: Path, member: _Member) -> tuple[str, str]:
    """Return the top folder that a member lies in ("" if none), and its path below it."""
    name = member.name
    if name.startswith("/"):
        _refuse(archive, "absolute-path", f"{name!r} is an absolute path")
    if "\\" in name or name[1:2] == ":":
        _refuse(archive, "windows-path", f"{name!r} is a path of Windows")
    parts = PurePosixPath(name).parts
    if ".." in parts:
        _refuse(archive, "path-traversal", f"{name!r} leads out of the archive")
    path = "/".join(parts)
    below = "/".join(parts[1:])
    if member.is_folder:
        known = len(parts) == 0 or parts[0] in ("runs", "train")
        return ("" if known else parts[0]) if parts else "", path
    if is_expected(path):
        return "", path
    if is_expected(below):
        return parts[0], below
    return _refuse(archive, "unexpected-file", f"{name!r} is no file of a submission")


def _copy(archive: Path, member: _Member, target: Path) -> None:
    left = member.size
    with target.open("xb") as file:
        while left:
            chunk = member.stream.read(min(_CHUNK, left))
            if not chunk:
                _refuse(archive, "damaged-archive", f"{member.name!r} is shorter than it says")
            file.write(chunk)
            left -= len(chunk)
    if member.stream.read(1):  # At the end of a zip's member this checks its CRC, too.
        _refuse(archive, "damaged-archive", f"{member.name!r} is longer than it says")


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[_Member]]:
    if zipfile.is_zipfile(archive):
        try:
            with (
                zipfile.ZipFile(archive) as file,
                closing(_zip_members(archive, file)) as members,
            ):
                yield members
        except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error) as error:
            _refuse(archive, "damaged-archive", str(error))
        return
    try:
        with open_stream(archive) as stream:
            yield _tar_members(archive, stream)
    except DamagedInputError as error:
        _refuse(archive, "damaged-archive", str(error))


def _zip_members(archive: Path, file: zipfile.ZipFile) -> Generator[_Member, None, None]:
    for info in file.infolist():
        mode = info.external_attr >> 16
        if info.flag_bits & 1:
            _refuse(archive, "encrypted", f"{info.filename!r} is encrypted")
        # What was zipped on Windows has no mode.
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            _refuse(archive, "not-a-file", f"{info.filename!r} is a link or a device")
        with file.open(info) as stream:
            yield _Member(info.orig_filename, info.file_size, info.is_dir(), stream)


def _tar_members(archive: Path, stream: BinaryIO) -> Iterator[_Member]:
    while True:
        header = _read(archive, stream, _BLOCK)
        if header in (b"", _ZERO_BLOCK):
            _check_end(archive, stream)
            return
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError) as error:
            _refuse(archive, "not-an-archive", f"neither zip nor tar: {error}")
        if info.size < 0:
            _refuse(archive, "damaged-archive", f"{info.name!r} has the size {info.size}")
        padded = -(-info.size // _BLOCK) * _BLOCK
        if info.type in (tarfile.XHDTYPE, tarfile.XGLTYPE):
            if info.size > _MAX_EXTENDED:
                _refuse(archive, "extended-header", f"a header of {info.size} bytes")
            _check_extended(archive, _read(archive, stream, padded)[: info.size])
            continue
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE):
            kinds = {tarfile.GNUTYPE_SPARSE: "sparse-file", tarfile.GNUTYPE_LONGNAME: "long-name"}
            code = kinds.get(info.type, "not-a-file")
            message = f"{info.name!r} is no plain file (tar's type {info.type.decode('latin-1')!r})"
            _refuse(archive, code, message)
        if info.isdir() and info.size:
            _refuse(archive, "damaged-archive", f"the folder {info.name!r} has a size")
        member = _Portion(stream, info.size)
        yield _Member(info.name, info.size, info.isdir(), member)
        _read(archive, stream, padded - info.size)


class _Portion:
    """The next bytes of a stream."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int, /) -> bytes:
        chunk = self._stream.read(min(size, self._left))
        self._left -= len(chunk)
        return chunk


def _read(archive: Path, stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if data and len(data) < size:
        _refuse(archive, "damaged-archive", "ends in the middle")
    return data


def _check_end(archive: Path, stream: BinaryIO) -> None:
    """Read on to the end, where alone a compressed stream shows that it is whole."""
    padding = 0
    while chunk := stream.read(_CHUNK):
        padding += len(chunk)
        if chunk.strip(b"\0"):
            _refuse(archive, "damaged-archive", "holds more behind its end")
        if padding > _MAX_PADDING:
            _refuse(archive, "damaged-archive", f"ends in more than {_MAX_PADDING} zero bytes")


def _check_extended(archive: Path, records: bytes) -> None:
    """Refuse extended headers that change what a member is: ``<length> <key>=<value>`` lines."""
    for record in records.split(b"\n"):
        key = record.partition(b" ")[2].partition(b"=")[0]
        if key and key not in _HARMLESS_KEYS and not key.startswith((b"LIBARCHIVE", b"SCHILY")):
            code = "sparse-file" if key.startswith(b"GNU.sparse") else "extended-header"
            shown = key[:40].decode("latin-1")
            _refuse(archive, code, f"an extended header sets {shown!r}")
