"""ColBERT (Khattab and Zaharia, SIGIR 2020; MS-Shift, section 4).

A text has one vector per token, of few dimensions and of length 1. Queries are filled up with mask
tokens to a fixed length (`query_augmentation`); punctuation of passages has no vectors. The score
(MaxSim) sums, over the tokens of the query, the highest dot product with a token of the passage.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import NonNegativeFloat, PositiveInt

from msshift_bench.baselines.systems.recipe import MARGIN_MSE
from msshift_bench.baselines.systems.searcher import (
    ALL_PASSAGES,
    Arrays,
    BlockSearch,
    Candidates,
    CandidatesName,
    EncodedPassages,
    search_blocks,
)
from msshift_bench.baselines.systems.system import Run
from msshift_bench.baselines.training.backbones import (
    check_finite,
    check_finite_parts,
    load_backbone,
)
from msshift_bench.baselines.training.neural import Neural, scaled
from msshift_bench.libraries import Library, sentence_transformers, torch
from msshift_bench.plumbing import batches
from msshift_bench.search import Ranking, TopK
from msshift_bench.settings import added_field

_losses: Any = Library("sentence_transformers.multi_vector_encoder.losses")
_scoring: Any = Library("sentence_transformers.multi_vector_encoder.scoring")

_MARKERS = {"query": "[unused0]", "document": "[unused1]"}
"""The first tokens of queries and of passages; BERT's vocabulary has them."""


_TILE = {"cpu": (250_000, 128), "cuda": (32_000_000, 4096)}
"""Most dot products and query tokens that are computed together: 1 MB, which fits into a CPU's
cache, or 128 MB on a GPU."""

_TOGETHER = 16_384
"""Queries whose candidates are ranked in one pass over the blocks: 130 MB with 1,000 each."""


