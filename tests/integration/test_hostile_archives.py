"""Hostile archives: each is refused before anything is written outside, or too much inside."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.errors import NotFoundError, SubmissionError
from msshift_bench.leaderboard.archive import Limits, unpack
from tests.support.spoiling import cut, flip, write

RUN = "runs/made-up/length/short.run"
JSON = ("submission.json", b"{}")


def zip_of(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def of_kind(name: str, kind: int) -> zipfile.ZipInfo:
    """A member that is no plain file."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (kind | 0o777) << 16
    return info


def saying(path: Path, size: int) -> Path:
    """A zip file whose one member says that it has a size, in its directory and its header."""
    content = zip_of(path, ("scores.parquet", b"12345")).read_bytes()
    header, directory = content.index(b"PK\3\4"), content.index(b"PK\1\2")
    changed = bytearray(content)
    struct.pack_into("<I", changed, header + 22, size)
    struct.pack_into("<I", changed, directory + 24, size)
    return write(path, bytes(changed))


def encrypted(path: Path) -> Path:
    content = bytearray(zip_of(path, JSON).read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1
    return write(path, bytes(content))


def nested(path: Path) -> Path:
    inner = zip_of(path.with_name("inner.zip"), JSON)
    return zip_of(path, ("inner.zip", inner.read_bytes()))


ARCHIVES: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "path traversal": (
        lambda p: zip_of(p, ("../submission.json", b"{}")),
        "path-traversal",
        "leads out of the archive",
    ),
    "path traversal within": (
        lambda p: zip_of(p, ("runs/../../x/submission.json", b"{}")),
        "path-traversal",
        "leads out of the archive",
    ),
    "absolute path": (
        lambda p: zip_of(p, ("/tmp/submission.json", b"{}")),
        "absolute-path",
        "'/tmp/submission.json' is an absolute path",
    ),
    "drive of Windows": (
        lambda p: zip_of(p, ("C:/submission.json", b"{}")),
        "windows-path",
        "path of Windows",
    ),
    "backslashes": (
        lambda p: zip_of(p, ("..\\..\\submission.json", b"{}")),
        "windows-path",
        "path of Windows",
    ),
    "symbolic link": (
        lambda p: zip_of(p, (of_kind("submission.json", stat.S_IFLNK), b"/etc/passwd")),
        "not-a-file",
        "'submission.json' is a link or a device",
    ),
    "folder that is a link": (
        lambda p: zip_of(p, (of_kind("runs", stat.S_IFLNK), b"/tmp"), (RUN, b"x")),
        "not-a-file",
        "'runs' is a link or a device",
    ),
    "device": (
        lambda p: zip_of(p, (of_kind("scores.parquet", stat.S_IFCHR), b"")),
        "not-a-file",
        "is a link or a device",
    ),
    "pipe": (
        lambda p: zip_of(p, (of_kind("scores.parquet", stat.S_IFIFO), b"")),
        "not-a-file",
        "is a link or a device",
    ),
    "encrypted": (encrypted, "encrypted", "'submission.json' is encrypted"),
    "4 GB": (
        lambda p: saying(p, 4_000_000_000),
        "file-too-large",
        "4000000000 bytes where at most 2000000000",
    ),
    "2 GB out of 1 kB": (
        lambda p: saying(p, 1_999_999_999),
        "compression-ratio",
        "where at most 10000000 may be",
    ),
    "more than it says": (lambda p: saying(p, 3), "damaged-archive", "Bad CRC-32"),
    "less than it says": (lambda p: saying(p, 9), "damaged-archive", "shorter than it says"),
    "zip bomb": (
        lambda p: zip_of(p, ("scores.parquet", bytes(20_000_000))),
        "compression-ratio",
        "'scores.parquet': 20000000 bytes",
    ),
    "long name": (
        lambda p: zip_of(p, ("a" * 300, b"")),
        "unexpected-file",
        "is no file of a submission",
    ),
    "many files": (
        lambda p: zip_of(p, *((f"runs/made-up/length/g{n}.run", b"") for n in range(2001))),
        "too-many-files",
        "more than 2000 members",
    ),
    "archive in the archive": (nested, "unexpected-file", "'inner.zip' is no file"),
    "pickle": (
        lambda p: zip_of(p, ("model.pkl", pickle.dumps({}))),
        "unexpected-file",
        "'model.pkl' is no file of a submission",
    ),
    "hidden file": (
        lambda p: zip_of(p, (".git/config", b"")),
        "unexpected-file",
        "'.git/config' is no file of a submission",
    ),
    "names that differ in case": (
        lambda p: zip_of(p, (RUN, b"x"), (RUN.replace("short", "SHORT"), b"x")),
        "colliding-names",
        "collide",
    ),
    "name in another normal form": (
        lambda p: zip_of(p, ("runs/made-up/length/sho\u0301rt.run", b"x")),
        "unexpected-file",
        "is no file of a submission",
    ),
    "two folders": (
        lambda p: zip_of(p, ("a/submission.json", b"{}"), ("b/manifest.json", b"{}")),
        "several-folders",
        "is not in the folder of the other files",
    ),
    "wrong checksum": (
        lambda p: flip(zip_of(p, ("scores.parquet", os.urandom(3000))), 1500),
        "damaged-archive",
        "Bad CRC-32",
    ),
    "cut": (
        lambda p: cut(zip_of(p, ("scores.parquet", os.urandom(3000))), 2000),
        "not-an-archive",
        "it is not a zip file",
    ),
    "text": (lambda p: write(p, b"hello\n" * 200), "not-an-archive", "it is not a zip file"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives(name: str, tmp_path: Path) -> None:
    make, code, message = ARCHIVES[name]
    (tmp_path / "in").mkdir()
    target = tmp_path / "out" / "folder"
    target.mkdir(parents=True)
    with pytest.raises(SubmissionError) as caught:
        unpack(make(tmp_path / "in" / "archive"), target)
    (finding,) = caught.value.findings
    assert (finding.code, message in finding.message) == (code, True), finding
    written = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    assert written < 1_000_000
    assert [path.name for path in target.parent.iterdir()] == ["folder"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_same_name_twice(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "archive", JSON, JSON)
    (tmp_path / "out").mkdir()
    with pytest.raises(SubmissionError, match=r"is there twice \[repeated-file\]"):
        unpack(archive, tmp_path / "out")


def test_limits_on_all_files_together(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "archive", ("scores.parquet", bytes(600)), (RUN, bytes(600)))
    (tmp_path / "out").mkdir()
    with pytest.raises(SubmissionError, match="1200 bytes where at most 1000 may be"):
        unpack(archive, tmp_path / "out", Limits(total_bytes=1000))
    with pytest.raises(SubmissionError, match="archive-too-large"):
        unpack(archive, tmp_path / "out", Limits(archive_bytes=100))
    with pytest.raises(NotFoundError, match="no file"):
        unpack(tmp_path / "nothing", tmp_path / "out")


@pytest.mark.parametrize("folder", ["submission", ""])
def test_a_good_archive_gives_the_same_files(folder: str, good: Path, tmp_path: Path) -> None:
    base = good.name if folder else "."
    shutil.make_archive(str(tmp_path / "made"), "zip", good.parent if folder else good, base)
    out = tmp_path / "out"
    out.mkdir()
    unpack(tmp_path / "made.zip", out)
    files = {p.relative_to(good): p.read_bytes() for p in good.rglob("*") if p.is_file()}
    assert {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()} == files


@pytest.mark.parametrize("mode", ["", "gz", "bz2", "xz"])
def test_a_tar_file_is_told_to_be_a_zip_file(mode: str, good: Path, tmp_path: Path) -> None:
    path = tmp_path / "submission.tar"
    with tarfile.open(path, f"w:{mode}") as file:  # type: ignore[call-overload]
        file.add(good, "submission")
    (tmp_path / "out").mkdir()
    with pytest.raises(SubmissionError, match=r"not a zip file \[not-an-archive\]") as refused:
        unpack(path, tmp_path / "out")
    assert "hand in the folder that 'msshift submit' wrote, or a zip file of it" in str(
        refused.value
    )
    assert not any((tmp_path / "out").iterdir())
