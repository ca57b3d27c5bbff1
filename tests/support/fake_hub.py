"""A fake of `huggingface_hub.HfApi`, on repositories in memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import HfApi, errors

from tests.support.hub_repository import RefusedError, Repository, digest_of, is_large

__all__ = ["REPO", "TOKEN", "FakeApi", "http_error", "use_fake_hub"]

REPO = "org/msshift"
TOKEN = "hf_secretThatNobodyMayPrint"


class FakeApi:
    """The methods of `HfApi` that the product calls, on repositories in memory.

    Attributes:
        repositories: name -> repository.
        called: the names of the methods that were called.
        failures: method -> the error that it raises.
    """

    endpoint = "https://hub.example.org"

    def __init__(self, downloads: Path) -> None:
        self.repositories: dict[str, Repository] = {}
        self.called: list[str] = []
        self.failures: dict[str, Exception] = {}
        self._downloads = downloads

    def _open(self, method: str, repo: str) -> Repository:
        assert hasattr(HfApi, method)
        self.called.append(method)
        if method in self.failures:
            raise self.failures[method]
        if repo not in self.repositories:
            raise http_error(404, kind=errors.RepositoryNotFoundError)
        return self.repositories[repo]

    def dataset_info(self, repo: str) -> Any:
        repository = self._open("dataset_info", repo)
        return SimpleNamespace(sha=repository.head.oid, private=repository.private)

    def create_repo(self, repo: str, *, repo_type: str, private: bool | None) -> None:
        assert (repo_type, repo in self.repositories) == ("dataset", False)
        self.repositories[repo] = Repository(private=bool(private))
        self._open("create_repo", repo)

    def list_repo_tree(self, repo: str, *, revision: str, **_: Any) -> list[Any]:
        files = self._open("list_repo_tree", repo).resolve(revision).files
        digests = {path: digest_of(path, data) for path, data in files.items()}
        return [SimpleNamespace(path="a-folder")] + [
            SimpleNamespace(
                path=path, blob_id=oid, lfs=SimpleNamespace(sha256=oid) if is_large(path) else None
            )
            for path, oid in digests.items()
        ]

    def list_repo_refs(self, repo: str, **_: Any) -> Any:
        tags = self._open("list_repo_refs", repo).tags
        refs = [SimpleNamespace(name=tag, target_commit=oid) for tag, oid in tags.items()]
        return SimpleNamespace(tags=refs)

    def create_commit(
        self, repo: str, operations: list[Any], *, commit_message: str, parent_commit: str, **_: Any
    ) -> Any:
        paths = {one.path_in_repo: getattr(one, "path_or_fileobj", None) for one in operations}
        changes = {name: path and Path(path).read_bytes() for name, path in paths.items()}
        return self._open("create_commit", repo).commit(commit_message, changes, parent_commit)

    def create_tag(self, repo: str, *, tag: str, revision: str, **_: Any) -> None:
        tags = self._open("create_tag", repo).tags
        assert tag not in tags
        tags[tag] = revision

    def delete_tag(self, repo: str, *, tag: str, **_: Any) -> None:
        del self._open("delete_tag", repo).tags[tag]

    def hf_hub_download(self, repo: str, name: str, **options: Any) -> str:
        return str(Path(self.snapshot_download(repo, **options)) / name)

    def snapshot_download(self, repo: str, *, revision: str | None, **_: Any) -> str:
        repository = self._open("snapshot_download", repo)
        try:
            commit = repository.resolve(revision)
        except RefusedError:
            raise http_error(404, kind=errors.RevisionNotFoundError) from None
        for path, data in repository.held(commit.oid).items():
            target = self._downloads / commit.oid / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return str(self._downloads / commit.oid)


def http_error(
    status: int, message: str = "", kind: type[errors.HfHubHTTPError] = errors.HfHubHTTPError
) -> errors.HfHubHTTPError:
    """Return an error of huggingface_hub, whose text has the token as a request's headers have."""
    response: Any = SimpleNamespace(status_code=status, headers={}, request=None)
    return kind(f"Authorization: {TOKEN}", response=response, server_message=message)


def use_fake_hub(monkeypatch: pytest.MonkeyPatch, folder: Path) -> FakeApi:
    """Return a fake Hub, which the product uses until the test ends; it downloads to `folder`."""
    api = FakeApi(folder / "downloads")
    monkeypatch.setattr("huggingface_hub.HfApi", lambda token, library_name: api)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return api
