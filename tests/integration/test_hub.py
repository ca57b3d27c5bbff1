"""The data set goes to a Hub and comes back, by the unmodified clients, over real HTTP."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.support.command_line import run_msshift
from tests.support.file_bytes import file_bytes
from tests.support.hub_server import TOKEN, LoopbackHub, Repository
from tests.support.hub_server.client import client_environment, load_rows, python, rows_of
from tests.support.hub_server.repository import Blob, Commit

pytestmark = pytest.mark.extended

REPO = "org/msshift"


@dataclass(frozen=True)
class Client:
    """The command line with a home of its own."""

    home: Path
    hub: LoopbackHub

    def __call__(
        self, *arguments: str | Path, token: str = TOKEN, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        everything = {**client_environment(self.home, self.hub, token), **environment}
        done = run_msshift(list(map(str, arguments)), self.home, everything)
        assert "Traceback" not in done.stderr, done.stderr
        assert not token or token not in done.stdout + done.stderr
        return done

    def push(self, folder: Path, *arguments: str) -> dict[str, Any]:
        done = self("push", folder, "--repo", REPO, "--format", "json", *arguments)
        assert done.returncode == 0, done.stderr
        pushed: dict[str, Any] = json.loads(done.stdout)
        return pushed


@pytest.fixture
def client(tmp_path: Path, hub: LoopbackHub) -> Client:
    return Client(tmp_path, hub)


def held(repository: Repository, revision: str = "main") -> dict[str, bytes]:
    files = repository.resolve(revision).files
    return {path: blob.content for path, blob in files.items() if path != ".gitattributes"}


def test_one_commit_one_tag_and_the_second_push_changes_nothing(
    client: Client, hub: LoopbackHub, first: Path
) -> None:
    pushed = client.push(first)
    repository = hub.repositories[REPO]
    assert held(repository) == file_bytes(first)
    assert len(repository.commits) == 2
    assert repository.tags == {"2.0.0": repository.head.oid}
    assert pushed == {
        "repo": REPO,
        "commit": repository.head.oid,
        "tag": "2.0.0",
        "url": f"{hub.url}/datasets/{REPO}/tree/2.0.0",
        "created": True,
        "unchanged": False,
        "files": sorted(file_bytes(first)),
    }
    assert all(blob.large for path, blob in repository.head.files.items() if "parquet" in path)
    assert repository.head.message.startswith("MS-Shift 2.0.0")
    assert not repository.private

    hub.requests.clear()
    again = client.push(first)
    assert again == {**pushed, "created": False, "unchanged": True, "files": []}
    assert len(repository.commits) == 2
    assert {request.method for request in hub.requests} == {"GET"}


def test_a_lost_tag_is_set_again_without_a_commit(
    client: Client, hub: LoopbackHub, first: Path
) -> None:
    client.push(first, "--private")
    repository = hub.repositories[REPO]
    assert repository.private
    tags = dict(repository.tags)
    repository.tags.clear()
    assert client.push(first)["unchanged"]
    assert repository.tags == tags


def test_other_rows_of_the_same_version_need_a_decision(
    client: Client, hub: LoopbackHub, first: Path, second: Path
) -> None:
    repository = hub.publish(REPO, first, "2.0.0")
    refused = client("push", second, "--repo", REPO)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "has a version 2.0.0 with other content (README.md and " in refused.stderr
    assert "--move-tag" in refused.stderr
    assert len(repository.commits) == 2

    # What makes the repository a benchmark is no part of a data set.
    benchmark = {"eval.yaml": Blob(b"name: MS-Shift\n", large=False)}
    files = {**repository.head.files, **benchmark}
    repository.commits.append(Commit(repository.head.oid, "a benchmark", files))
    pushed = client.push(second, "--move-tag")
    assert held(repository) == {**file_bytes(second), "eval.yaml": b"name: MS-Shift\n"}
    assert len(repository.commits) == 4
    assert repository.tags == {"2.0.0": pushed["commit"]}
    stale = file_bytes(first).keys() - file_bytes(second).keys()
    assert stale
    assert stale < set(pushed["files"])
    assert client.push(second, "--move-tag")["unchanged"]


def test_a_failed_upload_leaves_the_previous_version(
    client: Client, hub: LoopbackHub, first: Path, second: Path
) -> None:
    repository = hub.publish(REPO, first, "2.0.0")
    later = "the Hub does not do it; try again later (HTTP 507)"
    refused = "the Hub refuses: told to fail at commit (HTTP 400)"
    moved = "somebody else has changed the repository; run the same command again (HTTP 412)"
    for stage, nth, status, reason in (
        ("upload", 2, 507, later),
        ("verify", 2, 507, later),
        ("commit", 1, 400, refused),
        ("commit", 1, 412, moved),
    ):
        hub.fail(stage, nth, status)
        failed = client("push", second, "--repo", REPO, "--move-tag")
        assert failed.returncode == 3
        assert failed.stderr == f"error: cannot push to {REPO}: {reason}\n"
        assert held(repository) == held(repository, "2.0.0") == file_bytes(first)
        hub.heal()
    client.push(second, "--move-tag")
    assert held(repository) == held(repository, "2.0.0") == file_bytes(second)


def test_a_failed_tag_is_said_and_completed_later(
    client: Client, hub: LoopbackHub, first: Path, second: Path
) -> None:
    repository = hub.publish(REPO, first, "2.0.0")
    before = repository.head
    for stage in ("untag", "tag"):
        hub.fail(stage)
        failed = client("push", second, "--repo", REPO, "--move-tag")
        assert failed.returncode == 3
        commit = repository.head.oid[:12]
        assert f"the files are in {REPO} (commit {commit}), but the tag 2.0.0" in failed.stderr
        assert "run the same command again" in failed.stderr
        assert repository.tags == ({"2.0.0": before.oid} if stage == "untag" else {})
        hub.heal()
    assert client.push(second, "--move-tag")["unchanged"]
    assert len(repository.commits) == 3
    assert held(repository, "2.0.0") == file_bytes(second)


def test_what_was_not_built_is_not_pushed(
    client: Client, hub: LoopbackHub, first: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(first, tmp_path / "copy")
    with (copy / "length-short" / "test.parquet").open("r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))
    refused = client("push", copy, "--repo", REPO)
    assert refused.returncode == 1
    assert "is not what was built, and is not pushed" in refused.stderr
    assert "length-short/test.parquet" in refused.stderr
    assert hub.requests == []


@pytest.mark.parametrize("name", ["one.png", "manifest.json"])
def test_somebody_elses_repository_is_left_alone(
    client: Client, hub: LoopbackHub, first: Path, tmp_path: Path, name: str
) -> None:
    tmp_path.joinpath("pictures").mkdir()
    tmp_path.joinpath("pictures", name).write_text('{"manifest_version": 3}')
    repository = hub.publish(REPO, tmp_path / "pictures", "2.0.0")
    refused = client("push", first, "--repo", REPO)
    assert refused.returncode == 2
    assert "is not a data set built by msshift" in refused.stderr
    assert len(repository.commits) == 2


def test_a_public_repository_is_not_taken_for_a_private_one(
    client: Client, hub: LoopbackHub, first: Path
) -> None:
    hub.repositories[REPO] = Repository()
    refused = client("push", first, "--repo", REPO, "--private")
    assert refused.returncode == 2
    assert "exists and is public" in refused.stderr
    assert client.push(first)["created"] is False


@pytest.mark.parametrize(
    ("repo", "token", "extra", "code", "message"),
    [
        (REPO, "", {}, 3, "set HF_TOKEN, or run 'hf auth login'"),
        (REPO, "hf_wrong", {}, 3, "the Hub does not accept the token"),
        # The HTTP library would quote a header that it refuses to send.
        (REPO, "hf_not\x7fasc\u00efi", {}, 2, "holds characters that no token has"),
        (REPO, "hf_two words\x01", {}, 2, "holds characters that no token has"),
        ("nobody/msshift", TOKEN, {}, 3, "the token does not allow it"),
        ("org/sealed", TOKEN, {}, 3, "the token does not allow it"),
        ("msshift", TOKEN, {}, 2, "a repository of the Hub is named org/msshift, not 'msshift'"),
        (REPO, TOKEN, {"HF_HUB_OFFLINE": "1"}, 3, "HF_HUB_OFFLINE is set"),
        (REPO, TOKEN, {"HF_ENDPOINT": "http://127.0.0.1:9"}, 3, "no answer from the Hub (Connect"),
    ],
)
def test_one_sentence_says_what_is_wrong(
    client: Client,
    hub: LoopbackHub,
    first: Path,
    repo: str,
    token: str,
    extra: dict[str, str],
    code: int,
    message: str,
) -> None:
    hub.repositories["org/sealed"] = Repository()
    hub.sealed.add("org/sealed")
    done = client("push", first, "--repo", repo, token=token, **extra)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert REPO not in hub.repositories


def test_the_plain_library_loads_and_streams_the_same_rows(
    client: Client, hub: LoopbackHub, first: Path, second: Path, tmp_path: Path
) -> None:
    hub.publish(REPO, first, "2.0.0-first")
    client.push(second)
    environment = client_environment(tmp_path / "reader", hub, token="")
    expected = rows_of(second)
    loaded = load_rows(REPO, list(expected), tmp_path, environment, revision="2.0.0")
    assert loaded == expected
    kwargs = {"revision": "2.0.0", "streaming": True}
    streamed = load_rows(REPO, ["length-short"], tmp_path, environment, **kwargs)
    assert streamed["length-short"] == expected["length-short"]
    old = load_rows(REPO, ["wh-words-how"], tmp_path, environment, revision="2.0.0-first")
    assert old["wh-words-how"] == rows_of(first)["wh-words-how"]
    newest = load_rows(REPO, ["length-long"], tmp_path, environment)
    assert newest["length-long"] == expected["length-long"]


def test_what_the_page_shows_works(client: Client, hub: LoopbackHub, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "hub.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(console|python)\n(.*?)```", page, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["console", "console", "python", "console", "python"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for kind, block in blocks:
        if kind == "python":
            done = python(block, elsewhere, client_environment(tmp_path, hub))
            assert done.returncode == 0, done.stderr
            rows = done.stdout.splitlines()
            assert len(rows) == 2
            assert all("query_id" in row for row in rows)
            continue
        for line in block.splitlines():
            done = client(*shlex.split(line.removeprefix("$ msshift ")))
            assert done.returncode == 0, done.stderr
