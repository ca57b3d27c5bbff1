"""The Hub, built data sets, and collections."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msshift_bench.data import (
    HOME_VARIABLE,
    ask_hub,
    installed_folder,
    is_double_encoded,
    open_collection,
    verify_dataset,
)
from msshift_bench.doctor.diagnosis import Diagnosis, State
from msshift_bench.errors import DataError, HubError, MsShiftError
from msshift_bench.shifts import DATASET_NAME

__all__ = ["look_at_collection", "look_at_data", "look_at_hub"]

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


def look_at_hub(*, ask: bool) -> Iterator[Diagnosis]:
    """Look whether the Hugging Face Hub answers.

    Args:
        ask: whether it may be asked; else only what is set is looked at.
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        return
    import huggingface_hub as hub

    token = "a token is set" if hub.get_token() else "no token is set, which only push needs"
    if hub.constants.HF_HUB_OFFLINE or not ask:
        why = "HF_HUB_OFFLINE is set" if hub.constants.HF_HUB_OFFLINE else "as requested"
        yield Diagnosis("hub", State.NOTE, f"not asked, {why}; {token}")
        return
    try:
        address = ask_hub()
    except HubError as error:
        cure = "check network and proxy; work with local files and HF_HUB_OFFLINE=1 until then"
        yield Diagnosis("hub", State.WARNING, f"{error}; {token}", cure)
    else:
        yield Diagnosis("hub", State.OK, f"{address} answers; {token}")


def look_at_data(folders: Sequence[str | Path]) -> Iterator[Diagnosis]:
    """Compute every digest of built data sets again.

    Args:
        folders: the data sets; by default each that the bare name `msshift` may mean.
    """
    home = os.environ.get(HOME_VARIABLE)
    # Where the variable is set, the bare name means its folder, and not the one here.
    here = Path.cwd() / DATASET_NAME if home else Path(DATASET_NAME)
    usual = list(filter(Path.exists, [here, installed_folder()]))
    chosen: list[str | Path] = list(folders) or [*([Path(home)] if home else []), *usual]
    if not chosen:
        found = f"no {DATASET_NAME} here, and none installed"
        yield Diagnosis("data", State.NOTE, found, "msshift build, or msshift install ORG/NAME")
    for folder in chosen:
        try:
            manifest, findings = verify_dataset(folder)
        except DataError as error:
            yield Diagnosis("data", State.DAMAGED, str(error), "build or install it again")
            continue
        except MsShiftError as error:
            yield Diagnosis("data", State.MISSING, str(error), "build it, or name another folder")
            continue
        if findings:
            found = f"{folder}: {len(findings)} differences, the first: {findings[0].sentence}"
            cure = f"'msshift verify {folder}' names all; build or install it again"
            yield Diagnosis("data", State.DAMAGED, found, cure)
        else:
            digest = manifest.content_digest[:12]
            edition = f"edition {manifest.edition}, version {manifest.data_version}"
            yield Diagnosis(
                "data", State.OK, f"{folder}: what was built ({edition}, content {digest})"
            )


def look_at_collection(name: str) -> Iterator[Diagnosis]:
    """Say which of the known copies of MS MARCO a collection is.

    Args:
        name: a collection; see `open_collection`.
    """
    try:
        collection = open_collection(name)
        queries, judged = collection.queries, set(collection.qrels.query_ids)
        passages = looked_at = double = 0
        for passages, passage in enumerate(collection.passages(), 1):
            if passages <= _LOOKED_AT:
                looked_at, double = passages, double + is_double_encoded(passage.text)
    except DataError as error:
        yield Diagnosis(
            "collection", State.DAMAGED, str(error), "repair these lines, or get it again"
        )
        return
    except MsShiftError as error:
        yield Diagnosis("collection", State.MISSING, str(error), "name another with --collection")
        return
    which = "as many as MS MARCO's" if passages == _PASSAGES else "MS MARCO has 8,841,823"
    yield Diagnosis("passages", State.OK, f"{name}: {passages:,} passages ({which})")
    yield _text_variant(double, looked_at, is_ms_marco=passages == _PASSAGES)
    known = _QUERIES.get(len(queries), "no number of MS MARCO's")
    found = f"{name}: {len(queries):,} queries ({known}), {len(judged):,} of them judged"
    yield Diagnosis("queries", State.OK, found)


def _text_variant(double: int, looked_at: int, *, is_ms_marco: bool) -> Diagnosis:
    share = f"{double:,} of the first {looked_at:,} passages hold double-encoded characters"
    if double:
        found = f"raw text: {share}, as in MS MARCO's own files"
        cure = "compare only with runs on raw text; ir_datasets' msmarco-passage is repaired"
        return Diagnosis("text", State.NOTE, found, cure)
    if is_ms_marco:
        found = f"repaired text: {share}, which ir_datasets repairs"
        return Diagnosis("text", State.NOTE, found, "compare only with runs on repaired text")
    return Diagnosis("text", State.OK, share)
