"""Libraries print nothing during a call, and as much as before afterwards."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from msshift_bench.plumbing import silence_libraries

pytestmark = pytest.mark.neural


@dataclass
class Libraries:
    datasets: Any
    transformers: Any

    @property
    def bars(self) -> tuple[bool, bool]:
        shown = self.transformers.utils.logging.is_progress_bar_enabled()
        return not self.datasets.are_progress_bars_disabled(), shown

    @property
    def levels(self) -> tuple[int, int]:
        verbosity = self.transformers.utils.logging.get_verbosity()
        return verbosity, logging.getLogger("sentence_transformers").level

    def show(self) -> None:
        self.datasets.enable_progress_bars()
        self.transformers.utils.logging.enable_progress_bar()


@pytest.fixture
def libraries() -> Iterator[Libraries]:
    """Import the libraries, with their bars shown."""
    found = Libraries(pytest.importorskip("datasets"), pytest.importorskip("transformers"))
    found.show()
    yield found
    found.show()


def test_named_libraries_print_nothing_and_then_as_before(libraries: Libraries) -> None:
    levels, both = libraries.levels, (libraries.datasets, libraries.transformers)
    with pytest.raises(ValueError, match="within"), silence_libraries(*both):
        assert libraries.bars == (False, False)
        assert libraries.levels == (logging.ERROR, logging.ERROR)
        raise ValueError("within")
    assert (libraries.bars, libraries.levels) == ((True, True), levels)
    with silence_libraries(libraries.datasets):
        assert libraries.bars == (False, True)
    with silence_libraries(libraries.transformers):
        assert libraries.bars == (True, False)
    libraries.datasets.disable_progress_bars()
    libraries.transformers.utils.logging.disable_progress_bar()
    with silence_libraries(*both):
        pass
    assert libraries.bars == (False, False), "disabled bars stay disabled"
