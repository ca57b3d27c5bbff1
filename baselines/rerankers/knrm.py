"""KNRM (Xiong et al., SIGIR 2017): kernels count how many words are how similar, and rerank BM25.

Each kernel counts the passage's words at one level of similarity to a query word; the score is
linear in the logarithms of these counts.
"""

from __future__ import annotations

from typing import Any

from msshift_bench.baselines.rerankers.word_reranker import WordReranker, word_similarities
from msshift_bench.libraries import torch

_MEANS = (1.0, 0.9, 0.7, 0.5, 0.3, 0.1, -0.1, -0.3, -0.5, -0.7, -0.9)
"""The kernels' levels of similarity, at first (section 4.4 of the paper)."""

_WIDTHS = (0.001, *[0.1] * 10)
"""Their widths, at first: the first kernel counts equal words."""

_LEAST = 1e-6
"""What is added to a count, so that it has a logarithm: Capreolus' value."""


class Knrm(WordReranker):
    """KNRM: kernels on the similarities of words, reranks BM25.

    Attributes:
        finetune: whether the vectors are trained, too, as in the paper; Capreolus keeps them.
    """

    name = "knrm"
    module_name = "KnrmScorer"

    finetune: bool = False

    def network(self, vectors: Any) -> Any:
        """Return eleven kernels, whose levels and widths are trained, and a linear layer."""
        freeze = not self.finetune

        class Network(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embedding = torch.nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
                    vectors, freeze=freeze, padding_idx=0
                )
                self.means = torch.nn.Parameter(torch.tensor(_MEANS))
                self.widths = torch.nn.Parameter(torch.tensor(_WIDTHS))
                self.combine = torch.nn.Linear(len(_MEANS), 1)

            def forward(self, query: Any, passage: Any, _inverse_frequencies: Any) -> Any:
                similarities = word_similarities(self.embedding, query, passage)[..., None]
                away = (similarities - self.means) / self.widths
                counts = (torch.exp(-(away**2) / 2) * (passage != 0)[:, None, :, None]).sum(dim=2)
                logarithms = torch.log(counts + _LEAST) * (query != 0)[:, :, None]
                pooled = logarithms.sum(dim=1).to(self.combine.weight.dtype)
                return self.combine(pooled).squeeze(1)

        return Network()
