"""Hostile and broken submissions: each is refused, or classed, as it should be."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.collection import open_collection
from msshift_bench.dataset import load_dataset
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import DataError, Finding, SubmissionError
from msshift_bench.leaderboard import archive as archives
from msshift_bench.leaderboard import scores as scores_module
from msshift_bench.leaderboard.adding import add_submission
from msshift_bench.leaderboard.check import Checked, check_submission
from msshift_bench.leaderboard.check_entries import check_entries
from msshift_bench.leaderboard.file_list import write_file_list
from msshift_bench.leaderboard.strict_json import dump_json
from msshift_bench.leaderboard.submitting import submit
from msshift_bench.leaderboard.training import ids_digest, write_ids
from tests.fabricated import write_meta, write_runs

Json = dict[str, Any]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "msshift"
    build_dataset(open_collection("mini"), ["length"], folder)
    return folder


@pytest.fixture(scope="module")
def good(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission that is accepted."""
    folder = tmp_path_factory.mktemp("good")
    runs = write_runs(folder / "runs" / "made-up", data)
    meta = write_meta(folder / "meta.toml", length="msshift")
    submit(runs, meta, folder / "submission", data)
    return folder / "submission"


@pytest.fixture(scope="module")
def entries(good: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("entries")
    add_submission(good, folder, data)
    return folder


@pytest.fixture
def broken(good: Path, tmp_path: Path) -> Path:
    """A copy of the submission, to be spoiled."""
    return Path(shutil.copytree(good, tmp_path / "submission"))


def errors(checked: Checked) -> list[Finding]:
    return [one for one in checked.findings if one.severity == "error"]


def assert_refused(checked: Checked, code: str, message: str) -> None:
    found = errors(checked)
    assert code in [one.code for one in found], found
    assert any(one.code == code and message in str(one) for one in found), found
    assert not checked.accepted


def read(folder: Path) -> Json:
    value: Json = json.loads((folder / "submission.json").read_bytes())
    return value


def seal(folder: Path, value: Json | None = None) -> None:
    """Write the submission, and a list of files that fits: a forger can do as much."""
    if value is not None:
        (folder / "submission.json").write_bytes(dump_json(value))
    write_file_list(folder)


def test_the_good_one_is_accepted(good: Path, data: Path) -> None:
    checked = check_submission(good, data=data)
    assert checked.findings == []
    assert checked.rescored == ("length",)
    assert checked.exposure == "held-out"


# Archives.

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
    "text": (lambda p: write(p, b"hello\n" * 200), "not-an-archive", "neither zip nor tar"),
}


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def cut(path: Path, size: int) -> Path:
    return write(path, path.read_bytes()[:size])


def flip(path: Path, position: int) -> Path:
    content = bytearray(path.read_bytes())
    content[position] ^= 255
    return write(path, bytes(content))


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


# What a forger can change in submission.json.


def at(value: Any, path: str) -> tuple[Any, str]:
    *parents, last = path.split("/")
    for part in parents:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value, last


def put(path: str, new: Any) -> Callable[[Json], None]:
    def change(value: Json) -> None:
        parent, key = at(value, path)
        parent[int(key) if isinstance(parent, list) else key] = new

    return change


def drop(path: str) -> Callable[[Json], None]:
    def change(value: Json) -> None:
        parent, key = at(value, path)
        del parent[key]

    return change


def add(path: str, by: float) -> Callable[[Json], None]:
    def change(value: Json) -> None:
        parent, key = at(value, path)
        parent[key] += by

    return change


def both(*changes: Callable[[Json], None]) -> Callable[[Json], None]:
    def change(value: Json) -> None:
        for one in changes:
            one(value)

    return change


RR = "report/systems/0/measures/RR@10"

