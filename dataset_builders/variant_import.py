"""The published variants with typing errors, imported from a checkout of CharacterBERT-DR.

Source: Zhuang and Zuccon, CharacterBERT and Self-Teaching for Improving the Robustness of Dense
Retrievers on Queries with Typos (SIGIR 2022). The repository (`TYPOS_URL`) holds ten files for each
of three sets of queries: MS MARCO's dev-small, TREC DL 2019 and 2020.
"""

from __future__ import annotations

import re
from pathlib import Path

from msshift_bench.data import Variant, read_queries
from msshift_bench.errors import (
    CollectionError,
    DataError,
    FindingLog,
    NotFoundError,
    UnknownNameError,
)

__all__ = ["TYPOS_URL", "import_variants"]

TYPOS_URL = "https://github.com/ielab/CharacterBERT-DR"
"""The address of the published variants."""

_FILE = re.compile(r"queries\.(?P<set>.+)\.(?P<method>typo(?P<number>[1-9][0-9]*))\.tsv")


def import_variants(checkout: str | Path, queries: str) -> tuple[dict[str, str], list[Variant]]:
    """Read the published variants of a set of queries.

    Args:
        checkout: the checkout, or a folder with its files ``queries.<set>.tsv`` and
            ``queries.<set>.typo<number>.tsv``.
        queries: the set: ``dev.small``, ``dl2019`` or ``dl2020``.

    Returns:
        The queries as they are, query_id -> text; and their variants by the methods ``typo1`` to
        ``typo10``, each in the order of its file.

    Raises:
        NotFoundError: if there is no such folder, or it holds no variants.
        UnknownNameError: if it holds none of that set.
        DataError: if two folders in it hold a file each of that name, and they differ.
        CollectionError: if a file is malformed, or does not hold the queries of the set.
    """
    folder = Path(checkout).expanduser()
    found: dict[str, dict[int, Path]] = {}
    for path in sorted(folder.rglob("queries.*.typo*.tsv")) if folder.is_dir() else ():
        if (name := _FILE.fullmatch(path.name)) is not None:
            first = found.setdefault(name["set"], {}).setdefault(int(name["number"]), path)
            if name["set"] == queries and first.read_bytes() != path.read_bytes():
                raise DataError(f"{first} and {path} differ; give the folder of one of them")
    if not found:
        raise NotFoundError(
            f"{folder} holds no queries.<set>.typo<number>.tsv; get the files with 'git clone "
            f"{TYPOS_URL}' and give the folder"
        )
    if queries not in found:
        raise UnknownNameError("set of queries in the checkout", queries, found)
    files = found[queries]
    texts = dict(read_queries(next(iter(files.values())).with_name(f"queries.{queries}.tsv")))
    findings = FindingLog()
    variants: list[Variant] = []
    for number in sorted(files):
        path = files[number]
        changed = dict(read_queries(path))
        for what, ids in (
            ("lacks", texts.keys() - changed.keys()),
            ("holds besides", changed.keys() - texts.keys()),
        ):
            if ids:
                few = ", ".join(sorted(ids)[:5]) + (", ..." if len(ids) > 5 else "")
                findings.add("other-queries", f"{what} {len(ids):,} queries: {few}", str(path))
        variants += [Variant(query_id, text, f"typo{number}") for query_id, text in changed.items()]
    findings.stop_if_any(
        CollectionError, f"the variants in {folder} are not all of queries.{queries}.tsv:"
    )
    return texts, variants
