"""The HTTP side of the loopback Hub."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from werkzeug import Request as Asked, Response
from werkzeug.serving import make_server

from tests.support.hub_server.repository import (
    Blob,
    Commit,
    RefusedError,
    Repository,
    check_card,
    goes_to_large_storage,
)

__all__ = ["TOKEN", "LoopbackHub", "Request"]

TOKEN = "hf_loopbackSecretThatNobodyMayPrint"
"""The one token that the server accepts."""

ORGANISATIONS = ("org", "my-org")
"""What the token may write to."""

_KEY = b"signs the addresses of uploads and downloads"


@dataclass(frozen=True)
class Request:
    """One request, as it came in."""

    method: str
    path: str
    authorized: bool


_NAME = r"(?P<repo>[\w.-]+(?:/[\w.-]+)?)"
_ROUTES: dict[str, tuple[str, str]] = {
    "whoami": ("GET", r"/api/whoami-v2"),
    "create": ("POST", r"/api/repos/create"),
    "validate": ("POST", r"/api/validate-yaml"),
    "refs": ("GET", rf"/api/datasets/{_NAME}/refs"),
    "info": ("GET", rf"/api/datasets/{_NAME}(?:/revision/(?P<revision>[^/]+))?"),
    "tree": ("GET", rf"/api/datasets/{_NAME}/tree/(?P<revision>[^/]+)(?:/(?P<path>.+))?"),
    "paths": ("POST", rf"/api/datasets/{_NAME}/paths-info/(?P<revision>[^/]+)"),
    "preupload": ("POST", rf"/api/datasets/{_NAME}/preupload/(?P<revision>[^/]+)"),
    "batch": ("POST", rf"/datasets/{_NAME}\.git/info/lfs/objects/batch"),
    "upload": ("PUT", r"/storage/(?P<oid>[0-9a-f]{64})/(?P<size>\d+)"),
    "verify": ("POST", r"/storage/verify"),
    "commit": ("POST", rf"/api/datasets/{_NAME}/commit/(?P<revision>[^/]+)"),
    "tag": ("POST", rf"/api/datasets/{_NAME}/tag/(?P<revision>[^/]+)"),
    "untag": ("DELETE", rf"/api/datasets/{_NAME}/tag/(?P<tag>[^/]+)"),
    "resolve": ("GET", rf"/datasets/{_NAME}/resolve/(?P<revision>[^/]+)/(?P<path>.+)"),
    "storage": ("GET", r"/storage/(?P<oid>[0-9a-f]{64})"),
}
"""Stage -> method and path; GET stands for HEAD as well."""

_WRITES = {"create", "preupload", "batch", "verify", "commit", "tag", "untag"}


class LoopbackHub:
    """The server; a context manager that serves while the block runs.

    Attributes:
        repositories: name -> repository.
        uploaded: SHA-256 -> content of large files, committed or not.
        requests: all requests so far.
        url: what ``HF_ENDPOINT`` is to be set to.
        sealed: names that exist, but that the token may not write to.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.uploaded: dict[str, bytes] = {}
        self.requests: list[Request] = []
        self.sealed: set[str] = set()
        self._lock = threading.RLock()
        self._failures: dict[str, tuple[int, int]] = {}
        self._seen: dict[str, int] = {}
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = make_server("127.0.0.1", 0, Asked.application(self._answer), threaded=True)
        self._server.daemon_threads = True  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        # Another host, as the Hub's storage is: clients follow redirects within a host at once.
        self._storage_url = f"http://localhost:{self._server.server_port}"

    def __enter__(self) -> LoopbackHub:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def publish(self, name: str, folder: Path, tag: str) -> Repository:
        """Commit a folder's files in place of all others and tag that, as git would."""
        repository = self.repositories.setdefault(name, Repository())
        files = dict(repository.commits[0].files)
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                path = file.relative_to(folder).as_posix()
                files[path] = Blob(file.read_bytes(), goes_to_large_storage(path))
                if files[path].large:
                    self.uploaded[files[path].sha256] = files[path].content
        repository.commits.append(Commit(repository.head.oid, tag, files))
        repository.tags[tag] = repository.head.oid
        return repository

    def fail(self, stage: str, nth: int = 1, status: int = 507) -> None:
        """Refuse from the nth request of a stage on: a key of ``_ROUTES``."""
        self._failures[stage] = (nth, status)
        self._seen[stage] = 0

    def heal(self) -> None:
        """Refuse nothing any more."""
        self._failures.clear()

    def count(self, method: str, pattern: str) -> int:
        """Return how many requests there were of a method whose path matches."""
        return sum(r.method == method and bool(re.search(pattern, r.path)) for r in self.requests)

    def _answer(self, asked: Asked) -> Response:
        """Answer a request; what is refused is told as the Hub does."""
        sent = asked.headers.get("Authorization")
        try:
            with self._lock:
                self.requests.append(Request(asked.method, asked.path, sent is not None))
                if sent not in (None, f"Bearer {TOKEN}"):
                    raise RefusedError(401, "Invalid credentials in Authorization header")
                stage, arguments = _route(asked)
                self._maybe_fail(stage)
                if stage in _WRITES and sent is None:
                    raise RefusedError(401, "Invalid username or password.")
                answer: Callable[..., Any] = getattr(self, f"_{stage}")
                value = answer(asked, **{k: v for k, v in arguments.items() if v is not None})
        except RefusedError as refused:
            headers = {"X-Error-Message": refused.message.replace("\n", " ")}
            if refused.code:
                headers["X-Error-Code"] = refused.code
            return _as_json({"error": refused.message}, refused.status, headers)
        return value if isinstance(value, Response) else _as_json(value)

    def _maybe_fail(self, stage: str) -> None:
        if stage in self._failures:
            self._seen[stage] += 1
            nth, status = self._failures[stage]
            if self._seen[stage] >= nth:
                raise RefusedError(status, f"told to fail at {stage}")

    def _find(self, asked: Asked, name: str, *, write: bool = False) -> Repository:
        repository = self.repositories.get(name)
        authorized = "Authorization" in asked.headers
        if repository is None or (repository.private and not authorized):
            # The Hub does not tell strangers whether a repository exists.
            if authorized:
                raise RefusedError(404, "Repository not found", "RepoNotFound")
            raise RefusedError(401, "Invalid username or password.")
        if write and name in self.sealed:
            raise RefusedError(403, "You have read access but not the required permissions")
        return repository

    def _whoami(self, asked: Asked) -> object:
        if "Authorization" not in asked.headers:
            raise RefusedError(401, "Invalid username or password.")
        return {
            "type": "user",
            "name": "somebody",
            "orgs": [{"name": one} for one in ORGANISATIONS],
        }

    def _create(self, asked: Asked) -> object:
        wanted = asked.json
        if wanted["type"] != "dataset" or wanted["organization"] not in ORGANISATIONS:
            raise RefusedError(
                403, "You don't have the rights to create a dataset under this namespace"
            )
        name = f"{wanted['organization']}/{wanted['name']}"
        url = {"url": f"{self.url}/datasets/{name}"}
        if name in self.repositories:
            return _as_json({"error": "You already created this dataset repo", **url}, 409)
        private = wanted.get("private", wanted.get("visibility") == "private")
        self.repositories[name] = Repository(private=bool(private))
        return url

    def _validate(self, asked: Asked) -> object:
        check_card(asked.json["content"])
        return {"errors": [], "warnings": []}

    def _refs(self, asked: Asked, repo: str) -> object:
        repository = self._find(asked, repo)
        main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repository.head.oid}
        tags = [
            {"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": oid}
            for tag, oid in repository.tags.items()
        ]
        return {"branches": [main], "converts": [], "tags": tags}

    def _info(self, asked: Asked, repo: str, revision: str = "main") -> object:
        repository = self._find(asked, repo)
        commit = repository.resolve(revision)
        siblings = [{"rfilename": path} for path in commit.files]
        return {"id": repo, "sha": commit.oid, "private": repository.private, "siblings": siblings}

    def _tree(self, asked: Asked, repo: str, revision: str, path: str = "") -> object:
        listed = _list(self._find(asked, repo).resolve(revision).files, path)
        if path and not listed:
            raise RefusedError(404, f"{path} does not exist", "EntryNotFound")
        if asked.args.get("recursive", "false").lower() == "true":
            return listed
        depth = path.count("/") + 2 if path else 1
        return [entry for entry in listed if entry["path"].count("/") < depth]

    def _paths(self, asked: Asked, repo: str, revision: str) -> object:
        commit = self._find(asked, repo).resolve(revision)
        wanted = asked.form.getlist("paths")
        return [entry for entry in _list(commit.files, "") if entry["path"] in wanted]

    def _preupload(self, asked: Asked, repo: str, revision: str) -> object:
        files = self._find(asked, repo, write=True).resolve(revision).files
        answers = []
        for wanted in asked.json["files"]:
            path = wanted["path"]
            mode = "lfs" if goes_to_large_storage(path) else "regular"
            answer = {"path": path, "uploadMode": mode, "shouldIgnore": False}
            if path in files:
                answer["oid"] = files[path].etag
            answers.append(answer)
        return {"files": answers}

    def _batch(self, asked: Asked, repo: str) -> object:
        self._find(asked, repo, write=True)
        wanted = json.loads(asked.get_data())
        if wanted["operation"] != "upload" or wanted["hash_algo"] != "sha256":
            raise RefusedError(422, "only uploads by SHA-256")
        objects = []
        for entry in wanted["objects"]:
            oid, size = entry["oid"], entry["size"]
            answer: dict[str, Any] = {"oid": oid, "size": size}
            if oid not in self.uploaded:
                verify = {"href": f"{self.url}/storage/verify"}
                upload = {"href": self._signed(f"/storage/{oid}/{size}")}
                answer["actions"] = {"upload": upload, "verify": verify}
            objects.append(answer)
        return {"transfer": "basic", "objects": objects}

    def _upload(self, asked: Asked, oid: str, size: str) -> object:
        _check_signature(asked)
        body = asked.get_data()
        if len(body) != int(size) or hashlib.sha256(body).hexdigest() != oid:
            raise RefusedError(400, "not the content that was announced")
        self.uploaded[oid] = body
        return Response()

    def _verify(self, asked: Asked) -> object:
        stated = json.loads(asked.get_data())
        if len(self.uploaded.get(stated["oid"], b"")) != stated["size"]:
            raise RefusedError(404, "has not been uploaded")
        return {}

    def _commit(self, asked: Asked, repo: str, revision: str) -> object:
        if revision != "main":
            raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        repository = self._find(asked, repo, write=True)
        commit = repository.commit(asked.get_data(), self.uploaded)
        url = f"{self.url}/datasets/{repo}/commit/{commit.oid}"
        return {"success": True, "commitOid": commit.oid, "commitUrl": url}

    def _tag(self, asked: Asked, repo: str, revision: str) -> object:
        repository = self._find(asked, repo, write=True)
        tag = asked.json["tag"]
        if tag in repository.tags:
            raise RefusedError(409, "Tag reference exists already")
        repository.tags[tag] = repository.resolve(revision).oid
        return {}

    def _untag(self, asked: Asked, repo: str, tag: str) -> object:
        if self._find(asked, repo, write=True).tags.pop(tag, None) is None:
            raise RefusedError(404, f"Invalid rev id: {tag}", "RevisionNotFound")
        return {}

    def _resolve(self, asked: Asked, repo: str, revision: str, path: str) -> object:
        commit = self._find(asked, repo).resolve(revision)
        blob = commit.files.get(path)
        if blob is None:
            raise RefusedError(404, "Entry not found", "EntryNotFound")
        headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{blob.etag}"'}
        if not blob.large:
            return _part(asked, blob.content, headers)
        headers |= {
            "Location": self._signed(f"/storage/{blob.sha256}"),
            "X-Linked-ETag": f'"{blob.sha256}"',
            "X-Linked-Size": str(len(blob.content)),
        }
        return Response(status=302, headers=headers)

    def _storage(self, asked: Asked, oid: str) -> object:
        _check_signature(asked)
        return _part(asked, self.uploaded[oid], {"ETag": f'"{oid}"'})

    def _signed(self, address: str) -> str:
        return f"{self._storage_url}{address}?signature={_sign(address)}"


