"""Untrained models of a few weights, saved as sentence-transformers does."""

from __future__ import annotations

from pathlib import Path

__all__ = ["KINDS", "save_tiny_models"]

KINDS = ("bi-encoder", "splade", "colbert", "monobert", "monot5", "knrm")
"""The kinds of models that are saved; `duet` and `pacrr` are saved as `knrm` is."""


def save_tiny_models(folder: Path) -> None:
    """Save a BERT as ``bert``, and a model of each kind on it as ``my-<kind>``."""
    from msshift_bench.baselines import open_system
    from msshift_bench.baselines.systems.recipe import RandomEncoder
    from msshift_bench.baselines.training.backbones import make_random_encoder, quiet_libraries
    from msshift_bench.mini.generator import passages

    shape = RandomEncoder(layers=1, hidden=16, heads=2, inner=32, vocabulary=500, dropout=0.0)
    texts = [passage.text for passage in passages(100)]
    make_random_encoder(folder / "bert", shape, texts, length=124, seed=1)
    with quiet_libraries():
        for name in KINDS:
            recipe = open_system(name, "mini")
            start = folder / "bert"
            if name in ("monot5", "knrm"):
                start = folder / f"start-{name}"
                recipe.make_encoder(texts, start)
            model = recipe.new_model(start)
            model.save_pretrained(str(folder / f"my-{name}"), create_model_card=False)
