"""The candidates that a model ranks: all passages, or BM25's first.

A model that ranks BM25's passages is a reranker: its recall is BM25's and cannot shift. Readers of
the run must see that, so every run names its candidates.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

__all__ = [
    "ALL_PASSAGES",
    "CandidatesName",
    "describe_candidates",
    "first_of_bm25",
    "reranks_tag",
]

ALL_PASSAGES = "all"

_FIRST = "bm25:([1-9][0-9]*)"

CandidatesName = Annotated[str, Field(pattern=f"^({ALL_PASSAGES}|{_FIRST})$")]
"""A recipe's ``candidates``: ``all`` or ``bm25:<number>``."""


def first_of_bm25(candidates: str) -> int:
    """Return the number of ``bm25:<number>``; 0 for other candidates."""
    match = re.fullmatch(_FIRST, candidates)
    return int(match[1]) if match else 0


def describe_candidates(candidates: str) -> str:
    """Return the candidates in a sidecar's words, e.g. ``reranks BM25's first 1000``."""
    if candidates == ALL_PASSAGES:
        return "all passages"
    return f"reranks BM25's first {first_of_bm25(candidates)}"


def reranks_tag(first: int) -> str:
    """Return the part of a run tag that says that BM25's first passages are reranked.

    Args:
        first: how many of them; 0 for a model that searches by itself, which gives "".
    """
    return f"-reranks-bm25-{first}" if first else ""
