"""JSON reports: the head that all of them share, and values as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from msshift_bench._version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["plain", "report_head", "with_head"]

_SCHEMA = 3


def report_head() -> dict[str, Any]:
    """Return a report's head: the version of its layout, and of the package that wrote it.

    The layout's version changes when readers of the report must change.
    """
    return {"schema": _SCHEMA, "msshift_bench": __version__}


def with_head(table: pa.Table, head: Mapping[str, Any]) -> pa.Table:
    """Return a table whose schema carries a report's head, as JSON under ``msshift_bench``."""
    text = json.dumps(head, ensure_ascii=False, allow_nan=False)
    return table.replace_schema_metadata({"msshift_bench": text})


def plain(value: Any) -> Any:
    """Return a value for JSON: dataclasses become objects, NaN and infinities null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
