"""What may stand in a user's way on this machine: versions, threads, disk, cache, Hub, data.

`examine` yields what it looked at, each with its cure where something is wrong; `prune_cache`
empties the cache.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
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
from msshift_bench.data import (
    HOME_VARIABLE,
    ask_hub,
    installed_folder,
    is_double_encoded,
    open_collection,
    verify_dataset,
)
from msshift_bench.errors import DataError, HubError, MsShiftError
from msshift_bench.plumbing import (
    allowed_processors,
    cache_root,
    is_held,
    is_unfinished,
    remove_folder,
    thread_count,
)
from msshift_bench.shifts import DATASET_NAME

__all__ = ["Diagnosis", "State", "examine", "prune_cache"]

_PACKAGE = "msshift-bench"

_NOT_FOR_USERS = ("all", "dev", "docs", "release")
"""Extras that hold other extras, or serve those who change this package."""

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")

_LITTLE = 2 * 1024**3
"""Bytes free below which a warning is due."""

_CACHE = {
    "data": re.escape(DATASET_NAME),
    "embeddings": r"[0-9a-f]{64}",
    "indexes": r"[0-9a-f]{16}-[0-9a-f]{32}",
    "passages": r"[0-9a-f]{32}",
}
"""A kind -> how its folders are named. Others may lie beside them, and are not ours to remove."""

_PASSAGES = 8_841_823
"""Passages of MS MARCO."""

_QUERIES = {
    1_010_916: "all of MS MARCO: train, dev and eval",
    808_731: "MS MARCO's train",
    502_939: "MS MARCO's train, those with a relevant passage",
    101_093: "MS MARCO's dev, those without a relevant passage included",
    55_578: "MS MARCO's dev, those with a relevant passage",
    6_980: "MS MARCO's dev-small, which the official groups of length are cut from",
    6_837: "MS MARCO's eval-small",
}
"""Numbers of queries by which copies of MS MARCO can be told apart."""

_LOOKED_AT = 100_000
"""Passages among which double-encoded ones are counted: in MS MARCO one in five to ten is."""


State = Literal["ok", "note", "warning", "missing", "damaged"]
"""How something is: as it should be; nothing is wrong, and something could be had besides; work
will be slow, or fail, or give numbers that compare with few; something is needed and not there;
data are not what was built."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the doctor says of one thing.

    Attributes:
        code: a stable identifier, e.g. ``"threads"``; never reworded between versions.
        state: how it is.
        text: one sentence: what there is.
        cure: one sentence: what to do; "" where there is nothing to do.
    """

    code: str
    state: State
    text: str
    cure: str = ""


def examine(
    data: str | Path | Sequence[str | Path] = (),
    collection: str | None = None,
    *,
    ask_hub: bool = True,
) -> Iterator[Diagnosis]:
    """Look at what may stand in the way: installation, threads, disk, GPU, cache, Hub, data.

    Nothing is changed, and no token is shown.

    Args:
        data: a built data set to verify, or several; by default those that the bare name `msshift`
            may mean.
        collection: a collection to count and to name, e.g. a local copy of MS MARCO.
        ask_hub: whether the Hugging Face Hub is asked whether it answers.

    Returns:
        An iterator over what was looked at, each with its state and, where something is to be done,
        its cure. It looks as it goes.

    Raises:
        OSError: if a folder cannot be looked into. Damaged data are no error but a diagnosis.

    Examples:
        >>> next(examine(ask_hub=False)).code
        'package'
    """
    folders = [data] if isinstance(data, str | Path) else data
    looks = [_installation(), _threads(), _disk(), _gpu(), _cache(), _hub(ask=ask_hub)]
    yield from chain(*looks, _data(folders), () if collection is None else _collection(collection))


def _installation() -> Iterator[Diagnosis]:
    """Look at the package, its requirements, and each extra."""
    place = Path(__file__).resolve().parent
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Diagnosis("package", "ok", f"{_PACKAGE} {__version__} in {place}; {python}")
    try:
        installed = distribution(_PACKAGE)
    except PackageNotFoundError:
        text = "the package is imported from a folder and not installed; its extras are unknown"
        yield Diagnosis("package", "warning", text, f"pip install {_PACKAGE}")
        return
    requirements = [Requirement(line) for line in installed.requires or ()]
    absent, wrong = _lacking(requirements, "")
    if absent or wrong:
        text = f"missing or of a wrong version: {', '.join(absent + wrong)}"
        yield Diagnosis("requirements", "missing", text, f"pip install -U {_PACKAGE}")
    else:
        yield Diagnosis("requirements", "ok", "all required packages are there")
    extras = installed.metadata.get_all("Provides-Extra") or []
    for extra in sorted(set(extras) - set(_NOT_FOR_USERS)):
        absent, wrong = _lacking(requirements, extra)
        cure = f"pip install -U '{_PACKAGE}[{extra}]'"
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


def _threads() -> Iterator[Diagnosis]:
    """Look for settings of threads that make work slower than it could be."""
    allowed, processors = allowed_processors(), os.cpu_count() or 1
    shown = f"{allowed:g} of {processors} processors"
    values = {name: os.environ[name] for name in _THREADS if os.environ.get(name)}
    too_many = [name for name, value in values.items() if value.isdigit() and int(value) > allowed]
    if too_many:
        names = ", ".join(f"{name}={values[name]}" for name in too_many)
        text = f"{names}, and this process may use {shown}: threads will wait for each other"
        yield Diagnosis("threads", "warning", text, f"unset {' '.join(too_many)}")
    elif allowed < processors and not values:
        text = f"this process may use {shown}, and libraries start a thread for each of them"
        yield Diagnosis("threads", "warning", text, f"export OMP_NUM_THREADS={thread_count()}")
    else:
        names = ", ".join(f"{name}={value}" for name, value in values.items())
        yield Diagnosis("threads", "ok", "; ".join(filter(None, [shown, names])))
    if os.environ.get("OMP_WAIT_POLICY", "").upper() == "ACTIVE":
        text = (
            "OMP_WAIT_POLICY=ACTIVE: idle threads spin, and training beside other work takes "
            "several times as long"
        )
        yield Diagnosis("wait-policy", "warning", text, "unset OMP_WAIT_POLICY")


def _disk() -> Iterator[Diagnosis]:
    """Look at the space in the working directory and in the cache, once for each disk."""
    seen = set()
    cures = {
        "working directory": "work elsewhere",
        "cache": "set MSSHIFT_CACHE to a folder of yours",
    }
    for (what, cure), folder in zip(cures.items(), (Path.cwd(), cache_root()), strict=True):
        there = next(place for place in (folder, *folder.parents) if place.exists())
        disk, free = there.stat().st_dev, shutil.disk_usage(there).free
        if disk in seen:
            continue
        seen.add(disk)
        text = f"{free / 1024**3:,.1f} GB free for the {what} ({folder})"
        if free < _LITTLE:
            cure = "free some; 'msshift doctor --prune 0' removes what can be made again"
            yield Diagnosis("disk", "warning", text, cure)
        elif not os.access(there, os.W_OK):
            yield Diagnosis("disk", "warning", f"the {what} cannot be written ({folder})", cure)
        else:
            yield Diagnosis("disk", "ok", text)


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


def _hub(*, ask: bool) -> Iterator[Diagnosis]:
    """Look whether the Hugging Face Hub answers, if it may be asked."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return
    import huggingface_hub as hub

    token = "a token is set" if hub.get_token() else "no token is set, which only push needs"
    if hub.constants.HF_HUB_OFFLINE or not ask:
        why = "HF_HUB_OFFLINE is set" if hub.constants.HF_HUB_OFFLINE else "as requested"
        yield Diagnosis("hub", "note", f"not asked, {why}; {token}")
        return
    try:
        yield Diagnosis("hub", "ok", f"{ask_hub()} answers; {token}")
    except HubError as error:
        cure = "check network and proxy; work with local files and HF_HUB_OFFLINE=1 until then"
        yield Diagnosis("hub", "warning", f"{error}; {token}", cure)


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
            yield _unreadable(
                "data", error, "build or install it again", "build it, or name another folder"
            )
            continue
        if findings:
            text = f"{folder}: {len(findings)} differences, the first: {findings[0].sentence}"
            cure = f"'msshift verify {folder}' names all; build or install it again"
            yield Diagnosis("data", "damaged", text, cure)
        else:
            edition = f"edition {manifest.edition}, version {manifest.data_version}"
            text = f"{folder}: what was built ({edition}, content {manifest.content_digest[:12]})"
            yield Diagnosis("data", "ok", text)