class ColBertSearch(BlockSearch):
    """The settings of ColBERT's search.

    Attributes:
        candidates: the passages that MaxSim ranks for a query. ``all``: the complete collection,
            which is exact and takes time in proportion to its tokens. ``bm25:1000``: BM25's first
            1,000 passages; the model then reranks, and its recall is BM25's.
    """

    candidates: CandidatesName = ALL_PASSAGES

    @property
    def reranks(self) -> int:
        """The number of BM25's first passages that are the candidates; 0 for all passages."""
        return int(self.candidates.partition(":")[2] or 0)

    def score(
        self, model: Any, queries: Sequence[str], passages: Sequence[str], candidates: Candidates
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield, for each query, MaxSim with its candidates; see `Scorer.score` and `max_sim`."""
        left = query_vectors(model, queries, self.together(model))
        right = passage_vectors(model, passages, self.together(model))
        tokens = np.split(right["vectors"], np.cumsum(right["lengths"])[:-1])
        for query, places in zip(left, candidates, strict=True):
            chosen = np.concatenate([tokens[place] for place in places])
            yield max_sim(query[None], chosen, right["lengths"][places])[0]

    def encode(self, model: Any, texts: Sequence[str], *, query: bool) -> Any:
        """Return `query_vectors` or the arrays of `passage_vectors`.

        Raises:
            DataError: if a vector is not finite.
        """
        if query:
            vectors = query_vectors(model, texts, self.together(model))
            finite: Any = np.isfinite(vectors).all(axis=(1, 2))
            check_finite(finite, texts)
            return vectors
        encoded = passage_vectors(model, texts, self.together(model))
        finite = np.isfinite(encoded["vectors"]).all(axis=1)
        check_finite_parts(finite, encoded["lengths"], texts)
        return encoded

    def add(self, best: TopK, queries: Any, block: Arrays, rows: slice) -> None:
        """Add MaxSim of queries with a block's passages to `best`."""
        best.add(max_sim(queries, block["vectors"], block["lengths"]), rows.start)

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) of the candidates; encode the passages if needed."""
        queries, passages = self.encoded(model, run)
        run.facts["candidates"] = self.described_candidates
        if depth := self.reranks:
            rows = (
                np.array(passages.ids.rows(list(ranking)), np.int64)
                for ranking in run.bm25_rankings(run.queries, depth)
            )
            rankings = rerank(queries, passages, rows, self.depth)
        else:
            rankings = self.search(queries, passages)
        yield from run.ranked(rankings, passages.ids)


class ColBert(Neural):
    """ColBERT: one vector per token, MaxSim.

    Attributes:
        dimensions: dimensions of a token's vector.
        in_batch_negatives: whether the passages of a batch's other queries are negatives, too, as
            in MS-Shift; ColBERT's paper uses only the query's own negatives.
        loss_scale: factor of MaxSim in the softmax (the inverse of the temperature).
        query_augmentation: whether ``[MASK]`` fills every query up to `query_length`, as in
            ColBERT's paper (section 3.2; its effect is in section 4.4). By default true.
        search: how the model searches the passages.
    """

    name = "colbert"
    model_type = "MultiVectorEncoder"

    dimensions: PositiveInt
    in_batch_negatives: bool
    loss_scale: NonNegativeFloat
    query_augmentation: bool = added_field(True)
    search: ColBertSearch

    def new_model(self, encoder: str | Path) -> Any:
        """Return an untrained model: an encoder and a projection of its token states.

        See ColBERT, section 3.2.
        """
        augmented = {"query_expansion": {"strategy": "fixed", "length": self.query_length}}
        backbone = load_backbone(
            self,
            encoder,
            document_length=self.passage_length,
            **(augmented if self.query_augmentation else {"query_length": self.query_length}),
        )
        # This adds only tokens that the vocabulary lacks.
        backbone.tokenizer.add_special_tokens(
            {"additional_special_tokens": list(_MARKERS.values())}
        )
        if len(backbone.tokenizer) > backbone.model.get_input_embeddings().num_embeddings:
            backbone.model.resize_token_embeddings(len(backbone.tokenizer), mean_resizing=False)
        vocabulary = backbone.tokenizer.get_vocab()
        return sentence_transformers.MultiVectorEncoder(
            modules=[
                backbone,
                sentence_transformers.base.modules.Dense(
                    backbone.get_embedding_dimension(),
                    self.dimensions,
                    bias=False,
                    activation_function=torch.nn.Identity(),
                    module_input_name="token_embeddings",
                ),
                sentence_transformers.multi_vector_encoder.modules.MultiVectorMask(
                    [mark for mark in string.punctuation if mark in vocabulary]
                ),
                sentence_transformers.base.modules.Normalize("token_embeddings"),
            ],
            prompts=_MARKERS,
        )

    def teacher_distance(self, model: Any) -> Any:
        """Return the loss `teacher_loss`: margin-MSE or the Kullback-Leibler divergence."""
        if self.teacher_loss == MARGIN_MSE:
            compare = scaled(_scoring.colbert_scores_pairwise, self.loss_scale)
            return _losses.MultiVectorMarginMSELoss(model, similarity_fct=compare)
        compare = scaled(_scoring.colbert_kd_scores, self.loss_scale)
        return _losses.MultiVectorDistillKLDivLoss(model, similarity_fct=compare)

    def judgement_loss(self, model: Any) -> Any:
        """Return the cross-entropy over the query's own passages, or the batch's passages."""
        return _losses.MultiVectorMultipleNegativesRankingLoss(
            model,
            scale=self.loss_scale,
            similarity_fct=_scoring.colbert_scores if self.in_batch_negatives else own_passages,
            gather_across_devices=sentence_transformers.util.distributed.is_dist_initialized()
            and self.in_batch_negatives,
        )


def rerank(
    queries: npt.NDArray[np.float32],
    passages: EncodedPassages,
    candidates: Iterable[npt.NDArray[np.int64]],
    depth: int,
) -> Iterator[Ranking]:
    """Yield, for each query, its candidates ranked by MaxSim; empty without candidates.

    Args:
        queries: vectors of shape (queries, tokens, dimensions).
        passages: the encoded passages; each block has ``vectors`` and ``lengths``.
        candidates: for each query, the rows of its candidates in the collection, each once, in any
            order.
        depth: most passages per ranking.
    """
    for batch in batches(zip(queries, candidates, strict=True), _TOGETHER):
        yield from search_blocks(partial(_add_candidates, batch), passages, len(batch), depth=depth)


def _add_candidates(
    batch: Sequence[tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]],
    best: TopK,
    part: slice,
    block: Arrays,
    rows: slice,
) -> None:
    """Add MaxSim of queries with their candidates in a block to `best`; see `AddBlock`."""
    starts = np.cumsum(block["lengths"]) - block["lengths"]
    for place, (query, chosen) in enumerate(batch[part]):
        inside = np.sort(chosen[(chosen >= rows.start) & (chosen < rows.stop)])
        if len(inside):
            lengths = block["lengths"][inside - rows.start]
            tokens = [
                block["vectors"][first : first + length]
                for first, length in zip(starts[inside - rows.start], lengths, strict=True)
            ]
            best.add_rows(place, max_sim(query[None], np.concatenate(tokens), lengths)[0], inside)


def max_sim(
    queries: npt.NDArray[np.float32],
    tokens: npt.NDArray[np.floating[Any]],
    lengths: npt.NDArray[np.int64],
) -> npt.NDArray[np.float32]:
    """Return MaxSim of queries with passages (ColBERT, equation 3), of shape (queries, passages).

    Args:
        queries: vectors of shape (queries, tokens, dimensions).
        tokens: the vectors of all passages' tokens, of shape (tokens, dimensions).
        lengths: the number of tokens of each passage; a passage without tokens scores NaN, and is
            not ranked.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    products, columns = _TILE[device]
    width, dimensions = queries.shape[1:]
    together = max(1, columns // width)
    lefts = [
        torch.from_numpy(part.reshape(-1, dimensions)).to(device).T.contiguous()
        for part in np.split(queries, range(together, len(queries), together))
    ]
    scores = np.full((len(lengths), len(queries)), np.nan, np.float32)
    starts = np.cumsum(lengths) - lengths
    # Passages of equal length form one tensor without padding.
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        step = max(1, products // (length * together * width))
        for part in np.split(rows, range(step, len(rows), step)):
            places = starts[part] + np.arange(length)[:, None]
            right = torch.from_numpy(tokens[places.ravel()]).to(device).float()
            sums = [
                (right @ left).view(length, len(part), -1, width).amax(dim=0).sum(dim=2)
                for left in lefts
            ]
            scores[part] = torch.cat(sums, dim=1).cpu().numpy()
    return np.ascontiguousarray(scores.T)


def own_passages(queries: Any, passages: Any, queries_mask: Any, documents_mask: Any) -> Any:
    """Return MaxSim of queries with their own passages, and minus infinity with all others.

    Args:
        queries: a tensor of shape (queries, tokens, dimensions).
        passages: a tensor of shape (queries, passages per query, tokens, dimensions).
        queries_mask: mask of the queries' tokens; 0 for tokens without a vector.
        documents_mask: the same for the passages' tokens.

    Returns:
        A tensor of shape (queries, all passages), for sentence-transformers' in-batch loss. The
        passages are ordered by query.
    """
    own_scores = _scoring.colbert_kd_scores(
        queries, passages, queries_mask=queries_mask, documents_mask=documents_mask
    )
    scores = own_scores.new_full((len(own_scores), *own_scores.shape), -torch.inf)
    diagonal = torch.arange(len(own_scores))
    scores[diagonal, diagonal] = own_scores
    return scores.flatten(1)


def query_vectors(model: Any, texts: Sequence[str], batch_size: int) -> npt.NDArray[np.float32]:
    """Return the vectors of queries: 32-bit floats of shape (texts, most tokens, dimensions).

    Rows of zeros fill up shorter queries; they add 0 to MaxSim.
    """
    encoded = model.encode_query(list(texts), batch_size=batch_size, show_progress_bar=False)
    vectors: npt.NDArray[np.float32] = torch.nn.utils.rnn.pad_sequence(
        [tokens.float().cpu() for tokens in encoded], batch_first=True
    ).numpy()
    return vectors


def passage_vectors(model: Any, texts: Sequence[str], batch_size: int) -> Arrays:
    """Return the arrays of passages: their tokens' vectors, and the number of tokens of each.

    ``vectors`` are 16-bit floats of shape (all tokens, dimensions); ``lengths`` has shape (texts,).
    """
    encoded = model.encode_document(list(texts), batch_size=batch_size, show_progress_bar=False)
    return {
        "vectors": torch.cat([tokens.half().cpu() for tokens in encoded]).numpy(),
        "lengths": np.array([len(tokens) for tokens in encoded], np.int64),
    }
