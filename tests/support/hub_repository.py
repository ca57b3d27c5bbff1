"""Data set repositories of a Hub in memory, for the fake client and the HTTP server of tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_FIRST = {".gitattributes": b"*.parquet filter=lfs\n"}


class RefusedError(Exception):
    """A request that the Hub answers with an HTTP status, a message and an ``X-Error-Code``."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


class Commit(NamedTuple):
    """A commit: its digest, its message and the complete content of the repository."""

    oid: str
    message: str
    files: Mapping[str, bytes]


@dataclass
class Repository:
    """A repository, whose first commit has only ``.gitattributes``, as on the Hub."""

    private: bool = False
    commits: list[Commit] = field(default_factory=lambda: [Commit("0" * 40, "initial", _FIRST)])
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> Commit:
        return self.commits[-1]

    def resolve(self, revision: str | None = None) -> Commit:
        """Return the commit of a branch, a tag or a digest."""
        oid = self.head.oid if revision in (None, "main") else self.tags.get(revision, revision)
        for commit in self.commits:
            if commit.oid == oid:
                return commit
        raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def held(self, revision: str | None = None) -> dict[str, bytes]:
        """Return the files of a revision, without the Hub's own."""
        return {k: data for k, data in self.resolve(revision).files.items() if k not in _FIRST}

    def commit(
        self, message: str, changes: Mapping[str, bytes | None], parent: str | None = None
    ) -> Commit:
        """Add a commit; a change of `None` deletes the file."""
        if parent not in (None, self.head.oid):
            raise RefusedError(412, "the branch has moved on from parentCommit")
        every = {**self.head.files, **changes}
        files = {path: data for path, data in every.items() if data is not None}
        if files == self.head.files:
            raise RefusedError(400, "an empty commit")
        listed = sorted((path, digest_of(path, data)) for path, data in files.items())
        oid = hashlib.sha1(f"{self.head.oid} {message} {listed}".encode()).hexdigest()
        self.commits.append(Commit(oid, message, files))
        return self.head

    def publish(self, folder: Path, tag: str) -> Repository:
        """Replace all files by a folder's, and set a tag."""
        paths = [path for path in folder.rglob("*") if path.is_file()]
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        self.tags[tag] = self.commit(tag, {**dict.fromkeys(self.held()), **files}).oid
        return self


def is_large(path: str) -> bool:
    """Return whether a file is in large storage, as ``.gitattributes`` of the Hub decides."""
    return path.endswith(".parquet")


def digest_of(path: str, data: bytes) -> str:
    """Return the digest in a listing: SHA-256 in large storage, else git's SHA-1."""
    if is_large(path):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0%b" % (len(data), data)).hexdigest()
