"""Making variants of queries by a test-only shift."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable

from msshift_bench.data import Variant
from msshift_bench.dataset_builders.keyed_draws import KeyedDraws
from msshift_bench.errors import UsageError
from msshift_bench.test_only_shifts import get_test_only_shift

__all__ = ["make_variants"]

Maker = Callable[[str, KeyedDraws], str]
"""A function that takes a query's text and what decides its variant, and returns the variant."""


def make_variants(
    name: str, queries: Iterable[tuple[str, str]], *, copies: int = 1, seed: int = 0
) -> list[Variant]:
    """Make variants of queries by a test-only shift.

    A variant depends on the seed, the number of its copy, the query's id and its text alone, not on
    other queries or their order; more copies leave the first ones as they are.

    Args:
        name: the name of a test-only shift, e.g. ``typos``.
        queries: pairs of query_id and text.
        copies: variants per query, by the methods ``<name>-1``, ``<name>-2`` and so on.
        seed: another seed gives other variants.

    Returns:
        The variants by method, queries sorted by id. A query that cannot be changed stands there as
        it is.

    Raises:
        UnknownNameError: if there is no such test-only shift.
        UsageError: if no copy is asked for.
    """
    shift = get_test_only_shift(name)
    if copies < 1:
        raise UsageError(f"{copies} variants of each query; ask for 1 or more")
    module, function = shift.maker.split(":")
    make: Maker = getattr(importlib.import_module(module), function)
    known = sorted(queries)
    return [
        Variant(query_id, make(text, KeyedDraws(f"{seed}/{method}/{query_id}")), method)
        for method in (f"{name}-{copy}" for copy in range(1, copies + 1))
        for query_id, text in known
    ]
