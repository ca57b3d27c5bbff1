"""Checks of this machine: package versions, extras, GPU, cache and data sets.

`diagnose` yields a diagnosis for each check, with a cure for each problem. `prune_cache` removes
files from the cache.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from itertools import chain
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from msshift_bench._version import __version__
from msshift_bench.data import HOME_VARIABLE, installed_folder, verify_dataset
from msshift_bench.errors import DataError, MsShiftError, install_fix
from msshift_bench.plumbing import cache_root, is_locked, is_unfinished, remove_folder
from msshift_bench.shifts import DATASET_NAME, as_list

__all__ = ["Diagnosis", "State", "diagnose", "prune_cache"]

_PACKAGE = "msshift-bench"

_NOT_FOR_USERS = ("all", "dev", "docs", "release")
"""Extras that contain other extras, or that only developers of this package need."""

_CACHE = {
    "data": re.escape(DATASET_NAME),
    "embeddings": r"[0-9a-f]{64}",
    "indexes": r"[0-9a-f]{16}-[0-9a-f]{32}",
    "passages": r"[0-9a-f]{32}",
}
"""Kind of cached thing -> pattern of its folders' names; other folders are never removed."""

State = Literal["ok", "note", "warning", "missing", "damaged"]
"""Result of a check.

- ``ok``: no problem.
- ``note``: no problem, but an optional part is absent.
- ``warning``: work may be slow or fail, or its numbers may not be comparable.
- ``missing``: a required thing is absent.
- ``damaged``: data differ from the build.
"""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Result of one check of the machine.

    Attributes:
        code: a stable identifier, e.g. ``"cache"``; it never changes between versions.
        state: the result of the check.
        text: one sentence that describes the state.
        cure: one sentence: how to fix or change it; "" if nothing is to do.
    """

    code: str
    state: State
    text: str
    cure: str = ""


def diagnose(data: str | Path | Sequence[str | Path] = ()) -> Iterator[Diagnosis]:
    """Check package versions, extras, GPU, cache and data sets, without changing anything.

    Args:
        data: one or several built data sets to verify; by default each data set that the name
            `msshift` can refer to.

    Returns:
        An iterator over the diagnoses. Each check runs when its diagnosis is requested.

    Raises:
        OSError: if a folder cannot be read. Damaged or missing data give a diagnosis, not an error.

    Examples:
        >>> next(diagnose()).code
        'package'
    """
    yield from chain(_installation(), _gpu(), _cache(), _data(as_list(data)))


def _installation() -> Iterator[Diagnosis]:
    """Yield diagnoses of the package, its requirements, and each extra."""
    folder = Path(__file__).resolve().parent
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Diagnosis("package", "ok", f"{_PACKAGE} {__version__} in {folder}; {python}")
    try:
        installed = distribution(_PACKAGE)
    except PackageNotFoundError:
        text = "the package is imported from a folder but not installed; its extras are unknown"
        yield Diagnosis("package", "warning", text, install_fix())
        return
    requirements = [Requirement(line) for line in installed.requires or ()]
    absent, wrong = _missing_packages(requirements, "")
    if absent or wrong:
        text = f"missing packages or wrong versions: {', '.join(absent + wrong)}"
        yield Diagnosis("requirements", "missing", text, install_fix())
    else:
        yield Diagnosis("requirements", "ok", "all required packages are installed")
    extras = installed.metadata.get_all("Provides-Extra") or []
    for extra in sorted(set(extras) - set(_NOT_FOR_USERS)):
        absent, wrong = _missing_packages(requirements, extra)
        cure = install_fix(extra)
        if wrong:
            yield Diagnosis("extra", "warning", f"{extra}: {', '.join(wrong)}", cure)
        elif absent:
            text = f"{extra}: not installed ({', '.join(absent)})"
            yield Diagnosis("extra", "note", text, cure)
        else:
            yield Diagnosis("extra", "ok", f"{extra}: installed")


def _missing_packages(requirements: list[Requirement], extra: str) -> tuple[list[str], list[str]]:
    """Return the names of an extra's absent packages, and a text for each wrong version.

    Args:
        requirements: the requirements of the package and its extras.
        extra: the extra; "" for the package itself.
    """
    absent, wrong = [], []
    for requirement in requirements:
        marker = requirement.marker
        is_needed = marker is None or marker.evaluate({"extra": extra})
        if not is_needed or ("extra" in str(marker)) != bool(extra):
            continue
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            absent.append(requirement.name)
        else:
            if not requirement.specifier.contains(installed, prereleases=True):
                wrong.append(f"{requirement.name} {installed} ({requirement.specifier} is needed)")
    return absent, wrong


def _gpu() -> Iterator[Diagnosis]:
    """Yield a diagnosis of each GPU that torch can use, or one note; nothing without torch."""
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    if not torch.cuda.is_available():
        text = f"no GPU that torch {torch.__version__} can use"
        text += ", which is built for CPUs only" if torch.version.cuda is None else ""
        yield Diagnosis("gpu", "note", text, "models train on CPUs, which takes longer")
        return
    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        bf16 = "bf16" if torch.cuda.is_bf16_supported() else "no bf16"
        text = f"{properties.name}, {properties.total_memory / 1024**3:.0f} GB, {bf16}"
        yield Diagnosis("gpu", "ok", text)


def _cached_folders() -> Iterator[tuple[str, Path]]:
    """Yield kind and folder of each cached thing, also if unfinished; see `_CACHE`."""
    for kind, pattern in _CACHE.items():
        root = cache_root() / kind
        for folder in sorted(root.iterdir()) if root.is_dir() else []:
            name = folder.name.removeprefix(".").removesuffix(".partial")
            if folder.is_dir() and re.fullmatch(pattern, name):
                yield kind, folder


def _size(folder: Path) -> str:
    """Return the size of a folder's files, e.g. ``"1.5 MB"``."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{size / 1024**2:,.1f} MB"


