"""A built data set on the Hugging Face Hub: pushed in one commit, tagged with its data version.

`msshift_bench.data.installing` copies it from there, or from a folder, into the datasets library's
cache. huggingface_hub finds the token, and no message holds it: errors of the HTTP library may
spell out the headers of a request, so messages neither quote nor chain them.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from msshift_bench.data.dataset import Dataset, open_dataset
from msshift_bench.data.digests import sha256_of
from msshift_bench.data.manifest import CARD_NAME, MANIFEST_NAME, Manifest, holds_manifest
from msshift_bench.data.verification import verify_dataset
from msshift_bench.errors import (
    HubError,
    IntegrityError,
    MissingError,
    NotFoundError,
    UsageError,
    require,
)
from msshift_bench.shifts import DATASET_NAME

__all__ = [
    "NOT_THE_DATA",
    "Pushed",
    "ask_hub",
    "ask_only_if_it_answers",
    "check_repo_name",
    "download_dataset",
    "is_repo_name",
    "push_dataset",
]

_logger = logging.getLogger(__name__)

NOT_THE_DATA = (".gitattributes", "eval.yaml")
"""Files of a repository that are no part of a data set, and that `push_dataset` leaves alone: what
the Hub itself adds to each, and what makes it a benchmark."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did.

    Attributes:
        repo: the repository, ``org/name``.
        commit: the commit that holds the data set.
        tag: the data version.
        url: the repository's page.
        created: whether the repository is new.
        unchanged: whether the repository held the same files already; then there is no new commit.
        files: the files that the commit added, changed or deleted.
    """

    repo: str
    commit: str
    tag: str
    url: str
    created: bool
    unchanged: bool
    files: tuple[str, ...]


def push_dataset(
    data: Dataset | str | Path,
    repo: str,
    *,
    private: bool = False,
    move_tag: bool = False,
    token: str | None = None,
) -> Pushed:
    """Make a data set repository on the Hub hold exactly a built data set.

    One commit adds new and changed files and deletes all others, so that a failed upload leaves the
    previous version as it was. If only the tag is missing, only the tag is set: a second call
    completes an interrupted one.

    Args:
        data: a built data set; see `open_dataset`.
        repo: ``org/name``; created if it does not exist.
        private: create it as a private one.
        move_tag: move the tag of the data version to this build if it names another.
        token: the Hub's token; by default the one huggingface_hub finds (``HF_TOKEN``, a login).

    Returns:
        The commit and the files that it changed.

    Raises:
        IntegrityError: if the folder is not what was built.
        UsageError: if the repository holds anything but a data set, is public although `private` is
            set, or has other content under the tag of this data version.
        MissingError: if there is no token.
        HubError: if the Hub cannot be reached or refuses.
    """
    check_repo_name(repo)
    hub = require("huggingface_hub", "hf", "pushing to the Hub")
    dataset = open_dataset(data)
    folder = dataset.folder
    manifest, findings = verify_dataset(dataset)
    if findings:
        raise IntegrityError(f"{folder} is not what was built, and is not pushed:", findings)
    with _hub_errors(f"cannot push to {repo}"):
        if not _has_token(hub, token):
            raise MissingError(
                "pushing needs a token of the Hub: set HF_TOKEN, or run 'hf auth login'"
            )
        remote = _Repository(hub.HfApi(token=token, library_name="msshift-bench"), repo)
        created = remote.ensure(private=private)
        head = remote.head()
        files = remote.files(head)
        ours = _is(folder / MANIFEST_NAME, files.get(MANIFEST_NAME, ""))
        if files.keys() - {CARD_NAME} and not (ours or remote.holds_data_set(head, files)):
            raise UsageError(
                f"{repo} exists and is not a data set built by msshift; choose another --repo"
            )
        tag = manifest.data_version
        tagged = remote.tags().get(tag)
        moved = _differing(folder, remote.files(tagged)) if tagged else ()
        if moved and not move_tag:
            raise UsageError(
                f"{repo} has a version {tag} with other content ({_some(moved)}): push to another "
                "repository, or pass --move-tag to let the tag name this build from now on"
            )
        changed = _differing(folder, files)
        commit = remote.commit(folder, changed, manifest, parent=head) if changed else head
    if moved or not tagged:
        with _hub_errors(
            f"the files are in {repo} (commit {commit[:12]}), but the tag {tag} could not be set; "
            "run the same command again to complete it"
        ):
            remote.tag(tag, commit, move=bool(moved))
    url = f"{hub.constants.ENDPOINT}/datasets/{repo}/tree/{tag}"
    return Pushed(repo, commit, tag, url, created, not changed, changed)


def download_dataset(repo: str, revision: str | None = None, token: str | None = None) -> Path:
    """Download a data set from the Hub into the cache of huggingface_hub.

    Args:
        repo: ``org/name``.
        revision: a tag (the data version), a branch or a commit; the newest commit by default.
        token: the Hub's token; by default the one huggingface_hub finds.

    Returns:
        The folder of the download; without a network, that of an earlier download.

    Raises:
        NotFoundError: if there is no such data set or revision.
        HubError: if the Hub cannot be reached or refuses.
    """
    check_repo_name(repo)
    hub = require("huggingface_hub", "hf", "downloading from the Hub")
    what = f"cannot download {repo}" + (f" at {revision}" if revision else "")
    with _hub_errors(what):
        _has_token(hub, token)
        downloaded = hub.snapshot_download(
            repo,
            repo_type="dataset",
            revision=revision,
            token=token,
            ignore_patterns=list(NOT_THE_DATA),
        )
    return Path(downloaded)


def ask_hub(seconds: float = 5) -> str:
    """Return the Hub's address if it answers.

    Args:
        seconds: how long to wait for an answer.

    Raises:
        HubError: if it does not answer, or may not be asked.
    """
    hub = require("huggingface_hub", "hf", "asking the Hub")
    address: str = hub.constants.ENDPOINT
    with _hub_errors(f"cannot reach {address}"):
        session = require("huggingface_hub.utils", "hf").get_session()
        session.head(address, timeout=seconds)
    return address


def ask_only_if_it_answers(name: str | Path, what: str) -> None:
    """Let libraries ask the Hub for a model only if it answers, else take what its cache holds.

    They repeat each request that fails, for minutes in all; this asks once. A Hub that does not
    answer is not asked again before the process ends.

    Args:
        name: the model: a folder, for which the Hub is not asked, or its id on the Hub.
        what: what needs the model, for the message about an extra.
    """
    if Path(name).is_dir() or str(name).startswith((".", "/", "~")):
        return
    constants: Any = require("huggingface_hub.constants", "neural", what)
    if constants.HF_HUB_OFFLINE:
        return
    try:
        ask_hub()
    except HubError as error:
        _logger.warning("%s; what its cache holds is taken as it is", error)
        constants.HF_HUB_OFFLINE = True


def is_repo_name(name: str) -> bool:
    """Say whether a name has the form ``org/name``."""
    return _NAME.fullmatch(name) is not None


def check_repo_name(repo: str) -> None:
    """Check that a name has the form ``org/name``.

    Raises:
        UsageError: if it has not.
    """
    if not is_repo_name(repo):
        raise UsageError(f"a repository of the Hub is named org/{DATASET_NAME}, not {repo!r}")


def _has_token(hub: ModuleType, token: str | None) -> bool:
    """Say whether there is a token, and refuse one that cannot be sent."""
    sent = token or hub.get_token() or ""
    if not (sent.isascii() and sent.isprintable()):
        raise UsageError("the token of the Hub (HF_TOKEN) holds characters that no token has")
    return bool(sent)


@dataclass(frozen=True, slots=True)
class _Repository:
    """A data set repository, with the calls that a push needs.

    Attributes:
        api: an ``HfApi``.
        name: ``org/name``.
    """

    api: Any
    name: str

    def ensure(self, *, private: bool) -> bool:
        """Create the repository if it does not exist, and say whether it did not."""
        errors = require("huggingface_hub.errors", "hf")
        try:
            info = self.api.dataset_info(self.name)
        except errors.RepositoryNotFoundError:
            self.api.create_repo(self.name, repo_type="dataset", private=private or None)
            return True
        if private and not info.private:
            raise UsageError(
                f"{self.name} exists and is public; make it private on the Hub, "
                "or push without --private"
            )
        return False

    def head(self) -> str:
        """Return the newest commit."""
        return str(self.api.dataset_info(self.name).sha)

    def files(self, commit: str) -> dict[str, str]:
        """Return path -> SHA-256 of a file in large storage, or git's SHA-1 of any other."""
        tree = self.api.list_repo_tree(
            self.name, recursive=True, revision=commit, repo_type="dataset"
        )
        # Folders are listed too, and have no blob.
        files = {entry.path: entry for entry in tree if hasattr(entry, "blob_id")}
        for name in NOT_THE_DATA:
            files.pop(name, None)
        return {
            path: entry.lfs.sha256 if entry.lfs else entry.blob_id for path, entry in files.items()
        }

    def holds_data_set(self, commit: str, files: Container[str]) -> bool:
        """Say whether a commit's manifest is that of a data set; other programs write some, too."""
        if MANIFEST_NAME not in files:
            return False
        path = self.api.hf_hub_download(
            self.name, MANIFEST_NAME, revision=commit, repo_type="dataset"
        )
        return holds_manifest(Path(path).parent)

    def tags(self) -> dict[str, str]:
        """Return tag -> commit."""
        tags = self.api.list_repo_refs(self.name, repo_type="dataset").tags
        return {tag.name: tag.target_commit for tag in tags}

    def commit(
        self, folder: Path, paths: tuple[str, ...], manifest: Manifest, *, parent: str
    ) -> str:
        """Commit `paths` as they are in the folder, deleting those it lacks; return the commit."""
        hub = require("huggingface_hub", "hf")
        operations = [
            hub.CommitOperationAdd(path, folder / path)
            if (folder / path).is_file()
            else hub.CommitOperationDelete(path, is_folder=False)
            for path in paths
        ]
        done = self.api.create_commit(
            self.name,
            operations,
            commit_message=f"MS-Shift {manifest.data_version}, {manifest.edition}",
            commit_description=f"content {manifest.content_digest}",
            repo_type="dataset",
            parent_commit=parent,
        )
        return str(done.oid)

    def tag(self, tag: str, commit: str, *, move: bool) -> None:
        """Tag a commit; the Hub can move a tag only by deleting it first."""
        if move:
            self.api.delete_tag(self.name, tag=tag, repo_type="dataset")
        self.api.create_tag(self.name, tag=tag, revision=commit, repo_type="dataset")


