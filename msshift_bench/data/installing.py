"""Installing a data set, so that the datasets library finds it by its bare name, even offline.

With ``load_dataset("msshift", ...)`` the library looks for a folder ``./msshift``, then asks the
Hub. If the Hub does not know the name or is offline, the library takes what its cache holds under
``msshift/<config>/<version>/<hash>``, of several hashes the folder changed last. The hash is one of
the card, which names the content digest. Installing prepares all configs there from the installed
folder and removes every other hash, so that the library cannot load older rows.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from msshift_bench.data.dataset import Dataset, installed_folder, locate, open_dataset
from msshift_bench.data.digests import sha256_of
from msshift_bench.data.hub import NOT_THE_DATA, download_dataset, is_repo_name
from msshift_bench.data.verification import verify_dataset
from msshift_bench.errors import IntegrityError, NotFoundError, UsageError, require
from msshift_bench.plumbing import Progress, counted, quieten, remove_folder, replace_folder, silent
from msshift_bench.shifts import DATASET_NAME, holds_triples

__all__ = ["Installed", "install_dataset"]


@dataclass(frozen=True, slots=True)
class Installed:
    """The installed data set.

    Attributes:
        folder: the copy of the data set.
        configs: the configs that `datasets.load_dataset` now finds.
        cache: the datasets library's folder of these configs.
        data_version: the data set's version.
        content_digest: the data set's content digest.
        unchanged: whether the same data set was installed already.
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
    progress: Progress = silent,
) -> Installed:
    """Copy a data set into the user's cache and fill the datasets library's cache from it.

    Args:
        source: a built data set (see `open_dataset`), or ``org/name`` on the Hub.
        revision: on the Hub: a tag (the data version), a branch or a commit.
        triples: prepare the configs of training triples, too; they hold millions of rows.
        token: the Hub's token; by default the one huggingface_hub finds.
        progress: called with the number of configs prepared so far.

    Returns:
        What is installed, and where.

    Raises:
        NotFoundError: if there is no such folder, data set or revision.
        IntegrityError: if it is not what was built; the data set installed before stays.
        UsageError: if `revision` is given for a folder.
        HubError: if the Hub cannot be reached or refuses.
    """
    origin = _find(source, revision, token)
    datasets = require("datasets", "hf", "installing a data set")
    folder = installed_folder()
    unchanged = not _copy(origin.folder, folder)
    manifest = origin.manifest
    configs = tuple(c for c in manifest.configs if triples or not holds_triples(c))
    return Installed(
        folder=folder,
        configs=configs,
        cache=_prepare(datasets, folder, configs, progress),
        data_version=manifest.data_version,
        content_digest=manifest.content_digest,
        unchanged=unchanged,
    )


def _find(source: Dataset | str | Path, revision: str | None, token: str | None) -> Dataset:
    folder = source.folder if isinstance(source, Dataset) else locate(source)
    if folder.is_dir():
        if revision is not None:
            raise UsageError(f"{folder} is a folder; only a data set on the Hub has revisions")
        return open_dataset(source)
    if not is_repo_name(str(source)):
        raise NotFoundError(
            f"there is no data set at {folder}; make one with 'msshift build', "
            "or name one on the Hub (org/name)"
        )
    return open_dataset(download_dataset(str(source), revision, token))


def _copy(origin: Path, folder: Path) -> bool:
    """Make `folder` a verified copy of a data set, and say whether it was not one before."""
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
            raise IntegrityError(f"{origin} is not what was built, and is not installed:", findings)
    return not same


def _digests(folder: Path) -> dict[str, str]:
    return {
        name: sha256_of(file)
        for file in folder.rglob("*")
        if file.is_file() and (name := file.relative_to(folder).as_posix()) not in NOT_THE_DATA
    }


def _prepare(
    datasets: ModuleType, folder: Path, configs: tuple[str, ...], progress: Progress
) -> Path:
    """Prepare configs in the datasets library's cache, remove all others, and return its folder."""
    cache = Path(datasets.config.HF_DATASETS_CACHE).expanduser() / DATASET_NAME
    current = set()
    with quieten(datasets):
        for config in counted(configs, progress, "preparing", len(configs), every=1):
            builder = datasets.load_dataset_builder(str(folder), config)
            builder.download_and_prepare()
            current.add(Path(builder.cache_dir).name)
    for prepared in cache.glob("*/*/*"):
        # Leftovers of a killed process, `<hash>.incomplete`, are removed, too.
        if prepared.is_dir() and prepared.name not in current:
            remove_folder(prepared)
    return cache
