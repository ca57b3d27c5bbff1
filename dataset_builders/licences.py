"""The licence of a data set: that of the collection from which it was built.

The package knows the licences of two kinds of collections: MS MARCO's, read by ir_datasets or
imported from the official release, and the generated ones, which are ours. For any other, the user
states the licence, or the data set says that it is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msshift_bench.data import Manifest
from msshift_bench.errors import UsageError

__all__ = [
    "GENERATED",
    "LICENCES",
    "MS_MARCO",
    "MS_SHIFT",
    "OTHER",
    "UNKNOWN",
    "decide_licence",
    "licence_address",
    "licence_lines",
    "licence_of",
    "licence_terms",
    "origin_of",
]

GENERATED, MS_MARCO, OTHER = "generated", "ms-marco", "other"
"""Where the queries of a data set come from."""

UNKNOWN = "unknown"
"""The licence that nobody stated, in the Hub's own word."""

_CC = "https://creativecommons.org/"

LICENCES: Mapping[str, str] = MappingProxyType(
    {
        "apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
        "bsd-3-clause": "https://opensource.org/license/bsd-3-clause",
        "cc-by-3.0": f"{_CC}licenses/by/3.0/",
        "cc-by-4.0": f"{_CC}licenses/by/4.0/",
        "cc-by-nc-4.0": f"{_CC}licenses/by-nc/4.0/",
        "cc-by-nc-nd-4.0": f"{_CC}licenses/by-nc-nd/4.0/",
        "cc-by-nc-sa-3.0": f"{_CC}licenses/by-nc-sa/3.0/",
        "cc-by-nc-sa-4.0": f"{_CC}licenses/by-nc-sa/4.0/",
        "cc-by-nd-4.0": f"{_CC}licenses/by-nd/4.0/",
        "cc-by-sa-3.0": f"{_CC}licenses/by-sa/3.0/",
        "cc-by-sa-4.0": f"{_CC}licenses/by-sa/4.0/",
        "cc0-1.0": f"{_CC}publicdomain/zero/1.0/",
        "gpl-3.0": "https://www.gnu.org/licenses/gpl-3.0.html",
        "mit": "https://opensource.org/license/mit",
        "odbl": "https://opendatacommons.org/licenses/odbl/1-0/",
        "odc-by": "https://opendatacommons.org/licenses/by/1-0/",
        "pddl": "https://opendatacommons.org/licenses/pddl/1-0/",
    }
)
"""Id of a licence, as in the Hub's cards -> the address of its text."""

_OURS = "apache-2.0"

MS_SHIFT = "cc-by-nc-sa-4.0"
"""The licence of the released labels, and of data sets made from MS MARCO's queries."""

_FROM_MS_MARCO = re.compile(r"(?:^|/)(?:neu|ms?)marco(?:[-/]|$)")
"""Finds MS MARCO's data, and translations of it, among the ids of ir_datasets."""

_MOST = 200


def decide_licence(collection: Mapping[str, Any], licence: str | None = None) -> str:
    """Return the licence for a manifest.

    Args:
        collection: the manifest's facts on the collection; see `Collection.provenance`.
        licence: an id (in any spelling: ``CC BY 4.0``), or the terms in one line; `None` if the
            user stated none.

    Returns:
        An id of `LICENCES`, `UNKNOWN`, or the terms as stated.

    Raises:
        UsageError: if the collection is known to have another licence, or the terms are not one
            line of text.
    """
    known = _known(collection)
    if licence is None:
        return known or UNKNOWN
    text = licence.strip()
    if not text or len(text) > _MOST or not text.isprintable():
        raise UsageError(
            f"a licence is an id or one line of at most {_MOST} characters: {licence!r}"
        )
    licence_id = re.sub(r"[\s_]+", "-", text.lower())
    licence_id = licence_id if licence_id in (*LICENCES, UNKNOWN) else text
    if known not in (None, licence_id):
        raise UsageError(
            f"the licence of {collection['name']} is known ({known}); leave --licence out"
        )
    return licence_id


def licence_of(manifest: Manifest) -> str:
    """Return the licence of a data set, also of one that was built before manifests held it."""
    if manifest.edition != "rebuilt":
        return MS_SHIFT
    return str(manifest.collection.get("licence") or decide_licence(manifest.collection))


def licence_lines(manifest: Manifest) -> list[str]:
    """Return the lines of a card's front matter that name the licence."""
    licence = licence_of(manifest)
    if licence in (*LICENCES, UNKNOWN):
        return [f"license: {licence}"]
    return ["license: other", f"license_name: {json.dumps(licence, ensure_ascii=False)}"]


def licence_address(manifest: Manifest) -> str:
    """Return the address of the licence's text, or the terms as stated."""
    licence = licence_of(manifest)
    return LICENCES.get(licence, licence)


def licence_terms(manifest: Manifest) -> str:
    """Return the sentences of a card on the licence."""
    licence, name = licence_of(manifest), manifest.collection["name"]
    origin = origin_of(manifest)
    if origin == MS_MARCO:
        return (
            "MS MARCO is for non-commercial research; passages are not redistributed here. "
            "MS-Shift's labels are\nlicensed CC BY-NC-SA 4.0."
        )
    if origin == GENERATED:
        return (
            f"The collection `{name}` is generated by msshift-bench. It and the labels are\n"
            f"licensed {licence}."
        )
    if licence == UNKNOWN:
        return (
            f"The licence of the collection `{name}` is unknown: whoever built this data set did "
            "not say it\n(`msshift build --licence`). Passages are not redistributed here."
        )
    address = LICENCES.get(licence)
    named = f"[{licence}]({address})" if address else licence
    return (
        f"Licence of the collection `{name}`, as whoever built this data set says: {named}\n\n"
        "Passages are not redistributed here."
    )


def origin_of(manifest: Manifest) -> str:
    """Return where the queries of a data set come from: `MS_MARCO`, `GENERATED` or `OTHER`."""
    if _is_ms_marco(manifest.collection) or manifest.edition != "rebuilt":
        return MS_MARCO
    return GENERATED if _is_generated(manifest.collection) else OTHER


def _known(collection: Mapping[str, Any]) -> str | None:
    if _is_generated(collection):
        return _OURS
    return MS_SHIFT if _is_ms_marco(collection) else None


def _is_generated(collection: Mapping[str, Any]) -> bool:
    return bool(collection.get("layout") == "generated")


def _is_ms_marco(collection: Mapping[str, Any]) -> bool:
    name = str(collection["name"])
    return collection.get("layout") == "ir_datasets" and bool(_FROM_MS_MARCO.search(name))