def _unreadable(code: str, error: MsShiftError, repair: str, replacement: str) -> Diagnosis:
    """Say that data are damaged, or not there, and what cures the one or the other."""
    if isinstance(error, DataError):
        return Diagnosis(code, "damaged", str(error), repair)
    return Diagnosis(code, "missing", str(error), replacement)


def _collection(name: str) -> Iterator[Diagnosis]:
    """Say which of the known copies of MS MARCO a collection is."""
    try:
        collection = open_collection(name)
        queries, judged = collection.queries, collection.qrels.keys()
        passages = looked_at = double = 0
        for passages, passage in enumerate(collection.passages(), 1):
            if passages <= _LOOKED_AT:
                looked_at, double = passages, double + is_double_encoded(passage.text)
    except MsShiftError as error:
        repair = "repair these lines, or get it again"
        yield _unreadable("collection", error, repair, "name another with --collection")
        return
    is_ms_marco = passages == _PASSAGES
    which = "as many as MS MARCO's" if is_ms_marco else "MS MARCO has 8,841,823"
    yield Diagnosis("passages", "ok", f"{name}: {passages:,} passages ({which})")
    share = f"{double:,} of the first {looked_at:,} passages hold double-encoded characters"
    if double:
        text = f"raw text: {share}, as in MS MARCO's own files"
        cure = "compare only with runs on raw text; ir_datasets' msmarco-passage is repaired"
        yield Diagnosis("text", "note", text, cure)
    elif is_ms_marco:
        text = f"repaired text: {share}, which ir_datasets repairs"
        yield Diagnosis("text", "note", text, "compare only with runs on repaired text")
    else:
        yield Diagnosis("text", "ok", share)
    known = _QUERIES.get(len(queries), "no number of MS MARCO's")
    text = f"{name}: {len(queries):,} queries ({known}), {len(judged):,} of them judged"
    yield Diagnosis("queries", "ok", text)
