"""DUET (Mitra et al., WWW 2017): equal words and vectors of words, two models in one, rerank BM25.

The local model reads which words of the query stand where in the passage, weighted by their inverse
frequency. The distributed model multiplies what convolutions find in the vectors of the query's and
the passage's words. The score is the sum of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import PositiveInt

from msshift_bench.baselines.rerankers.word_reranker import WordReranker
from msshift_bench.baselines.systems.recipe import BelowOne
from msshift_bench.libraries import torch

_RUN = 3
"""Words that a convolution of the distributed model reads at once."""


class Duet(WordReranker):
    """DUET: equal words and convolutions on word vectors, reranks BM25.

    Attributes:
        filters: filters of each convolution.
        hidden: size of the local model's hidden layer.
        pooled: neighbouring runs of the passage of which the highest value counts; there is a value
            for each place where such a window fits.
        dropout: probability, 0 or more and below 1.
    """

    name = "duet"
    module_name = "DuetScorer"

    filters: PositiveInt
    hidden: PositiveInt
    pooled: PositiveInt
    dropout: BelowOne

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with several fields together."""
        yield from super().rules()
        runs = self.passage_length - _RUN + 1
        if self.pooled > runs:
            yield (
                "pooled",
                f"it is {self.pooled}; at most {runs} runs of {_RUN} words are in a passage of "
                f"passage_length = {self.passage_length}",
            )

    def network(self, vectors: Any) -> Any:
        """Return both models, with rectifiers as in Capreolus; the paper has tanh."""
        nn, functional = torch.nn, torch.nn.functional
        recipe = self  # The modules below have a self of their own.
        filters, dimensions = self.filters, vectors.shape[1]
        windows = self.passage_length - _RUN + 1 - self.pooled + 1

        class Local(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.convolution = nn.Linear(recipe.passage_length, filters)
                self.combine = nn.Sequential(
                    nn.Linear(recipe.query_length * filters, recipe.hidden),
                    nn.ReLU(),
                    nn.Dropout(recipe.dropout),
                    nn.Linear(recipe.hidden, 1),
                )

            def forward(self, query: Any, passage: Any, inverse_frequencies: Any) -> Any:
                equal = (query[:, :, None] == passage[:, None, :]) & (query != 0)[:, :, None]
                weighted = (equal * inverse_frequencies[:, :, None]).to(
                    self.convolution.weight.dtype
                )
                return self.combine(functional.relu(self.convolution(weighted)).flatten(1))

        class Distributed(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embedding = nn.Embedding.from_pretrained(vectors, padding_idx=0)  # type: ignore[no-untyped-call]
                self.query = nn.Conv1d(dimensions, filters, _RUN)
                self.query_layer = nn.Linear(filters, filters)
                self.passage = nn.Conv1d(dimensions, filters, _RUN)
                self.passage_layer = nn.Conv1d(filters, filters, 1)
                self.windows = nn.Linear(windows, 1)
                self.combine = nn.Linear(filters, 1)
                self.dropout = nn.Dropout(recipe.dropout)

            def runs(self, convolution: Any, words: Any) -> Any:
                vectors_of = self.embedding(words.clamp(min=0)).transpose(1, 2)
                return self.dropout(functional.relu(convolution(vectors_of)))

            def forward(self, query: Any, passage: Any) -> Any:
                asked = self.query_layer(self.runs(self.query, query).amax(dim=2))
                pooled = functional.max_pool1d(
                    self.runs(self.passage, passage), recipe.pooled, stride=1
                )
                told = self.dropout(functional.relu(self.passage_layer(pooled)))
                matched = functional.relu(self.windows(asked[:, :, None] * told)).squeeze(2)
                return self.combine(self.dropout(matched))

        class Network(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.local = Local()
                self.distributed = Distributed()

            def forward(self, query: Any, passage: Any, inverse_frequencies: Any) -> Any:
                local = self.local(query, passage, inverse_frequencies)
                return (local + self.distributed(query, passage)).squeeze(1)

        return Network()