FIELDS: dict[str, tuple[Callable[[Json], None], str, str]] = {
    "future schema": (put("schema", 2), "future-schema", "schema 2 is newer than 1"),
    "no schema": (put("schema", "one"), "unknown-schema", "expected 1"),
    "unknown board": (put("board", "minni"), "unknown-board", "did you mean 'mini'?"),
    "other board": (
        put("board", "ms-marco"),
        "test-set-not-accepted",
        "are not test sets that ms-marco takes",
    ),
    "unknown family": (put("system/family", "dence"), "unknown-family", "did you mean 'dense'?"),
    "wrong slug": (put("system/name", "Made_Up/.."), "wrong-slug", "small letters, digits and"),
    "missing field": (drop("system/licence"), "missing-field", "system.licence: is missing"),
    "unknown field": (
        put("system/license", "MIT"),
        "unknown-field",
        "system.license: there is no such field; did you mean 'licence'?",
    ),
    "javascript link": (
        put("system/links/code", "javascript:alert(1)"),
        "wrong-link",
        "system.links.code: 'javascript:alert(1)' is not a link",
    ),
    "data link": (put("system/links/code", "data:text/html,x"), "wrong-link", "is not a link"),
    "link without a host": (put("system/links/code", "https://"), "wrong-link", "is not a link"),
    "link with a password": (
        put("system/links/code", "https://me:pw@example.org"),
        "wrong-link",
        "is not a link",
    ),
    "link with quotes": (
        put("system/links/code", 'https://example.org/"onclick="x'),
        "wrong-link",
        "is not a link",
    ),
    "unknown link": (put("system/links/blog", "https://x.org"), "unknown-link", "'blog'"),
    "no authors": (put("authors", []), "out-of-range", "authors: 0 items"),
    "long text": (put("system/title", "x" * 201), "text-too-long", "201 characters"),
    "control character": (
        put("system/title", "a\x1b[2J"),
        "control-character",
        "holds the control character U+001B",
    ),
    "text that runs backwards": (
        put("system/title", "a\u202eb"),
        "control-character",
        "RIGHT-TO-LEFT OVERRIDE",
    ),
    "date": (put("submitted", "2026-13-01"), "wrong-date", "is not a day"),
    "class": (put("training/class", "none"), "wrong-class", "makes it 'held-out'"),
    "badge without results": (
        put("badge", "reported"),
        "badge-without-results",
        "a paper's results are 'reported'",
    ),
    "seeds": (put("training/seeds", [1, 2]), "seeds-mismatch", "training.seeds says [1, 2]"),
    "negative seed": (put("training/seeds", [-1]), "out-of-range", "-1 is not from 0"),
    "cell": (
        add(f"{RR}/cells/0/mean", 0.01),
        "report-differs",
        "measures.RR@10.cells[0].mean: the report says",
    ),
    "cell as text": (put(f"{RR}/cells/0/mean", "0.9"), "wrong-type", "expected a number"),
    "negative count": (
        put("report/systems/0/test_queries/short", -1),
        "out-of-range",
        "test_queries.short: -1 is not from 1",
    ),
    "count": (
        add("report/systems/0/test_queries/short", 1),
        "scores-layout",
        "are not where they belong",
    ),
    "denominator": (
        add(f"{RR}/cells/0/queries", -1),
        "report-differs",
        "cells[0].queries: the report says 283",
    ),
    "loss": (
        add(f"{RR}/loss/groups/short/rel_loss", -0.01),
        "report-differs",
        "loss.groups.short.rel_loss",
    ),
    "mean loss": (add(f"{RR}/loss/macro/rel_loss", -0.01), "report-differs", "loss.macro.rel_loss"),
    "interval": (
        add(f"{RR}/loss/groups/long/intervals/out/high", 0.001),
        "report-differs",
        "loss.groups.long.intervals.out.high",
    ),
    "p-value": (
        put(f"{RR}/loss/groups/long/tests/t_p", 0.5),
        "report-differs",
        "loss.groups.long.tests.t_p",
    ),
    "no loss": (put(f"{RR}/loss", None), "report-differs", "measures.RR@10.loss"),
    "no measure": (drop("report/systems/0/measures/R@100"), "report-differs", "measures.R@100"),
    "partial": (put("report/systems/0/partial", True), "partial", "run files are missing"),
    "few resamples": (
        put("report/settings/resamples", 10),
        "wrong-settings",
        "settings.resamples: 10 where entries are scored with 10000",
    ),
    "kind ties": (put("report/settings/ties", "rank"), "wrong-settings", "settings.ties: 'rank'"),
    "data version": (
        put("report/data/data_version", "9.9.9"),
        "unknown-data-version",
        "'9.9.9'; this version of the package knows 1.0.0",
    ),
    "edition": (put("report/data/edition", "mine"), "unknown-edition", "'mine'"),
    "other system's report": (
        put("report/systems/0/system", "other"),
        "wrong-name",
        "'other' where the submission is of 'made-up'",
    ),
    "unknown shift": (put("report/systems/0/shift", "lengths"), "unknown-shift", "'length'?"),
    "shift of another board": (
        put("report/systems/0/shift", "resttest"),
        "unknown-shift",
        "mini has no results on resttest",
    ),
    "held-out groups swapped in the report": (
        both(
            put("report/systems/0/runs/0/held_out", "long"),
            put("report/systems/0/runs/1/held_out", "short"),
        ),
        "wrong-name",
        "is not where that run belongs",
    ),
    "run left out": (
        lambda value: value["report"]["systems"][0]["runs"].pop(),
        "wrong-runs",
        "one run for every seed and every held-out group",
    ),
    "run not listed": (
        lambda value: value["files"].pop(),
        "run-not-listed",
        "has no 'made-up/length/long.run.gz' with its digest",
    ),
    "path of a run": (
        put("files/0/path", "../../etc/passwd"),
        "wrong-path",
        "is not a path of a run set",
    ),
    "same run twice": (
        both(
            put("files/0/sha256", "0" * 64),
            put("files/1/sha256", "0" * 64),
            put("report/systems/0/runs/0/digest", "0" * 64),
            put("report/systems/0/runs/1/digest", "0" * 64),
        ),
        "same-run",
        "are the same file, and so one model",
    ),
    "training digest": (
        put("training/queries/length/short/sha256", "0" * 64),
        "wrong-ids",
        "are not those of the list",
    ),
    "test queries played down": (
        put("training/queries/length/short/count", 7),
        "wrong-ids",
        "are not those of the list",
    ),
    "list of another model": (
        put("training/queries/length/short/file", "train/length/long.txt.gz"),
        "wrong-name",
        "is another model's list",
    ),
    "list outside": (
        put("training/queries/length/short/file", "../ids.txt.gz"),
        "wrong-path",
        "is not train/<shift>/<held-out group>.txt.gz",
    ),
    "training of an unknown group": (
        put(
            "training/queries/length/C0",
            {"count": 0, "sha256": "0" * 64, "file": None, "test_queries": {}},
        ),
        "unknown-group",
        "length has no group 'C0'",
    ),
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields(name: str, broken: Path, data: Path) -> None:
    change, code, message = FIELDS[name]
    value = read(broken)
    change(value)
    seal(broken, value)
    assert_refused(check_submission(broken, data=data), code, message)


def test_everything_wrong_is_named_at_once(broken: Path) -> None:
    value = read(broken)
    for change in (drop("note"), put("system/family", "x"), put("authors", "me"), put("board", 1)):
        change(value)
    seal(broken, value)
    codes = {one.code for one in errors(check_submission(broken))}
    assert codes == {"missing-field", "unknown-family", "wrong-type", "unknown-board"}


SCRIPT = "<script>alert(1)</script>"
TEXTS = [
    "note",
    "authors/0",
    "system/title",
    "system/description",
    "system/backbone",
    "system/backbone_revision",
    "system/licence",
    "training/data",
    "training/hard_negatives",
    "training/distillation",
    "training/hardware",
]


@pytest.mark.parametrize("path", TEXTS)
def test_scripts_are_taken_as_the_text_they_are(path: str, broken: Path) -> None:
    value = read(broken)
    put(path, SCRIPT)(value)
    seal(broken, value)
    checked = check_submission(broken)
    assert checked.findings == []
    assert checked.submission is not None
    parent, key = at(checked.submission.to_json(), path)
    assert (parent[int(key)] if isinstance(parent, list) else parent[key]) == SCRIPT


# JSON that is not what it seems.

RAW: dict[str, tuple[Callable[[str], bytes], str, str]] = {
    "key twice": (
        lambda s: s.replace('"board":', '"board": "ms-marco", "board":', 1).encode(),
        "duplicate-key",
        "the key 'board' twice",
    ),
    "NaN": (
        lambda s: s.replace('"version": 1', '"version": NaN').encode(),
        "not-finite",
        "the number NaN is not finite",
    ),
    "infinity": (
        lambda s: s.replace('"version": 1', '"version": -Infinity').encode(),
        "not-finite",
        "is not finite",
    ),
    "1e999": (
        lambda s: s.replace('"version": 1', '"version": 1e999').encode(),
        "not-finite",
        "the number 1e999",
    ),
    "number of 10,000 digits": (
        lambda s: s.replace('"version": 1', f'"version": {"9" * 10_000}').encode(),
        "not-json",
        "digits",
    ),
    "nested 100,000 deep": (
        lambda s: b"[" * 100_000 + b"]" * 100_000,
        "nested-too-deep",
        "nested more than 32 deep",
    ),
    "nested 40 deep": (
        lambda s: b'{"a":' * 40 + b"1" + b"}" * 40,
        "nested-too-deep",
        "nested more than 32 deep",
    ),
    "50 MB": (lambda s: b" " * 50_000_000, "json-too-large", "50000000 bytes"),
    "not UTF-8": (lambda s: s.encode("utf-16"), "not-utf8", "byte 1 is not UTF-8"),
    "half": (lambda s: s[: len(s) // 2].encode(), "not-json", "submission.json"),
    "a list": (lambda s: b"[]", "wrong-type", "expected an object, found a list"),
    "pickle": (lambda s: pickle.dumps(s), "not-utf8", "is not UTF-8"),
}


@pytest.mark.parametrize("name", RAW)
def test_json(name: str, broken: Path) -> None:
    change, code, message = RAW[name]
    path = broken / "submission.json"
    path.write_bytes(change(path.read_text("utf-8")))
    seal(broken)
    assert_refused(check_submission(broken), code, message)


# Files.


def test_a_changed_file_is_found_by_its_digest(broken: Path) -> None:
    flip(broken / "scores.parquet", 100)
    assert_refused(check_submission(broken), "wrong-digest", "scores.parquet")


def test_a_missing_file(broken: Path) -> None:
    (broken / "scores.parquet").unlink()
    assert_refused(check_submission(broken), "missing-file", "scores.parquet")


def test_no_file_list(broken: Path) -> None:
    (broken / "manifest.json").unlink()
    assert_refused(check_submission(broken), "missing-file", "manifest.json")


def test_an_extra_file(broken: Path) -> None:
    (broken / "model.pkl").write_bytes(pickle.dumps({}))
    assert_refused(check_submission(broken), "unlisted-file", "model.pkl")
    seal(broken)
    assert_refused(check_submission(broken), "unexpected-file", "no file of a submission")


def test_a_link_in_a_folder(broken: Path) -> None:
    (broken / "scores.parquet").unlink()
    (broken / "scores.parquet").symlink_to("/etc/passwd")
    assert_refused(check_submission(broken), "not-a-file", "a link, or no plain file")


def test_a_submission_that_is_a_link(broken: Path, tmp_path: Path) -> None:
    (broken / "submission.json").rename(tmp_path / "elsewhere.json")
    (broken / "submission.json").symlink_to(tmp_path / "elsewhere.json")
    assert_refused(check_submission(broken), "not-a-file", "a link, or no plain file")


def test_swapped_run_files(broken: Path, data: Path) -> None:
    runs = broken / "runs" / "made-up" / "length"
    (runs / "short.run.gz").rename(runs / "x")
    (runs / "long.run.gz").rename(runs / "short.run.gz")
    (runs / "x").rename(runs / "long.run.gz")
    assert_refused(check_submission(broken, data=data), "wrong-digest", "short.run.gz")


def test_swapped_run_files_with_digests_to_match(broken: Path, data: Path) -> None:
    test_swapped = test_swapped_run_files
    test_swapped(broken, data)
    value = read(broken)
    runs = value["report"]["systems"][0]["runs"]
    for one, other in ((value["files"], "sha256"), (value["files"], "bytes"), (runs, "digest")):
        one[0][other], one[1][other] = one[1][other], one[0][other]
    seal(broken, value)
    assert_refused(check_submission(broken, data=data), "rescored-differs", "cells[0].mean")


def test_a_run_that_is_listed_and_not_there(broken: Path, data: Path) -> None:
    (broken / "runs" / "made-up" / "length" / "short.run.gz").unlink()
    assert_refused(check_submission(broken, data=data), "missing-file", "is listed, and not there")


def test_a_run_that_is_there_and_not_listed(broken: Path, data: Path) -> None:
    shutil.copy(
        broken / "runs" / "made-up" / "length" / "short.run.gz", broken / "runs" / "made-up" / "x"
    )
    assert_refused(check_submission(broken, data=data), "unlisted-file", "is not listed in 'files'")


# Per-query scores.


def edit_scores(folder: Path, change: Callable[[Json], None]) -> None:
    table = pq.read_table(folder / "scores.parquet")
    columns = table.to_pydict()
    change(columns)
    schema = table.schema.remove_metadata()
    pq.write_table(pa.table(columns, schema), folder / "scores.parquet")
    seal(folder)


def swap_groups(columns: Json) -> None:
    columns["group"] = [{"short": "long", "long": "short"}[one] for one in columns["group"]]


def every(name: str, value: Any) -> Callable[[Json], None]:
    return lambda columns: columns.update({name: [value] * len(columns[name])})


def first(name: str, value: Any) -> Callable[[Json], None]:
    return lambda columns: columns[name].__setitem__(0, value)


def without_a_query(columns: Json) -> None:
    keep = [one != columns["query_id"][0] for one in columns["query_id"]]
    for name, values in columns.items():
        columns[name] = [one for one, kept in zip(values, keep, strict=True) if kept]


def shuffled(columns: Json) -> None:
    for name, values in columns.items():
        columns[name] = values[::-1]


SCORES: dict[str, tuple[Callable[[Json], None], str, str]] = {
    "NaN": (first("score", float("nan")), "score-not-finite", "no finite number"),
    "infinity": (first("score", float("inf")), "score-not-finite", "no finite number"),
    "null": (first("score", None), "score-not-finite", "no finite number"),
    "above 1": (first("score", 1.5), "score-out-of-range", "is not from 0 to 1"),
    "below 0": (first("score", -0.5), "score-out-of-range", "is not from 0 to 1"),
    "another score": (first("score", 0.123), "report-differs", "cells[0].mean"),
    "all scores 1": (every("score", 1.0), "report-differs", "the per-query scores give 1.0"),
    "groups swapped": (swap_groups, "test-set-not-accepted", "or their groups"),
    "query moved": (first("group", "long"), "test-set-not-accepted", "or their groups"),
    "query added": (first("query_id", "new"), "test-set-not-accepted", "are not test sets"),
    "query removed": (without_a_query, "test-set-not-accepted", "are not test sets"),
    "another system": (every("system", "other"), "scores-layout", "they belong: system"),
    "another seed": (every("seed", 3), "scores-layout", "they belong: seed"),
    "another measure": (first("measure", "RR@100"), "scores-layout", "they belong: measure"),
    "another order": (shuffled, "scores-layout", "are not where they belong"),
    "missing queries": (every("missing", True), "report-differs", "cells[0].missing"),
    "missing under one measure": (first("missing", True), "scores-layout", "'missing' depends"),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores(name: str, broken: Path) -> None:
    change, code, message = SCORES[name]
    edit_scores(broken, change)
    assert_refused(check_submission(broken), code, message)


def test_truncated_parquet(broken: Path) -> None:
    cut(broken / "scores.parquet", 5000)
    seal(broken)
    assert_refused(check_submission(broken), "not-parquet", "not a whole Parquet file")


def test_parquet_with_other_columns(broken: Path) -> None:
    table = pq.read_table(broken / "scores.parquet").drop_columns(["missing"])
    pq.write_table(table, broken / "scores.parquet")
    seal(broken)
    assert_refused(check_submission(broken), "wrong-columns", "expected system string")


def test_parquet_that_says_it_is_huge(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores_module, "MAX_ROWS", 1000)
    assert_refused(check_submission(broken), "scores-too-large", "at most 1000")


def test_rows_beyond_those_of_the_report(broken: Path) -> None:
    table = pq.read_table(broken / "scores.parquet")
    pq.write_table(pa.concat_tables([table, table]), broken / "scores.parquet")
    seal(broken)
    assert_refused(check_submission(broken), "scores-layout", "where the report makes for")


# Systems that know too much, or are one system.


def test_a_run_that_leaks_the_qrels(data: Path, tmp_path: Path) -> None:
    queries = {
        row.query_id: row
        for group in ("short", "long")
        for row in load_dataset(data, f"length-{group}", split="test")
    }
    lines = [
        f"{query_id} Q0 {doc_id} {rank} {100 - rank} x\n"
        for query_id, row in queries.items()
        for rank, doc_id in enumerate((*row.relevant_doc_ids, "other"), 1)
    ]
    run = tmp_path / "runs" / "oracle" / "length.run"
    run.parent.mkdir(parents=True)
    run.write_text("".join(lines))
    meta = write_meta(tmp_path / "meta.toml", "oracle", length="none")
    submit(run.parent, meta, tmp_path / "submission", data)
    checked = check_submission(tmp_path / "submission", data=data)
    assert_refused(checked, "leaks-qrels", "it holds the qrels")
    with pytest.raises(SubmissionError, match="leaks-qrels"):
        add_submission(tmp_path / "submission", tmp_path / "entries", data)
    assert not (tmp_path / "entries").exists()


def test_a_held_out_model_that_is_better_everywhere(data: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs" / "odd", data)
    files = [runs / "length" / f"{group}.run.gz" for group in ("short", "long")]
    contents = [path.read_bytes() for path in files]
    for path, content in zip(files, reversed(contents), strict=True):
        path.write_bytes(content)
    meta = write_meta(tmp_path / "meta.toml", "odd", length="msshift")
    submit(runs, meta, tmp_path / "submission", data)
    checked = check_submission(tmp_path / "submission", data=data)
    (finding,) = checked.findings
    assert (finding.code, finding.severity) == ("out-above-in", "warning")
    assert checked.accepted


def test_one_run_under_two_names(good: Path, entries: Path, data: Path, tmp_path: Path) -> None:
    meta = write_meta(tmp_path / "meta.toml", "another", length="msshift")
    submit(good / "runs" / "made-up", meta, tmp_path / "submission", data)
    with pytest.raises(SubmissionError, match=r"has the bytes of a run of made-up .*\[same-run\]"):
        add_submission(tmp_path / "submission", entries, data)
    assert not (entries / "mini" / "another").exists()


def test_one_ranking_under_two_names(good: Path, entries: Path, data: Path, tmp_path: Path) -> None:
    runs = Path(shutil.copytree(good / "runs" / "made-up", tmp_path / "packed-again"))
    for path in runs.rglob("*.gz"):
        path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), mtime=1))
    meta = write_meta(tmp_path / "meta.toml", "another", length="msshift")
    submit(runs, meta, tmp_path / "submission", data)
    copy = Path(shutil.copytree(entries, tmp_path / "entries"))
    _, checked = add_submission(tmp_path / "submission", copy, data)
    assert [(one.code, one.severity) for one in checked.findings] == [("same-scores", "warning")]


# Training queries.


def with_ids(
    data: Path, tmp_path: Path, extra: Callable[[str], list[str]], one: bool = False
) -> Checked:
    runs = write_runs(tmp_path / "runs" / "made-up", data, one=one)
    for held_out in ("all",) if one else ("short", "long"):
        other = {"short": "long", "long": "short", "all": "long"}[held_out]
        own = load_dataset(data, f"length-{other}", split="train")
        ids = (
            [row.query_id for row in own]
            if held_out == "all"
            else [row.query_id for row in load_dataset(data, f"length-{held_out}", split="train")]
        )
        write_ids(tmp_path / "ids" / f"{held_out}.txt.gz", {*ids, *extra(held_out)})
    meta = write_meta(tmp_path / "meta.toml", length="ids/{held_out}.txt.gz")
    submit(runs, meta, tmp_path / "submission", data)
    return check_submission(tmp_path / "submission", data=data)


def test_queries(data: Path, group: str) -> list[str]:
    return [row.query_id for row in load_dataset(data, f"length-{group}", split="test")]


test_queries.__test__ = False  # type: ignore[attr-defined]


def test_declared_and_held_out(data: Path, tmp_path: Path) -> None:
    checked = with_ids(data, tmp_path, lambda held_out: [])
    assert (checked.exposure, checked.findings) == ("held-out", [])


def test_trained_on_the_held_out_test_queries(data: Path, tmp_path: Path) -> None:
    checked = with_ids(data, tmp_path, lambda held_out: test_queries(data, held_out)[:5])
    assert checked.accepted
    assert checked.exposure == "trained-on-test"
    assert checked.submission is not None
    models = checked.submission.training.queries["length"]
    assert models["short"].test_queries == {"short": 5, "long": 0}
    assert {one.code for one in checked.findings} == {"saw-held-out-group"}


def test_trained_on_another_group_s_test_queries(data: Path, tmp_path: Path) -> None:
    other = {"short": "long", "long": "short"}
    checked = with_ids(data, tmp_path, lambda held_out: test_queries(data, other[held_out])[:3])
    assert (checked.exposure, checked.findings) == ("trained-on-test", [])


def test_a_public_model_trained_on_test_queries(data: Path, tmp_path: Path) -> None:
    checked = with_ids(data, tmp_path, lambda held_out: test_queries(data, "short"), one=True)
    assert (checked.exposure, checked.findings) == ("trained-on-test", [])


def test_undeclared(data: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs" / "made-up", data)
    submit(runs, write_meta(tmp_path / "m", length="undeclared"), tmp_path / "out", data)
    checked = check_submission(tmp_path / "out", data=data)
    assert (checked.exposure, checked.findings) == ("undeclared", [])


def test_untrained(data: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs" / "made-up", data, one=True)
    submit(runs, write_meta(tmp_path / "m", length="none"), tmp_path / "out", data)
    checked = check_submission(tmp_path / "out", data=data)
    assert (checked.exposure, checked.findings) == ("none", [])


def test_test_queries_hidden_from_the_list(data: Path, tmp_path: Path) -> None:
    with_ids(data, tmp_path, lambda held_out: test_queries(data, held_out)[:5])
    folder = tmp_path / "submission"
    value = read(folder)
    for ids in value["training"]["queries"]["length"].values():
        ids["test_queries"] = {"short": 0, "long": 0}
    value["training"]["class"] = "held-out"
    seal(folder, value)
    assert_refused(check_submission(folder), "wrong-ids", "the test queries among them")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"q1\nq1\n", "repeated-id"),
        (b"q1\n\nq2\n", "not-an-id"),
        (b"q1 a query\n", "not-an-id"),
        (b"\xff\xfe", "not-utf8"),
        (gzip.compress(b"q1\n")[:-6], "damaged-ids"),
        (gzip.compress(b"0" * 110_000_000, 1), "ids-too-large"),
    ],
)
def test_lists_that_are_none(
    content: bytes, code: str, data: Path, tmp_path: Path, broken: Path
) -> None:
    value = read(broken)
    value["training"]["queries"]["length"]["short"]["file"] = "train/length/short.txt.gz"
    path = broken / "train" / "length" / "short.txt.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    seal(broken, value)
    assert_refused(check_submission(broken), code, "short.txt.gz")


def test_a_list_of_no_query(broken: Path, data: Path) -> None:
    """Declaring that a model was trained on nothing is a claim, and not the data set's split."""
    value = read(broken)
    for ids in value["training"]["queries"]["length"].values():
        ids.update(count=0, sha256=ids_digest(()))
    seal(broken, value)
    assert_refused(check_submission(broken, data=data), "not-untrained", "for every group")


# Adding.


def test_adding_without_runs(good: Path, broken: Path, data: Path, tmp_path: Path) -> None:
    shutil.rmtree(broken / "runs")
    with pytest.raises(SubmissionError, match="its run files are not at hand"):
        add_submission(broken, tmp_path / "entries", data)
    folder, checked = add_submission(broken, tmp_path / "entries", data, runs=good / "runs")
    assert checked.rescored == ("length",)
    assert (folder / "scores.parquet").is_file()


def test_adding_with_other_data(good: Path, tmp_path: Path) -> None:
    build_dataset(open_collection("mini"), ["wh-words"], tmp_path / "other")
    with pytest.raises(SubmissionError, match="has other test queries"):
        add_submission(good, tmp_path / "entries", tmp_path / "other")


def test_claiming_a_badge(broken: Path, data: Path, tmp_path: Path) -> None:
    value = read(broken)
    value["badge"] = "reproduced"
    seal(broken, value)
    with pytest.raises(SubmissionError, match="the badge 'reproduced' is the maintainers' to give"):
        add_submission(broken, tmp_path / "entries", data)


def test_a_new_version_needs_a_note(
    good: Path, broken: Path, data: Path, entries: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(entries, tmp_path / "entries"))
    with pytest.raises(SubmissionError, match="note-needed"):
        add_submission(good, copy, data)
    value = read(broken)
    value["note"] = "The first was trained too briefly."
    seal(broken, value)
    folder, _ = add_submission(broken, copy, data)
    assert folder.name == "v2"
    assert check_entries(copy, base=entries, data=data, runs=good / "runs").accepted


def test_reproduced(good: Path, data: Path, tmp_path: Path) -> None:
    folder, _ = add_submission(good, tmp_path, data, reproduced="Trained again: recipe mini.")
    value = read(folder)
    assert (value["badge"], value["note"]) == ("reproduced", "Trained again: recipe mini.")


# Entries, and what they were before.


def rename(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / new).parent.mkdir(parents=True, exist_ok=True)
        (folder / old).rename(folder / new)

    return change


def edit_entry(path: str, new: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        version = folder / "mini" / "made-up" / "v1"
        value = read(version)
        put(path, new)(value)
        seal(version, value)

    return change


def copy_version(folder: Path) -> None:
    system = folder / "mini" / "made-up"
    shutil.copytree(system / "v1", system / "v2")
    value = read(system / "v2")
    value["version"] = 2
    seal(system / "v2", value)


V1 = "mini/made-up/v1"
ENTRIES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "version removed": (lambda f: shutil.rmtree(f / V1), "removed", "was there before"),
    "system removed": (lambda f: shutil.rmtree(f / "mini"), "removed", "was there before"),
    "version changed": (edit_entry("system/title", "Better"), "changed", "not what it was before"),
    "file added to a version": (
        lambda f: write(f / V1 / "train", b"") and None,
        "changed",
        "was not in this version before",
    ),
    "version skipped": (
        lambda f: shutil.copytree(f / V1, f / "mini" / "made-up" / "v3") and None,
        "version-gap",
        "versions 1, 3; expected 1, 2, ...",
    ),
    "version without a note": (copy_version, "note-needed", "why it replaces the last"),
    "folder of another system": (
        rename("mini/made-up", "mini/other"),
        "wrong-folder",
        "version 1 of made-up on mini",
    ),
    "folder of another board": (
        rename("mini", "msmarco-pool"),
        "wrong-folder",
        "it belongs into mini/made-up/v1",
    ),
    "folder of no board": (rename("mini", "mine"), "unknown-board", "not a board"),
    "file beside versions": (
        lambda f: write(f / "mini" / "made-up" / "notes.txt", b"x") and None,
        "unexpected-file",
        "expected folders v1, v2",
    ),
    "file beside systems": (
        lambda f: write(f / "mini" / "run.sh", b"x") and None,
        "unexpected-file",
        "expected a folder for each system",
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_entries(name: str, entries: Path, tmp_path: Path) -> None:
    change, code, message = ENTRIES[name]
    copy = Path(shutil.copytree(entries, tmp_path / "entries"))
    change(copy)
    found = check_entries(copy, base=entries)
    assert not found.accepted
    all_findings = [*found.findings, *(one for v in found.versions for one in v.findings)]
    assert any(one.code == code and message in str(one) for one in all_findings), all_findings


def test_two_entries_that_are_one_run(entries: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(entries, tmp_path / "entries"))
    shutil.copytree(copy / "mini" / "made-up", copy / "mini" / "twin")
    codes = {one.code for one in check_entries(copy).findings}
    assert "same-run" not in codes  # One name: the folder is wrong, the system is the same.
    version = copy / "mini" / "twin" / "v1"
    value = json.loads((version / "submission.json").read_text().replace("made-up", "twin"))
    table = pq.read_table(version / "scores.parquet")
    column = pa.array(["twin"] * len(table))
    pq.write_table(table.set_column(0, "system", column), version / "scores.parquet")
    seal(version, value)
    found = check_entries(copy)
    assert [one.code for one in found.findings] == ["same-run"]
    assert all(one.accepted for one in found.versions)


# meta.toml.

META: dict[str, tuple[str, str, str, str]] = {
    "unknown key": ('licence = "', 'license = "', "unknown-field", "did you mean 'licence'?"),
    "family": ('"dense"', '"dens"', "unknown-family", "did you mean 'dense'?"),
    "board": ('board = "mini"', 'board = "maxi"', "unknown-board", "meta.toml:2: board"),
    "empty title": ('"Made up"', '" "', "empty-text", "system.title: must not be empty"),
    "link": ("https://", "ftp://", "wrong-link", "system.links.code"),
    "no author": ('["Ada Lovelace"]', "[]", "out-of-range", "authors: 0 items"),
    "seeds as text": ("seeds = []", 'seeds = "1"', "wrong-type", "expected a list, found a text"),
    "not TOML": ("[system]", "[system", "not-toml", "meta.toml:7"),
    "shift": ("length =", "lenght =", "unknown-field", "did you mean 'length'?"),
    "shift left out": ('length = "msshift"', "", "missing-field", "is missing, and there are runs"),
    "untrained": ('length = "msshift"', 'length = "none"', "not-untrained", "'none', but there is"),
    "other board": (
        'board = "mini"',
        'board = "ms-marco"',
        "test-set-not-accepted",
        "ms-marco does not take results on the test queries of length",
    ),
}


@pytest.mark.parametrize("name", META)
def test_descriptions(name: str, good: Path, data: Path, tmp_path: Path) -> None:
    old, new, code, message = META[name]
    meta = write_meta(tmp_path / "meta.toml", length="msshift")
    content = meta.read_text()
    assert old in content
    meta.write_text(content.replace(old, new, 1))
    with pytest.raises(DataError) as caught:
        submit(good / "runs" / "made-up", meta, tmp_path / "out", data)
    assert any(one.code == code and message in str(one) for one in caught.value.findings), caught
    assert not (tmp_path / "out").exists()
