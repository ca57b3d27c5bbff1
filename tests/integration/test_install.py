"""An installed data set in the plain datasets library: any folder, no network, the bare name.

tests/data/test_hub.py has the other tests of `install_dataset`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Done, run_script
from tests.support.hub_server import LoopbackHub
from tests.support.hub_server.client import client_environment, load_rows, python, rows_of

pytestmark = pytest.mark.extended

REPO = "org/msshift"

Install = Callable[..., Done]


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, str]:
    return client_environment(tmp_path, None, token="")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "else" / "where"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def install(tmp_path: Path, elsewhere: Path, hub: LoopbackHub) -> Install:
    """Return a function that runs `msshift install` with a home of its own."""

    def run(*words: str | Path, **environment: str) -> Done:
        values = {**dict.fromkeys(os.environ), **client_environment(tmp_path, hub, token="")}
        done = run_script(["install", *words], elsewhere, {**values, **environment})
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_every_config_loads_offline_from_another_folder(
    install: Install,
    hub: LoopbackHub,
    first: Path,
    tmp_path: Path,
    elsewhere: Path,
    offline: dict[str, str],
) -> None:
    install(first)
    expected = rows_of(first)
    assert hub.requests == []
    assert load_rows("msshift", list(expected), elsewhere, offline) == expected
    streamed = load_rows("msshift", ["length-short"], elsewhere, offline, streaming=True)
    assert streamed["length-short"] == expected["length-short"]
    # A Hub without a data set `msshift` changes nothing.
    online = client_environment(tmp_path, hub, token="")
    loaded = load_rows("msshift", ["length-short"], elsewhere, online)
    assert loaded["length-short"] == expected["length-short"]
    assert hub.count("HEAD", "^/datasets/msshift/resolve/") == 1


def test_another_build_leaves_no_rows_of_the_first(
    install: Install, first: Path, second: Path, elsewhere: Path, offline: dict[str, str]
) -> None:
    install(first)
    # The library also caches what it loads from a folder ./msshift, under the same name.
    load_rows("msshift", ["length-short"], second.parent, offline)
    stale = load_rows("msshift", ["length-short"], elsewhere, offline)
    assert stale == rows_of(second, "length-short")
    assert "already installed" in install(first).stderr
    loaded = load_rows("msshift", ["length-short"], elsewhere, offline)
    assert loaded == rows_of(first, "length-short")
    assert load_rows("msshift", ["length-short"], second.parent, offline) == stale
    install(second)
    expected = rows_of(second)
    assert load_rows("msshift", list(expected), elsewhere, offline) == expected
    load = "import datasets; datasets.load_dataset('msshift', 'wh-words-how')"
    gone = python(load, elsewhere, offline)
    assert "Couldn't find cache for msshift for config 'wh-words-how'" in gone.stderr


def test_a_revision_of_the_hub_is_downloaded_once(
    install: Install,
    hub: LoopbackHub,
    first: Path,
    second: Path,
    elsewhere: Path,
    offline: dict[str, str],
) -> None:
    hub.publish(REPO, first, "2.0.0")
    hub.publish(REPO, second, "1.0.1")
    for words, source in ((["--revision", "2.0.0"], first), ([], second)):
        install(REPO, *words)
        expected = rows_of(source, "length", "length-short")
        assert load_rows("msshift", list(expected), elsewhere, offline) == expected
    assert "2.0.0" in install(REPO, "--revision", "2.0.0", HF_HUB_OFFLINE="1").stderr
    assert load_rows("msshift", ["length"], elsewhere, offline) == rows_of(first, "length")
