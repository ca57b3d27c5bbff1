"""The system that a recipe describes."""

from __future__ import annotations

from pathlib import Path

from msshift_bench.baselines.architecture import Architecture
from msshift_bench.baselines.neural import TrainedSystem
from msshift_bench.baselines.recipe import RANDOM
from msshift_bench.baselines.recipe_files import find_recipe, parse_recipe
from msshift_bench.errors import UnknownNameError, UsageError

__all__ = ["make_trained"]

TRIPLES_OPTIONS = ("auto", "released", "mine")


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
    if triples not in TRIPLES_OPTIONS:
        raise UnknownNameError("triples", triples, TRIPLES_OPTIONS)
    if triples == "released" and changed.negatives == RANDOM:
        raise UsageError(
            f"{file.source} has negatives = {changed.negatives!r}, and the negatives of released "
            "triples are BM25's; take --triples mine, or a recipe that has them of BM25"
        )
    return TrainedSystem(changed, file.name, file.sha256, triples)
