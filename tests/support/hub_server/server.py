"""The HTTP interface of the loopback Hub."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from werkzeug import Request, Response
from werkzeug.serving import make_server

from tests.support.hub_repository import Commit, RefusedError, Repository, digest_of, is_large

TOKEN = "hf_loopbackSecretThatNobodyMayPrint"
"""The only token that the server accepts. It may write to the organisation ``org``."""

_NAME = r"(?P<repo>[\w.-]+(?:/[\w.-]+)?)"
_API = rf"/api/datasets/{_NAME}"
_REVISION = r"(?P<revision>[^/]+)"
_ROUTES = {
    "create": ("POST", r"/api/repos/create"),
    "validate": ("POST", r"/api/validate-yaml"),
    "refs": ("GET", rf"{_API}/refs"),
    "info": ("GET", rf"{_API}(?:/revision/{_REVISION})?"),
    "tree": ("GET", rf"{_API}/tree/{_REVISION}(?:/(?P<path>.+))?"),
    "preupload": ("POST", rf"{_API}/preupload/main"),
    "batch": ("POST", rf"/datasets/{_NAME}\.git/info/lfs/objects/batch"),
    "upload": ("PUT", r"/storage/(?P<oid>[0-9a-f]{64})"),
    "verify": ("POST", r"/storage/verify"),
    "commit": ("POST", rf"{_API}/commit/main"),
    "tag": ("POST", rf"{_API}/tag/{_REVISION}"),
    "untag": ("DELETE", rf"{_API}/tag/(?P<tag>[^/]+)"),
    "resolve": ("GET", rf"/datasets/{_NAME}/resolve/{_REVISION}/(?P<path>.+)"),
}
"""Stage -> method and path. GET includes HEAD."""

_WRITES = {"create", "preupload", "batch", "commit", "tag", "untag"}


class LoopbackHub:
    """The server. As a context manager it serves while the block runs.

    Attributes:
        repositories: name -> repository.
        requests: the method and the path of every request so far.
        refused: stage, a key of `_ROUTES` -> the HTTP status that refuses its requests.
        url: the value of ``HF_ENDPOINT``.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: list[tuple[str, str]] = []
        self.refused: dict[str, int] = {}
        self._uploaded: dict[str, bytes] = {}
        self._lock = threading.RLock()
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = make_server("127.0.0.1", 0, Request.application(self._answer), True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> LoopbackHub:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def publish(self, name: str, folder: Path, tag: str) -> Repository:
        """Replace all files of a repository by a folder's, and set a tag."""
        return self.repositories.setdefault(name, Repository()).publish(folder, tag)

    def count(self, method: str, pattern: str) -> int:
        """Return the number of requests of a method with a matching path."""
        return sum(m == method and bool(re.search(pattern, path)) for m, path in self.requests)

    def _answer(self, asked: Request) -> Response:
        try:
            with self._lock:
                value = self._call(asked)
        except RefusedError as refused:
            headers = {"X-Error-Message": refused.message, "X-Error-Code": refused.code}
            return Response(json.dumps({"error": refused.message}), refused.status, headers)
        if isinstance(value, Response):
            return value
        return Response(json.dumps(value), content_type="application/json")

    def _call(self, asked: Request) -> object:
        self.requests.append((asked.method, asked.path))
        sent = asked.headers.get("Authorization")
        stage, arguments = _route(asked)
        if stage in self.refused:
            raise RefusedError(self.refused[stage], f"failure at {stage}")
        if sent not in (None, f"Bearer {TOKEN}"):
            raise RefusedError(401, "Invalid credentials in Authorization header")
        if sent is None and stage in _WRITES:
            raise RefusedError(401, "Invalid username or password.")
        if name := arguments.pop("repo", None):
            repository = self.repositories.get(name)
            if repository is None or (repository.private and sent is None):
                # The Hub does not tell strangers whether a repository exists.
                status, code = (404, "RepoNotFound") if sent else (401, "")
                raise RefusedError(status, "Invalid username or password.", code)
            arguments["repository"] = repository
        answer: Callable[..., object] = getattr(self, f"_{stage}")
        return answer(asked, **{k: v for k, v in arguments.items() if v is not None})

    def _create(self, asked: Request) -> object:
        wanted = asked.json
        if wanted["organization"] != "org":
            raise RefusedError(403, "You don't have the rights to create this dataset")
        private = wanted.get("private", wanted.get("visibility") == "private")
        self.repositories[name := f"org/{wanted['name']}"] = Repository(private=bool(private))
        return {"url": f"{self.url}/datasets/{name}"}

    def _validate(self, asked: Request) -> object:
        return {"errors": [], "warnings": []}

    def _refs(self, asked: Request, repository: Repository) -> object:
        tags = repository.tags.items()
        listed = [{"name": t, "ref": f"refs/tags/{t}", "targetCommit": oid} for t, oid in tags]
        return {"branches": [], "converts": [], "tags": listed}

    def _info(self, asked: Request, repository: Repository, revision: str = "main") -> object:
        commit = repository.resolve(revision)
        siblings = [{"rfilename": path} for path in commit.files]
        return {"id": "it", "sha": commit.oid, "private": repository.private, "siblings": siblings}

    def _tree(
        self, asked: Request, repository: Repository, revision: str, path: str = ""
    ) -> object:
        listed = _listed(repository.resolve(revision), f"{path}/" if path else "")
        if path and not listed:
            raise RefusedError(404, f"{path} does not exist", "EntryNotFound")
        is_deep = asked.args.get("recursive", "false").lower() == "true"
        deepest = path.count("/") + bool(path)
        return [one for name, one in listed.items() if is_deep or name.count("/") <= deepest]

    def _preupload(self, asked: Request, repository: Repository) -> object:
        paths = [wanted["path"] for wanted in asked.json["files"]]
        modes = {path: "lfs" if is_large(path) else "regular" for path in paths}
        files = [{"path": p, "uploadMode": m, "shouldIgnore": False} for p, m in modes.items()]
        return {"files": files}

    def _batch(self, asked: Request, repository: Repository) -> object:
        objects = json.loads(asked.get_data())["objects"]
        for one in objects:
            if one["oid"] not in self._uploaded:
                upload, verify = (f"{self.url}/storage/{end}" for end in (one["oid"], "verify"))
                one["actions"] = {"upload": {"href": upload}, "verify": {"href": verify}}
        return {"transfer": "basic", "objects": objects}

    def _upload(self, asked: Request, oid: str) -> object:
        body = asked.get_data()
        if hashlib.sha256(body).hexdigest() != oid:
            raise RefusedError(400, "not the announced content")
        self._uploaded[oid] = body
        return Response()

    def _verify(self, asked: Request) -> object:
        return {"size": len(self._uploaded[json.loads(asked.get_data())["oid"]])}

    def _commit(self, asked: Request, repository: Repository) -> object:
        header, *lines = map(json.loads, asked.get_data().splitlines())
        read: dict[str, Callable[[dict[str, Any]], bytes | None]] = {
            "file": lambda value: base64.b64decode(value["content"], validate=True),
            "lfsFile": lambda value: self._uploaded[value["oid"]],
            "deletedFile": lambda value: None,
        }
        changes = {line["value"]["path"]: read[line["key"]](line["value"]) for line in lines}
        summary, parent = header["value"]["summary"], header["value"].get("parentCommit")
        commit = repository.commit(summary, changes, parent)
        url = f"{self.url}{asked.path.removeprefix('/api')}"
        return {"success": True, "commitOid": commit.oid, "commitUrl": url}

    def _tag(self, asked: Request, repository: Repository, revision: str) -> object:
        if asked.json["tag"] in repository.tags:
            raise RefusedError(409, "Tag reference exists already")
        repository.tags[asked.json["tag"]] = repository.resolve(revision).oid
        return {}

    def _untag(self, asked: Request, repository: Repository, tag: str) -> object:
        del repository.tags[tag]
        return {}

    def _resolve(self, asked: Request, repository: Repository, revision: str, path: str) -> object:
        commit = repository.resolve(revision)
        if path not in commit.files:
            raise RefusedError(404, "Entry not found", "EntryNotFound")
        data = commit.files[path]
        headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{digest_of(path, data)}"'}
        complete = Response(data, headers=headers)
        return complete.make_conditional(asked, accept_ranges=True, complete_length=len(data))


def _route(asked: Request) -> tuple[str, dict[str, Any]]:
    method = "GET" if asked.method == "HEAD" else asked.method
    for stage, (expected, pattern) in _ROUTES.items():
        if method == expected and (match := re.fullmatch(pattern, asked.path)):
            return stage, match.groupdict()
    raise RefusedError(404, f"no such address: {method} {asked.path}")


def _listed(commit: Commit, below: str) -> dict[str, dict[str, Any]]:
    """Return path -> description of the files and folders below a folder."""
    listed: dict[str, dict[str, Any]] = {}
    for name, data in commit.files.items():
        if name.startswith(below):
            facts = {"oid": digest_of(name, data), "size": len(data)}
            lfs = {"lfs": {**facts, "pointerSize": 9}} if is_large(name) else {}
            listed[name] = {"type": "file", "path": name, **facts, **lfs}
            while "/" in name[len(below) :]:
                name = name.rpartition("/")[0]
                listed[name] = {"type": "directory", "path": name, "oid": "0" * 40, "size": 0}
    return listed
