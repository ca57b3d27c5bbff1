"""Variants of queries: the same query typed in other words or with an error, by some method."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from msshift_bench.errors import CollectionError, DataError, FindingLog
from msshift_bench.plumbing import tsv_rows, write_atomically

__all__ = ["Variant", "read_variants", "write_variants"]

_MARK = "#"


class Variant(NamedTuple):
    """A variant of a query.

    Attributes:
        query_id: the id of the query that it is a variant of.
        text: its own text.
        method: what made it, e.g. ``typos-1``; one word without ``#``.
    """

    query_id: str
    text: str
    method: str

    @property
    def run_id(self) -> str:
        """The query_id that it has in run files, e.g. ``1048585#typos-1``."""
        return f"{self.query_id}{_MARK}{self.method}"


def read_variants(path: Path) -> tuple[Variant, ...]:
    """Read a file of variants: query_id, text and method, separated by tabs.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if it is malformed, holds two variants of a query by one method, one
            without text or by a method that is not one word without ``#``, or holds none.
    """
    findings = FindingLog()
    variants: dict[str, Variant] = {}
    for line, fields in tsv_rows(path, ("query_id", "text", "method"), findings):
        variant = Variant(*fields)
        if len(variant.method.split()) != 1 or _MARK in variant.method:
            message = f"{variant.method!r} is not a method's name"
            fix = f"name it by one word without {_MARK!r}"
            findings.add("bad-method", message, str(path), line, fix)
        elif variant.run_id in variants:
            message = f"query {variant.query_id!r} has a variant by {variant.method} already"
            findings.add("repeated-id", message, str(path), line)
        elif not variant.text.strip():
            message = f"the variant of query {variant.query_id!r} has no text"
            findings.add("empty-text", message, str(path), line)
        else:
            variants[variant.run_id] = variant
    if not variants and not len(findings):
        findings.add("no-variants", "the file holds no variant", str(path))
    findings.stop_if_any(CollectionError, f"the variants in {path} cannot be used:")
    return tuple(variants.values())


def write_variants(path: Path, variants: Iterable[Variant]) -> None:
    """Write a file of variants, in their order.

    Raises:
        DataError: if a text holds a tab or a line break, which would end its field.
    """
    lines = ["\t".join(variant) for variant in variants]
    for line in lines:
        # Not splitlines, which breaks at further characters that the readers keep: raw MS MARCO has
        # some, as halves of letters that were encoded twice.
        if line.count("\t") != 2 or "\n" in line or "\r" in line:
            query_id = line.split("\t", 1)[0]
            raise DataError(
                f"the variant of query {query_id!r} holds a tab or a line break, so that no file "
                "of variants can hold it; write the query with spaces"
            )
    with write_atomically(path) as file:
        file.writelines(f"{line}\n".encode() for line in lines)
