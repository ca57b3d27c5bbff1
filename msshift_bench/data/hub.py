"""Data sets on the Hugging Face Hub, and in the cache of the library datasets.

`push_dataset` writes one commit, tagged with the data version; ``upload_folder`` of huggingface_hub
may write several commits. `install_dataset` copies a data set from the Hub or a folder. Errors of
the HTTP library may contain headers with the token, so messages neither quote nor chain them.

``datasets.load_dataset("msshift", ...)`` looks for a folder ``./msshift``, then on the Hub. If the
Hub lacks the name or is offline, it uses the latest folder in its cache,
``msshift/<config>/<version>/<hash>``. The hash is of the card, which contains the content digest.
`install_dataset` writes all configs to this cache, as the latest folders, and removes configs that
it wrote for earlier builds. Folders that the library cached itself are kept.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os.path import getmtime
from pathlib import Path
from types import ModuleType
from typing import Any

from msshift_bench.data.dataset import (
    Dataset,
    find_dataset_folder,
    installed_folder,
    open_dataset,
    verify_dataset,
)
from msshift_bench.data.digests import sha256_of
from msshift_bench.data.manifest import CARD_NAME, MANIFEST_NAME, has_manifest
from msshift_bench.errors import (
    HubError,
    IntegrityError,
    MissingError,
    NotFoundError,
    UsageError,
    require,
)
from msshift_bench.plumbing import counted, remove_folder, replace_folder, silence_libraries
from msshift_bench.shifts import DATASET_NAME, has_triples

_logger = logging.getLogger(__name__)

_KEPT_FILES = (".gitattributes", "eval.yaml")
"""Files of a repository that `push_dataset` keeps: files of the Hub and of its benchmarks."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)

_PREPARED = ".prepared-by-msshift"
"""The file that marks configs of `install_dataset` in the cache of datasets."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result of a push.

    Attributes:
        repo: the repository, ``org/name``.
        commit: the commit of the data set.
        tag: the data version.
        url: the repository's page.
        created: whether the repository is new.
        unchanged: whether the repository already had the same files; then there is no new commit.
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
    """Write a built data set to a repository on the Hub, and return the commit.

    One commit adds new and changed files and deletes all others, so a failed upload does not
    change the previous version. A second call completes an interrupted call, e.g. sets a missing
    tag.

    Args:
        data: a built data set; see `open_dataset`.
        repo: ``org/name``; created if it does not exist.
        private: whether to create a private repository.
        move_tag: whether to move the tag of the data version from another build to this build.
        token: the Hub's token; by default the token of huggingface_hub (``HF_TOKEN``, a login).

    Returns:
        The commit and the files that it changed.

    Raises:
        NotFoundError: if there is no built data set, or the token has no access to the repository.
        IntegrityError: if the folder was changed after the build.
        UsageError: if the repository is not a data set of this package, is public although
            `private` is set, or has other content under the tag of this data version. Also for an
            invalid repository name or token.
        MissingError: if there is no token, or huggingface_hub is not installed.
        HubError: if the Hub cannot be reached or returns an error.

    Examples:
        The second call makes no commit::

            push_dataset("msshift", "org/msshift").unchanged  # False
            push_dataset("msshift", "org/msshift").unchanged  # True
    """
    check_repo_name(repo)
    hub = require("huggingface_hub", "hf", "pushing to the Hub")
    dataset = open_dataset(data)
    folder = dataset.folder
    manifest, findings = verify_dataset(dataset)
    if findings:
        raise IntegrityError(
            f"{folder} was changed after the build; build it again before pushing:", findings
        )
    api = hub.HfApi(token=token, library_name="msshift-bench")
    with _hub_errors(f"cannot push to {repo}"):
        if not _has_token(hub, token):
            raise MissingError(
                "pushing needs a token of the Hub: set HF_TOKEN, or run 'hf auth login'"
            )
        created = _create_repository(api, repo, private=private)
        head = str(api.dataset_info(repo).sha)
        files = _remote_files(api, repo, head)
        is_ours = _has_digest(folder / MANIFEST_NAME, files.get(MANIFEST_NAME, ""))
        if files.keys() - {CARD_NAME} and not is_ours:
            _check_is_data_set(api, repo, head, files)
        tag = manifest.data_version
        refs = api.list_repo_refs(repo, repo_type="dataset")
        tagged = {ref.name: ref.target_commit for ref in refs.tags}.get(tag)
        moved = _differing_paths(folder, _remote_files(api, repo, tagged)) if tagged else ()
        if moved and not move_tag:
            more = f" and {len(moved) - 1} more" if len(moved) > 1 else ""
            raise UsageError(
                f"{repo} has a version {tag} with other content ({moved[0]}{more}); push to "
                "another repository, or move the tag to this build with --move-tag"
            )
        commit, changed = head, _differing_paths(folder, files)
        if changed:
            done = api.create_commit(
                repo,
                [
                    hub.CommitOperationAdd(path, folder / path)
                    if (folder / path).is_file()
                    else hub.CommitOperationDelete(path, is_folder=False)
                    for path in changed
                ],
                commit_message=f"MS-Shift {tag}, {manifest.edition}",
                commit_description=f"content {manifest.content_digest}",
                repo_type="dataset",
                parent_commit=head,
            )
            commit = str(done.oid)
    if moved or not tagged:
        with _hub_errors(
            f"the files are in {repo} (commit {commit[:12]}), but the tag {tag} could not be set; "
            "run the same command again to complete it"
        ):
            if moved:  # The Hub can move a tag only by deleting it first.
                api.delete_tag(repo, tag=tag, repo_type="dataset")
            api.create_tag(repo, tag=tag, revision=commit, repo_type="dataset")
    url = f"{api.endpoint}/datasets/{repo}/tree/{tag}"
    return Pushed(repo, commit, tag, url, created, not changed, changed)


def _create_repository(api: Any, repo: str, *, private: bool) -> bool:
    """Create a repository if it does not exist, and return whether it was created."""
    errors = require("huggingface_hub.errors", "hf")
    try:
        info = api.dataset_info(repo)
    except errors.RepositoryNotFoundError:
        api.create_repo(repo, repo_type="dataset", private=private or None)
        return True
    if private and not info.private:
        raise UsageError(
            f"{repo} exists and is public; make it private on the Hub, or push without --private"
        )
    return False


def _remote_files(api: Any, repo: str, commit: str) -> dict[str, str]:
    """Return path -> SHA-256 of files in large storage, git's SHA-1 of others; no `_KEPT_FILES`."""
    return {
        entry.path: entry.lfs.sha256 if entry.lfs else entry.blob_id
        for entry in api.list_repo_tree(repo, recursive=True, revision=commit, repo_type="dataset")
        if hasattr(entry, "blob_id") and entry.path not in _KEPT_FILES  # folders have none
    }


