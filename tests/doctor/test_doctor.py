"""What `msshift doctor` sees, and its exit codes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable
from email.message import Message
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from msshift_bench.doctor import checkup, installation, machine, places
from msshift_bench.doctor.diagnosis import Diagnosis
from msshift_bench.plumbing import processors
from tests.conftest import Build, Command


def states(found: Iterable[Diagnosis]) -> dict[str, str]:
    return {one.code: one.state for one in found}


@pytest.fixture
def machine_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Diagnosis]]:
    """Return what is said of threads on a machine of four processors with these settings."""

    def said(quota: str = "max 100000", **variables: str) -> list[Diagnosis]:
        (tmp_path / "cpu.max").write_text(quota)
        monkeypatch.setattr(processors, "_QUOTA", tmp_path / "cpu.max")
        monkeypatch.setattr(processors.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
        monkeypatch.setattr(machine.os, "cpu_count", lambda: 4)
        for name in (*machine._THREADS, "OMP_WAIT_POLICY"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return list(machine.look_at_threads())

    return said


def test_threads_that_wait_for_each_other(machine_of: Callable[..., list[Diagnosis]]) -> None:
    assert [one.state for one in machine_of()] == ["ok"]
    assert [one.state for one in machine_of(OMP_NUM_THREADS="4")] == ["ok"]
    (many,) = machine_of(OMP_NUM_THREADS="8")
    assert (many.state, many.cure) == ("warning", "unset OMP_NUM_THREADS")
    assert "may use 4 of 4 processors" in many.found
    # A container with a processor and a half: libraries see four.
    (few,) = machine_of(quota="150000 100000")
    assert (few.state, few.cure) == ("warning", "export OMP_NUM_THREADS=1")
    assert "1.5 of 4 processors" in few.found
    assert [one.state for one in machine_of("150000 100000", OMP_NUM_THREADS="1")] == ["ok"]
    assert states(machine_of(OMP_WAIT_POLICY="active"))["wait-policy"] == "warning"


def test_what_extras_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = Message()
    for extra in ("some", "old", "none", "both", "all"):
        metadata["Provides-Extra"] = extra
    needs = [
        "numpy>=2",
        'pyarrow>=1; extra == "some"',
        'pyarrow>=9999; extra == "old"',
        'no-such-package>=1; extra == "none"',
        'msshift-bench[some,none]; extra == "both"',
        'msshift-bench[some,old]; extra == "all"',
    ]
    fake = SimpleNamespace(requires=needs, metadata=metadata)
    monkeypatch.setattr(installation, "distribution", lambda _: fake)
    found = list(installation.look_at_installation())
    assert [one.state for one in found] == ["ok", "ok", "note", "note", "warning", "ok"]
    both, none, old, some = found[2:]
    assert both.found == "both: not installed (no-such-package)"
    assert both.cure == "pip install -U 'msshift-bench[both]'"
    assert none.found == "none: not installed (no-such-package)"
    assert "(>=9999 is needed)" in old.found
    assert some.found == "some: installed"
    needs[0] = "numpy>=9999"
    core = list(installation.look_at_installation())[1]
    assert (core.state, core.cure) == ("missing", "pip install -U msshift-bench")


def test_a_package_that_is_imported_from_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "distribution", nowhere)
    (package, unknown) = installation.look_at_installation()
    assert (package.state, unknown.state) == ("ok", "warning")
    assert "not installed; its extras are unknown" in unknown.found
    assert unknown.cure == "pip install msshift-bench"


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
    return list(machine.look_at_gpu())


def test_what_torch_can_use(monkeypatch: pytest.MonkeyPatch) -> None:
    found = gpus(monkeypatch, "H100", "A100", cuda="12.8")
    assert [(one.state, one.found) for one in found] == [
        ("ok", "H100, 80 GB, bf16"),
        ("ok", "A100, 80 GB, bf16"),
    ]
    (none,) = gpus(monkeypatch, cuda="12.8")
    assert (none.state, none.found) == ("note", "none that torch 2.9.0 can use")
    (processors_only,) = gpus(monkeypatch, cuda=None)
    assert processors_only.found.endswith("2.9.0 can use, which is built for processors")
    assert "models train on processors" in processors_only.cure
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert list(machine.look_at_gpu()) == []
    assert list(places.look_at_hub(ask=True)) == []


def test_a_full_disk_and_a_folder_of_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: SimpleNamespace(free=3 * 1024**3))
    assert {one.state for one in machine.look_at_disk()} == {"ok"}
    monkeypatch.setattr(machine.os, "access", lambda *_: False)
    assert "cannot be written" in next(machine.look_at_disk()).found
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: SimpleNamespace(free=1024))
    (first, *_) = machine.look_at_disk()
    assert first.state == "warning"
    assert "msshift cache prune" in first.cure


def test_a_hub_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants, errors, utils

    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    class Session:
        def head(self, *_: Any, **__: Any) -> None:
            raise errors.HTTPError("too late")

    monkeypatch.setattr(utils, "get_session", Session)
    (silent,) = places.look_at_hub(ask=True)
    assert silent.state == "warning"
    assert "no answer from the Hub (HTTPError)" in silent.found
    monkeypatch.setattr(Session, "head", lambda *_, **__: None)
    (answers,) = places.look_at_hub(ask=True)
    assert answers.state == "ok"
    (unasked,) = places.look_at_hub(ask=False)
    assert "not asked, as requested" in unasked.found
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    (offline,) = places.look_at_hub(ask=True)
    assert "HF_HUB_OFFLINE is set" in offline.found
    for one in (silent, answers, unasked, offline):
        assert "a token is set" in one.found
        assert "secret" not in str(one)


def test_copies_of_ms_marco_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "queries.tsv").write_text("q1\ta query\nq2\tanother query\n")
    (tmp_path / "qrels.tsv").write_text("q1\t0\td1\t1\n")
    repaired = "d1\tdon\N{RIGHT SINGLE QUOTATION MARK}t\nd2\ttext\n"
    (tmp_path / "collection.tsv").write_text(repaired)
    monkeypatch.setattr(places, "_PASSAGES", 2)
    monkeypatch.setitem(places._QUERIES, 2, "two of them")
    passages, text, queries = places.look_at_collection(str(tmp_path))
    assert "2 passages (as many as MS MARCO's)" in passages.found
    assert text.found.startswith("repaired text: 0 of the first 2 passages")
    assert "2 queries (two of them), 1 of them judged" in queries.found
    raw = repaired.encode().decode("latin-1")
    (tmp_path / "collection.tsv").write_text(raw, encoding="utf-8")
    monkeypatch.setattr(places, "_LOOKED_AT", 1)
    text = list(places.look_at_collection(str(tmp_path)))[1]
    assert text.found.startswith("raw text: 1 of the first 1 passages")
    monkeypatch.setattr(places, "_LOOKED_AT", 100_000)
    text = list(places.look_at_collection(str(tmp_path)))[1]
    assert text.found.startswith("raw text: 1 of the first 2 passages")
    (tmp_path / "collection.tsv").write_text("d1 no tab\n")
    (damaged,) = places.look_at_collection(str(tmp_path))
    assert damaged.state == "damaged"
    assert "collection.tsv:1" in damaged.found
    (missing,) = places.look_at_collection(str(tmp_path / "none"))
    assert missing.state == "missing"


@pytest.mark.slow
def test_the_exit_code_says_whether_data_are_damaged_or_missing(
    build_once: Build, msshift: Command, tmp_path: Path
) -> None:
    shutil.copytree(build_once("mini:300", "length"), tmp_path / "msshift")
    whole = msshift("doctor", "msshift", "--offline", "--collection", "mini:300")
    assert whole.returncode == 0, whole.stderr
    assert "data: msshift: what was built (edition rebuilt" in whole.stdout
    assert "mini:300: 300 passages (MS MARCO has 8,841,823)" in whole.stdout
    file = next((tmp_path / "msshift").rglob("*.parquet"))
    file.write_bytes(file.read_bytes() + b" ")
    damaged = msshift("doctor", "msshift", "nowhere", "--offline", "--json")
    assert damaged.returncode == 1
    found = [one for one in json.loads(damaged.stdout)["found"] if one["code"] == "data"]
    assert [one["state"] for one in found] == ["damaged", "missing"]
    assert str(file.name) in found[0]["found"]
    assert "msshift verify msshift" in found[0]["cure"]
    gone = msshift("doctor", "nowhere", "--offline")
    assert gone.returncode == 3
    assert "1 missing" in gone.stderr


def test_a_manifest_that_cannot_be_read_is_damage(build_copy: Build) -> None:
    folder = build_copy("mini:300", "length")
    (folder / "manifest.json").write_text("{")
    (damaged,) = places.look_at_data([folder])
    assert (damaged.state, damaged.cure) == ("damaged", "build or install it again")
    assert "manifest.json" in damaged.found


def test_each_data_set_is_looked_at_where_a_variable_names_one_of_them(
    build_once: Build, build_copy: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = build_copy("mini:300", "length")
    assert here.name == "msshift"
    (here / "length-short" / "test.parquet").write_bytes(b"")
    monkeypatch.chdir(here.parent)
    monkeypatch.setenv("MSSHIFT_HOME", str(build_once("mini:300", "length")))
    assert [one.state for one in places.look_at_data([])] == ["ok", "damaged"]
    named = checkup.examine(["msshift", "./msshift"], ask_hub=False)
    assert [one.state for one in named if one.code == "data"] == ["ok", "damaged"]


@pytest.mark.slow
def test_every_look_has_its_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    found = list(checkup.examine(ask_hub=False))
    assert {"package", "requirements", "extra", "threads", "disk", "gpu", "cache", "hub"} < {
        one.code for one in found
    }
    assert states(found)["data"] == "note"
    named = [one.found for one in checkup.examine("gone", ask_hub=False) if one.code == "data"]
    assert len(named) == 1
    assert named[0].startswith("no built data set at gone ")
    # Whatever is not as it should be says what to do.
    assert all(one.cure for one in found if one.state not in ("ok", "note"))
