"""monoBERT (Nogueira et al., 2019; MS-Shift, section 4): a cross-encoder that reranks BM25.

The encoder reads query and passage together and gives one score.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msshift_bench.baselines.rerankers.reranker import Reranker
from msshift_bench.baselines.training.backbones import load_backbone
from msshift_bench.libraries import sentence_transformers

__all__ = ["MonoBert"]


class MonoBert(Reranker):
    """monoBERT: a cross-encoder that reranks BM25."""

    name = "monobert"

    def new_model(self, encoder: str | Path) -> Any:
        """Return an encoder with a head of one score."""
        backbone = load_backbone(
            self,
            encoder,
            transformer_task="sequence-classification",
            config_kwargs={"num_labels": 1},
            processor_kwargs={"model_max_length": self.query_length + self.passage_length},
        )
        return sentence_transformers.CrossEncoder(modules=[backbone])
