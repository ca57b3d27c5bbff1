"""An installed data set loads by its bare name: any folder, no network, the plain library."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.triples import add_triples
from tests.support.command_line import run_msshift
from tests.support.hub_server import LoopbackHub, Repository
from tests.support.hub_server.client import client_environment, load_rows, python, rows_of

pytestmark = pytest.mark.extended

REPO = "org/msshift"

Install = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "else" / "where"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def install(tmp_path: Path, elsewhere: Path, hub: LoopbackHub) -> Install:
    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        everything = {**client_environment(tmp_path, hub, token=""), **environment}
        done = run_msshift(["install", *map(str, arguments)], elsewhere, everything)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def state(*folders: Path) -> dict[str, tuple[int, int, int]]:
    """Return what shows whether anything below some folders was written."""
    files = {str(path): path.stat() for folder in folders for path in folder.rglob("*")}
    return {
        name: (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        for name, stat in files.items()
        if not name.endswith(".lock")
    }


def test_every_config_loads_offline_from_another_folder(
    install: Install, hub: LoopbackHub, first: Path, tmp_path: Path, elsewhere: Path
) -> None:
    done = install(first, "--format", "json")
    assert done.returncode == 0, done.stderr
    expected = rows_of(first)
    assert json.loads(done.stdout)["configs"] == list(expected)
    assert hub.requests == []

    offline = client_environment(tmp_path, None, token="")
    assert load_rows("msshift", list(expected), elsewhere, offline) == expected
    streamed = load_rows("msshift", ["length-short"], elsewhere, offline, streaming=True)
    assert streamed["length-short"] == expected["length-short"]
    # So it is with a Hub that knows no `msshift`.
    online = client_environment(tmp_path, hub, token="")
    loaded = load_rows("msshift", ["length-short"], elsewhere, online)
    assert loaded["length-short"] == expected["length-short"]
    assert hub.count("HEAD", "^/datasets/msshift/resolve/") == 1

    script = (
        "import msshift_bench as m; print(len(m.load_dataset('msshift', 'length-short')['test']))"
    )
    found = python(script, elsewhere, offline)
    assert found.stdout.strip() == str(len(expected["length-short"]["test"])), found.stderr


def test_installing_the_same_again_changes_nothing(
    install: Install, first: Path, tmp_path: Path
) -> None:
    assert "installed: version 2.0.0 (content " in install(first).stderr
    folders = tmp_path / "msshift-cache", tmp_path / "hf" / "datasets"
    before = state(*folders)
    assert any(name.endswith(".arrow") for name in before)
    assert "already installed: version 2.0.0" in install(first).stderr
    assert state(*folders) == before
    assert "already installed" in install(folders[0] / "data" / "msshift").stderr
    # Its own source is verified by a copy: the same files once more.
    after = state(*folders)
    assert after.keys() == before.keys()
    assert state(folders[1]).items() <= before.items()


def test_a_newer_build_leaves_no_stale_rows(
    install: Install, first: Path, second: Path, tmp_path: Path, elsewhere: Path
) -> None:
    offline = client_environment(tmp_path, None, token="")
    install(first)
    prepared = tmp_path / "hf" / "datasets" / "msshift"
    killed = prepared / "length-short" / "0.0.0" / "0123456789abcdef.incomplete"
    killed.mkdir()
    assert install(second).returncode == 0
    assert not killed.exists()
    expected = rows_of(second)
    assert load_rows("msshift", list(expected), elsewhere, offline) == expected
    gone = python(
        "import datasets; datasets.load_dataset('msshift', 'wh-words-how')", elsewhere, offline
    )
    assert "Couldn't find cache for msshift for config 'wh-words-how'" in gone.stderr


def test_what_the_library_cached_of_another_folder_stays_and_is_not_taken(
    install: Install, first: Path, second: Path, tmp_path: Path, elsewhere: Path
) -> None:
    offline = client_environment(tmp_path, None, token="")
    install(first)
    # The library also caches what it loads from a folder ./msshift, under the same name.
    load_rows("msshift", ["length-short"], second.parent, offline)
    stale = load_rows("msshift", ["length-short"], elsewhere, offline)
    assert stale == rows_of(second, "length-short")
    assert "already installed" in install(first).stderr
    loaded = load_rows("msshift", ["length-short"], elsewhere, offline)
    assert loaded == rows_of(first, "length-short")
    cached = tmp_path / "hf" / "datasets" / "msshift" / "length-short"
    assert len([folder for folder in cached.glob("*/*") if folder.is_dir()]) == 2
    assert load_rows("msshift", ["length-short"], second.parent, offline) == stale


def test_the_hub_serves_any_revision(
    install: Install, hub: LoopbackHub, first: Path, second: Path, tmp_path: Path, elsewhere: Path
) -> None:
    hub.publish(REPO, first, "2.0.0")
    hub.publish(REPO, second, "1.0.1")
    offline = client_environment(tmp_path, None, token="")
    for arguments, source in ((["--revision", "2.0.0"], first), ([], second)):
        done = install(REPO, *arguments)
        assert done.returncode == 0, done.stderr
        expected = rows_of(source, "length", "length-short")
        assert load_rows("msshift", list(expected), elsewhere, offline) == expected
    # What has been downloaded once needs no network.
    assert "2.0.0" in install(REPO, "--revision", "2.0.0", HF_HUB_OFFLINE="1").stderr
    assert load_rows("msshift", ["length"], elsewhere, offline) == rows_of(first, "length")


def test_a_damaged_data_set_does_not_replace_a_good_one(
    install: Install, hub: LoopbackHub, first: Path, second: Path, tmp_path: Path
) -> None:
    install(first)
    folders = tmp_path / "msshift-cache" / "data", tmp_path / "hf" / "datasets"
    before = state(*folders)
    damaged = shutil.copytree(second, tmp_path / "damaged")
    (damaged / "length-short" / "test.parquet").unlink()
    (damaged / "notes.txt").write_text("not part of it")
    hub.publish(REPO, damaged, "2.0.0")
    for source in (str(damaged), REPO):
        refused = install(source)
        assert refused.returncode == 1
        assert "is not what was built, and is not installed" in refused.stderr
        assert "length-short/test.parquet: the file is missing" in refused.stderr
        assert "notes.txt: not part of the build" in refused.stderr
        assert ".partial" not in refused.stderr
    assert state(folders[0] / "msshift", folders[1]).items() <= before.items()


def test_triples_are_prepared_when_they_are_asked_for(
    install: Install, first: Path, tmp_path: Path, elsewhere: Path
) -> None:
    folder = shutil.copytree(first, tmp_path / "with" / "msshift")
    add_triples(folder, open_collection("mini:500"), shifts=["length"], count=2, depth=20)
    offline = client_environment(tmp_path, None, token="")
    config = "length-short-triples"
    assert config not in json.loads(install(folder, "--format", "json").stdout)["configs"]
    script = (
        f"import datasets; print(datasets.load_dataset('msshift', '{config}', split='train')[0])"
    )
    missing = python(script, elsewhere, offline)
    assert f"Couldn't find cache for msshift for config '{config}'" in missing.stderr
    for arguments in (["--triples"], []):  # once prepared, they stay with their build
        install(folder, *arguments)
        assert "negative_id" in python(script, elsewhere, offline).stdout


@pytest.mark.parametrize(
    ("arguments", "extra", "code", "message"),
    [
        ([], {}, 3, "there is no data set at msshift; make one with 'msshift build'"),
        (["no/such/folder"], {}, 3, "there is no data set at no/such/folder"),
        (["org/other"], {}, 3, "cannot download org/other: the Hub has no such data set"),
        ([REPO, "--revision", "9"], {}, 3, f"cannot download {REPO} at 9: the Hub knows no such"),
        ([REPO], {"HF_HUB_OFFLINE": "1"}, 3, "HF_HUB_OFFLINE is set"),
        ([REPO], {"HF_ENDPOINT": "http://127.0.0.1:9"}, 3, "no answer from the Hub"),
        ([REPO], {"HF_TOKEN": "hf_wrong"}, 3, "the Hub does not accept the token"),
        (["."], {}, 3, "there is no manifest.json"),
        ([".", "--revision", "2.0.0"], {}, 2, "only a data set on the Hub has revisions"),
    ],
)
def test_one_sentence_says_what_is_wrong(
    install: Install,
    hub: LoopbackHub,
    tmp_path: Path,
    arguments: list[str],
    extra: dict[str, str],
    code: int,
    message: str,
) -> None:
    hub.repositories[REPO] = Repository()
    done = install(*arguments, **extra)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "msshift-cache").exists()
