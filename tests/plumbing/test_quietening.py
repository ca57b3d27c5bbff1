"""Libraries are quiet while they work for us, and then as loud as before."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from msshift_bench.plumbing import quieten

pytestmark = pytest.mark.neural


@dataclass
class Libraries:
    datasets: Any
    transformers: Any

    @property
    def bars(self) -> tuple[bool, bool]:
        return (
            not self.datasets.are_progress_bars_disabled(),
            self.transformers.utils.logging.is_progress_bar_enabled(),
        )

    @property
    def levels(self) -> tuple[int, int]:
        verbosity = self.transformers.utils.logging.get_verbosity()
        return verbosity, logging.getLogger("sentence_transformers").level


@pytest.fixture
def libraries() -> Iterator[Libraries]:
    """Import the libraries, with their bars shown."""
    found = Libraries(pytest.importorskip("datasets"), pytest.importorskip("transformers"))
    found.datasets.enable_progress_bars()
    found.transformers.utils.logging.enable_progress_bar()
    yield found
    found.datasets.enable_progress_bars()
    found.transformers.utils.logging.enable_progress_bar()


def test_libraries_are_quiet_and_then_as_before(libraries: Libraries) -> None:
    levels = libraries.levels
    with (
        pytest.raises(ValueError, match="within"),
        quieten(libraries.datasets, libraries.transformers),
    ):
        assert libraries.bars == (False, False)
        assert libraries.levels == (logging.ERROR, logging.ERROR)
        raise ValueError("within")
    assert libraries.bars == (True, True)
    assert libraries.levels == levels


def test_only_the_library_that_is_named_is_quiet(libraries: Libraries) -> None:
    with quieten(libraries.datasets):
        assert libraries.bars == (False, True)
    with quieten(libraries.transformers):
        assert libraries.bars == (True, False)


def test_what_was_quiet_stays_so(libraries: Libraries) -> None:
    libraries.datasets.disable_progress_bars()
    libraries.transformers.utils.logging.disable_progress_bar()
    with quieten(libraries.datasets, libraries.transformers):
        pass
    assert libraries.bars == (False, False)