def _check_is_data_set(api: Any, repo: str, commit: str, files: Mapping[str, str]) -> None:
    if MANIFEST_NAME in files:  # Other programs also write files with this name.
        path = api.hf_hub_download(repo, MANIFEST_NAME, revision=commit, repo_type="dataset")
        if has_manifest(Path(path).parent):
            return
    raise UsageError(f"{repo} exists and is not a data set built by msshift; choose another --repo")


def _download(repo: str, revision: str | None = None, token: str | None = None) -> Path:
    """Return the folder of a data set in the cache of huggingface_hub, downloaded if needed.

    Errors are as in `install_dataset`.
    """
    hub = require("huggingface_hub", "hf", "downloading from the Hub")
    with _hub_errors(f"cannot download {repo}" + (f" at {revision}" if revision else "")):
        _has_token(hub, token)
        return Path(
            hub.HfApi(token=token, library_name="msshift-bench").snapshot_download(
                repo, repo_type="dataset", revision=revision, ignore_patterns=list(_KEPT_FILES)
            )
        )


def check_hub(seconds: float = 5) -> str:
    """Return the Hub's address, after a request with an answer of any HTTP status.

    Args:
        seconds: the timeout.

    Raises:
        HubError: if the Hub does not answer, or requests are disabled.
        MissingExtraError: if huggingface_hub is not installed.
    """
    address: str = require("huggingface_hub", "hf", "asking the Hub").constants.ENDPOINT
    with _hub_errors(f"cannot reach {address}"):
        require("huggingface_hub.utils", "hf").get_session().head(address, timeout=seconds)
    return address


