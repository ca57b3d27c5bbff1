"""The candidates that a model ranks: all passages, those of the nearest tokens, or BM25's first.

A model that ranks BM25's passages is a reranker: its recall is BM25's and cannot shift. Readers of
the run must see that, so every run names its candidates.
"""

from __future__ import annotations

import re

from msshift_bench.errors import UnknownNameError, UsageError

__all__ = [
    "ALL_PASSAGES",
    "NEAREST_TOKENS",
    "check_candidates",
    "describe_candidates",
    "first_of_bm25",
    "reranks_tag",
]

ALL_PASSAGES = "all"
NEAREST_TOKENS = "tokens"

_FIRST = re.compile(r"bm25:([1-9][0-9]*)")
_VALID = (ALL_PASSAGES, NEAREST_TOKENS, "bm25:<number>, e.g. bm25:1000")


def check_candidates(value: object) -> None:
    """Check a recipe's ``candidates``.

    Raises:
        UsageError: if it is a bare number; the message has the right spelling.
        UnknownNameError: if it is not ``all``, ``tokens`` or ``bm25:<number>``.
    """
    text = str(value)
    if re.fullmatch("[0-9]+", text):
        spelled = f"bm25:{int(text)}" if int(text) else ALL_PASSAGES
        raise UsageError(f'candidates is {text}, which is written "{spelled}" now')
    if type(value) is not str or (
        value not in (ALL_PASSAGES, NEAREST_TOKENS) and not _FIRST.fullmatch(text)
    ):
        raise UnknownNameError("candidates", text, _VALID)


def first_of_bm25(candidates: str) -> int:
    """Return the number of ``bm25:<number>``; 0 for other candidates."""
    match = _FIRST.fullmatch(candidates)
    return int(match[1]) if match else 0


def describe_candidates(candidates: str) -> str:
    """Return the candidates in a sidecar's words, e.g. ``reranks BM25's first 1000``."""
    if candidates == ALL_PASSAGES:
        return "all passages"
    if candidates == NEAREST_TOKENS:
        return "passages of the tokens nearest to the query's"
    return f"reranks BM25's first {first_of_bm25(candidates)}"


def reranks_tag(first: int) -> str:
    """Return the part of a run tag that says that BM25's first passages are reranked.

    Args:
        first: how many of them; 0 for a model that searches by itself, which gives "".
    """
    return f"-reranks-bm25-{first}" if first else ""
