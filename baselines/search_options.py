"""The options of a search with a model that no recipe describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msshift_bench.baselines.candidates import ALL_PASSAGES, NEAREST_TOKENS
from msshift_bench.baselines.colbert import ColBert
from msshift_bench.baselines.ranker import Ranker
from msshift_bench.baselines.recipe import SearchSettings
from msshift_bench.baselines.recipe_files import load_recipe
from msshift_bench.errors import UnknownNameError

__all__ = ["choose_search"]

_DEFAULTS = {
    "depth": 1000,
    "batch_size": 64,
    "candidates": ALL_PASSAGES,
    "tokens": None,
    "approximate": None,
    "effort": None,
    "storage": None,
}


def choose_search(ranker: Ranker, options: Mapping[str, Any]) -> SearchSettings:
    """Return how a model is searched with: what is given, and defaults for the rest.

    Args:
        ranker: how the model ranks.
        options: fields of ``[search]`` in the recipes of its kind; `None` means 1000 passages per
            ranking, 64 texts at a time, and exact search. ColBERT's candidates ``tokens`` are found
            as in its recipe ``paper``.

    Raises:
        UnknownNameError: for an option that this kind does not have.
        UsageError: for an impossible value.
    """
    search_type: Any = ranker.search_type
    fields = search_type.__dataclass_fields__
    chosen = {field: value for field, value in options.items() if value is not None}
    for field in chosen:
        if field not in fields:
            raise UnknownNameError(f"option of {ranker.name}", field, fields)
    values = {field: chosen.get(field, _DEFAULTS[field]) for field in fields}
    if values.get("candidates") == NEAREST_TOKENS:
        values["tokens"] = load_recipe(ColBert.recipe_type, ColBert.name, "paper").search.tokens
    settings: SearchSettings = search_type(**values)
    return settings