def _differing(folder: Path, remote: dict[str, str]) -> tuple[str, ...]:
    """Return the paths whose content differs, or that only one side has, sorted."""
    local = {
        file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()
    }
    changed = {path for path, file in local.items() if not _is(file, remote.get(path, ""))}
    return tuple(sorted(changed | (remote.keys() - local.keys())))


def _is(file: Path, digest: str) -> bool:
    if len(digest) == 64:
        return sha256_of(file) == digest
    content = file.read_bytes()
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest() == digest


def _some(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{paths[0]}{more}"


@contextmanager
def _hub_errors(what: str) -> Iterator[None]:
    """Turn errors of huggingface_hub into one sentence that begins with `what`."""
    errors = require("huggingface_hub.errors", "hf")
    try:
        yield
    except (errors.HTTPError, OSError, RuntimeError, ValueError) as error:
        for cause in _causes(error):
            if isinstance(cause, errors.OfflineModeIsEnabled):
                raise HubError(f"{what}: HF_HUB_OFFLINE is set, the Hub is not asked") from None
            if isinstance(cause, errors.RevisionNotFoundError):
                raise NotFoundError(f"{what}: the Hub knows no such revision") from None
            # Without a token the Hub answers 401 for a missing repository, too.
            if isinstance(cause, errors.RepositoryNotFoundError) or (
                isinstance(cause, errors.HfHubHTTPError)
                and cause.response.status_code == 401
                and "credentials" not in (cause.server_message or "")
            ):
                raise NotFoundError(
                    f"{what}: the Hub has no such data set, or none that the token may see"
                ) from None
            if isinstance(cause, errors.HfHubHTTPError):
                raise HubError(f"{what}: {_answer(cause)}") from None
            if isinstance(cause, errors.HTTPError):
                raise HubError(f"{what}: no answer from the Hub ({type(cause).__name__})") from None
        raise


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _answer(error: Any) -> str:
    """Say in words what an ``HfHubHTTPError`` means for the user."""
    status = error.response.status_code
    reasons = {
        401: "the Hub does not accept the token; log in again, or set another HF_TOKEN",
        403: "the token does not allow it; it needs the right to write there",
        409: "somebody else is changing the repository; run the same command again",
        412: "somebody else has changed the repository; run the same command again",
    }
    reason = reasons.get(status)
    if reason is None and status < 500:
        reason = (
            "the Hub refuses: " + (error.server_message or "it does not say why").split("\n")[0]
        )
    return f"{reason or 'the Hub does not do it; try again later'} (HTTP {status})"