def _cache() -> Iterator[Diagnosis]:
    """Yield one diagnosis: the cache's size, and how many folders killed processes have left."""
    items = list(_cached_folders())
    text, cure = f"{_size(cache_root())} in {cache_root()}", ""
    if items:
        kinds = Counter(kind for kind, _ in items)
        text += f" ({', '.join(f'{kind}: {count}' for kind, count in kinds.items())})"
        cure = "'msshift doctor --prune 0' removes embeddings, indexes and passages"
    left = [folder for _, folder in items if is_unfinished(folder) and not is_locked(folder)]
    if left:
        text += f", {len(left)} of {len(items)} folders left by killed processes"
    yield Diagnosis("cache", "ok", text, cure)


def prune_cache(days: float = 0) -> Iterator[Diagnosis]:
    """Remove embeddings, indexes and passages from the cache; they are made again when needed.

    Installed data sets, folders that a process is writing, and other files are kept.

    Args:
        days: minimum age, in days since the last change, of folders to remove; 0 or more.

    Returns:
        An iterator with a diagnosis of each removed folder. Each folder is removed when its
        diagnosis is requested.

    Examples:
        >>> removed = list(prune_cache(days=30))
    """
    latest = time.time() - days * 86_400
    for kind, folder in list(_cached_folders()):
        files = [path for path in folder.rglob("*") if path.is_file()]
        changed = max(path.stat().st_mtime for path in files or [folder])
        if kind != "data" and changed <= latest and not is_locked(folder):
            text = f"removed {kind}/{folder.name}, {_size(folder)}"
            remove_folder(folder)
            yield Diagnosis("pruned", "ok", text)


def _data(folders: Sequence[str | Path]) -> Iterator[Diagnosis]:
    """Yield a diagnosis of each built data set, after a check of its digests; a note if none.

    Args:
        folders: the data sets; by default each data set that the name `msshift` can refer to.
    """
    home = os.environ.get(HOME_VARIABLE)
    # If the variable is set, the bare name refers to its folder, so the local one needs a path.
    local = Path.cwd() / DATASET_NAME if home else Path(DATASET_NAME)
    usual = filter(Path.exists, [local, installed_folder()])
    chosen: list[str | Path] = list(folders) or [*([Path(home)] if home else []), *usual]
    if not chosen:
        text = f"no data set {DATASET_NAME} in this folder, and none installed"
        yield Diagnosis("data", "note", text, "run msshift build, or msshift install ORG/NAME")
    for folder in chosen:
        try:
            manifest, findings = verify_dataset(folder)
        except MsShiftError as error:
            is_damaged = isinstance(error, DataError)
            cure = "build or install it again" if is_damaged else "build it, or name another folder"
            yield Diagnosis("data", "damaged" if is_damaged else "missing", str(error), cure)
            continue
        if findings:
            text = f"{folder}: {len(findings)} differences, first: {findings[0].sentence}"
            cure = f"'msshift verify {folder}' lists all; build or install it again"
            yield Diagnosis("data", "damaged", text, cure)
        else:
            edition = f"edition {manifest.edition}, version {manifest.data_version}"
            text = f"{folder}: verified ({edition}, content {manifest.content_digest[:12]})"
            yield Diagnosis("data", "ok", text)
