"""Networks on the words of a query and a passage, which rerank BM25: KNRM, DUET and PACRR.

KNRM (Xiong et al., SIGIR 2017): each kernel counts the passage's words at one level of similarity
to a query word. The score is linear in the logarithms of these counts.

DUET (Mitra et al., WWW 2017): the score is the sum of two models' scores. The local model reads the
positions of the query's words in the passage, weighted by their inverse frequency. The distributed
model multiplies the outputs of convolutions on the word vectors of the query and of the passage.

PACRR (Hui et al., EMNLP 2017): square convolutions on the similarities of words match sequences of
up to `longest` words. For each query word and length, the highest values are kept. These and the
word's share of the inverse frequencies are the input of a network with three layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import PositiveInt

from msshift_bench.baselines.rerankers.word_reranker import WordReranker, word_similarities
from msshift_bench.baselines.systems.recipe import BelowOne
from msshift_bench.libraries import torch

_MEANS = (1.0, 0.9, 0.7, 0.5, 0.3, 0.1, -0.1, -0.3, -0.5, -0.7, -0.9)
"""The kernels' initial levels of similarity (section 4.4 of the paper)."""

_WIDTHS = (0.001, *[0.1] * 10)
"""The kernels' initial widths; the first kernel counts equal words."""

_LEAST = 1e-6
"""The number that is added to a count before the logarithm: Capreolus' value."""

_RUN = 3
"""Words that a convolution of the distributed model reads together."""


class Knrm(WordReranker):
    """KNRM: kernels on the similarities of words, reranks BM25.

    Attributes:
        finetune: whether the word vectors are trained, too: true in the paper, false in Capreolus.
    """

    name = "knrm"
    module_name = "KnrmScorer"

    finetune: bool = False

    def network(self, vectors: Any) -> Any:
        """Return eleven kernels with trained levels and widths, and a linear layer."""
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
                return self.combine(logarithms.sum(dim=1).to(self.combine.weight.dtype)).squeeze(1)

        return Network()


class Duet(WordReranker):
    """DUET: equal words and convolutions on word vectors, reranks BM25.

    Attributes:
        filters: filters of each convolution.
        hidden: size of the local model's hidden layer.
        pooled: the size of the max pooling over the passage, in sequences of 3 words; there is a
            value for each position of this window.
        dropout: probability, 0 or more and below 1.
    """

    name = "duet"
    module_name = "DuetScorer"

    filters: PositiveInt
    hidden: PositiveInt
    pooled: PositiveInt
    dropout: BelowOne

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield each field that conflicts with others, and the problem."""
        yield from super().rules()
        most = self.passage_length - _RUN + 1
        if self.pooled > most:
            yield (
                "pooled",
                f"must be at most {most}, the sequences of {_RUN} words in passage_length = "
                f"{self.passage_length} words, got {self.pooled}",
            )

    def network(self, vectors: Any) -> Any:
        """Return the sum of both models, with rectifiers as in Capreolus; the paper has tanh."""
        nn, functional = torch.nn, torch.nn.functional
        recipe = self  # In the classes below, self is a module.
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

            def convolve(self, convolution: Any, words: Any) -> Any:
                word_vectors = self.embedding(words.clamp(min=0)).transpose(1, 2)
                return self.dropout(functional.relu(convolution(word_vectors)))

            def forward(self, query: Any, passage: Any) -> Any:
                left = self.query_layer(self.convolve(self.query, query).amax(dim=2))
                pooled = functional.max_pool1d(
                    self.convolve(self.passage, passage), recipe.pooled, stride=1
                )
                right = self.dropout(functional.relu(self.passage_layer(pooled)))
                matched = functional.relu(self.windows(left[:, :, None] * right)).squeeze(2)
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


class Pacrr(WordReranker):
    """PACRR: convolutions on the similarities of words, reranks BM25.

    Attributes:
        longest: words of the longest sequence that is matched; there is a convolution of each size
            from 1 to `longest`.
        filters: filters of each convolution; only the highest value of all filters is used.
        kept: number of the highest values that are kept for each query word and size.
        hidden: size of the two hidden layers.
    """

    name = "pacrr"
    module_name = "PacrrScorer"

    longest: PositiveInt
    filters: PositiveInt
    kept: PositiveInt
    hidden: PositiveInt

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield each field that conflicts with others, and the problem."""
        yield from super().rules()
        if self.kept > self.passage_length:
            yield (
                "kept",
                f"must be at most passage_length = {self.passage_length}, got {self.kept}",
            )

    def network(self, vectors: Any) -> Any:
        """Return the convolutions and the layers that combine their highest values."""
        functional = torch.nn.functional
        recipe = self  # In the class below, self is a module.

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
                highest = []
                for size, convolution in enumerate(self.convolutions, 1):
                    # Zeros after the last word: a sequence may begin with that word.
                    padded = functional.pad(similarities, (0, size - 1, 0, size - 1))
                    strongest = torch.relu(convolution(padded)).amax(dim=1)
                    highest.append(strongest.topk(recipe.kept, dim=2).values)
                # In a query without words, all shares are 0.
                words = query != 0
                shares = torch.where(words, inverse_frequencies, -1e9).softmax(dim=1) * words
                values = torch.cat([*highest, shares[:, :, None].to(kind)], dim=2)
                return self.combine(values.flatten(1)).squeeze(1)

        return Network()