def use_cache_if_offline(name: str | Path, what: str) -> None:
    """Set ``HF_HUB_OFFLINE``, so that libraries use only cached models, if the Hub does not answer.

    The setting is huggingface_hub's, in this process; a warning is logged. Without it, libraries
    repeat failed requests for minutes.

    Args:
        name: the model: a folder, which needs no request, or an id on the Hub.
        what: the feature that needs the model, for the message about a missing extra.

    Raises:
        MissingExtraError: if huggingface_hub is needed and not installed.
    """
    if Path(name).is_dir() or str(name).startswith((".", "/", "~")):
        return
    constants: Any = require("huggingface_hub.constants", "neural", what)
    if constants.HF_HUB_OFFLINE:
        return
    try:
        check_hub()
    except HubError as error:
        _logger.warning("%s. The cached model is used without a check for updates", error)
        constants.HF_HUB_OFFLINE = True


def check_repo_name(repo: str) -> None:
    """Check that a name has the form ``org/name``.

    Raises:
        UsageError: for another form.
    """
    if not _NAME.fullmatch(repo):
        raise UsageError(
            f"the name of a repository must be like org/{DATASET_NAME}, got {repo!r}; add the "
            "organisation or user"
        )


def _has_token(hub: ModuleType, token: str | None) -> bool:
    """Return whether there is a token; raise `UsageError` for an invalid token."""
    sent = token or hub.get_token() or ""
    if not (sent.isascii() and sent.isprintable()):
        raise UsageError(
            "the token of the Hub (HF_TOKEN) contains invalid characters; copy the token again"
        )
    return bool(sent)


def _differing_paths(folder: Path, remote: dict[str, str]) -> tuple[str, ...]:
    """Return the sorted paths with different content, or only in the folder or the repository."""
    local = {
        file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()
    }
    changed = {path for path, file in local.items() if not _has_digest(file, remote.get(path, ""))}
    return tuple(sorted(changed | (remote.keys() - local.keys())))


def _has_digest(file: Path, digest: str) -> bool:
    if len(digest) == 64:
        return sha256_of(file) == digest
    content = file.read_bytes()
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest() == digest


@contextmanager
def _hub_errors(problem: str) -> Iterator[None]:
    """Context that replaces the Hub's errors by errors that begin with `problem`; others pass."""
    errors = require("huggingface_hub.errors", "hf")
    try:
        yield
    except (errors.HTTPError, OSError, RuntimeError, ValueError) as error:
        for cause in _causes(error):
            if isinstance(cause, errors.OfflineModeIsEnabled):
                raise HubError(
                    f"{problem}: HF_HUB_OFFLINE is set; unset it to allow requests to the Hub"
                ) from None
            if isinstance(cause, errors.RevisionNotFoundError):
                raise NotFoundError(
                    f"{problem}: the Hub does not have the revision; correct --revision"
                ) from None
            # Without a token, the Hub also answers 401 for a missing repository.
            if isinstance(cause, errors.RepositoryNotFoundError) or (
                isinstance(cause, errors.HfHubHTTPError)
                and cause.response.status_code == 401
                and "credentials" not in (cause.server_message or "")
            ):
                raise NotFoundError(
                    f"{problem}: the data set does not exist, or the token has no access to it; "
                    "check the name and HF_TOKEN"
                ) from None
            if isinstance(cause, errors.HfHubHTTPError):
                raise HubError(f"{problem}: {_explain_http_error(cause)}") from None
            if isinstance(cause, errors.HTTPError):
                raise HubError(
                    f"{problem}: no answer from the Hub ({type(cause).__name__}); try again later"
                ) from None
        raise


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _explain_http_error(error: Any) -> str:
    status = error.response.status_code
    reason = {
        401: "the Hub does not accept the token; log in again, or set another HF_TOKEN",
        403: "the token has no permission; use a token that can write to the repository",
        409: "another user is changing the repository; run the same command again",
        412: "another user has changed the repository; run the same command again",
    }.get(status)
    if reason is None and status < 500:
        reason = (
            "the Hub refuses the request: "
            + (error.server_message or "no reason was given").split("\n")[0]
        )
    return f"{reason or 'the Hub has an error; try again later'} (HTTP {status})"


@dataclass(frozen=True, slots=True)
class Installed:
    """The installed data set.

    Attributes:
        folder: the copy of the data set.
        configs: the configs that `datasets.load_dataset` now finds.
        cache: the folder of these configs in the cache of datasets.
        data_version: the data set's version.
        content_digest: the data set's content digest.
        unchanged: whether the same data set was already installed.
    """

    folder: Path
    configs: tuple[str, ...]
    cache: Path
    data_version: str
    content_digest: str
    unchanged: bool


