"""SPLADE-max (Formal et al., "SPLADE v2", 2021; MS-Shift, section 4).

A text has a sparse vector over the vocabulary. The weight of term *j* is the maximum over the
tokens *i* of ``log(1 + ReLU(w_ij))``. *w* are the logits of the masked language model's head. The
score is the dot product. The FLOPS regulariser makes vectors sparse: it is the sum over the
vocabulary of the squared mean weight in the batch. Its factor rises quadratically from 0.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import NonNegativeFloat, PositiveInt

from msshift_bench.baselines.systems.recipe import MARGIN_MSE
from msshift_bench.baselines.systems.searcher import Arrays, BlockSearch, Candidates
from msshift_bench.baselines.systems.system import Run
from msshift_bench.baselines.training.backbones import check_finite_parts, load_backbone
from msshift_bench.baselines.training.neural import Neural, scaled
from msshift_bench.encoders import DEFAULTS, ModelSettings
from msshift_bench.errors import DataError
from msshift_bench.libraries import Library, sentence_transformers, torch
from msshift_bench.plumbing import batches, in_parallel, slices
from msshift_bench.search import BATCH, Ranking, Sparse, TopK, check_compiler

_sparse: Any = Library("sentence_transformers.sparse_encoder")
_distributed: Any = Library("sentence_transformers.util.distributed")
_scipy: Any = Library("scipy.sparse")

_logger = logging.getLogger(__name__)

_DENSE = 512
"""Texts whose dense vectors are in memory together, before they are made sparse: 60 MB with BERT's
vocabulary."""

_QUERY_TERMS, _TERMS = 24, 130
"""Terms per query and passage that MS-Shift reports (ECIR 2023, section 5.1)."""


class SparseSearch(BlockSearch):
    """The settings of SPLADE's search, which is exact, with an inverted index."""

    floor = 0.0
    similarities = ("dot",)

    def score(
        self, model: Any, queries: Sequence[str], passages: Sequence[str], candidates: Candidates
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield, for each query, the dot products with its candidates; see `Scorer.score`."""
        left = sparse_vectors(model.encode_query, queries, self.together(model))
        right = sparse_vectors(model.encode_document, passages, self.together(model))
        for row, places in enumerate(candidates):
            yield (right[places] @ left[[row]].T).toarray()[:, 0]

    def encode(self, model: Any, texts: Sequence[str], *, query: bool) -> Any:
        """Return the sparse matrix of queries, or the inverted index of passages.

        Raises:
            DataError: if a weight is not finite.
        """
        method = model.encode_query if query else model.encode_document
        vectors = sparse_vectors(method, texts, self.together(model))
        check_finite_parts(np.isfinite(vectors.data), np.diff(vectors.indptr), texts)
        return vectors if query else inverted_index(vectors)

    def add(self, best: TopK, queries: Any, block: Arrays, rows: slice) -> None:
        """Add the dot products of queries with a block's inverted index to `best`.

        A score is summed term by term in the order of the vocabulary. It therefore does not depend
        on the other queries.
        """
        postings = Sparse(block["weights"], block["passages"], block["starts"])
        search = partial(best.add_products, queries, postings, rows.start, rows.stop - rows.start)
        in_parallel(search, slices(len(queries.indptr) - 1, BATCH))

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) from the inverted index; encode the passages if needed.

        A ranking has only passages that share a term with the query, and may be empty.

        Raises:
            MissingExtraError: if numba is needed and not installed.
            DataError: if a vector is not finite, or no passage or no query has a term.
        """
        check_compiler(run.passage_count)
        queries, passages = self.encoded(model, run)
        terms = sum(len(block["weights"]) for _, block in passages.blocks())
        for side, count in (("passages", terms), ("queries", queries.nnz)):
            if not count:
                raise DataError(
                    f"the model gives none of the {side} a term, as its regularisers were too "
                    "strong; train it again with smaller query_flops and passage_flops, or a lower "
                    "learning_rate"
                )
        per_query, per_passage = queries.nnz / len(run.queries), terms / len(passages.ids)
        run.facts["index"] |= {"terms_per_query": per_query, "terms_per_passage": per_passage}
        yield from run.ranked(self.search(queries, passages), passages.ids)
        is_paper = str(run.facts.get("recipe", {}).get("name")) == "paper"
        _logger.info(
            "%s: %.1f terms per query and %.1f per passage on average%s",
            run.name,
            per_query,
            per_passage,
            f"; MS-Shift reports {_QUERY_TERMS} and {_TERMS}" if is_paper else "",
        )


class Splade(Neural):
    """SPLADE-max: one sparse vector over the vocabulary per text, FLOPS regulariser.

    Attributes:
        in_batch_negatives: the passages of other queries that are a query's negatives, in addition
            to its own. ``all``: the other queries' relevant passages and negatives, in a part of
            the batch over all processes. ``positives``: the other queries' relevant passages, in a
            part of the batch on one process, as in SPLADE's code.
        query_flops: final weight of the FLOPS regulariser on queries.
        passage_flops: final weight of the FLOPS regulariser on passages.
        flops_steps: steps in which both weights rise, with the square of the step.
        loss_scale: factor of the dot products in the softmax (the inverse of the temperature).
        search: how the model searches the passages.
    """

    name = "splade"
    model_type = "SparseEncoder"

    in_batch_negatives: Literal["all", "positives"]
    query_flops: NonNegativeFloat
    passage_flops: NonNegativeFloat
    flops_steps: PositiveInt
    loss_scale: NonNegativeFloat
    search: SparseSearch

    def new_model(self, encoder: str | Path) -> Any:
        """Return an untrained model: a masked language model with max pooling."""
        backbone = load_backbone(
            self,
            encoder,
            transformer_task="fill-mask",
            query_length=self.query_length,
            document_length=self.passage_length,
        )
        pooling = _sparse.modules.SpladePooling("max")
        return pool_before_log(sentence_transformers.SparseEncoder(modules=[backbone, pooling]))

    @classmethod
    def load_model(cls, where: str | Path, settings: ModelSettings = DEFAULTS) -> Any:
        """Return a model from a folder or the Hugging Face Hub; see `Neural.load_model`."""
        return pool_before_log(super().load_model(where, settings))

    def training_loss(self, model: Any) -> Any:
        """Return the loss of judgements, teacher or both, plus the regularisers."""

        class Flops(torch.nn.Module):
            """FLOPS over the texts of all processes (SPLADE v2, equation 4).

            The mean over fewer texts varies more, so its expected square is higher. If each process
            computed its own mean, a training with more processes would have sparser vectors.
            """

            def compute_loss_from_embeddings(self, vectors: Any) -> Any:
                mean = vectors.mean(dim=0)
                if _distributed.is_dist_initialized():
                    mean = _distributed.all_gather_with_grad(mean[None]).mean(dim=0)
                return mean.square().sum()

        return _sparse.losses.SpladeLoss(
            model,
            super().training_loss(model),
            document_regularizer=Flops(),
            query_regularizer=Flops(),
            document_regularizer_weight=self.passage_flops,
            query_regularizer_weight=self.query_flops,
        )

    def teacher_distance(self, model: Any) -> Any:
        """Return the loss `teacher_loss`: margin-MSE or the Kullback-Leibler divergence."""
        compare = scaled(sentence_transformers.util.pairwise_dot_score, self.loss_scale)
        if self.teacher_loss == MARGIN_MSE:
            return _sparse.losses.SparseMarginMSELoss(model, compare)
        # For sparse models, the library's default temperature differs.
        return _sparse.losses.SparseDistillKLDivLoss(model, compare, temperature=1.0)

    def judgement_loss(self, model: Any) -> Any:
        """Return the cross-entropy with the negatives that `in_batch_negatives` names."""
        scale = self.loss_scale

        class OtherPositives(torch.nn.Module):
            """The loss `other_positives_loss`."""

            def compute_loss_from_embeddings(self, vectors: Any, _labels: Any) -> Any:
                return other_positives_loss(vectors, scale)

        if self.in_batch_negatives == "positives":
            return OtherPositives()
        return _sparse.losses.SparseMultipleNegativesRankingLoss(
            model, scale=scale, gather_across_devices=_distributed.is_dist_initialized()
        )

    def callbacks(self, loss: Any) -> list[Any]:
        """Return the callback that raises the regularisers' weights during `flops_steps`."""
        base: Any = _sparse.callbacks.splade_callbacks.SpladeRegularizerWeightSchedulerCallback
        steps = self.flops_steps

        class Scheduler(base):  # type: ignore[misc]
            def on_train_begin(self, args: Any, state: Any, control: Any, **other: Any) -> None:
                super().on_train_begin(args, state, control, **other)
                # The library accepts only a ratio of all steps, and rounds it.
                self.warmup_steps = steps

        return [Scheduler(loss)]


def other_positives_loss(vectors: Sequence[Any], scale: float) -> Any:
    """Return the cross-entropy of SPLADE's code, with in-batch negatives of one process.

    The negatives of a query are its own and the relevant passages of the other queries. Negatives
    of other queries are not used (SPLADE v2, equation 5).

    Args:
        vectors: tensors of shape (queries, vocabulary): first the queries, then their relevant
            passages, then one tensor for each negative.
        scale: the factor of dot products.
    """
    queries, positives, *negatives = vectors
    own_scores = [(queries * negative).sum(dim=1, keepdim=True) for negative in negatives]
    scores = torch.cat([queries @ positives.T, *own_scores], dim=1) * scale
    labels = torch.arange(len(queries), device=scores.device)
    return torch.nn.functional.cross_entropy(scores, labels)


def pool_before_log(model: Any) -> Any:
    """Return the model, changed to pool before it takes the logarithm, which gives equal vectors.

    There is then one logarithm per term instead of one per term and token. Encoding takes half the
    time, and training keeps no second copy of all logits. The change is not saved with the model.

    Args:
        model: a SparseEncoder; it is changed in place if it pools like SPLADE-max.
    """

    def forward(features: dict[str, Any]) -> dict[str, Any]:
        logits, padding = features["token_embeddings"], features["attention_mask"] == 0
        # Each branch is faster by a half in its case: gradients are slow with pairwise maxima and
        # in-place changes.
        if torch.is_grad_enabled():
            highest = logits.masked_fill(padding[..., None], 0).max(dim=1).values
        else:
            # An index writes the few padding rows only; a mask would read all logits.
            logits[padding.nonzero(as_tuple=True)] = 0
            highest = reduce(torch.maximum, logits.unbind(dim=1))
        features["sentence_embedding"] = torch.log1p(torch.relu(highest))
        return features

    for module in model:
        if isinstance(module, _sparse.modules.SpladePooling) and (
            (module.pooling_strategy, module.activation_function) == ("max", "relu")
        ):
            module.forward = forward
    return model


def sparse_vectors(method: Any, texts: Sequence[str], batch_size: int) -> Any:
    """Return a sparse matrix (SciPy's CSR) of 32-bit floats, of shape (texts, vocabulary).

    Args:
        method: ``encode_query`` or ``encode_document`` of a model.
        texts: the texts to encode.
        batch_size: texts encoded together.
    """
    return _scipy.vstack(
        [
            _scipy.csr_array(
                method(
                    part,
                    batch_size=batch_size,
                    show_progress_bar=False,
                    convert_to_sparse_tensor=False,
                    save_to_cpu=True,
                )
                .float()
                .numpy()
            )
            for part in batches(texts, _DENSE)
        ],
        format="csr",
    )


def inverted_index(vectors: Any) -> Arrays:
    """Return the inverted index of passages: for each term, its passages and weights.

    ``passages`` has rows of `vectors`, ``weights`` their weights; ``starts`` has each term's first
    index in both.

    Args:
        vectors: a sparse matrix of shape (passages, vocabulary).
    """
    postings = vectors.T.tocsr()
    return {"weights": postings.data, "passages": postings.indices, "starts": postings.indptr}
