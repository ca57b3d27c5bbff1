"""What the loopback Hub stores: repositories of commits of files, and large files by digest."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import yaml

__all__ = ["Blob", "Commit", "RefusedError", "Repository", "check_card", "goes_to_large_storage"]

_ATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"


class RefusedError(Exception):
    """A request that the Hub answers with an error.

    Args:
        status: the HTTP status.
        message: the text of the error.
        code: the Hub's ``X-Error-Code``.
    """

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


@dataclass(frozen=True)
class Blob:
    """The content of one file; `large` if it is stored outside git."""

    content: bytes
    large: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def oid(self) -> str:
        """Git's name of the file: of a large one, that of its pointer."""
        data = self.content
        if self.large:
            data = (
                f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\n"
                f"size {len(self.content)}\n"
            ).encode()
        return hashlib.sha1(b"blob %d\0%b" % (len(data), data)).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.large else self.oid

    def describe(self, path: str) -> dict[str, Any]:
        """Return what the Hub says of the file in a listing."""
        facts = {"type": "file", "path": path, "oid": self.oid, "size": len(self.content)}
        if self.large:
            lfs = {"oid": self.sha256, "size": len(self.content), "pointerSize": 134}
            facts["lfs"] = lfs
        return facts


@dataclass(frozen=True)
class Commit:
    """One commit: its message and all files as they are from then on."""

    parent: str
    message: str
    files: Mapping[str, Blob]

    @property
    def oid(self) -> str:
        content = [self.parent, self.message, sorted((p, b.oid) for p, b in self.files.items())]
        return hashlib.sha1(json.dumps(content).encode()).hexdigest()


@dataclass
class Repository:
    """A data set repository; like the Hub's it begins with a commit of ``.gitattributes``."""

    private: bool = False
    commits: list[Commit] = field(
        default_factory=lambda: [
            Commit("", "initial commit", {".gitattributes": Blob(_ATTRIBUTES, large=False)})
        ]
    )
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> Commit:
        return self.commits[-1]

    def resolve(self, revision: str) -> Commit:
        """Return the commit of a branch, a tag or a commit's own name."""
        oid = self.head.oid if revision == "main" else self.tags.get(revision, revision)
        for commit in self.commits:
            if commit.oid == oid:
                return commit
        raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def commit(self, payload: bytes, uploaded: Mapping[str, bytes]) -> Commit:
        """Apply a commit as the clients send it: one JSON object per line.

        Args:
            payload: the body of the request.
            uploaded: the large files that have been uploaded, by SHA-256.
        """
        try:
            lines = [json.loads(line) for line in payload.splitlines()]
            header, operations = lines[0], lines[1:]
            if header["key"] != "header" or not header["value"]["summary"]:
                raise RefusedError(400, "the first line is no header with a summary")
            parent = header["value"].get("parentCommit")
            if parent is not None and parent != self.head.oid:
                raise RefusedError(412, "the branch has moved on from parentCommit")
            files = self._apply(operations, uploaded)
        except (KeyError, IndexError, TypeError, ValueError, binascii.Error) as error:
            raise RefusedError(400, f"malformed commit: {error!r}") from None
        if files == self.head.files:
            raise RefusedError(400, "an empty commit")
        if card := files.get("README.md"):
            check_card(card.content.decode(errors="replace"))
        commit = Commit(self.head.oid, header["value"]["summary"], files)
        self.commits.append(commit)
        return commit

    def _apply(
        self, operations: Iterable[Mapping[str, Any]], uploaded: Mapping[str, bytes]
    ) -> dict[str, Blob]:
        files = dict(self.head.files)
        touched = set()
        for operation in operations:
            value = operation["value"]
            path = value["path"]
            parts = PurePosixPath(path).parts
            if (
                path in touched
                or ".." in parts
                or ".git" in parts
                or str(PurePosixPath(*parts)) != path
            ):
                raise RefusedError(400, f"a path that cannot be, or comes twice: {path}")
            touched.add(path)
            match operation["key"]:
                case "file":
                    if value["encoding"] != "base64" or goes_to_large_storage(path):
                        raise RefusedError(400, f"{path} is not to be sent like this")
                    files[path] = Blob(base64.b64decode(value["content"], validate=True), False)
                case "lfsFile":
                    content = uploaded.get(value["oid"])
                    if value["algo"] != "sha256" or content is None:
                        raise RefusedError(400, f"{path} has not been uploaded")
                    if len(content) != value["size"]:
                        raise RefusedError(400, f"{path} has {len(content)} bytes, not as stated")
                    files[path] = Blob(content, large=True)
                case "deletedFile":
                    if files.pop(path, None) is None:
                        raise RefusedError(
                            404, "A file with this name doesn't exist", "EntryNotFound"
                        )
                case unknown:
                    raise RefusedError(400, f"unknown operation {unknown}")
        return files


def goes_to_large_storage(path: str) -> bool:
    """Say what ``.gitattributes`` says of a path."""
    return path.endswith(".parquet")


def check_card(text: str) -> None:
    """Refuse a card whose YAML the Hub would refuse."""
    _, marker, rest = text.partition("---\n")
    front, end, _ = rest.partition("\n---\n")
    try:
        facts = yaml.safe_load(front)
    except yaml.YAMLError as error:
        raise RefusedError(400, f"invalid YAML: {error}") from None
    if not (marker and end and isinstance(facts, dict) and facts.get("configs")):
        raise RefusedError(400, "the card has no front matter with configs")
