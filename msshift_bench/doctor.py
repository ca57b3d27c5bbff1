"""What may stand in a user's way on this machine: versions, extras, GPU, cache and data sets.

`examine` yields a diagnosis for each, with its cure where something is wrong; `prune_cache`
empties the cache.
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
from msshift_bench.plumbing import cache_root, is_held, is_unfinished, remove_folder
from msshift_bench.shifts import DATASET_NAME, several

__all__ = ["Diagnosis", "State", "examine", "prune_cache"]

_PACKAGE = "msshift-bench"

_NOT_FOR_USERS = ("all", "dev", "docs", "release")
"""Extras that hold other extras, or serve those who change this package."""

_CACHE = {
    "data": re.escape(DATASET_NAME),
    "embeddings": r"[0-9a-f]{64}",
    "indexes": r"[0-9a-f]{16}-[0-9a-f]{32}",
    "passages": r"[0-9a-f]{32}",
}
"""A kind -> how its folders are named. Others may lie beside them, and are not ours to remove."""

State = Literal["ok", "note", "warning", "missing", "damaged"]
"""How something is: as it should be; nothing is wrong, and something could be had besides; work
will be slow, or fail, or give numbers that compare with few; something is needed and not there;
data are not what was built."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the doctor says of one thing.

    Attributes:
        code: a stable identifier, e.g. ``"cache"``; never reworded between versions.
        state: how it is.
        text: one sentence: what there is.
        cure: one sentence: what to do; "" where there is nothing to do.
    """

    code: str
    state: State
    text: str
    cure: str = ""


def examine(data: str | Path | Sequence[str | Path] = ()) -> Iterator[Diagnosis]:
    """Look at what may stand in the way: versions, extras, GPU, cache and data sets.

    Nothing is changed.

    Args:
        data: a built data set to verify, or several; by default those that the bare name `msshift`
            may mean.

    Returns:
        An iterator over the diagnoses, each with its state and, where something is to be done, its
        cure. Each look is taken when its diagnosis is requested.

    Raises:
        OSError: if a folder cannot be looked into. Damaged data are no error but a diagnosis.

    Examples:
        >>> next(examine()).code
        'package'
    """
    yield from chain(_installation(), _gpu(), _cache(), _data(several(data)))


def _installation() -> Iterator[Diagnosis]:
    """Look at the package, its requirements, and each extra."""
    place = Path(__file__).resolve().parent
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Diagnosis("package", "ok", f"{_PACKAGE} {__version__} in {place}; {python}")
    try:
        installed = distribution(_PACKAGE)
    except PackageNotFoundError:
        text = "the package is imported from a folder and not installed; its extras are unknown"
        yield Diagnosis("package", "warning", text, install_fix())
        return
    requirements = [Requirement(line) for line in installed.requires or ()]
    absent, wrong = _lacking(requirements, "")
    if absent or wrong:
        text = f"missing or of a wrong version: {', '.join(absent + wrong)}"
        yield Diagnosis("requirements", "missing", text, install_fix())
    else:
        yield Diagnosis("requirements", "ok", "all required packages are there")
    extras = installed.metadata.get_all("Provides-Extra") or []
    for extra in sorted(set(extras) - set(_NOT_FOR_USERS)):
        absent, wrong = _lacking(requirements, extra)
        cure = install_fix(extra)
        if wrong:
            yield Diagnosis("extra", "warning", f"{extra}: {', '.join(wrong)}", cure)
        elif absent:
            text = f"{extra}: not installed ({', '.join(absent)})"
            yield Diagnosis("extra", "note", text, cure)
        else:
            yield Diagnosis("extra", "ok", f"{extra}: installed")


def _lacking(requirements: list[Requirement], extra: str) -> tuple[list[str], list[str]]:
    """Return the packages that an extra needs and that are not there, or not in that version.

    Args:
        requirements: what the package and its extras need.
        extra: the extra; "" for the package itself.
    """
    absent, wrong = [], []
    for requirement in requirements:
        marker = requirement.marker
        is_needed = marker is None or marker.evaluate({"extra": extra})
        if not is_needed or ("extra" in str(marker)) != bool(extra):
            continue
        try:
            there = version(requirement.name)
        except PackageNotFoundError:
            absent.append(requirement.name)
        else:
            if not requirement.specifier.contains(there, prereleases=True):
                wrong.append(f"{requirement.name} {there} ({requirement.specifier} is needed)")
    return absent, wrong


def _gpu() -> Iterator[Diagnosis]:
    """Look for a GPU that torch can use; without torch there is nothing to look with."""
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    if not torch.cuda.is_available():
        text = f"none that torch {torch.__version__} can use"
        text += ", which is built for processors" if torch.version.cuda is None else ""
        yield Diagnosis("gpu", "note", text, "models train on processors, which takes longer")
        return
    for number in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(number)
        bf16 = "bf16" if torch.cuda.is_bf16_supported() else "no bf16"
        text = f"{facts.name}, {facts.total_memory / 1024**3:.0f} GB, {bf16}"
        yield Diagnosis("gpu", "ok", text)


def _cached() -> Iterator[tuple[str, Path]]:
    """Yield the kind and the folder of each thing that the cache holds."""
    for kind, form in _CACHE.items():
        root = cache_root() / kind
        for folder in sorted(root.iterdir()) if root.is_dir() else []:
            name = folder.name.removeprefix(".").removesuffix(".partial")
            if folder.is_dir() and re.fullmatch(form, name):
                yield kind, folder


def _size(folder: Path) -> str:
    """Return the megabytes of a folder's files, as text."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{size / 1024**2:,.1f} MB"


