"""The HTTP side of the loopback Hub."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

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
        self.lock = threading.RLock()
        self._failures: dict[str, tuple[int, int]] = {}
        self._seen: dict[str, int] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.hub = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        # Another host, as the Hub's storage is: clients follow redirects within a host at once.
        self.storage_url = f"http://localhost:{self._server.server_port}"

    def __enter__(self) -> LoopbackHub:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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

    def maybe_fail(self, stage: str) -> None:
        with self.lock:
            if stage in self._failures:
                self._seen[stage] += 1
                nth, status = self._failures[stage]
                if self._seen[stage] >= nth:
                    raise RefusedError(status, f"told to fail at {stage}")

    def count(self, method: str, pattern: str) -> int:
        """Return how many requests there were of a method whose path matches."""
        return sum(r.method == method and bool(re.search(pattern, r.path)) for r in self.requests)


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


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    @property
    def hub(self) -> LoopbackHub:
        return self.server.hub  # type: ignore[attr-defined,no-any-return]

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def _serve(self) -> None:
        body = self._read_body()
        url = urlsplit(self.path)
        sent = self.headers.get("Authorization")
        self.authorized = sent == f"Bearer {TOKEN}"
        self.query = parse_qs(url.query)
        with self.hub.lock:
            self.hub.requests.append(Request(self.command, url.path, sent is not None))
        try:
            if sent is not None and not self.authorized:
                raise RefusedError(401, "Invalid credentials in Authorization header")
            stage, arguments = self._route(url.path)
            self.hub.maybe_fail(stage)
            if stage in _WRITES and not self.authorized:
                raise RefusedError(401, "Invalid username or password.")
            with self.hub.lock:
                answer: Callable[..., None] = getattr(self, f"_{stage}")
                answer(body, **{k: unquote(v) for k, v in arguments.items() if v is not None})
        except RefusedError as refused:
            headers = {"X-Error-Message": refused.message.replace("\n", " ")}
            if refused.code:
                headers["X-Error-Code"] = refused.code
            self._send_json({"error": refused.message}, refused.status, headers)

    def _route(self, path: str) -> tuple[str, dict[str, str | None]]:
        method = "GET" if self.command == "HEAD" else self.command
        for stage, (expected, pattern) in _ROUTES.items():
            if method == expected and (match := re.fullmatch(pattern, path)):
                return stage, match.groupdict()
        raise RefusedError(404, f"no such address: {method} {path}")

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, content: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _send_json(
        self, value: object, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        content = json.dumps(value).encode()
        self._send(content, status, {"Content-Type": "application/json", **(headers or {})})

    def _send_range(self, content: bytes, headers: dict[str, str]) -> None:
        headers = {"Accept-Ranges": "bytes", **headers}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not wanted:
            self._send(content, 200, headers)
            return
        first = int(wanted[1])
        last = min(int(wanted[2] or len(content)), len(content) - 1)
        if first > last:
            raise RefusedError(416, "a range outside the file")
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        self._send(content[first : last + 1], 206, headers)

    def _find(self, name: str, *, write: bool = False) -> Repository:
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.private and not self.authorized):
            # The Hub does not tell strangers whether a repository exists.
            if self.authorized:
                raise RefusedError(404, "Repository not found", "RepoNotFound")
            raise RefusedError(401, "Invalid username or password.")
        if write and name in self.hub.sealed:
            raise RefusedError(403, "You have read access but not the required permissions")
        return repository

    def _whoami(self, body: bytes) -> None:
        if not self.authorized:
            raise RefusedError(401, "Invalid username or password.")
        self._send_json(
            {"type": "user", "name": "somebody", "orgs": [{"name": name} for name in ORGANISATIONS]}
        )

    def _create(self, body: bytes) -> None:
        wanted = json.loads(body)
        if wanted["type"] != "dataset" or wanted["organization"] not in ORGANISATIONS:
            raise RefusedError(
                403, "You don't have the rights to create a dataset under this namespace"
            )
        name = f"{wanted['organization']}/{wanted['name']}"
        url = {"url": f"{self.hub.url}/datasets/{name}"}
        if name in self.hub.repositories:
            self._send_json({"error": "You already created this dataset repo", **url}, 409)
            return
        private = wanted.get("private", wanted.get("visibility") == "private")
        self.hub.repositories[name] = Repository(private=bool(private))
        self._send_json(url)

    def _validate(self, body: bytes) -> None:
        check_card(json.loads(body)["content"])
        self._send_json({"errors": [], "warnings": []})

    def _refs(self, body: bytes, repo: str) -> None:
        repository = self._find(repo)
        main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repository.head.oid}
        tags = [
            {"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": oid}
            for tag, oid in repository.tags.items()
        ]
        self._send_json({"branches": [main], "converts": [], "tags": tags})

    def _info(self, body: bytes, repo: str, revision: str = "main") -> None:
        repository = self._find(repo)
        commit = repository.resolve(revision)
        siblings = [{"rfilename": path} for path in commit.files]
        facts = {"id": repo, "sha": commit.oid, "private": repository.private, "siblings": siblings}
        self._send_json(facts)

    def _tree(self, body: bytes, repo: str, revision: str, path: str = "") -> None:
        commit = self._find(repo).resolve(revision)
        listed = _list(commit.files, path)
        if path and not listed:
            raise RefusedError(404, f"{path} does not exist", "EntryNotFound")
        if self.query.get("recursive", ["false"])[0].lower() != "true":
            depth = path.count("/") + 2 if path else 1
            listed = [entry for entry in listed if entry["path"].count("/") < depth]
        self._send_json(listed)

    def _paths(self, body: bytes, repo: str, revision: str) -> None:
        commit = self._find(repo).resolve(revision)
        wanted = parse_qs(body.decode())["paths"]
        self._send_json([entry for entry in _list(commit.files, "") if entry["path"] in wanted])

    def _preupload(self, body: bytes, repo: str, revision: str) -> None:
        files = self._find(repo, write=True).resolve(revision).files
        answers = []
        for wanted in json.loads(body)["files"]:
            path = wanted["path"]
            mode = "lfs" if goes_to_large_storage(path) else "regular"
            answer = {"path": path, "uploadMode": mode, "shouldIgnore": False}
            if path in files:
                answer["oid"] = files[path].etag
            answers.append(answer)
        self._send_json({"files": answers})

    def _batch(self, body: bytes, repo: str) -> None:
        self._find(repo, write=True)
        wanted = json.loads(body)
        if wanted["operation"] != "upload" or wanted["hash_algo"] != "sha256":
            raise RefusedError(422, "only uploads by SHA-256")
        objects = []
        for entry in wanted["objects"]:
            oid, size = entry["oid"], entry["size"]
            answer: dict[str, Any] = {"oid": oid, "size": size}
            if oid not in self.hub.uploaded:
                address = f"/storage/{oid}/{size}"
                answer["actions"] = {
                    "upload": {
                        "href": f"{self.hub.storage_url}{address}?signature={_sign(address)}"
                    },
                    "verify": {"href": f"{self.hub.url}/storage/verify"},
                }
            objects.append(answer)
        self._send_json({"transfer": "basic", "objects": objects})

    def _upload(self, body: bytes, oid: str, size: str) -> None:
        self._check_signature(f"/storage/{oid}/{size}")
        if len(body) != int(size) or hashlib.sha256(body).hexdigest() != oid:
            raise RefusedError(400, "not the content that was announced")
        self.hub.uploaded[oid] = body
        self._send(b"", 200, {})

    def _verify(self, body: bytes) -> None:
        stated = json.loads(body)
        if len(self.hub.uploaded.get(stated["oid"], b"")) != stated["size"]:
            raise RefusedError(404, "has not been uploaded")
        self._send_json({})

    def _commit(self, body: bytes, repo: str, revision: str) -> None:
        if revision != "main":
            raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        commit = self._find(repo, write=True).commit(body, self.hub.uploaded)
        url = f"{self.hub.url}/datasets/{repo}/commit/{commit.oid}"
        self._send_json({"success": True, "commitOid": commit.oid, "commitUrl": url})

    def _tag(self, body: bytes, repo: str, revision: str) -> None:
        repository = self._find(repo, write=True)
        tag = json.loads(body)["tag"]
        if tag in repository.tags:
            raise RefusedError(409, "Tag reference exists already")
        repository.tags[tag] = repository.resolve(revision).oid
        self._send_json({})

    def _untag(self, body: bytes, repo: str, tag: str) -> None:
        if self._find(repo, write=True).tags.pop(tag, None) is None:
            raise RefusedError(404, f"Invalid rev id: {tag}", "RevisionNotFound")
        self._send_json({})

    def _resolve(self, body: bytes, repo: str, revision: str, path: str) -> None:
        commit = self._find(repo).resolve(revision)
        blob = commit.files.get(path)
        if blob is None:
            raise RefusedError(404, "Entry not found", "EntryNotFound")
        headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{blob.etag}"'}
        if blob.large:
            address = f"/storage/{blob.sha256}"
            headers |= {
                "Location": f"{self.hub.storage_url}{address}?signature={_sign(address)}",
                "X-Linked-ETag": f'"{blob.sha256}"',
                "X-Linked-Size": str(len(blob.content)),
            }
            self._send(b"", 302, headers)
        else:
            self._send_range(blob.content, headers)

    def _storage(self, body: bytes, oid: str) -> None:
        self._check_signature(f"/storage/{oid}")
        self._send_range(self.hub.uploaded[oid], {"ETag": f'"{oid}"'})

    def _check_signature(self, address: str) -> None:
        if "Authorization" in self.headers:
            raise RefusedError(400, "the token is none of the storage's business")
        if self.query.get("signature") != [_sign(address)]:
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
