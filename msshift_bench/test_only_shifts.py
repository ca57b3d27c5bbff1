"""The table of test-only shifts, which change test queries and group none.

To add one, add a row here and the function that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from msshift_bench.errors import UnknownNameError

__all__ = ["TEST_ONLY", "TestOnlyShift", "get_test_only_shift"]


@dataclass(frozen=True, slots=True)
class TestOnlyShift:
    """A way to change test queries, on which any model is tested beside the queries as they are.

    Attributes:
        name: e.g. ``"typos"``.
        description: one sentence on what is changed.
        maker: ``module:function`` that takes a query's text and what decides its variant.
        source: the paper that introduced it.
    """

    name: str
    description: str
    maker: str
    source: str


_TEST_ONLY = (
    TestOnlyShift(
        name="typos",
        description="one typing error per query, in a word that is no stop word",
        maker="msshift_bench.dataset_builders.typos:misspell",
        source="Zhuang and Zuccon (SIGIR 2022)",
    ),
)

TEST_ONLY: Mapping[str, TestOnlyShift] = MappingProxyType({one.name: one for one in _TEST_ONLY})
"""Every test-only shift by name."""


def get_test_only_shift(name: str) -> TestOnlyShift:
    """Return the test-only shift called `name`.

    Raises:
        UnknownNameError: if there is none; the message lists them and names the nearest.
    """
    if name not in TEST_ONLY:
        raise UnknownNameError("test-only shift", name, TEST_ONLY)
    return TEST_ONLY[name]
