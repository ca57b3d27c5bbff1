"""The keys of recipes with their meanings, from the docstrings of the classes that read them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from msshift_bench.baselines.pretraining_tasks import LateHead, MaskedWords, SpanContrast
from msshift_bench.baselines.rerankers.reranker import Reranker
from msshift_bench.baselines.rerankers.word_reranker import WordVectors
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.systems.recipe import (
    EarlyStopping,
    RandomEncoder,
    Recipe,
    SearchSettings,
    TrainingSettings,
)
from msshift_bench.baselines.training.neural import Neural
from msshift_bench.encoders import ModelSettings

__all__ = ["is_table", "key_tables", "meanings"]

_ATTRIBUTE = re.compile(r"^    (\w+): (.*)")


def key_tables() -> Iterator[str]:
    """Yield a section with a table for each class that adds keys to recipes."""
    shown = set()
    for title, kind in _classes().items():
        rows = [
            f"| `{name}` | {meaning} |"
            for name, meaning in meanings(kind).items()
            if name in kind.model_fields and not is_table(kind.model_fields[name].annotation)
        ]
        if rows and kind not in shown:
            shown.add(kind)
            summary = inspect.cleandoc(kind.__doc__ or "").partition("\n")[0]
            table = "\n".join(["| key | meaning |", "|---|---|", *rows])
            yield f"### {title}\n\n{summary}\n\n{table}\n"


def meanings(kind: type) -> dict[str, str]:
    """Return the fields that a class's docstring describes, with their descriptions."""
    _, _, section = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    found: dict[str, str] = {}
    for line in section.splitlines():
        if match := _ATTRIBUTE.match(line):
            name, found[name] = match[1], match[2]
        elif line.strip():
            found[name] += " " + line.strip()
    return {name: text.replace("``", "`").removesuffix(".") for name, text in found.items()}


def is_table(annotation: Any) -> bool:
    """Return whether a field is a table of a recipe."""
    return any(hasattr(part, "model_fields") for part in (annotation, *get_args(annotation)))


def _classes() -> Mapping[str, Any]:
    systems = neural_systems()
    return {
        "Every training": TrainingSettings,
        "Every system": Recipe,
        "Every system with a trained model": Neural,
        "`[search]`": SearchSettings,
        "`[validation]`": EarlyStopping,
        "`[random]`": RandomEncoder,
        "`[model]`, and `--set` of a published model": ModelSettings,
        "Rerankers": Reranker,
        "`[words]` of knrm, duet and pacrr": WordVectors,
        **systems,
        **{f"`[search]` of {name}": kind.searcher() for name, kind in systems.items()},
        "`[masked_words]` of `msshift pretrain`": MaskedWords,
        "`[late_head]` of `msshift pretrain`": LateHead,
        "`[spans]` of `msshift pretrain`": SpanContrast,
    }
