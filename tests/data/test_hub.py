"""Pushing to the Hub and installing from it, with a fake of `huggingface_hub.HfApi`.

tests/integration/test_hub_over_http.py does the same with the real client and an HTTP server.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import constants, errors

import msshift_bench as ms
from msshift_bench.data import use_cache_if_offline
from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import installed_folder
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import (
    HubError,
    IntegrityError,
    MissingError,
    MsShiftError,
    NotFoundError,
    UsageError,
)
from tests.conftest import Command
from tests.support.fake_hub import REPO, TOKEN, FakeApi, http_error, use_fake_hub
from tests.support.file_bytes import file_bytes, flip
from tests.support.hub_repository import Repository
from tests.support.hub_server.client import rows_of


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    return use_fake_hub(monkeypatch, tmp_path)


# Push.


def test_the_first_push_commits_and_tags_and_the_second_changes_nothing(
    hub: FakeApi, first: Path, msshift: Command
) -> None:
    words = ("push", first, "--repo", REPO, "--format", "json")
    done = msshift(*words)
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    repository = hub.repositories[REPO]
    pushed = {
        "repo": REPO,
        "commit": repository.head.oid,
        "tag": "2.0.0",
        "url": f"{hub.endpoint}/datasets/{REPO}/tree/2.0.0",
        "created": True,
        "unchanged": False,
        "files": sorted(file_bytes(first)),
    }
    assert json.loads(done.stdout) == pushed
    assert repository.held() == file_bytes(first)
    assert len(repository.commits) == 2
    assert repository.tags == {"2.0.0": repository.head.oid}
    assert repository.head.message.startswith("MS-Shift 2.0.0")
    assert not repository.private
    hub.called.clear()
    again = json.loads(msshift(*words).stdout)
    assert again == {**pushed, "created": False, "unchanged": True, "files": []}
    assert set(hub.called) == {"dataset_info", "list_repo_tree", "list_repo_refs"}


def test_a_lost_tag_is_set_again_without_a_commit(hub: FakeApi, first: Path) -> None:
    ms.push_dataset(first, REPO, private=True)
    repository = hub.repositories[REPO]
    assert repository.private
    tags = dict(repository.tags)
    repository.tags.clear()
    assert ms.push_dataset(first, REPO).unchanged
    assert repository.tags == tags


def test_other_rows_of_the_same_version_need_move_tag(
    hub: FakeApi, first: Path, second: Path, msshift: Command
) -> None:
    repository = hub.repositories[REPO] = Repository().publish(first, "2.0.0")
    refused = msshift("push", second, "--repo", REPO)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "2.0.0 with other content (README.md and " in refused.stderr
    assert "--move-tag" in refused.stderr
    assert len(repository.commits) == 2
    # `eval.yaml` makes the repository a benchmark of the Hub; it is no part of a data set.
    repository.commit("a benchmark", {"eval.yaml": b"name: MS-Shift\n"})
    pushed = ms.push_dataset(second, REPO, move_tag=True)
    assert repository.held() == {**file_bytes(second), "eval.yaml": b"name: MS-Shift\n"}
    assert repository.tags == {"2.0.0": pushed.commit}
    stale = file_bytes(first).keys() - file_bytes(second).keys()
    assert stale
    assert stale < set(pushed.files)
    assert ms.push_dataset(second, REPO, move_tag=True).unchanged


@pytest.mark.parametrize("method", ["delete_tag", "create_tag"])
def test_a_failed_tag_is_completed_by_the_next_push(
    hub: FakeApi, first: Path, second: Path, method: str
) -> None:
    repository = hub.repositories[REPO] = Repository().publish(first, "2.0.0")
    before = dict(repository.tags)
    hub.failures = {method: http_error(507)}
    with pytest.raises(HubError, match="run the same command again") as caught:
        ms.push_dataset(second, REPO, move_tag=True)
    assert f"{REPO} (commit {repository.head.oid[:12]})" in str(caught.value)
    assert repository.tags == (before if method == "delete_tag" else {})
    hub.failures = {}
    assert ms.push_dataset(second, REPO, move_tag=True).unchanged
    assert len(repository.commits) == 3
    assert repository.held("2.0.0") == file_bytes(second)


def test_changed_bytes_are_not_pushed(hub: FakeApi, first: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(first, tmp_path / "copy"))
    flip(copy / "length-short" / "test.parquet", 100)
    with pytest.raises(IntegrityError) as caught:
        ms.push_dataset(copy, REPO)
    assert {one.source for one in caught.value.findings} == {
        str(copy / "length-short/test.parquet")
    }
    assert hub.called == []


@pytest.mark.parametrize(
    ("files", "private", "words"),
    [
        ({"one.png": b""}, False, "not a data set"),
        ({"manifest.json": b'{"manifest_version": 3}'}, False, "not a data set"),
        ({}, True, "public"),
    ],
)
def test_other_repositories_are_left_alone(
    hub: FakeApi, first: Path, files: dict[str, bytes], private: bool, words: str
) -> None:
    repository = hub.repositories[REPO] = Repository()
    if files:
        repository.commit("files", files)
    before = list(repository.commits)
    with pytest.raises(UsageError, match=f"{REPO} exists and is .*{words}"):
        ms.push_dataset(first, REPO, private=private)
    assert repository.commits == before
    if private:
        assert not ms.push_dataset(first, REPO).created


@pytest.mark.parametrize(
    ("repo", "token", "kind"),
    [
        (REPO, "", MissingError),
        # The HTTP library would quote a header that it refuses to send.
        (REPO, "hf_not\x7fasc\u00efi", UsageError),
        (REPO, "hf_two words\x01", UsageError),
        ("msshift", TOKEN, UsageError),
    ],
)
def test_wrong_names_and_tokens_are_refused_before_any_request(
    hub: FakeApi, first: Path, monkeypatch: pytest.MonkeyPatch, repo: str, token: str, kind: Any
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    words = "org/msshift, got 'msshift'" if token == TOKEN else "HF_TOKEN"
    with pytest.raises(kind, match=words) as caught:
        ms.push_dataset(first, repo)
    assert not token or token not in str(caught.value)
    assert hub.called == []


FAILURES: list[tuple[Exception, type[MsShiftError], str]] = [
    (errors.OfflineModeIsEnabled(), HubError, "HF_HUB_OFFLINE"),
    (errors.HTTPError("too late"), HubError, "no answer"),
    (http_error(400, "it is full\nmore"), HubError, r"it is full \(HTTP 400\)$"),
    (http_error(400), HubError, r"HTTP 400\)$"),
    (http_error(401, "Invalid credentials"), HubError, "HF_TOKEN"),
    (http_error(401, "Invalid username or password."), NotFoundError, "data set does not exist"),
    (http_error(403), HubError, "no permission"),
    (http_error(409), HubError, "same command again"),
    (http_error(412), HubError, "same command again"),
    (http_error(507), HubError, "try again later"),
]


@pytest.mark.parametrize(("failure", "kind", "words"), FAILURES)
def test_errors_of_the_client_become_one_line_with_a_fix(
    hub: FakeApi, first: Path, failure: Exception, kind: type[MsShiftError], words: str
) -> None:
    hub.failures = {"create_commit": failure}
    with pytest.raises(kind, match=words) as caught:
        ms.push_dataset(first, REPO)
    assert str(caught.value).startswith(f"cannot push to {REPO}: ")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3
    assert hub.repositories[REPO].tags == {}
    # No message holds the token: neither the error nor the errors that lead to it.
    assert TOKEN not in str(caught.value)
    assert caught.value.__suppress_context__


def test_other_errors_are_not_hidden(hub: FakeApi, first: Path) -> None:
    hub.failures = {"create_commit": ValueError("a defect")}
    with pytest.raises(ValueError, match="a defect"):
        ms.push_dataset(first, REPO)


# Models.


@pytest.mark.parametrize("answers", [True, False])
def test_a_hub_that_does_not_answer_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, answers: bool
) -> None:
    asked = []

    def head(address: str, timeout: float) -> None:
        asked.append(address)
        if not answers:
            raise errors.HTTPError("too late")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.utils.get_session", lambda: SimpleNamespace(head=head))
    for name in ("./bert", "some/bert", "some/bert"):
        use_cache_if_offline(name, "a model")
    assert asked == [constants.ENDPOINT] * (2 if answers else 1)
    assert (not answers) == constants.HF_HUB_OFFLINE
    assert len(caplog.records) == (not answers)
    assert answers or constants.ENDPOINT in caplog.text


# Install.


Install = Callable[..., Any]


@pytest.fixture
def install(hub: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs a data set into the caches of a home of its own."""
    from datasets import config

    monkeypatch.setenv("MSSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    return ms.install_dataset


def test_an_installed_data_set_loads_by_its_bare_name(
    install: Install, first: Path, second: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = install(first)
    assert (done.folder, done.unchanged) == (tmp_path / "cache/data/msshift", False)
    assert (done.data_version, list(done.configs)) == ("2.0.0", list(rows_of(first)))
    assert file_bytes(done.folder) == file_bytes(first)
    prepared = sorted(path.name for path in done.cache.iterdir())
    assert prepared == sorted(done.configs)
    assert [row.query_id for row in ms.load_dataset("msshift", "length-short", split="test")] == [
        row["query_id"] for row in rows_of(first)["length-short"]["test"]
    ]
    assert install(first).unchanged
    # A newer build replaces every config, and what a killed process left.
    killed = done.cache / "length-short" / "0.0.0" / "0123456789abcdef.incomplete"
    killed.mkdir()
    assert not install(second).unchanged
    assert not killed.exists()
    assert not list(done.cache.glob("wh-words-how/*/*/*.arrow"))
    assert file_bytes(installed_folder()) == file_bytes(second)


@pytest.mark.extended
def test_triples_are_prepared_when_wanted_and_stay(
    install: Install, first: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(first, tmp_path / "with" / "msshift"))
    add_triples(folder, open_collection("mini:300"), shifts=["length"], count=2, depth=20)
    config = "length-short-triples"
    assert config not in install(folder).configs
    for triples in (True, False):
        assert (config in install(folder, triples=triples).configs) == triples
        assert (tmp_path / "datasets/msshift" / config).is_dir()


@pytest.mark.extended
def test_the_hub_serves_any_revision(
    install: Install, hub: FakeApi, first: Path, second: Path
) -> None:
    hub.repositories[REPO] = Repository().publish(first, "2.0.0").publish(second, "2.0.1")
    assert install(REPO, revision="2.0.0").configs == tuple(rows_of(first))
    assert install(REPO).configs == tuple(rows_of(second))
    with pytest.raises(NotFoundError, match=f"{REPO} at 9: .*does not have the revision"):
        install(REPO, revision="9")
    with pytest.raises(NotFoundError, match=r"org/other: .*data set does not exist"):
        install("org/other")


def test_a_damaged_data_set_is_not_installed(
    install: Install, first: Path, second: Path, tmp_path: Path
) -> None:
    installed = install(first).folder
    damaged = Path(shutil.copytree(second, tmp_path / "damaged"))
    (damaged / "length-short" / "test.parquet").unlink()
    (damaged / "notes.txt").write_text("not part of it")
    with pytest.raises(IntegrityError) as caught:
        install(damaged)
    assert {one.source for one in caught.value.findings} == {
        str(damaged / "length-short/test.parquet"),
        str(damaged / "notes.txt"),
    }
    assert file_bytes(installed) == file_bytes(first)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 3, "msshift build"),
        (["no/such/folder"], 3, "no/such/folder"),
        ([REPO], 3, REPO),
        (["."], 3, "manifest.json"),
        ([".", "--revision", "2.0.0"], 2, "--revision"),
    ],
)
def test_sources_that_are_no_data_set(
    install: Install, msshift: Command, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    done = msshift("install", *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert said in done.stderr
    assert not (tmp_path / "cache").exists()
