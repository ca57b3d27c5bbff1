"""Figures as commands print them."""

from __future__ import annotations

import json

from msshift_bench.stats import Figure, Figures

__all__ = ["read_figures"]


def read_figures(text: str) -> Figures:
    """Return the figures of what ``--format json`` prints."""
    return Figures([Figure(**row) for row in json.loads(text)["figures"]])
