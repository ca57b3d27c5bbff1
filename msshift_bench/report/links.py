"""Is it distance: what is lost against how near the test queries lie to the training queries."""

from __future__ import annotations

from collections.abc import Iterator

from msshift_bench.report.drawing import NotDrawn, Picture
from msshift_bench.report.inputs import Inputs

__all__ = ["link_pictures"]


def link_pictures(inputs: Inputs) -> Iterator[Picture | NotDrawn]:
    """Draw losses against similarity."""
    if isinstance(inputs.links, NotDrawn):
        yield inputs.links
