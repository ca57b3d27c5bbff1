"""Hostile archives: each is refused before anything is written outside, or too much inside."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from msshift_bench.errors import SubmissionError
from msshift_bench.leaderboard import archive as archives
from tests.support.spoiling import cut, flip, write

Member = tuple[str, bytes]


def tar_of(path: Path, *members: Member | tarfile.TarInfo, mode: str = "w") -> Path:
    with tarfile.open(path, mode, format=tarfile.GNU_FORMAT) as file:  # type: ignore[call-overload]
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                file.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                file.addfile(info, io.BytesIO(member[1]))
    return path


def zip_of(path: Path, *members: Member | tuple[zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def link(name: str, kind: bytes, target: str = "/etc/passwd") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("scores.parquet")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return info


def huge_header(path: Path, size: int) -> Path:
    """A tar file that says that its first member has a size, and holds nothing of it."""
    info = tarfile.TarInfo("scores.parquet")
    info.size = size
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT))
    return path


def sparse(path: Path) -> Path:
    """What GNU tar makes of a file of 10 GB of holes."""
    info = tarfile.TarInfo("scores.parquet")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    return path


def sparse_pax(path: Path) -> Path:
    info = tarfile.TarInfo("scores.parquet")
    info.pax_headers = {"GNU.sparse.realsize": "10000000000", "GNU.sparse.major": "1"}
    path.write_bytes(info.tobuf(tarfile.PAX_FORMAT) + bytes(1024))
    return path


def extended(path: Path) -> Path:
    """A compressed tar file whose extended header alone has 300 MB."""
    info = tarfile.TarInfo("header")
    info.type, info.size = tarfile.XHDTYPE, 300_000_000
    path.write_bytes(gzip.compress(info.tobuf(tarfile.USTAR_FORMAT) + bytes(1_000_000)))
    return path


def renamed_by_header(path: Path) -> Path:
    info = tarfile.TarInfo("submission.json")
    info.pax_headers = {"path": "../../evil"}
    path.write_bytes(info.tobuf(tarfile.PAX_FORMAT) + bytes(1024))
    return path


def nested(path: Path) -> Path:
    inner = tar_of(path.with_name("inner.tar"), ("submission.json", b"{}"))
    return tar_of(path, ("inner.tar.gz", inner.read_bytes()))


RUN = "runs/made-up/length/short.run"
JSON = ("submission.json", b"{}")

ARCHIVES: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "path traversal (tar)": (
        lambda p: tar_of(p, ("../submission.json", b"{}")),
        "path-traversal",
        "leads out of the archive",
    ),
    "path traversal (zip)": (
        lambda p: zip_of(p, ("runs/../../x/submission.json", b"{}")),
        "path-traversal",
        "leads out of the archive",
    ),
    "absolute path (tar)": (
        lambda p: tar_of(p, ("/tmp/submission.json", b"{}")),
        "absolute-path",
        "'/tmp/submission.json' is an absolute path",
    ),
    "absolute path (zip)": (
        lambda p: zip_of(p, ("/submission.json", b"{}")),
        "absolute-path",
        "absolute",
    ),
    "drive of Windows": (
        lambda p: zip_of(p, ("C:/submission.json", b"{}")),
        "windows-path",
        "path of Windows",
    ),
    "backslashes": (
        lambda p: tar_of(p, ("..\\..\\submission.json", b"{}")),
        "windows-path",
        "path of Windows",
    ),
    "symbolic link (tar)": (
        lambda p: tar_of(p, link("submission.json", tarfile.SYMTYPE)),
        "not-a-file",
        "'submission.json' is no plain file",
    ),
    "symbolic link (zip)": (
        lambda p: zip_of(p, (zip_link(), b"/etc/passwd")),
        "not-a-file",
        "is a link or a device",
    ),
    "folder that is a link": (
        lambda p: tar_of(p, link("runs", tarfile.SYMTYPE, "/tmp"), (RUN, b"x")),
        "not-a-file",
        "'runs' is no plain file",
    ),
    "hard link": (
        lambda p: tar_of(p, JSON, link("scores.parquet", tarfile.LNKTYPE, "submission.json")),
        "not-a-file",
        "'scores.parquet' is no plain file",
    ),
    "device": (
        lambda p: tar_of(p, link("scores.parquet", tarfile.CHRTYPE, "")),
        "not-a-file",
        "is no plain file (tar's type '3')",
    ),
    "pipe": (
        lambda p: tar_of(p, link("scores.parquet", tarfile.FIFOTYPE, "")),
        "not-a-file",
        "'6'",
    ),
    "sparse file": (sparse, "sparse-file", "is no plain file (tar's type 'S')"),
    "sparse file by header": (sparse_pax, "sparse-file", "'GNU.sparse.realsize'"),
    "10 GB": (
        lambda p: huge_header(p, 10_000_000_000),
        "file-too-large",
        "10000000000 bytes where at most 2000000000",
    ),
    "2 GB out of 1 kB": (
        lambda p: huge_header(p, 1_999_999_999),
        "compression-ratio",
        "where at most 10000000 may be",
    ),
    "zip bomb": (
        lambda p: zip_of(p, ("scores.parquet", bytes(20_000_000))),
        "compression-ratio",
        "'scores.parquet': 20000000 bytes",
    ),
    "tar bomb": (
        lambda p: tar_of(p, ("scores.parquet", bytes(20_000_000)), mode="w:gz"),
        "compression-ratio",
        "'scores.parquet': 20000000 bytes",
    ),
    "header of 300 MB": (extended, "extended-header", "a header of 300000000 bytes"),
    "name from an extended header": (renamed_by_header, "extended-header", "sets 'path'"),
    "long name": (lambda p: tar_of(p, ("a" * 300, b"")), "long-name", "is no plain file"),
    "many files": (
        lambda p: tar_of(p, *((f"runs/made-up/length/g{n}.run", b"") for n in range(2001))),
        "too-many-files",
        "more than 2000 members",
    ),
    "archive in the archive": (nested, "unexpected-file", "'inner.tar.gz' is no file"),
    "pickle": (
        lambda p: zip_of(p, ("model.pkl", pickle.dumps({}))),
        "unexpected-file",
        "'model.pkl' is no file of a submission",
    ),
    "hidden file": (
        lambda p: tar_of(p, (".git/config", b"")),
        "unexpected-file",
        "'.git/config' is no file of a submission",
    ),
    "same name twice": (lambda p: tar_of(p, JSON, JSON), "repeated-file", "is there twice"),
    "names that differ in case": (
        lambda p: tar_of(p, (RUN, b"x"), (RUN.replace("short", "SHORT"), b"x")),
        "colliding-names",
        "collide",
    ),
    "name in another normal form": (
        lambda p: zip_of(p, ("runs/made-up/length/sho\u0301rt.run", b"x")),
        "unexpected-file",
        "is no file of a submission",
    ),
    "two folders": (
        lambda p: tar_of(p, ("a/submission.json", b"{}"), ("b/manifest.json", b"{}")),
        "several-folders",
        "is not in the folder of the other files",
    ),
    "cut tar": (
        lambda p: cut(tar_of(p, ("scores.parquet", bytes(3000))), 2000),
        "damaged-archive",
        "shorter than it says",
    ),
    "cut gzip": (
        lambda p: cut(tar_of(p, ("scores.parquet", os.urandom(9000)), mode="w:gz"), 5000),
        "damaged-archive",
        "damaged",
    ),
    "wrong checksum (zip)": (
        lambda p: flip(zip_of(p, ("scores.parquet", os.urandom(3000))), 1500),
        "damaged-archive",
        "Bad CRC-32",
    ),
    "wrong checksum (gzip)": (
        lambda p: flip(tar_of(p, ("scores.parquet", os.urandom(3000)), mode="w:gz"), -6),
        "damaged-archive",
        "incorrect data check",
    ),
    "cut behind the end of the tar": (
        lambda p: cut(tar_of(p, JSON, mode="w:xz"), -4),
        "damaged-archive",
        "ends too early",
    ),
    "more behind the end": (
        lambda p: write(p, tar_of(p, JSON).read_bytes() + b"x"),
        "damaged-archive",
        "holds more behind its end",
    ),
    "endless zeros behind the end": (
        lambda p: write(p, gzip.compress(bytes(12_000_000))),
        "damaged-archive",
        "zero bytes",
    ),
    "text": (lambda p: write(p, b"hello\n" * 200), "not-an-archive", "neither zip nor tar"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives(name: str, tmp_path: Path) -> None:
    make, code, message = ARCHIVES[name]
    (tmp_path / "in").mkdir()
    target = tmp_path / "out" / "folder"
    target.mkdir(parents=True)
    with pytest.raises(SubmissionError) as caught:
        archives.unpack(make(tmp_path / "in" / "archive"), target)
    (finding,) = caught.value.findings
    assert (finding.code, message in finding.message) == (code, True), finding
    written = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    assert written < 1_000_000
    assert [path.name for path in target.parent.iterdir()] == ["folder"]


@pytest.mark.parametrize("suffix", ["zip", "tar", "tar.gz", "tar.xz", "tar.bz2", "tar.zst"])
def test_a_good_archive_gives_the_same_files(suffix: str, good: Path, tmp_path: Path) -> None:
    path = tmp_path / f"submission.{suffix}"
    if suffix == "zip":
        shutil.make_archive(str(tmp_path / "submission"), "zip", good.parent, good.name)
    else:
        mode = suffix.removeprefix("tar").replace(".zst", "").replace(".", ":") or ":"
        with tarfile.open(path, f"w{mode}", format=tarfile.PAX_FORMAT) as file:  # type: ignore[call-overload]
            file.add(good, "submission")
        if suffix == "tar.zst":
            content = path.read_bytes()
            with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as stream:
                stream.write(content)
    (tmp_path / "out").mkdir()
    archives.unpack(path, tmp_path / "out")
    files = {p.relative_to(good): p.read_bytes() for p in good.rglob("*") if p.is_file()}
    out = tmp_path / "out"
    assert {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()} == files
