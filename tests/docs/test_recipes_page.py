"""The reference page of recipes has every key of every recipe, with its meaning."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from msshift_bench.baselines.pretraining_tasks import PretrainingRecipe
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.encoders import ModelSettings
from scripts.site.recipe_keys import is_table, key_tables, meanings

PAGE = "\n".join(key_tables())


def kinds() -> list[Any]:
    """Return the classes of recipes and of their tables."""
    found: list[Any] = [PretrainingRecipe, ModelSettings, *neural_systems().values()]
    for kind in found:
        for field in kind.model_fields.values():
            parts = (field.annotation, *get_args(field.annotation))
            found += [part for part in parts if hasattr(part, "model_fields") and part not in found]
    return found


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_key_of_a_recipe_has_its_meaning_on_the_page(kind: Any) -> None:
    documented = {
        name: text for base in reversed(kind.__mro__[:-1]) for name, text in meanings(base).items()
    }
    keys = [name for name, field in kind.model_fields.items() if not is_table(field.annotation)]
    assert keys
    rows = [f"| `{name}` | {documented[name]} |" for name in keys]
    assert [row for row in rows if row not in PAGE] == []


def test_the_keys_of_a_table_are_below_its_heading() -> None:
    section = PAGE.partition("### `[validation]`\n")[2].partition("\n### ")[0]
    assert "| `patience` | " in section
    assert "| `pooling` | " not in section
