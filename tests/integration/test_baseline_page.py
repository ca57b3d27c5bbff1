from __future__ import annotations

import inspect
import re
from typing import Any, get_args, get_type_hints

import pytest

from msshift_bench.baselines.pretraining_tasks import LateHead, MaskedWords, SpanContrast
from msshift_bench.baselines.rerankers.reranker import Reranker
from msshift_bench.baselines.rerankers.word_reranker import WordReranker, WordVectors
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.systems.recipe import (
    EarlyStopping,
    RandomEncoder,
    Recipe,
    SearchSettings,
    TrainingSettings,
)
from msshift_bench.encoders import ModelSettings
from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"

PAGE = (DOCS / "baselines.md").read_text(encoding="utf-8")

_ATTRIBUTE = re.compile(r"^    (\w+): (.*)")


def described(kind: type) -> dict[str, str]:
    """Return the fields that a class's docstring describes, and their descriptions."""
    _, _, section = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    found: dict[str, str] = {}
    for line in section.splitlines():
        if match := _ATTRIBUTE.match(line):
            name, found[name] = match[1], match[2]
        elif line.strip():
            found[name] += " " + line.strip()
    return found


def table(kind: type) -> str:
    """Return a Markdown table of the fields that a class of recipes adds, tables aside."""
    hints = get_type_hints(kind)
    lines = ["| key | meaning |", "|---|---|"]
    for name, meaning in described(kind).items():
        if not any(hasattr(part, "model_fields") for part in (hints[name], *get_args(hints[name]))):
            text = meaning.replace("``", "`").removesuffix(".")
            lines.append(f"| `{name}` | {text} |")
    return "\n".join(lines)


def kinds() -> list[type]:
    """Return every class of a table of recipes: first the shared ones."""
    found: list[Any] = [TrainingSettings, Recipe, SearchSettings, EarlyStopping, RandomEncoder]
    found += [Reranker, WordReranker, WordVectors]
    for architecture in neural_systems().values():
        found.append(architecture)
        found.append(architecture.searcher())
    return [*dict.fromkeys(found), ModelSettings, MaskedWords, LateHead, SpanContrast]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_field_is_documented_and_on_the_page(kind: Any) -> None:
    assert table(kind) in PAGE
    documented = {name for one in kind.__mro__[:-1] for name in described(one)}
    assert documented >= {*kind.model_fields}