def _route(asked: Asked) -> tuple[str, dict[str, str | None]]:
    method = "GET" if asked.method == "HEAD" else asked.method
    for stage, (expected, pattern) in _ROUTES.items():
        if method == expected and (match := re.fullmatch(pattern, asked.path)):
            return stage, match.groupdict()
    raise RefusedError(404, f"no such address: {method} {asked.path}")


def _as_json(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    content = json.dumps(value)
    return Response(content, status, dict(headers or {}), content_type="application/json")


def _part(asked: Asked, content: bytes, headers: Mapping[str, str]) -> Response:
    """Return the part of a file that is asked for; by default all of it."""
    whole = Response(content, headers=dict(headers))
    return whole.make_conditional(asked, accept_ranges=True, complete_length=len(content))


def _check_signature(asked: Asked) -> None:
    if "Authorization" in asked.headers:
        raise RefusedError(400, "the token is none of the storage's business")
    if asked.args.get("signature") != _sign(asked.path):
        raise RefusedError(403, "the address is not signed")


def _sign(address: str) -> str:
    return hmac.new(_KEY, address.encode(), "sha256").hexdigest()


def _list(files: Any, folder: str) -> list[dict[str, Any]]:
    """List the files and folders below a folder, as the Hub describes them."""
    below = f"{folder}/" if folder else ""
    listed = {path: blob.describe(path) for path, blob in files.items() if path.startswith(below)}
    for path in list(listed):
        while "/" in path[len(below) :]:
            path = path.rpartition("/")[0]
            oid = hashlib.sha1(path.encode()).hexdigest()
            listed[path] = {"type": "directory", "path": path, "oid": oid, "size": 0}
    return [listed[path] for path in sorted(listed)]
