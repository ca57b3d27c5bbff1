"""Pushes and downloads with the real client of huggingface_hub, over HTTP or on the real Hub.

tests/data/test_hub.py does the same with a fake client.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.data import install_dataset, push_dataset
from tests.conftest import REPOSITORY
from tests.support.command_line import Done, run_script
from tests.support.file_bytes import file_bytes
from tests.support.hub_server import TOKEN, LoopbackHub
from tests.support.hub_server.client import client_environment, load_rows, python, rows_of

pytestmark = pytest.mark.extended

REPO = "org/msshift"
REAL_REPO = os.environ.get("MSSHIFT_TEST_HUB_REPO", "")

Client = Callable[..., Done]


@pytest.fixture
def client(tmp_path: Path, hub: LoopbackHub) -> Client:
    """Return a function that runs the console script with a home of its own."""

    def run(*words: str | Path, token: str = TOKEN, **environment: str) -> Done:
        values = {**dict.fromkeys(os.environ), **client_environment(tmp_path, hub, token)}
        done = run_script(words, tmp_path, {**values, **environment})
        assert "Traceback" not in done.stderr, done.stderr
        assert not token or token not in done.stdout + done.stderr
        return done

    return run


def test_a_push_is_one_commit_and_the_second_only_reads(
    client: Client, hub: LoopbackHub, first: Path
) -> None:
    words = ("push", first, "--repo", REPO, "--private", "--format", "json")
    pushed = json.loads(client(*words).stdout)
    repository = hub.repositories[REPO]
    assert repository.private
    assert repository.held() == file_bytes(first)
    assert len(repository.commits) == 2
    assert repository.tags == {"2.0.0": repository.head.oid}
    assert pushed["commit"] == repository.head.oid
    assert pushed["url"] == f"{hub.url}/datasets/{REPO}/tree/2.0.0"
    hub.requests.clear()
    again = json.loads(client(*words).stdout)
    assert again == {**pushed, "created": False, "unchanged": True, "files": []}
    assert {method for method, _ in hub.requests} == {"GET"}


def test_a_failed_push_leaves_the_previous_version(
    client: Client, hub: LoopbackHub, first: Path, second: Path
) -> None:
    repository = hub.publish(REPO, first, "2.0.0")
    for stage, status in (("upload", 507), ("verify", 507), ("commit", 412), ("untag", 507)):
        hub.refused = {stage: status}
        failed = client("push", second, "--repo", REPO, "--move-tag")
        assert (failed.returncode, failed.stderr.count("\n")) == (3, 1)
        assert f"(HTTP {status})" in failed.stderr
        assert repository.held("2.0.0") == file_bytes(first)
        assert stage == "untag" or repository.head.oid == repository.tags["2.0.0"]
    hub.refused = {}
    assert client("push", second, "--repo", REPO, "--move-tag").returncode == 0
    assert repository.held() == repository.held("2.0.0") == file_bytes(second)


@pytest.mark.parametrize(
    ("repo", "token", "extra", "message"),
    [
        (REPO, "hf_wrong", {}, "HF_TOKEN (HTTP 401)"),
        ("nobody/msshift", TOKEN, {}, "(HTTP 403)"),
        (REPO, TOKEN, {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
        (REPO, TOKEN, {"HF_ENDPOINT": "http://127.0.0.1:9"}, "no answer from the Hub (Connect"),
    ],
)
def test_errors_of_the_real_client_are_one_line(
    client: Client,
    hub: LoopbackHub,
    first: Path,
    repo: str,
    token: str,
    extra: dict[str, str],
    message: str,
) -> None:
    done = client("push", first, "--repo", repo, token=token, **extra)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1), done.stderr
    assert done.stderr.startswith(f"error: cannot push to {repo}: ")
    assert message in done.stderr
    assert repo not in hub.repositories


def test_the_datasets_library_loads_and_streams_the_same_rows(
    client: Client, hub: LoopbackHub, first: Path, second: Path, tmp_path: Path
) -> None:
    hub.publish(REPO, first, "2.0.0-first")
    assert client("push", second, "--repo", REPO).returncode == 0
    environment = client_environment(tmp_path / "reader", hub, token="")
    expected = rows_of(second)
    revision = {"revision": "2.0.0"}
    assert load_rows(REPO, list(expected), tmp_path, environment, **revision) == expected
    streamed = load_rows(REPO, ["length-short"], tmp_path, environment, streaming=True, **revision)
    assert streamed["length-short"] == expected["length-short"]
    old = load_rows(REPO, ["wh-words-how"], tmp_path, environment, revision="2.0.0-first")
    assert old["wh-words-how"] == rows_of(first)["wh-words-how"]


def test_the_blocks_of_the_page_run(client: Client, hub: LoopbackHub, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "hub.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(console|python)\n(.*?)```", page, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["console", "console", "python", "console", "python"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for kind, block in blocks:
        if kind == "python":
            done = python(block, elsewhere, client_environment(tmp_path, hub))
            # pyarrow may abort a process that has streamed when it ends: apache/arrow#45214.
            aborted = (-6, "terminate called without an active exception\n")
            assert (done.returncode, done.stderr) == aborted or done.returncode == 0, done.stderr
            assert [("query_id" in row) for row in done.stdout.splitlines()] == [True, True]
            continue
        for line in block.splitlines():
            done = client(*shlex.split(line.removeprefix("$ msshift ")))
            assert done.returncode == 0, done.stderr


@pytest.mark.skipif(
    not REAL_REPO,
    reason="writes to the real Hub: set MSSHIFT_TEST_HUB_REPO to org/name, and HF_TOKEN",
)
def test_the_real_hub(
    first: Path, second: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSSHIFT_CACHE", str(tmp_path))
    assert push_dataset(first, REAL_REPO, private=True, move_tag=True).tag == "2.0.0"
    assert push_dataset(first, REAL_REPO).unchanged
    installed = install_dataset(REAL_REPO, revision="2.0.0").folder
    assert file_bytes(installed) == file_bytes(first)
    assert push_dataset(second, REAL_REPO, move_tag=True).files
    assert file_bytes(install_dataset(REAL_REPO).folder) == file_bytes(second)
