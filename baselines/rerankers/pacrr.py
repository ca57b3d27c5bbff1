"""PACRR (Hui et al., EMNLP 2017): convolutions find similar runs of words, and rerank BM25.

Square convolutions on the similarities of words match runs of up to `longest` words. For each query
word and length the highest values are kept, and with the word's share of the inverse frequencies
they go into a network of three layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import PositiveInt

from msshift_bench.baselines.rerankers.word_reranker import WordReranker, word_similarities
from msshift_bench.libraries import torch


class Pacrr(WordReranker):
    """PACRR: convolutions on the similarities of words, reranks BM25.

    Attributes:
        longest: words of the longest run that is matched; a convolution of each size from 1 on.
        filters: filters of each convolution, of which the highest counts.
        kept: highest values that are kept for each query word and size.
        hidden: size of the two hidden layers.
    """

    name = "pacrr"
    module_name = "PacrrScorer"

    longest: PositiveInt
    filters: PositiveInt
    kept: PositiveInt
    hidden: PositiveInt

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with several fields together."""
        yield from super().rules()
        if self.kept > self.passage_length:
            yield (
                "kept",
                f"it is {self.kept}; a passage has no more than passage_length = "
                f"{self.passage_length} values",
            )

    def network(self, vectors: Any) -> Any:
        """Return the convolutions and the layers that combine their highest values."""
        functional = torch.nn.functional
        recipe = self  # The modules below have a self of their own.

        class Network(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embedding = torch.nn.Embedding.from_pretrained(vectors, padding_idx=0)  # type: ignore[no-untyped-call]
                sizes = range(1, recipe.longest + 1)
                self.convolutions = torch.nn.ModuleList(
                    torch.nn.Conv2d(1, recipe.filters, size) for size in sizes
                )
                values = recipe.query_length * (recipe.longest * recipe.kept + 1)
                self.combine = torch.nn.Sequential(
                    torch.nn.Linear(values, recipe.hidden),
                    torch.nn.ReLU(),
                    torch.nn.Linear(recipe.hidden, recipe.hidden),
                    torch.nn.ReLU(),
                    torch.nn.Linear(recipe.hidden, 1),
                )

            def forward(self, query: Any, passage: Any, inverse_frequencies: Any) -> Any:
                kind = self.combine[0].weight.dtype
                similarities = word_similarities(self.embedding, query, passage)[:, None].to(kind)
                found = []
                for size, convolution in enumerate(self.convolutions, 1):
                    # Zeros after the last word: a run may begin with it.
                    filled = functional.pad(similarities, (0, size - 1, 0, size - 1))
                    strongest = torch.relu(convolution(filled)).amax(dim=1)
                    found.append(strongest.topk(recipe.kept, dim=2).values)
                # A query without words has shares of 0, not of nothing.
                words = query != 0
                shares = torch.where(words, inverse_frequencies, -1e9).softmax(dim=1) * words
                values = torch.cat([*found, shares[:, :, None].to(kind)], dim=2)
                return self.combine(values.flatten(1)).squeeze(1)

        return Network()
