"""What `msshift doctor` sees, and its exit codes."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from email.message import Message
from importlib.machinery import ModuleSpec
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from typer.testing import CliRunner

from msshift_bench import doctor
from msshift_bench.cli import app
from msshift_bench.doctor import Diagnosis, State, diagnose, prune_cache
from msshift_bench.errors import install_fix
from msshift_bench.plumbing import lock_folder
from tests.conftest import Build, Command


def test_what_extras_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = Message()
    for extra in ("some", "old", "none", "all"):
        metadata["Provides-Extra"] = extra
    needs = [
        "numpy>=2",
        'pyarrow>=1; extra == "some"',
        'pyarrow>=9999; extra == "old"',
        'no-such-package>=1; extra == "none"',
        'msshift-bench[some,old]; extra == "all"',
    ]
    fake = SimpleNamespace(requires=needs, metadata=metadata)
    monkeypatch.setattr(doctor, "distribution", lambda _: fake)
    package, core, none, old, some = doctor._installation()
    assert (package.state, core.state, some.state) == ("ok", "ok", "ok")
    assert (none.state, none.text) == ("note", "none: not installed (no-such-package)")
    assert none.cure == install_fix("none")
    assert (old.state, "(>=9999 is needed)" in old.text) == ("warning", True)
    assert some.text == "some: installed"
    needs[0] = "numpy>=9999"
    core = list(doctor._installation())[1]
    assert (core.state, core.cure) == ("missing", install_fix())
    monkeypatch.setattr(doctor, "distribution", lambda _: distribution("no-such-package"))
    package, unknown = doctor._installation()
    assert (package.state, unknown.state) == ("ok", "warning")
    assert "not installed; its extras are unknown" in unknown.text
    assert unknown.cure == install_fix()


def gpus(monkeypatch: pytest.MonkeyPatch, *names: str, cuda: str | None) -> list[Diagnosis]:
    """Return what is said where torch, built for this CUDA, sees GPUs of these names."""
    cards = [SimpleNamespace(name=name, total_memory=80 * 1024**3) for name in names]
    torch = ModuleType("torch")
    torch.__spec__ = ModuleSpec("torch", None)
    facts = {
        "__version__": "2.9.0",
        "version": SimpleNamespace(cuda=cuda),
        "cuda": SimpleNamespace(
            is_available=lambda: bool(cards),
            device_count=lambda: len(cards),
            get_device_properties=cards.__getitem__,
            is_bf16_supported=lambda: True,
        ),
    }
    vars(torch).update(facts)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return list(doctor._gpu())


def test_what_torch_can_use(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(one.state, one.text) for one in gpus(monkeypatch, "H100", "A100", cuda="12.8")]
    assert found == [("ok", "H100, 80 GB, bf16"), ("ok", "A100, 80 GB, bf16")]
    (none,) = gpus(monkeypatch, cuda="12.8")
    assert (none.state, none.text) == ("note", "no GPU that torch 2.9.0 can use")
    (processors_only,) = gpus(monkeypatch, cuda=None)
    assert processors_only.text.endswith("2.9.0 can use, which is built for CPUs only")
    assert "models train on CPUs" in processors_only.cure
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert list(doctor._gpu()) == []


@pytest.mark.parametrize(
    ("seen", "code", "summary"),
    [
        (["ok", "warning"], 0, "1 warning"),
        (["damaged", "missing"], 1, "1 damaged, 1 missing"),
        (["ok", "missing"], 3, "1 missing"),
    ],
)
def test_the_exit_code_says_whether_something_is_damaged_or_missing(
    monkeypatch: pytest.MonkeyPatch, seen: list[State], code: int, summary: str
) -> None:
    diagnoses = [Diagnosis("data", state, "a text", "a cure") for state in seen]
    monkeypatch.setattr(doctor, "diagnose", lambda *_: diagnoses)
    printed = CliRunner().invoke(app, ["doctor", "--format", "json"])
    assert printed.exit_code == code
    shown = json.loads(printed.stdout)["diagnoses"]
    assert [one["state"] for one in shown] == seen
    assert printed.stderr.endswith(f"; {summary}\n")


def test_each_data_set_is_looked_at_where_a_variable_names_one_of_them(
    build_once: Build, build_copy: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = build_copy("mini:300", "length")
    assert here.name == "msshift"
    (here / "length-short" / "test.parquet").write_bytes(b"")
    monkeypatch.chdir(here.parent)
    monkeypatch.setenv("MSSHIFT_HOME", str(build_once("mini:300", "length")))
    whole, damaged = doctor._data([])
    assert (whole.state, damaged.state) == ("ok", "damaged")
    assert "length-short/test.parquet" in damaged.text
    assert damaged.cure.startswith(f"'msshift verify {here}' lists all")
    assert [one.state for one in doctor._data(["nowhere"])] == ["missing"]
    named = diagnose(["msshift", "./msshift"])
    assert [one.state for one in named if one.code == "data"] == ["ok", "damaged"]
    (here / "manifest.json").write_text("{")
    (damaged,) = doctor._data([here])
    assert (damaged.state, damaged.cure) == ("damaged", "build or install it again")
    assert "manifest.json" in damaged.text


@pytest.mark.extended
def test_every_look_has_its_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    found = list(diagnose())
    states = {one.code: one.state for one in found}
    assert states.keys() == {"package", "requirements", "extra", "gpu", "cache", "data"}
    assert states["data"] == "note"
    named = [one.text for one in diagnose("gone") if one.code == "data"]
    assert len(named) == 1
    assert named[0].startswith("no built data set at gone ")
    # Whatever is not as it should be says what to do.
    assert all(one.cure for one in found if one.state not in ("ok", "note"))


Fill = Callable[[str, float], Path]

OLD, USED, NEW = ("a" * 64, "b" * 64, "c" * 32)


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fill:
    monkeypatch.setenv("MSSHIFT_CACHE", str(tmp_path))

    def fill(name: str, days: float) -> Path:
        """Make a folder of 1,000 bytes that was last changed so many days ago."""
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(bytes(1000))
        then = time.time() - 86_400 * days
        os.utime(folder / "file", (then, then))
        return folder

    return fill


def test_what_is_old_and_not_in_use_is_removed(fill: Fill) -> None:
    installed, old = fill("data/msshift", 100), fill(f"embeddings/{OLD}", 31)
    used, new = fill(f"embeddings/{USED}", 31), fill(f"passages/{NEW}", 1)
    # Somebody else's folder in a cache that MSSHIFT_CACHE put into a project.
    theirs = fill("embeddings/theirs", 100)
    with lock_folder(used):
        assert [pruned.text for pruned in prune_cache(days=30)] == [
            f"removed embeddings/{OLD}, 0.0 MB"
        ]
        assert (old.exists(), new.exists()) == (False, True)
        assert [pruned.text.partition(",")[0] for pruned in prune_cache()] == [
            f"removed passages/{NEW}"
        ]
    assert all(folder.exists() for folder in (installed, used, theirs))


def test_what_killed_processes_left_is_counted(fill: Fill, tmp_path: Path) -> None:
    (empty,) = doctor._cache()
    assert (empty.text, empty.cure) == (f"0.0 MB in {tmp_path}", "")
    fill(f"embeddings/{OLD}", 1)
    used = fill(f"embeddings/.{USED}.partial", 1)
    fill(f"passages/.{NEW}.partial", 1)
    with lock_folder(used):
        (cache,) = doctor._cache()
    assert cache.state == "ok"
    assert cache.text.endswith(
        f"in {tmp_path} (embeddings: 2, passages: 1), 1 of 3 folders left by killed processes"
    )
    assert "msshift doctor --prune 0" in cache.cure


def test_the_cache_from_the_command_line(fill: Fill, msshift: Command, tmp_path: Path) -> None:
    fill(f"embeddings/{OLD}", 2)
    fill(f"embeddings/{USED}", 1)
    pruned = msshift("doctor", "--prune", "1.5", MSSHIFT_CACHE=str(tmp_path))
    assert f"pruned: removed embeddings/{OLD}" in pruned.stdout
    assert "(embeddings: 1)" in pruned.stdout
    assert msshift("doctor", "--prune", "-1").returncode == 2