def _cache() -> Iterator[Diagnosis]:
    """Look at the cache's size, and at what killed processes have left in it."""
    items = list(_cached())
    text, cure = f"{_size(cache_root())} in {cache_root()}", ""
    if items:
        kinds = Counter(kind for kind, _ in items)
        text += f" ({', '.join(f'{kind}: {count}' for kind, count in kinds.items())})"
        cure = "'msshift doctor --prune 0' empties it"
    left = [folder for _, folder in items if is_unfinished(folder) and not is_held(folder)]
    if left:
        text += f", {len(left)} of {len(items)} folders left by killed processes"
    yield Diagnosis("cache", "ok", text, cure)


def prune_cache(days: float = 0) -> Iterator[Diagnosis]:
    """Remove embeddings, indexes and passages from the cache; they are made again when needed.

    What a process is writing stays, and so does an installed data set.

    Args:
        days: only what was last changed so many days ago or earlier, 0 or more.

    Returns:
        An iterator over what is removed; each is removed as it is asked for.

    Examples:
        >>> removed = list(prune_cache(days=30))
    """
    latest = time.time() - days * 86_400
    for kind, folder in list(_cached()):
        files = [path for path in folder.rglob("*") if path.is_file()]
        changed = max(path.stat().st_mtime for path in files or [folder])
        if kind != "data" and changed <= latest and not is_held(folder):
            text = f"removed {kind}/{folder.name}, {_size(folder)}"
            remove_folder(folder)
            yield Diagnosis("pruned", "ok", text)


def _data(folders: Sequence[str | Path]) -> Iterator[Diagnosis]:
    """Compute every digest of built data sets again.

    Args:
        folders: the data sets; by default each that the bare name `msshift` may mean.
    """
    home = os.environ.get(HOME_VARIABLE)
    # Where the variable is set, the bare name means its folder, and not the one here.
    here = Path.cwd() / DATASET_NAME if home else Path(DATASET_NAME)
    usual = filter(Path.exists, [here, installed_folder()])
    chosen: list[str | Path] = list(folders) or [*([Path(home)] if home else []), *usual]
    if not chosen:
        text = f"no {DATASET_NAME} here, and none installed"
        yield Diagnosis("data", "note", text, "msshift build, or msshift install ORG/NAME")
    for folder in chosen:
        try:
            manifest, findings = verify_dataset(folder)
        except MsShiftError as error:
            is_damaged = isinstance(error, DataError)
            cure = "build or install it again" if is_damaged else "build it, or name another folder"
            yield Diagnosis("data", "damaged" if is_damaged else "missing", str(error), cure)
            continue
        if findings:
            text = f"{folder}: {len(findings)} differences, the first: {findings[0].sentence}"
            cure = f"'msshift verify {folder}' names all; build or install it again"
            yield Diagnosis("data", "damaged", text, cure)
        else:
            edition = f"edition {manifest.edition}, version {manifest.data_version}"
            text = f"{folder}: what was built ({edition}, content {manifest.content_digest[:12]})"
            yield Diagnosis("data", "ok", text)
