"""monoBERT (Nogueira et al., 2019; MS-Shift, section 4): a cross-encoder that reranks BM25.

The encoder reads query and passage together and gives one score.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msshift_bench.baselines.backbones import load_backbone
from msshift_bench.baselines.reranker import Reranker, RerankerRecipe
from msshift_bench.errors import require

__all__ = ["MonoBert", "MonoBertRecipe"]


class MonoBertRecipe(RerankerRecipe):
    """How monoBERT is trained and searches: it has no field of its own."""


class MonoBert(Reranker[MonoBertRecipe]):
    """A transformer that reads query and passage together."""

    name = "monobert"
    recipe_type = MonoBertRecipe

    def new_model(self, recipe: MonoBertRecipe, encoder: str | Path) -> Any:
        """Return an encoder with a head of one score."""
        library = require("sentence_transformers", "neural", self.name)
        backbone = load_backbone(
            recipe,
            encoder,
            transformer_task="sequence-classification",
            config_kwargs={"num_labels": 1},
            processor_kwargs={"model_max_length": recipe.query_length + recipe.passage_length},
        )
        return library.CrossEncoder(modules=[backbone])
