"""Croissant metadata: a description of the data set that other tools can load it by.

Format: MLCommons Croissant 1.0, https://docs.mlcommons.org/croissant/docs/croissant-spec.html
"""

from __future__ import annotations

from typing import Any

from msshift_bench.manifest import Manifest

__all__ = ["render_croissant"]


def render_croissant(manifest: Manifest) -> dict[str, Any]:
    """Return the metadata of a data set as JSON values."""
    return {"version": manifest.data_version}
