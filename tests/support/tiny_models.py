"""Untrained models of a few weights, saved as sentence-transformers does."""

from __future__ import annotations

from pathlib import Path

__all__ = ["save_tiny_models"]


def save_tiny_models(folder: Path) -> None:
    """Save a BERT as ``bert``, and a model of each kind on it as ``my-<kind>``."""
    from msshift_bench.baselines.backbones import make_random_encoder, quiet_libraries
    from msshift_bench.baselines.recipe import RandomEncoder
    from msshift_bench.baselines.recipe_files import load_recipe
    from msshift_bench.baselines.registry import ARCHITECTURES
    from msshift_bench.mini.generator import passages

    shape = RandomEncoder(layers=1, hidden=16, heads=2, inner=32, vocabulary=500, dropout=0.0)
    texts = (passage.text for passage in passages(100))
    make_random_encoder(folder / "bert", shape, texts, length=124, seed=1)
    with quiet_libraries():
        for name, architecture in ARCHITECTURES.items():
            recipe = load_recipe(architecture.recipe_type, name, "mini")
            model = architecture.new_model(recipe, folder / "bert")
            model.save_pretrained(str(folder / f"my-{name}"), create_model_card=False)