def install_dataset(
    source: Dataset | str | Path = DATASET_NAME,
    *,
    revision: str | None = None,
    triples: bool = False,
    token: str | None = None,
) -> Installed:
    """Copy a data set into the user's cache, and prepare it in the cache of datasets.

    Args:
        source: a built data set (see `open_dataset`), or ``org/name`` on the Hub.
        revision: on the Hub: a tag (the data version), a branch or a commit; by default ``main``.
        triples: whether to prepare the configs of training triples, with millions of rows.
        token: the Hub's token; by default the token of huggingface_hub.

    Returns:
        The installed data set.

    Raises:
        NotFoundError: if the folder, data set or revision does not exist.
        IntegrityError: if the data set was changed after the build; an earlier installed data set
            stays.
        UsageError: if `revision` is given for a folder, the token is invalid, or another process is
            installing.
        HubError: if the Hub cannot be reached or returns an error.
        MissingExtraError: if datasets or huggingface_hub is not installed.

    Examples:
        The library datasets then finds it from every folder, also offline::

            install_dataset("org/msshift", revision="2.0.0")
            datasets.load_dataset("msshift", "length-short")
    """
    origin = _open_origin(source, revision, token)
    datasets = require("datasets", "hf", "installing a data set")
    folder = installed_folder()
    unchanged = not _copy_verified(origin.folder, folder)
    manifest = origin.manifest
    configs = tuple(c for c in manifest.configs if triples or not has_triples(c))
    return Installed(
        folder=folder,
        configs=configs,
        cache=_prepare_configs(datasets, folder, configs),
        data_version=manifest.data_version,
        content_digest=manifest.content_digest,
        unchanged=unchanged,
    )


def _open_origin(source: Dataset | str | Path, revision: str | None, token: str | None) -> Dataset:
    folder = source.folder if isinstance(source, Dataset) else find_dataset_folder(source)
    if folder.is_dir():
        if revision is not None:
            raise UsageError(
                f"revision {revision!r} is given, but {folder} is a folder; leave out --revision, "
                "or give a data set on the Hub"
            )
        return open_dataset(source)
    if not _NAME.fullmatch(str(source)):
        raise NotFoundError(
            f"no data set at {folder}; make a data set with 'msshift build', or give the name of "
            "a data set on the Hub (org/name)"
        )
    return open_dataset(_download(str(source), revision, token))


def _copy_verified(origin: Path, folder: Path) -> bool:
    """Make `folder` a copy of a data set, and return whether it changed.

    Raise `IntegrityError` for a data set that differs from its manifest.
    """
    digests = _digests(origin)
    same = folder.is_dir() and _digests(folder) == digests
    if same and not origin.samefile(folder):
        return False
    with replace_folder(folder) as partial:
        for name in digests:
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin / name, partial / name)
        findings = [
            replace(finding, source=str(origin / Path(finding.source).relative_to(partial)))
            for finding in verify_dataset(partial)[1]
        ]
        if findings:
            raise IntegrityError(
                f"{origin} was changed after the build; build it again before installing:", findings
            )
    return not same


def _digests(folder: Path) -> dict[str, str]:
    return {
        name: sha256_of(file)
        for file in folder.rglob("*")
        if file.is_file() and (name := file.relative_to(folder).as_posix()) not in _KEPT_FILES
    }


def _prepare_configs(datasets: ModuleType, folder: Path, configs: tuple[str, ...]) -> Path:
    """Prepare configs in the cache of datasets, and return their folder."""
    cache = Path(datasets.config.HF_DATASETS_CACHE).expanduser() / DATASET_NAME
    current = set()
    with silence_libraries(datasets):
        for config in counted(configs, "preparing", len(configs), every=1):
            builder = datasets.load_dataset_builder(str(folder), config)
            builder.download_and_prepare()
            prepared = Path(builder.cache_dir)
            current.add(prepared.name)
            if not (prepared / _PREPARED).exists():
                (prepared / _PREPARED).touch()
            if prepared != max(filter(Path.is_dir, prepared.parent.iterdir()), key=getmtime):
                os.utime(prepared)
    marks = cache.glob(f"*/*/*/{_PREPARED}")
    earlier = [mark.parent for mark in marks if mark.parent.name not in current]
    # With leftovers of a killed process, the library fails.
    for obsolete in [*earlier, *cache.glob("*/*/*.incomplete")]:
        remove_folder(obsolete)
    return cache
