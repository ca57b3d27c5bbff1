"""The table of baselines: those of this package, and those of other packages.

A package adds a system through an entry point of the group ``msshift_bench.baselines``, which
names a `Baseline`::

    [project.entry-points."msshift_bench.baselines"]
    tf-idf = "my_package.systems:TF_IDF"
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msshift_bench.baselines.architecture import Architecture
from msshift_bench.baselines.bm25_tuning import TunedBm25System
from msshift_bench.baselines.lexical import Bm25System
from msshift_bench.baselines.model_kinds import ARCHITECTURES
from msshift_bench.baselines.neural import TrainedSystem
from msshift_bench.baselines.recipe import RANDOM
from msshift_bench.baselines.recipe_files import find_recipe, parse_recipe
from msshift_bench.baselines.system import System
from msshift_bench.errors import UnknownNameError, UsageError, raise_any

__all__ = [
    "ARCHITECTURES",
    "BASELINES",
    "ENTRY_POINTS",
    "Baseline",
    "find_baselines",
    "make_trained",
]

_logger = logging.getLogger(__name__)

ENTRY_POINTS = "msshift_bench.baselines"
"""The group of entry points through which other packages add baselines."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """One row of the table of baselines.

    Attributes:
        name: the system's name.
        description: one line.
        factory: takes the options and returns a `System`.
        options: the names of the options that `run_baseline` passes on.
    """

    name: str
    description: str
    factory: Callable[..., System]
    options: tuple[str, ...]

    def make(self, options: Mapping[str, object]) -> System:
        """Return the system with its options; those that are `None` are left out.

        Raises:
            UsageError: if it knows no such option, or an option's value is impossible.
        """
        chosen = {name: value for name, value in options.items() if value is not None}
        unknown = [
            UnknownNameError(f"option of {self.name}", option, self.options, _takers(option))
            for option in chosen
            if option not in self.options
        ]
        raise_any(unknown, f"{self.name} does not take {len(unknown)} of these options:")
        return self.factory(**chosen)


def _takers(option: str) -> str:
    """Say which systems take an option; "" if none does."""
    takers = [row.name for row in find_baselines().values() if option in row.options]
    return f"it is an option of {', '.join(takers)}" if takers else ""


_DESCRIPTIONS = {
    "bi-encoder": "dense bi-encoder, dot product, in-batch and BM25 negatives",
    "splade": "SPLADE-max: sparse vectors over the vocabulary, FLOPS regulariser",
    "colbert": "ColBERT: one vector per token, MaxSim",
    "monobert": "monoBERT: a cross-encoder that reranks BM25",
    "monot5": "monoT5: a T5 that answers true or false, and reranks BM25",
    "knrm": "KNRM: kernels on the similarities of words, reranks BM25",
    "duet": "DUET: equal words and convolutions on word vectors, reranks BM25",
    "pacrr": "PACRR: convolutions on the similarities of words, reranks BM25",
}


def _make_bm25(*, tune: bool = False, **options: Any) -> System:
    if not tune:
        return Bm25System(**options)
    if given := [name for name in ("k1", "b") if name in options]:
        raise UsageError(f"tune chooses k1 and b; leave {' and '.join(given)} out")
    return TunedBm25System(**options)


_TRIPLES = ("auto", "released", "mine")


def make_trained(
    architecture: type[Architecture],
    recipe: str | Path = "mini",
    *,
    encoder: str | None = None,
    seed: int | None = None,
    precision: str | None = None,
    depth: int | None = None,
    triples: str = "auto",
) -> TrainedSystem:
    """Return the system of a recipe; arguments that are given replace the recipe's values.

    Args:
        architecture: the architecture of the model.
        recipe: a name or the path of a TOML file; see `load_recipe`.
        encoder: a folder or an id of the Hugging Face Hub.
        seed: the seed.
        precision: the training's precision.
        depth: passages per ranking.
        triples: the triples to train on: ``released``, those of the data set; ``mine``, those that
            are mined as the recipe says; ``auto``, the released ones if there are any and the
            recipe's negatives are BM25's, as theirs are, or are mined after a warm-up with BM25's,
            or else mined ones.

    Raises:
        UsageError: if `triples` is ``released``, and the recipe draws negatives at random.
    """
    file = find_recipe(architecture.name, recipe)
    chosen = parse_recipe(architecture, file)
    changed = chosen.with_options(encoder=encoder, seed=seed, precision=precision, depth=depth)
    if triples not in _TRIPLES:
        raise UnknownNameError("triples", triples, _TRIPLES)
    if triples == "released" and changed.negatives == RANDOM:
        raise UsageError(
            f"{file.source} has negatives = {changed.negatives!r}, and the negatives of released "
            "triples are BM25's; take --triples mine, or a recipe that has them of BM25"
        )
    return TrainedSystem(changed, file.name, file.sha256, triples)


_TABLE = (
    Baseline(
        name="bm25",
        description="BM25 in Lucene's variant, by bm25s or rank_bm25; untrained but for --tune",
        factory=_make_bm25,
        options=("k1", "b", "tune", "stemmer", "stop_words", "depth", "engine"),
    ),
    *(
        Baseline(
            name=name,
            description=_DESCRIPTIONS[name],
            factory=partial(make_trained, architecture),
            options=("recipe", "encoder", "seed", "precision", "depth", "triples"),
        )
        for name, architecture in ARCHITECTURES.items()
    ),
)

BASELINES: Mapping[str, Baseline] = MappingProxyType({row.name: row for row in _TABLE})
"""Every baseline of this package by name."""


@cache
def find_baselines() -> Mapping[str, Baseline]:
    """Return every baseline by name: those of this package, then those of others.

    An entry point that cannot be used is left out, and a warning in the log says why.
    """
    baselines = dict(BASELINES)
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            baselines[point.name] = _loaded(point, baselines)
        except Exception as error:  # Whatever another package raises must not stop our systems.
            reason = str(error) if isinstance(error, UsageError) else repr(error)
            _logger.warning(
                "the system %s is left out: the entry point %s = %r of the group %s cannot be "
                "used: %s",
                *(point.name, point.name, point.value, ENTRY_POINTS, reason),
            )
    return MappingProxyType(baselines)


def _loaded(point: EntryPoint, taken: Mapping[str, Baseline]) -> Baseline:
    """Return what an entry point names.

    Raises:
        UsageError: if it is no `Baseline` of the same name, the name is taken, or the system's
            class lacks a part of the interface.
    """
    row = point.load()
    if not isinstance(row, Baseline) or row.name != point.name:
        raise UsageError(f"it must name a Baseline whose name is {point.name!r}")
    if row.name in taken:
        raise UsageError("another system has this name")
    lacking = sorted(getattr(row.factory, "__abstractmethods__", ()))
    if lacking:
        raise UsageError(
            f"its class {getattr(row.factory, '__name__', row.factory)} must define "
            f"{', '.join(lacking)} in its body, as a method, a property or a value"
        )
    return row
